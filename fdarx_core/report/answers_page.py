"""The page of all answers of an evaluation, right and wrong: a list to search and filter, in a file that loads nothing.

The list is one compressed block of JSON. What a reader sees of an opened answer (its explanation, the gold passages and
the cited passages) is in further blocks, each of a group of labels, which the script decompresses when it is needed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.evaluation.gold import PassageKey, gold_keys
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Equivalence, Grade, Passage, Prediction, QuestionAnswer, SettingProgress, content_id
from fdarx_core.report.answers import (
    EVIDENCE,
    KINDS,
    AnswerSources,
    JudgedAnswer,
    asks_for_citations,
    citation_mark,
    cited_places,
    explain,
    kind_of,
    prompt_passages,
    reason_of,
)
from fdarx_core.report.names import GROUP_NAMES, PAGE_WORDS, setting_name
from fdarx_core.report.page_engine import packed, readable, render_page
from fdarx_core.storage import RunDirectory, read_records, read_table

MOST_ANSWERS = 20_000
"""Answers of the page; of a larger evaluation it has the answers on some labels, which a hash picks."""
BLOCK = 400_000
"""Characters of texts after which a block of details ends."""
CITED_SHOWN = 12
"""Cited passages that are shown with their text."""
FIELDS = ("model", "setting", "type", "kind", "reason", "evidence", "topic")
"""The fields by which the page filters, in its order."""

CellName = tuple[str, str, str]
"""Model, setting, retriever."""


def count_answers(run: RunDirectory, models: Iterable[str], types: Mapping[str, str]) -> Counter[tuple[CellName, str]]:
    """Count the answers by cell and kind. One part of the run is in memory at a time.

    Args:
        run: the evaluation.
        models: the models.
        types: the type of each question, by its id.
    """
    counts: Counter[tuple[CellName, str]] = Counter()
    for model in models:
        for part in run.parts(f"predictions/{model}"):
            graded = run.file(f"grades/{model}/{part.name}")
            grades = read_table(graded, ["prediction_id", "outcome"]).to_pylist() if graded.exists() else []
            verdicts = {row["prediction_id"]: row["outcome"] for row in grades}
            for row in read_table(part, ["id", "question_id", "outcome", "setting", "retriever"]).to_pylist():
                kind = kind_of(types[row["question_id"]], row["outcome"], verdicts.get(row["id"], ""))
                counts[(model, row["setting"], row["retriever"]), kind] += 1
    return counts


@dataclass(slots=True)
class AnswerTable:
    """The list and the details of the page, as JSON values for its script.

    `columns` has the id and the question of each answer and, for each field, the position of its value in `values`.
    `questions` are the distinct questions: id, text, gold answer, drug, topic and set id. `blocks` has the passages and
    the explanations of groups of answers; `starts` has the answer with which each block begins.
    """

    columns: dict[str, list[Any]] = field(
        default_factory=lambda: {name: [] for name in ("id", "question", "answer", *FIELDS)}
    )
    questions: list[list[str]] = field(default_factory=list)
    blocks: list[dict[str, list[Any]]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    _places: dict[str, dict[str, int]] = field(default_factory=lambda: {name: {} for name in FIELDS})
    _passages: dict[PassageKey, int] = field(default_factory=dict)
    _size: int = BLOCK

    @property
    def values(self) -> dict[str, list[str]]:
        """The values of each field, by their positions."""
        return {name: list(places) for name, places in self._places.items()}

    def begin_label(self) -> None:
        """Begin a new block, if the last one is large enough; the answers on a label are in one block."""
        if self._size >= BLOCK:
            self.blocks.append({"passages": [], "rows": []})
            self.starts.append(len(self.columns["id"]))
            self._passages, self._size = {}, 0

    def add_question(self, question: QuestionAnswer) -> int:
        """Add a question; return its position."""
        text = [question.id, question.question, question.answer, question.drug_name, question.category, question.set_id]
        self.questions.append(text)
        return len(self.questions) - 1

    def add(self, answer: JudgedAnswer, at: int, sources: AnswerSources) -> None:
        """Add an answer to the question at a position."""
        said, question = answer.prediction, sources.questions[answer.prediction.question_id]
        why = explain(answer, sources)
        values = {
            "model": said.model,
            "setting": setting_name(said.setting, said.retriever),
            "type": GROUP_NAMES.get(question.type, question.type),
            "kind": KINDS[answer.kind],
            "reason": readable(reason_of(answer)) or "None",
            "evidence": EVIDENCE[why["evidence"]],
            "topic": question.category or "No topic",
        }
        for name, value in values.items():
            self.columns[name].append(self._places[name].setdefault(value, len(self._places[name])))
        text = said.answer if said.outcome == "answered" else said.text
        for name, given in (("id", said.id), ("question", at), ("answer", text)):
            self.columns[name].append(given)
        self.blocks[-1]["rows"].append(self._details(answer, question, why, sources))

    def _details(
        self, answer: JudgedAnswer, question: QuestionAnswer, why: Mapping[str, Any], sources: AnswerSources
    ) -> dict[str, Any]:
        shown = prompt_passages(answer.prediction)
        gold = [place for place in gold_keys(question) if place in sources.passages]
        return {
            "finding": why["finding"],
            "detail": why["detail"],
            "notes": why["notes"],
            "gold": [[self._keep(place, sources), place in shown if shown else None] for place in gold],
            "cited": self._cited(answer, question, sources),
        }

    def _cited(self, answer: JudgedAnswer, question: QuestionAnswer, sources: AnswerSources) -> dict[str, Any] | None:
        """Return the cited passages with their marks, and the number of others; None if none were asked for."""
        if not asks_for_citations(answer.prediction.setting):
            return None
        cited = cited_places(answer.prediction)
        listed = [place for place in cited[:CITED_SHOWN] if place in sources.passages]
        passages = [[self._keep(place, sources), *citation_mark(question, place, sources)] for place in listed]
        return {"passages": passages, "more": len(cited) - len(listed)}

    def _keep(self, place: PassageKey, sources: AnswerSources) -> int:
        """Store a passage in the last block and return its position there."""
        if place not in self._passages:
            self._passages[place] = len(self._passages)
            passage = sources.passages[place]
            self.blocks[-1]["passages"].append([passage.marker, _section(passage), passage.text, passage.set_id])
            self._size += len(passage.text)
        return self._passages[place]


def _section(passage: Passage) -> str:
    title = passage.section_path or passage.section_title or SECTION_NAMES.get(passage.core_code, "untitled section")
    return f"{passage.section_number} {title}" if passage.section_number else title


def chosen_labels(run: RunDirectory, models: Sequence[str], seed: int, most: int) -> tuple[frozenset[str], int]:
    """Return the labels whose answers the page shows, and the number of answers of the run.

    They are all labels, or those with the smallest hash of seed and set id that have at most `most` answers together.
    """
    answered = Counter[str]()
    for model in models:
        for part in run.parts(f"predictions/{model}"):
            answered.update(read_table(part, ["set_id"])["set_id"].to_pylist())
    left, chosen = most, set[str]()
    for set_id in sorted(answered, key=lambda one: content_id(str(seed), one)):
        left -= answered[set_id]
        if left < 0 and chosen:
            break
        chosen.add(set_id)
    return frozenset(chosen), answered.total()


def answers_page(run: RunDirectory, summary: Mapping[str, Any] | None = None, most_answers: int = MOST_ANSWERS) -> str:
    """Return the page of all answers of an evaluation. One part of the run is in memory at a time, beside the page.

    Args:
        run: the evaluation.
        summary: what `RunDirectory.finish` will add to run.json, for a page that is written before it.
        most_answers: the number of answers above which the page has only those on some labels.
    """
    info = {**run.info(), **(summary or {})}
    cells = list(read_records(run.file("cells.parquet"), SettingProgress))
    models = list(dict.fromkeys(cell.model for cell in cells))
    chosen, total = chosen_labels(run, models, info["config"].get("seed", 0), most_answers)
    table = AnswerTable()
    for part in run.parts("questions"):
        sources = _sources(run, part.name, {cell.retriever for cell in cells} - {""}, chosen)
        _add_part(table, run, part.name, models, sources)
    return render_page(
        "answers.html.j2",
        info=info,
        total=total,
        rows=len(table.columns["id"]),
        labels=len(chosen),
        fields={name: PAGE_WORDS["answer_fields"][name] for name in FIELDS},
        table=packed(
            {"columns": table.columns, "values": table.values, "questions": table.questions, "starts": table.starts}
        ),
        details=[packed(block) for block in table.blocks],
    )


def _add_part(table: AnswerTable, run: RunDirectory, name: str, models: Sequence[str], sources: AnswerSources) -> None:
    answers: dict[str, list[JudgedAnswer]] = {}
    for model in models:
        for answer in _answers(run, model, name, sources):
            answers.setdefault(answer.prediction.question_id, []).append(answer)
    label = ""
    for question in sorted(sources.questions.values(), key=lambda one: (one.set_id, one.type, one.id)):
        if question.set_id != label:
            label = question.set_id
            table.begin_label()
        if question.id in answers:
            at = table.add_question(question)
            for answer in answers[question.id]:
                table.add(answer, at, sources)


def _sources(run: RunDirectory, name: str, retrievers: Iterable[str], chosen: frozenset[str]) -> AnswerSources:
    """Return the questions on the chosen labels of a part, and all passages that the part has."""
    sources = AnswerSources()
    asked = read_records(run.file(f"questions/{name}"), QuestionAnswer)
    sources.questions = {one.id: one for one in asked if one.set_id in chosen}
    elsewhere = [run.file(f"elsewhere/{retriever}/{name}") for retriever in sorted(retrievers)]
    for file in (run.file(f"passages/{name}"), *elsewhere):
        if file.exists():
            sources.passages |= {(one.set_id, one.doc_chunk_index): one for one in read_records(file, Passage)}
    equal = run.file(f"equivalences/{name}")
    for row in read_records(equal, Equivalence) if equal.exists() else ():
        for gold, member, why in zip(row.gold, row.members, row.why, strict=True):
            sources.equivalents[row.question_id].setdefault(member, (gold, why))
    return sources


def _answers(run: RunDirectory, model: str, name: str, sources: AnswerSources) -> Iterator[JudgedAnswer]:
    file, graded = (run.file(f"{kind}/{model}/{name}") for kind in ("predictions", "grades"))
    if not file.exists():
        return
    grades = {row.prediction_id: row for row in read_records(graded, Grade)} if graded.exists() else {}
    for said in read_records(file, Prediction):
        if said.question_id in sources.questions:
            grade = grades.get(said.id)
            type_ = sources.questions[said.question_id].type
            yield JudgedAnswer(kind_of(type_, said.outcome, grade.outcome if grade else ""), said, grade)
