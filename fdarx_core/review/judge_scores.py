"""How well the stages of a build tell good candidates from bad ones, by the marks of the judged candidates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.records import Estimate
from fdarx_core.review.judged_candidates import JudgedCandidate

StageResult = Literal["kept", "dropped", "unscored"]
RESULTS: tuple[StageResult, ...] = get_args(StageResult)
CHAIN = "chain"
"""The name of all stages together, among the stages."""
ALL = "all"


@dataclass(slots=True)
class StageOutcome:
    """What one stage made of one candidate. Each stage sees every candidate, whatever the other stages decide.

    `reason` is a fixed name to count by, "" for a candidate that is kept; `detail` explains this case.
    """

    id: str
    stage: str
    outcome: str
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class StageScore:
    """The counts of one stage over a group of candidates, by mark and outcome: `bad_dropped`, `good_unscored` …

    The group is all of them, or those of one type or class of failure, which `by` names. Positive is "bad": a dropped
    candidate is found to be bad. An unscored one is neither dropped nor kept; a build does not keep it either.
    """

    stage: str
    by: str
    group: str
    counts: Mapping[str, int]

    def count(self, good: bool | None = None, outcome: StageResult | None = None) -> int:
        """Return the number of candidates with this mark and outcome; None stands for any."""
        marks = (True, False) if good is None else (good,)
        outcomes = RESULTS if outcome is None else (outcome,)
        return sum(self.counts.get(_key(mark, made), 0) for mark in marks for made in outcomes)

    @property
    def precision(self) -> Estimate:
        """The share of bad ones among the dropped."""
        return share(self.count(False, "dropped"), self.count(None, "dropped"))

    @property
    def recall(self) -> Estimate:
        """The share of the bad ones that is dropped."""
        return share(self.count(False, "dropped"), self.count(False))

    @property
    def good_kept(self) -> Estimate:
        """The share of the good ones that is kept."""
        return share(self.count(True, "kept"), self.count(True))

    @property
    def kept_good(self) -> Estimate:
        """The share of good ones among the kept."""
        return share(self.count(True, "kept"), self.count(None, "kept"))

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """Return the score that `to_row` made the row of."""
        return cls(row["stage"], row["by"], row["group"], row["counts"])

    def to_row(self) -> dict[str, Any]:
        """Return the counts, and the figures as [value, low, high], each null where there is none."""
        counts = {_key(good, made): self.count(good, made) for good in (True, False) for made in RESULTS}
        figures = {name: figure(self) for name, figure in _FIGURES.items()}
        return {
            "stage": self.stage,
            "by": self.by,
            "group": self.group,
            "counts": counts,
            **{name: [one.value, one.low, one.high] for name, one in figures.items()},
        }


def _key(good: bool, outcome: str) -> str:
    return f"{'good' if good else 'bad'}_{outcome}"


_FIGURES: dict[str, Callable[[StageScore], Estimate]] = {
    "precision": lambda score: score.precision,
    "recall": lambda score: score.recall,
    "good_kept": lambda score: score.good_kept,
    "kept_good": lambda score: score.kept_good,
}
_COLUMNS = {
    "precision": "dropped are bad",
    "recall": "bad are dropped",
    "good_kept": "good are kept",
    "kept_good": "kept are good",
}
_Z = 1.959964


def share(found: int, of: int) -> Estimate:
    """Return a share with its 95 % interval by Wilson's method, which holds for few rows and for shares of 0 and 1."""
    if not of:
        return Estimate(None)
    value, squared = found / of, _Z**2
    middle = (value + squared / (2 * of)) / (1 + squared / of)
    half = _Z / (1 + squared / of) * math.sqrt(value * (1 - value) / of + squared / (4 * of**2))
    return Estimate(value, max(0.0, middle - half), min(1.0, middle + half), rows=of)


