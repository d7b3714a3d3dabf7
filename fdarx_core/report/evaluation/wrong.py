"""Which answers went wrong, counted whole, and the seeded sample of them that a page can hold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

from fdarx_core.records import Grade, Prediction
from fdarx_core.report.picks import Picks
from fdarx_core.storage import Location, RunDirectory, read_table, read_where

KINDS: dict[str, str] = {
    "incorrect": "Incorrect answer",
    "not_attempted": "Answer that attempts nothing",
    "false_refusal": "False refusal",
    "hallucinated": "Answer to an unanswerable question",
    "unparsed": "Unparsed reply",
    "unscored": "Unscored answer",
    "failed": "No reply",
}
"""What can go wrong with a question, in the words of the page."""

NO_VERDICT = frozenset({"unparsed", "unscored", "failed"})
"""These are in no accuracy: they say nothing of how good an answer is."""

PER_CELL = 40
IN_ALL = 600
_ALIKE = {"failed": 4, "unscored": 10}
"""Fewer of those that differ little from one another."""
_MEMORY_ALIKE = 10
"""Refusals from memory of a model, which differ least."""

Place = tuple[str, str, str]
"""Model, setting, retriever."""
Item = TypeVar("Item")
_NOTHING: Any = object()


@dataclass(frozen=True, slots=True)
class WrongAnswer:
    """A prediction that went wrong, with its grade where it has one."""

    kind: str
    prediction: Prediction
    grade: Grade | None


@dataclass(slots=True)
class WrongAnswers:
    """All wrong answers counted by cell and kind, and those picked to be shown."""

    counts: Counter[tuple[Place, str]] = field(default_factory=Counter)
    picked: list[WrongAnswer] = field(default_factory=list)


def kind_of(question_type: str, outcome: str, grade: str) -> str | None:
    """A name in `KINDS`, or None for what is right; `grade` is "" where there is none."""
    if outcome in ("failed", "unparsed"):
        return outcome
    if question_type == "refusal":
        return "hallucinated" if outcome == "answered" else None
    if outcome == "refused":
        return "false_refusal"
    return None if grade == "correct" else grade or "unscored"


def collect_wrong(run: RunDirectory, models: Iterable[str], types: Mapping[str, str], seed: int) -> WrongAnswers:
    """Reads the predictions and grades part by part; one part is in memory at a time. `types` is by question id.

    Picks by a hash of seed and id: at most 40 a cell, every kind in turn, and 600 in all, every cell in turn. Those
    without a verdict come last.
    """
    picks = {kind: Picks[_Spotted](_ALIKE.get(kind, PER_CELL), seed) for kind in KINDS}
    counts: Counter[tuple[Place, str]] = Counter()
    for model in models:
        for part in run.parts(f"predictions/{model}"):
            for cell, kind, row_id in _spot(run, model, part, types):
                counts[cell, kind] += 1
                picks[kind].offer(_group(cell), row_id, partial(_Spotted, kind, model, part.name, row_id))
    cells = sorted({cell for cell, _ in counts})
    shares = [[*_in_turn([picks[kind].of(_group(cell))[: _most(cell, kind)] for kind in KINDS])] for cell in cells]
    shares = [share[:PER_CELL] for share in shares]
    picked = [*_in_turn(shares)][:IN_ALL]
    return WrongAnswers(counts, _read(run, sorted(picked, key=lambda one: one.kind in NO_VERDICT)))


def _most(cell: Place, kind: str) -> int:
    return _MEMORY_ALIKE if cell[1] == "closed_book" and kind == "false_refusal" else PER_CELL


@dataclass(frozen=True, slots=True)
class _Spotted:
    """Where a wrong answer stands: it is read when it is sure to be shown."""

    kind: str
    model: str
    part: str
    prediction_id: str


def _spot(run: RunDirectory, model: str, part: Location, types: Mapping[str, str]) -> Iterator[tuple[Place, str, str]]:
    """Cell, kind and id of each wrong answer of a part."""
    verdicts = {}
    if (graded := run.file(f"grades/{model}/{part.name}")).exists():
        grades = read_table(graded, ["prediction_id", "outcome"])
        verdicts = dict(zip(*(column.to_pylist() for column in grades.columns), strict=True))
    rows = read_table(part, ["id", "question_id", "outcome", "setting", "retriever"])
    for row_id, question_id, outcome, *place in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        kind = kind_of(types[question_id], outcome, verdicts.get(row_id, ""))
        if kind is not None:
            yield (model, place[0], place[1]), kind, row_id


def _read(run: RunDirectory, picked: Sequence[_Spotted]) -> list[WrongAnswer]:
    """In the order given."""
    ids: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one in picked:
        ids[one.model, one.part].append(one.prediction_id)
    predictions: dict[str, Prediction] = {}
    grades: dict[str, Grade] = {}
    for (model, name), wanted in ids.items():
        said = read_where(run.file(f"predictions/{model}/{name}"), "id", wanted, Prediction)
        predictions |= {prediction.id: prediction for prediction in said}
        if (graded := run.file(f"grades/{model}/{name}")).exists():
            judged = read_where(graded, "prediction_id", wanted, Grade)
            grades |= {grade.prediction_id: grade for grade in judged}
    return [WrongAnswer(one.kind, predictions[one.prediction_id], grades.get(one.prediction_id)) for one in picked]


def _group(cell: Place) -> str:
    return "\x1f".join(cell)


def _in_turn(groups: Iterable[Sequence[Item]]) -> Iterator[Item]:
    """The first of each group, then the second of each, and so on."""
    for row in zip_longest(*groups, fillvalue=_NOTHING):
        yield from (item for item in row if item is not _NOTHING)
