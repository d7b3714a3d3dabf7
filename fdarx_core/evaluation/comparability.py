"""Which figures of two cells may be compared: those of one judge, with equal coverage.

A metric that rests on grades may be compared only if one judge gave the grades, by one prompt; two judges give the same
answers different accuracies. No metric may be compared if one cell answers a larger share of its questions than the
other does, because the questions that are left out are not left out at random.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fdarx_core.evaluation.figures import CellKey
from fdarx_core.evaluation.metrics import JUDGED
from fdarx_core.records import Figure, SettingProgress

COVERAGE_TOLERANCE = 0.01
"""By how much the answered shares of two cells that are compared may differ."""

FigureT = TypeVar("FigureT", bound=Figure)


@dataclass(frozen=True, slots=True)
class Barrier:
    """Why figures of two cells are not compared: `kind` is judge (then only `JUDGED` metrics) or coverage (all)."""

    kind: str
    first: SettingProgress
    second: SettingProgress

    @property
    def reason(self) -> str:
        """The reason in words, without the names of the cells."""
        if self.kind == "judge":
            return f"the judges differ ({judge_text(self.first)}; {judge_text(self.second)})"
        return f"the coverage differs ({coverage_text(self.first)}; {coverage_text(self.second)})"


def barrier(first: SettingProgress, second: SettingProgress) -> Barrier | None:
    """Return what keeps two cells from being compared, None where nothing does; coverage comes first."""
    if abs(first.coverage - second.coverage) > COVERAGE_TOLERANCE:
        return Barrier("coverage", first, second)
    return None if _same_judge(first, second) else Barrier("judge", first, second)


def excluded_metrics(first: SettingProgress, second: SettingProgress, metrics: Collection[str]) -> frozenset[str]:
    """Return those of the metrics in which two cells may not be compared."""
    found = barrier(first, second)
    if found is None:
        return frozenset()
    return frozenset(metrics) if found.kind == "coverage" else JUDGED & frozenset(metrics)


def barriers(cells: Mapping[CellKey, SettingProgress], pairs: Iterable[tuple[CellKey, CellKey]]) -> list[Barrier]:
    """Return what keeps pairs of cells from being compared."""
    found = (barrier(cells[a], cells[b]) for a, b in pairs)
    return [one for one in found if one is not None]


def with_provenance(figures: Sequence[FigureT], cell: SettingProgress) -> list[FigureT]:
    """Return figures of a cell with who answered and who graded, by which prompts, and how many questions of those due
    were answered."""
    return [
        replace(
            one,
            judge=judge_text(cell),
            prompts=", ".join(filter(None, (cell.answer_prompt, cell.judge_prompt))),
            engine=cell.engine,
            answered=cell.covered,
            due=cell.due,
        )
        for one in figures
    ]


def judge_text(cell: SettingProgress) -> str:
    """Return the judge of a cell with what answers under its name, for example "strong (openai gpt-5)"."""
    about = ", ".join(filter(None, (cell.judge_engine, cell.judge_prompt)))
    return f"{cell.judge} ({about})" if about else cell.judge


def coverage_text(cell: SettingProgress) -> str:
    """Return how many of the questions due have an answer, for example "1 of 323 answered"."""
    return f"{cell.covered:,} of {cell.due:,} answered"


def _same_judge(first: SettingProgress, second: SettingProgress) -> bool:
    """Compare judges by what grades and by their prompt; by name where an earlier version wrote nothing else.

    A cell without a prompt has no answer that a judge graded.
    """
    if not (first.judge_prompt and second.judge_prompt) and first.judge_engine and second.judge_engine:
        return True
    if not (first.judge_engine and second.judge_engine):
        return first.judge == second.judge
    return (first.judge_engine, first.judge_prompt) == (second.judge_engine, second.judge_prompt)