def chain_outcomes(outcomes: Iterable[StageOutcome]) -> list[StageOutcome]:
    """Return what all stages together make of each candidate, with the reason of the first stage that decides it.

    A candidate is dropped if one stage drops it, else unscored if it is unscored at one.
    """
    by_id: dict[str, list[StageOutcome]] = {}
    for one in outcomes:
        by_id.setdefault(one.id, []).append(one)
    chained = []
    for id_, listed in by_id.items():
        against = [one for wanted in ("dropped", "unscored") for one in listed if one.outcome == wanted]
        if against:
            first = against[0]
            chained.append(StageOutcome(id_, CHAIN, first.outcome, f"{first.stage}: {first.reason}", first.detail))
        else:
            chained.append(StageOutcome(id_, CHAIN, "kept"))
    return chained


def score_stages(candidates: Sequence[JudgedCandidate], outcomes: Sequence[StageOutcome]) -> list[StageScore]:
    """Return the scores of each stage and of the chain: over all candidates, by type, and by class of failure."""
    marks = {one.id: one for one in candidates}
    counted: dict[tuple[str, str, str], Counter[str]] = {}
    for one in (*outcomes, *chain_outcomes(outcomes)):
        mark = marks[one.id]
        for by, group in _groups(mark):
            counted.setdefault((one.stage, by, group), Counter())[_key(mark.good, one.outcome)] += 1
    return [StageScore(*key, counts) for key, counts in counted.items()]


def _groups(mark: JudgedCandidate) -> Iterator[tuple[str, str]]:
    yield ALL, ALL
    yield "type", mark.type
    if not mark.good:
        yield "failure", mark.failure


def count_lines(scores: Iterable[StageScore]) -> list[str]:
    """Return the counts of each stage over all candidates, as lines of text."""
    heads = " ".join(f"{outcome:>9}" for outcome in RESULTS)
    lines = [f"{'':<12} {'good':>9} {'':>19} {'bad':>9}".rstrip(), f"{'stage':<12} {heads} {heads}"]
    for score in scores:
        if score.by == ALL:
            counts = [score.count(good, outcome) for good in (True, False) for outcome in RESULTS]
            lines.append(f"{score.stage:<12} " + " ".join(f"{count:>9}" for count in counts))
    return lines


def score_tables(scores: Sequence[StageScore]) -> list[ResultTable]:
    """Return the figures of each stage over all candidates and by type, then the recall by class of failure."""
    groups = dict.fromkeys((one.by, one.group) for one in scores if one.by != "failure")
    tables = [
        _rates([one for one in scores if (one.by, one.group) == key])
        for key in sorted(groups, key=lambda key: (key[0] != ALL, key))
    ]
    return [*tables, _recalls([one for one in scores if one.by == "failure"])]


def _rates(scores: Sequence[StageScore]) -> ResultTable:
    good, bad = scores[0].count(True), scores[0].count(False)
    rows: list[tuple[str, list[Estimate | None]]] = [
        (one.stage, [figure(one) for figure in _FIGURES.values()]) for one in scores
    ]
    what = "All candidates" if scores[0].by == ALL else f"{scores[0].group.capitalize()} candidates"
    return ResultTable(f"{what}: {good} good, {bad} bad", "stage", [("", _COLUMNS[name]) for name in _FIGURES], rows)


def _recalls(scores: Sequence[StageScore]) -> ResultTable:
    stages = list(dict.fromkeys(one.stage for one in scores))
    recalls = {(one.group, one.stage): one.recall for one in scores}
    sizes = {one.group: one.count() for one in scores}
    rows: list[tuple[str, list[Estimate | None]]] = [
        (f"{failure} ({sizes[failure]})", [recalls[failure, stage] for stage in stages]) for failure in sorted(sizes)
    ]
    title = "Share of the bad candidates that are dropped, by class of failure (number of candidates)"
    return ResultTable(title, "failure", [("", stage) for stage in stages], rows)
