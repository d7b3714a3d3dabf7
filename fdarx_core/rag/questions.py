"""Reading questions with reference answers from files: JSON lines, a JSON list, CSV or Parquet."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from os.path import commonprefix
from typing import Any

from fdarx_core.rag.metrics import same_title
from fdarx_core.records import RagQuestion, Reject, content_id
from fdarx_core.retrieval.index import IndexReader
from fdarx_core.storage import Location
from fdarx_core.storage.errors import InputError
from fdarx_core.storage.tables import check_rows_file, no_usable_row, parse_rows, read_rows, text_at, texts_at

STAGE = "questions"
_REFERENCES = ("ground_truths", "references", "ground_truth", "reference", "answer")
_NEEDED = "question and answer (or ground_truths, reference)"

_LEAD_IN = re.compile(
    r"(?:guideline title:|this question is about|according to(?: the)?|with reference to|referring to|after reviewing|"
    r"having read through|delving into|considering|from what i['’]ve read in|"
    r"(?:when considering|looking at|taking into account|upon checking|drawing from|based on|in light of|given) the "
    r"(?:\w+ )?(?:in|of|from)|when considering(?: the)?|in accordance with|as per(?: the details in)?|"
    r"as (?:stated|described|explained|outlined) in)\s+",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r"\s+,\s+|\s{2,}")
_SEPARATING = " \t\r\n,:;"
_TITLE_KEY = 24
"""Titles that agree in so many first characters are taken for the same."""
_SHORTEST_QUESTION = 8


def read_questions(place: str, *, strip_title: bool = False) -> tuple[list[RagQuestion], list[Reject]]:
    """Return the questions of a `.jsonl`, `.json`, `.csv` or `.parquet` file, in order, and the rows that are none.

    A row has `question` and one of ground_truths, references, ground_truth, reference and answer, a text or a list of
    texts; optionally the `title` of the document that it was written on, and an `id`, which otherwise is made from
    question and title. Questions of one title are a cluster.

    Args:
        place: the file.
        strip_title: whether to remove a lead-in that names a document ("According to the …, "), so that retrieval is
            not told where to look.

    Raises StorageError where the file cannot be read, ValueError where it holds no usable row.
    """
    location = Location(place)
    check_rows_file(location, "--questions")
    known: dict[str, RagQuestion] = {}

    def parse(row: dict[str, Any]) -> RagQuestion:
        question, title = text_at(row, "question"), text_at(row, "title")
        if not question:
            raise InputError("no_question", "the key question holds no text")
        references = texts_at(row, *_REFERENCES)
        if not references:
            raise InputError("no_reference", f"none of {', '.join(_REFERENCES)} holds a text")
        name = text_at(row, "id") or content_id("rag_question", question, title)
        if name in known:
            raise InputError("duplicate", f"an earlier row has the id {name} or the same question and title")
        return known.setdefault(name, RagQuestion(name, question, references, title, title or name))

    rows = parse_rows(read_rows(location, _NEEDED), parse, stage=STAGE)
    rejects = [row for row in rows if isinstance(row, Reject)]
    questions = list(known.values())
    if not questions:
        raise ValueError(no_usable_row(place, "question to ask", _NEEDED, rejects))
    if strip_title:
        texts = without_lead_ins([question.question for question in questions])
        questions = [replace(question, question=text) for question, text in zip(questions, texts, strict=True)]
    return questions, rejects


def keep_indexed_titles(questions: Sequence[RagQuestion], index: IndexReader) -> list[RagQuestion]:
    """Return the questions without the titles of documents that the index lacks, which no search can find."""
    names = [completion.name for completion in index.names("", len(index))]
    found = {
        title: any(same_title(title, name) for name in names) for title in {question.title for question in questions}
    }
    return [question if found[question.title] else replace(question, title="") for question in questions]


def without_lead_ins(questions: Sequence[str]) -> list[str]:
    """Return the questions without lead-ins that name a document; other questions stay as they are.

    QA-RAG's published questions have such lead-ins. Signs alone do not show where one ends: titles have commas, and
    what follows a title is a comma, two spaces or nothing. But several questions are written on one document: their
    title is what they share.
    """
    after = {at: text[match.end() :] for at, text in enumerate(questions) if (match := _LEAD_IN.match(text))}
    groups: dict[str, list[str]] = defaultdict(list)
    for text in after.values():
        groups[text[:_TITLE_KEY].casefold()].append(text)
    titles = {key: _shared_title(texts) for key, texts in groups.items()}
    found = list(questions)
    for at, text in after.items():
        # an unknown title ends at the first separator, if there is one
        title, separator = titles[text[:_TITLE_KEY].casefold()], _SEPARATOR.search(text)
        rest = text[len(title) :] if len(title) >= _TITLE_KEY else text[separator.end() :] if separator else ""
        rest = rest.lstrip(_SEPARATING)
        if len(rest) >= _SHORTEST_QUESTION:
            found[at] = rest[:1].upper() + rest[1:]
    return found


def _shared_title(texts: Sequence[str]) -> str:
    """Return the common beginning of the texts, up to a separator; "" for a single text."""
    shared = commonprefix(list(texts)) if len(set(texts)) > 1 else ""  # noqa: RUF071  # texts, not paths
    if separator := _SEPARATOR.search(shared):
        return shared[: separator.start()]
    within_a_word = any(text[len(shared) : len(shared) + 1].isalnum() for text in texts)
    return shared.rpartition(" ")[0] if within_a_word else shared
