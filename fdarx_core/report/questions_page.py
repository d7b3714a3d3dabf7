"""The page of all questions of a build: a table to search, filter and sort, in one file that loads nothing.

The rows of the table are one compressed block of JSON. Gold passages with their marks are in further blocks, each of a
group of labels, which the script decompresses when a question of these labels is opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Any

from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Passage, QuestionAnswer, from_table
from fdarx_core.records.question_types import type_title
from fdarx_core.report.browse import BrowseTable, chosen_labels
from fdarx_core.report.page_engine import PAGE_WORDS, readable, render_page
from fdarx_core.report.question_figures import DIFFICULTY_NAMES, KIND_NAMES, OTHER, drug_names, wording_of, writer_name
from fdarx_core.report.samples import Mark, MarkedText, RunPart, mark_passages, quotations_of, read_parts
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.splits import Splits

MOST_QUESTIONS = 50_000
"""Questions of the page; of a larger build it has the questions of some labels, which a hash picks."""

MARK_KINDS = ("sentence", "words", "quoted")

FIELDS = ("type", "drug", "topic", "section", "wording", "kind", "difficulty", "source", "writer", "judge", "split")
"""The fields by which the page filters, in its order; a question may have several sections."""
_NAMES = ("name", "label", "entity")
_TEXTS = ("id", "twin", "question", "answer")


def _add_part(table: BrowseTable, part: RunPart, chosen: frozenset[str], splits: Splits) -> None:
    """Add the questions of the chosen labels of a part, in order of label, type and id."""
    drugs, quotations = drug_names(part), quotations_of(part["verdicts"])
    questions = [question for question in from_table(part["questions"], QuestionAnswer) if question.set_id in chosen]
    needed = {(question.set_id, index) for question in questions for index in question.gold_passages}
    passages = {
        place: passage for passage in from_table(part["passages"], Passage)
        if (place := (passage.set_id, passage.doc_chunk_index)) in needed
    }  # fmt: skip
    label, texts = "", dict[int, MarkedText]()
    for question in sorted(questions, key=attrgetter("set_id", "type", "id")):
        if question.set_id != label:
            label, texts = question.set_id, {}
            table.begin_label()
        gold = [passages[label, index] for index in question.gold_passages if (label, index) in passages]
        for passage in gold:
            if passage.doc_chunk_index not in texts:
                texts[passage.doc_chunk_index] = MarkedText(passage.text)
        shown = [texts[passage.doc_chunk_index] for passage in gold]
        marks = mark_passages(question.answer, quotations.get(question.id, []), shown)
        evidence = []
        for passage, found in zip(gold, marks, strict=True):
            index = passage.doc_chunk_index
            section = passage.section_path or passage.section_title or section_of(passage)
            kept = table.keep_passage((label, index), passage.text, passage.marker, section)
            at = question.gold_passages.index(index)
            has_answer = at < len(question.gold_has_answer) and question.gold_has_answer[at]
            evidence.append([kept, int(has_answer), _in_utf16(passage.text, found)])
        values = _values(question, drugs.get(label, question.drug_name), splits.of(label))
        sections = [table.position("section", name) for name in dict.fromkeys(map(section_of, gold))]
        texts_of = {name: getattr(question, name) for name in _TEXTS}
        table.add_row({**texts_of, "section": sections}, values, evidence)


def _values(question: QuestionAnswer, drug: str, split: str) -> dict[str, str]:
    """Return the values of the fields, without the sections, and the names that a wording may have."""
    return {
        "type": type_title(question.type),
        "drug": drug,
        "topic": question.category or "No topic",
        "wording": wording_of(question),
        "kind": KIND_NAMES.get(question.answer_kind, readable(question.answer_kind)),
        "difficulty": DIFFICULTY_NAMES.get(question.difficulty, readable(question.difficulty)),
        "source": PAGE_WORDS["question_sources"].get(question.source, readable(question.source)),
        "writer": writer_name(question.endpoint),
        "judge": writer_name(question.judge) if question.judge else "no judge",
        "split": split,
        "name": question.drug_name,
        "label": question.set_id,
        "entity": question.entity,
    }


def section_of(passage: Passage) -> str:
    """Return the name of the section of a passage by its core code."""
    return SECTION_NAMES.get(passage.core_code, OTHER)


def questions_page(
    run: RunDirectory, summary: Mapping[str, Any] | None = None, most_questions: int = MOST_QUESTIONS
) -> str:
    """Return the page of all questions of a build. One part of the run is in memory at a time, beside the page.

    Args:
        run: the build.
        summary: what `RunDirectory.finish` will add to run.json, for a page that is written before it.
        most_questions: the number of questions above which the page has only those of some labels.
    """
    info = {**run.info(), **(summary or {})}
    chosen, total = chosen_labels(run.parts("questions"), info["config"].get("seed", 0), most_questions)
    table, splits = BrowseTable(_TEXTS, (*FIELDS, *_NAMES)), Splits.of_run(info)
    for part in read_parts(run):
        _add_part(table, part, chosen, splits)
    return render_page(
        "questions.html.j2",
        info=info,
        total=total,
        labels=len(chosen),
        fields={name: PAGE_WORDS["question_fields"][name] for name in FIELDS if name != "split" or splits.dev},
        mark_kinds=MARK_KINDS,
        **table.packed(),
    )


def _in_utf16(text: str, marks: Sequence[Mark]) -> list[tuple[int, int, int]]:
    """Return marks with the positions that a script counts, where a character above U+FFFF is two units."""
    kinds = [(start, end, MARK_KINDS.index(kind)) for start, end, kind in marks]
    if text.isascii() or max(text) <= "\uffff":
        return kinds
    units = [0, *accumulate(1 + (character > "\uffff") for character in text)]
    return [(units[start], units[end], kind) for start, end, kind in kinds]
