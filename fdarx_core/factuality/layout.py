"""How figures become a table: which stand in which row and column, what both are called, and the notes below."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fdarx_core.evaluation.grid import Column, Entry, Grid
from fdarx_core.evaluation.statistics.bootstrap import FEW_LABELS
from fdarx_core.factuality.differences import FactualityDifference
from fdarx_core.factuality.rows import ALL, FactualityRows
from fdarx_core.records import Correlation, FactualityFigure

BASELINE = "baseline"
T = TypeVar("T")
Key = tuple[str, ...]
Wanted = Sequence[tuple[str, str]]
"""Metrics' short names, and the metrics."""


@dataclass(frozen=True, slots=True)
class Place:
    """A column, and the key of what stands in it."""

    column: Column
    key: Key


@dataclass(frozen=True, slots=True)
class Cell:
    """A value and where it belongs: the name of its row, the key of its column."""

    row: str
    key: Key
    value: float | None
    low: float | None
    high: float | None
    clusters: int

    @classmethod
    def of(cls, row: str, key: Key, one: FactualityFigure | FactualityDifference | Correlation) -> Cell:
        value = one.rho if isinstance(one, Correlation) else one.value
        return cls(row, key, value, one.low, one.high, one.clusters)

    @property
    def entry(self) -> Entry | None:
        return None if self.value is None else Entry(self.value, self.low, self.high)


def grid_of(title: str, stub: str, places: Sequence[Place], cells: Iterable[Cell]) -> Grid:
    """Rows in the order in which their first cells come; rows and columns without a value are left out."""
    keys = {place.key for place in places}
    filled = {(cell.row, cell.key): cell for cell in cells if cell.value is not None and cell.key in keys}
    used = {key for _, key in filled}
    kept = [place for place in places if place.key in used]
    rows = [
        (name, [cell.entry if (cell := filled.get((name, place.key))) else None for place in kept])
        for name in distinct(name for name, _ in filled)
    ]
    return Grid(title, stub, [place.column for place in kept], rows, _about_intervals(filled.values()))


def by_dataset(figures: Sequence[FactualityFigure], wanted: Wanted) -> list[Place]:
    """Each metric under the name of each dataset."""
    names = datasets(one.dataset for one in figures)
    return [Place(Column(dataset(name), short), (name, metric)) for name in names for short, metric in wanted]


def datasets(names: Iterable[str]) -> list[str]:
    """Those with a name, in their order; if there is more than one, or none, all together too, at the end."""
    found = distinct(names)
    named = [name for name in found if name != ALL]
    return named if len(named) == 1 else [*named, *([ALL] if ALL in found else [])]


def dataset(name: str) -> str:
    return "All answers" if name == ALL else name


def model(one: FactualityFigure) -> str:
    return joined(one.model, one.setting)


def joined(*names: str) -> str:
    """The names that are given, with points between them."""
    return " · ".join(filter(None, names))


def distinct(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))


def about_engine(rows: FactualityRows) -> str:
    """Who judged the claims."""
    if rows.engine == BASELINE:
        return f"Judged by baseline, rules without a language model, from a probability of {rows.threshold:g} on."
    return f"Judged by {rows.engine}, from a probability of {rows.threshold:g} on."


def about_terms(rows: FactualityRows) -> str:
    """What FAS is made of."""
    weights = rows.weights
    return (
        f"FAS = {weights.similarity:g} × {rows.similarity or 'similarity'} + {weights.support:g} × Support@{rows.k} + "
        f"{weights.contra:g} × (1 − Contra@{rows.k})."
    )


def about_gold(rows: FactualityRows) -> str:
    """Where gold factuality is from, and what follows for its correlation with FAS."""
    return (
        f"Gold: must-have and nice-to-have statements, held against the answers by {rows.engine}. That engine judges "
        "the claims too, so ρ of what rests on it may be too high."
    )


def about_unscored(figures: Sequence[FactualityFigure], metric: str, name: str) -> list[str]:
    """How many answers are in no value of a metric."""
    kept = [one for one in figures if (one.metric, one.dataset, one.type) == (metric, ALL, ALL)]
    unscored = sum(one.unscored for one in kept)
    total = unscored + sum(one.rows for one in kept)
    return (
        [f"{unscored:,} of {total:,} answers are in no {name}: they have no claim, or no verdict."] if unscored else []
    )


def _about_intervals(cells: Iterable[Cell]) -> list[str]:
    clusters = max((cell.clusters for cell in cells), default=0)
    if clusters < 2:
        return ["No intervals: they need answers to two questions at least."]
    few = " So few clusters make them too narrow." if clusters < FEW_LABELS else ""
    return [f"Intervals: 95 %, bootstrap over clusters of answers (up to {clusters:,}).{few}"]
