"""Wrong answers of an evaluation: counted, sampled by a seed, and written as JSON for the script of the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fdarx_core.evaluation.gold import PassageKey, gold_keys
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Grade, Passage, Prediction, QuestionAnswer
from fdarx_core.report.names import GROUP_NAMES, PAGE_WORDS, setting_name
from fdarx_core.report.page_engine import in_turn, readable
from fdarx_core.report.samples import SeededSample
from fdarx_core.report.wrong_answer_explanations import (
    EVIDENCE,
    AnswerSources,
    WrongAnswer,
    asks_for_citations,
    citation_mark,
    cited_places,
    explain,
    reason_of,
    shown_places,
)
from fdarx_core.storage import Location, RunDirectory, read_table, read_where

KINDS = PAGE_WORDS["wrong_answers"]
"""The kinds of wrong answers, as the page names them."""

NO_VERDICT = frozenset({"unparsed", "unscored", "failed"})
"""Kinds that are in no accuracy, because they do not show how good an answer is."""

PER_CELL = 40
IN_ALL = 600
_ALIKE = {"failed": 4, "unscored": 10}
"""Fewer of the kinds whose answers differ little."""
_MEMORY_ALIKE = 10
"""Closed-book refusals of a model, which differ least."""

CellName = tuple[str, str, str]
"""Model, setting, retriever."""
Spotted = tuple[str, str, str, str]
"""Kind, model, part and prediction id of a wrong answer, which is read only if it is shown."""


def kind_of(question_type: str, outcome: str, grade: str) -> str | None:
    """Return a key of `KINDS`, or None for a right answer; `grade` is "" where there is none."""
    if outcome in ("failed", "unparsed"):
        return outcome
    if question_type == "refusal":
        return "hallucinated" if outcome == "answered" else None
    if outcome == "refused":
        return "false_refusal"
    return None if grade == "correct" else grade or "unscored"


def collect_wrong(
    run: RunDirectory, models: Iterable[str], types: Mapping[str, str], seed: int
) -> tuple[Counter[tuple[CellName, str]], list[WrongAnswer]]:
    """Count the wrong answers by cell and kind, and pick those to show.

    Answers are picked by a hash of seed and id: at most 40 of a cell, from each kind in turn, and 600 in all, from each
    cell in turn. Those without a verdict come last. One part of the run is in memory at a time.

    Args:
        run: the evaluation.
        models: the models.
        types: the type of each question, by its id.
        seed: fixes the sample.
    """
    picks = {kind: SeededSample[Spotted](_ALIKE.get(kind, PER_CELL), seed) for kind in KINDS}
    counts: Counter[tuple[CellName, str]] = Counter()
    for model in models:
        for part in run.parts(f"predictions/{model}"):
            for cell, kind, row_id in _spot(run, model, part, types):
                counts[cell, kind] += 1
                spotted = (kind, model, part.name, row_id)
                picks[kind].offer(cell, row_id, lambda spotted=spotted: spotted)  # type: ignore[misc]
    cells = sorted({cell for cell, _ in counts})
    most = {("closed_book", "false_refusal"): _MEMORY_ALIKE}
    shares = [
        [*in_turn([picks[kind].of(cell)[: most.get((cell[1], kind), PER_CELL)] for kind in KINDS])] for cell in cells
    ]
    picked = [*in_turn([share[:PER_CELL] for share in shares])][:IN_ALL]
    return counts, _read(run, sorted(picked, key=lambda one: one[0] in NO_VERDICT))


def _spot(
    run: RunDirectory, model: str, part: Location, types: Mapping[str, str]
) -> Iterator[tuple[CellName, str, str]]:
    """Yield cell, kind and id of each wrong answer of a part."""
    verdicts = {}
    if (graded := run.file(f"grades/{model}/{part.name}")).exists():
        grades = read_table(graded, ["prediction_id", "outcome"])
        verdicts = dict(zip(*(column.to_pylist() for column in grades.columns), strict=True))
    rows = read_table(part, ["id", "question_id", "outcome", "setting", "retriever"])
    for row_id, question_id, outcome, *place in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        kind = kind_of(types[question_id], outcome, verdicts.get(row_id, ""))
        if kind is not None:
            yield (model, place[0], place[1]), kind, row_id


def _read(run: RunDirectory, picked: Sequence[Spotted]) -> list[WrongAnswer]:
    """Read the picked answers and their grades, in the given order."""
    ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    for _, model, part, row_id in picked:
        ids[model, part].append(row_id)
    predictions: dict[str, Prediction] = {}
    grades: dict[str, Grade] = {}
    for (model, name), wanted in ids.items():
        said = read_where(run.file(f"predictions/{model}/{name}"), "id", wanted, Prediction)
        predictions |= {prediction.id: prediction for prediction in said}
        if (graded := run.file(f"grades/{model}/{name}")).exists():
            judged = read_where(graded, "prediction_id", wanted, Grade)
            grades |= {grade.prediction_id: grade for grade in judged}
    return [WrongAnswer(kind, predictions[row_id], grades.get(row_id)) for kind, *_, row_id in picked]


BUDGET = 6_000_000
"""Characters of all texts of a page; plotly.js adds 4.9 million."""
CITED_SHOWN = 12
"""Cited passages that are shown with their text."""


class WrongAnswerPayload:
    """Collects wrong answers up to the budget. `payload` is the JSON for the script of the page."""

    def __init__(self, sources: AnswerSources) -> None:
        self._sources = sources
        self._left = BUDGET
        self._questions: dict[str, int] = {}
        self._passages: dict[PassageKey, int] = {}
        self.payload: dict[str, list[Any]] = {"questions": [], "passages": [], "items": []}

    def add(self, wrong: WrongAnswer) -> None:
        """Add a wrong answer, unless its texts exceed the budget."""
        question = self._sources.questions[wrong.prediction.question_id]
        gold, cited = gold_keys(question), cited_places(wrong.prediction)[:CITED_SHOWN]
        need = len(wrong.prediction.answer) + len(wrong.prediction.text) + self._weight(question, [*gold, *cited])
        if need <= self._left:
            self._left -= need
            self.payload["items"].append(self._item(wrong, question, explain(wrong, self._sources)))

    def _weight(self, question: QuestionAnswer, places: Sequence[PassageKey]) -> int:
        fresh = {place for place in self._at_hand(places) if place not in self._passages}
        return 600 + len(question.question) + sum(len(self._sources.passages[place].text) for place in fresh)

    def _item(self, wrong: WrongAnswer, question: QuestionAnswer, why: Mapping[str, Any]) -> dict[str, Any]:
        said = wrong.prediction
        shown = shown_places(said)
        return {
            "id": said.id,
            "model": said.model,
            "setting": setting_name(said.setting, said.retriever),
            "type": GROUP_NAMES.get(question.type, question.type),
            "kind": KINDS[wrong.kind],
            "reason": readable(reason_of(wrong)),
            "evidence": EVIDENCE[why["evidence"]],
            "question": self._question(question),
            "answer": said.answer if said.outcome == "answered" else said.text,
            "finding": why["finding"],
            "detail": why["detail"],
            "notes": why["notes"],
            "shown": [place in shown for place in self._at_hand(gold_keys(question))] if shown else None,
            "cited": self._cited(wrong, question),
        }

    def _cited(self, wrong: WrongAnswer, question: QuestionAnswer) -> dict[str, Any] | None:
        """Return the cited passages with their marks, and the number of others; None if none were asked for."""
        if not asks_for_citations(wrong.prediction.setting):
            return None
        cited = cited_places(wrong.prediction)
        listed = self._at_hand(cited[:CITED_SHOWN])
        passages = [[self._passage(place), *citation_mark(question, place, self._sources)] for place in listed]
        return {"passages": passages, "more": len(cited) - len(listed)}

    def _at_hand(self, places: Sequence[PassageKey]) -> list[PassageKey]:
        return [place for place in places if place in self._sources.passages]

    def _question(self, question: QuestionAnswer) -> int:
        if question.id not in self._questions:
            self._questions[question.id] = len(self._questions)
            gold = [self._passage(place) for place in self._at_hand(gold_keys(question))]
            self.payload["questions"].append(
                {
                    "id": question.id,
                    "set_id": question.set_id,
                    "drug": question.drug_name,
                    "category": question.category,
                    "text": question.question,
                    "gold": question.answer,
                    "passages": gold,
                }
            )
        return self._questions[question.id]

    def _passage(self, place: PassageKey) -> int:
        if place not in self._passages:
            self._passages[place] = len(self._passages)
            passage = self._sources.passages[place]
            self.payload["passages"].append([passage.marker, _section(passage), passage.text, passage.set_id])
        return self._passages[place]


def _section(passage: Passage) -> str:
    title = passage.section_path or passage.section_title or SECTION_NAMES.get(passage.core_code, "untitled section")
    return f"{passage.section_number} {title}" if passage.section_number else title
