"""Questions with reference answers, as people keep them: JSON lines, a JSON list, CSV or Parquet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from fdarx_core.rag.lead_ins import without_lead_ins
from fdarx_core.rag.titles import same_title
from fdarx_core.records import RagQuestion, Reject, content_id
from fdarx_core.retrieval.index import Index
from fdarx_core.storage import Location
from fdarx_core.storage.rows_file import Row, check_rows_file, read_rows

STAGE = "questions"
_REFERENCES = ("ground_truths", "references", "ground_truth", "reference", "answer")
_NEEDED = "question and answer (or ground_truths, reference)"


def read_questions(place: str, *, strip_title: bool = False) -> tuple[list[RagQuestion], list[Reject]]:
    """The questions of a `.jsonl`, `.json`, `.csv` or `.parquet` file in its order, and the rows that are none.

    A row has `question` and one of ground_truths, references, ground_truth, reference and answer, a text or a list of
    texts; perhaps the `title` of the document that it was written on, and an `id`, else made from question and title.
    Questions of one title are a cluster. `strip_title` takes a lead-in that names a document off each question
    ("According to the …, "), so that retrieval is not told where to look. Raises `StorageError` where the file can't
    be read, `ValueError` where it holds no usable row.
    """
    location = Location(place)
    check_rows_file(location, "--questions")
    questions, rejects = _sorted_out(read_rows(location, _NEEDED))
    if not questions:
        first = f"the first row: {rejects[0].source}: {rejects[0].reason}, {rejects[0].detail}" if rejects else "no row"
        raise ValueError(f"{place} holds no question to ask ({first}); a row needs {_NEEDED}")
    return (_stripped(questions) if strip_title else questions), rejects


def placed(questions: Sequence[RagQuestion], index: Index) -> list[RagQuestion]:
    """The questions, those without a title whose document the index does not hold: no search can find it."""
    held = index.names("", len(index))
    there = {title: any(same_title(title, name) for name in held) for title in {one.title for one in questions}}
    return [one if there[one.title] else replace(one, title="") for one in questions]


def _sorted_out(rows: Iterable[Row]) -> tuple[list[RagQuestion], list[Reject]]:
    questions: dict[str, RagQuestion] = {}
    rejects: list[Reject] = []
    for place, row, fault in rows:
        try:
            one = _question(row, fault)
            if one.id in questions:
                raise ValueError(f"duplicate: an earlier row has the id {one.id} or the same question and title")
            questions[one.id] = one
        except ValueError as error:
            reason, _, detail = str(error).partition(": ")
            rejects.append(Reject(_text(row, "id") or place, STAGE, reason, detail, source=place))
    return list(questions.values()), rejects


def _question(row: dict[str, Any], fault: str) -> RagQuestion:
    """Raises `ValueError("reason: detail")`."""
    if fault:
        raise ValueError(fault)
    question, title = _text(row, "question"), _text(row, "title")
    if not question:
        raise ValueError("no_question: the key question holds no text")
    references = _references(row)
    if not references:
        raise ValueError(f"no_reference: none of {', '.join(_REFERENCES)} holds a text")
    name = _text(row, "id") or content_id("rag_question", question, title)
    return RagQuestion(name, question, references, title, title or name)


def _references(row: dict[str, Any]) -> list[str]:
    """The texts under the first key that has any."""
    for key in _REFERENCES:
        value = row.get(key)
        texts = value if isinstance(value, list) else [value]
        if found := [text.strip() for text in texts if isinstance(text, str) and text.strip()]:
            return found
    return []


def _text(row: dict[str, Any], key: str) -> str:
    """A text or a whole number, "" for anything else."""
    value = row.get(key)
    return str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _stripped(questions: list[RagQuestion]) -> list[RagQuestion]:
    texts = without_lead_ins([one.question for one in questions])
    return [replace(one, question=text) for one, text in zip(questions, texts, strict=True)]
