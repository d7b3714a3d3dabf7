"""The page of all questions of a build: a table to search, filter and sort, in one file that loads nothing.

The rows of the table are one compressed block of JSON. Gold passages with their marks are in further blocks, each of a
group of labels, which the script decompresses when a question of these labels is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Passage, QuestionAnswer, content_id, from_table
from fdarx_core.report.marks import Mark, MarkedText, mark_passages
from fdarx_core.report.names import PAGE_WORDS
from fdarx_core.report.page_engine import packed, readable, render_page
from fdarx_core.report.question_counts import drug_names, wording_of
from fdarx_core.report.question_figures import DIFFICULTY_NAMES, KIND_NAMES, writer_name
from fdarx_core.report.retention import TYPE_NAMES
from fdarx_core.report.samples import RunPart, quotations_of, read_parts
from fdarx_core.storage import RunDirectory, read_table
from fdarx_core.storage.splits import Splits

MOST_QUESTIONS = 50_000
"""Questions of the page; of a larger build it has the questions of some labels, which a hash picks."""
BLOCK = 400_000
"""Characters of passages after which a block of details ends."""

MARK_KINDS = ("sentence", "words", "quoted")
UNTITLED = "Other sections"

FIELDS = ("type", "drug", "topic", "section", "wording", "kind", "difficulty", "source", "writer", "judge", "split")
"""The fields by which the page filters, in its order; a question may have several sections."""
_NAMES = ("name", "label", "entity")
_COLUMNS = ("id", "twin", "question", "answer", *FIELDS, *_NAMES)


@dataclass(slots=True)
class QuestionTable:
    """The rows and the details of a page, as JSON values for its script.

    `columns` has the texts of the rows and, for each field, the position of its value in `values`. `details` has, for
    each block, the passages that its questions share and the gold passages of each question; `starts` has the row with
    which each block begins.
    """

    columns: dict[str, list[Any]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})
    details: list[dict[str, list[Any]]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    _places: dict[str, dict[str, int]] = field(default_factory=lambda: {name: {} for name in (*FIELDS, *_NAMES)})
    _size: int = BLOCK

    @property
    def rows(self) -> int:
        return len(self.columns["id"])

    @property
    def values(self) -> dict[str, list[str]]:
        """The values of each field and name, by their positions."""
        return {name: list(places) for name, places in self._places.items()}

    def add(self, part: RunPart, chosen: frozenset[str], splits: Splits) -> None:
        """Add the questions of the chosen labels of a part, in order of label, type and id."""
        drugs, quotations = drug_names(part), quotations_of(part["verdicts"])
        questions = [one for one in from_table(part["questions"], QuestionAnswer) if one.set_id in chosen]
        if not questions:
            return
        needed = {(one.set_id, index) for one in questions for index in one.gold_passages}
        passages = {
            place: one for one in from_table(part["passages"], Passage)
            if (place := (one.set_id, one.doc_chunk_index)) in needed
        }  # fmt: skip
        label, texts, at = "", dict[int, MarkedText](), dict[int, int]()
        for question in sorted(questions, key=lambda one: (one.set_id, one.type, one.id)):
            if question.set_id != label:
                label, texts, at = question.set_id, {}, {}
                self._begin_label()
            gold = [index for index in question.gold_passages if (label, index) in passages]
            for index in gold:
                if index not in at:
                    passage = passages[label, index]
                    texts[index], at[index] = MarkedText(passage.text), self._keep(passage)
            marks = mark_passages(question.answer, quotations.get(question.id, []), [texts[index] for index in gold])
            evidence = [
                [at[index], _has_answer(question, index), _in_utf16(texts[index].text, found)]
                for index, found in zip(gold, marks, strict=True)
            ]
            self.details[-1]["rows"].append(evidence)
            sections = [section_of(passages[label, index]) for index in gold]
            self._add_row(question, drugs.get(label, question.drug_name), sections, splits.of(label))

    def _begin_label(self) -> None:
        if self._size >= BLOCK:
            self.details.append({"passages": [], "rows": []})
            self.starts.append(self.rows)
            self._size = 0

    def _keep(self, passage: Passage) -> int:
        """Store a passage in the last block and return its position there."""
        kept = self.details[-1]["passages"]
        place = passage.section_path or passage.section_title or section_of(passage)
        kept.append([passage.marker, place, passage.text])
        self._size += len(passage.text)
        return len(kept) - 1

    def _add_row(self, question: QuestionAnswer, drug: str, sections: Sequence[str], split: str) -> None:
        for name in ("id", "twin", "question", "answer"):
            self.columns[name].append(getattr(question, name))
        values = {
            "type": TYPE_NAMES.get(question.type, question.type),
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
        for name, value in values.items():
            self.columns[name].append(self._place(name, value))
        self.columns["section"].append([self._place("section", name) for name in dict.fromkeys(sections)])

    def _place(self, name: str, value: str) -> int:
        places = self._places[name]
        return places.setdefault(value, len(places))


def section_of(passage: Passage) -> str:
    """Return the name of the section of a passage by its core code."""
    return SECTION_NAMES.get(passage.core_code, UNTITLED)


def chosen_labels(run: RunDirectory, seed: int, most: int) -> tuple[frozenset[str], int]:
    """Return the labels whose questions the page shows, and the number of questions of the run.

    They are all labels, or those with the smallest hash of seed and set id whose questions are together at most `most`.
    """
    asked = Counter[str]()
    for part in run.parts("questions"):
        asked.update(read_table(part, ["set_id"])["set_id"].to_pylist())
    total = asked.total()
    left, chosen = most, set[str]()
    for set_id in sorted(asked, key=lambda one: content_id(str(seed), one)):
        left -= asked[set_id]
        if left < 0:
            break
        chosen.add(set_id)
    return frozenset(chosen), total


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
    chosen, total = chosen_labels(run, info["config"].get("seed", 0), most_questions)
    table, splits = QuestionTable(), Splits.of_run(info)
    for part in read_parts(run):
        table.add(part, chosen, splits)
    return render_page(
        "questions.html.j2",
        info=info,
        total=total,
        rows=table.rows,
        labels=len(chosen),
        fields={name: PAGE_WORDS["question_fields"][name] for name in FIELDS if name != "split" or splits.dev},
        table=packed({"columns": table.columns, "values": table.values, "starts": table.starts}),
        details=[packed(block) for block in table.details],
        mark_kinds=MARK_KINDS,
    )


def _has_answer(question: QuestionAnswer, index: int) -> int:
    at = question.gold_passages.index(index)
    return int(at < len(question.gold_has_answer) and question.gold_has_answer[at])


def _in_utf16(text: str, marks: Sequence[Mark]) -> list[tuple[int, int, int]]:
    """Return marks with the positions that a script counts, where a character above U+FFFF is two units."""
    kinds = [(start, end, MARK_KINDS.index(kind)) for start, end, kind in marks]
    if text.isascii() or max(text) <= "\uffff":
        return kinds
    return [(_units(text[:start]), _units(text[:end]), kind) for start, end, kind in kinds]


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
