"""What a proposal does, for the person who accepts it or not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fdarx_core.evaluation.grid import Column, Entry, Grid, as_text
from fdarx_core.evaluation.statistics import Estimate
from fdarx_core.evaluation.statistics.bootstrap import FEW_LABELS
from fdarx_core.llm import Criteria
from fdarx_core.review.agreement import TASK_NAMES
from fdarx_core.review.criteria.measuring import Judged, Measured, moved
from fdarx_core.review.criteria.propose_criteria import Change

_SHOWN = {"accuracy": "Acc.", "f1": "F1", "macro_f1": "Macro F1", "precision": "Prec.", "recall": "Rec."}


@dataclass(frozen=True, slots=True)
class Trial:
    """A proposal by `proposer`, and what `judge` made of it on the held-out items; no `judged` where none measured.

    `sent` counts the requests that went out to the judge; all others were answered before.
    """

    proposer: str
    changes: Sequence[Change]
    proposed: Criteria
    judge: str = ""
    judged: Sequence[Judged] = ()
    measured: Sequence[Measured] = ()
    sent: int = 0


def tell(trial: Trial) -> str:
    """The changes and why, both agreements with people, and every item on which the judge changed its mind."""
    return "\n".join(_lines(trial)) + "\n"


def as_json(trial: Trial) -> dict[str, Any]:
    """The same as JSON values, with the proposed criteria."""
    return {
        "proposer": trial.proposer,
        "judge": trial.judge,
        "changes": [one.model_dump() for one in trial.changes],
        "proposed": trial.proposed.model_dump(),
        "measured": [asdict(one) for one in trial.measured],
        "moved": [_moved_row(one) for one in moved(trial.judged)],
        "in_short": in_short(trial),
    }


def in_short(trial: Trial) -> list[str]:
    """A line a task: how often the judge and people agree, by the old criteria and by the new."""
    return [
        f"{TASK_NAMES[one.task]}: accuracy {_value(one.old)} by the old criteria, {_value(one.new)} by the new, "
        f"difference {_bounded(one.difference)}, {one.old.rows} held-out items judged by {trial.judge}"
        for one in trial.measured
        if one.metric == "accuracy"
    ]


def _lines(trial: Trial) -> Iterator[str]:
    yield f"changes proposed by {trial.proposer}: {len(trial.changes)}"
    for change in trial.changes:
        yield f"  {change.action} [{change.id}]{': ' if change.why else ''}{change.why}"
    if not trial.judge:
        return
    yield ""
    yield f"{trial.judge} was asked {trial.sent} times; what else it was to say had been answered before"
    if not trial.measured:
        yield "Nothing to measure on: of the held-out items none has a majority and a judge that goes by criteria"
        return
    yield ""
    yield as_text(_grid(trial))
    changed = moved(trial.judged)
    yield ""
    yield f"{len(changed)} of {len(trial.judged)} held-out items are decided otherwise by the new criteria:"
    for one in sorted(changed, key=lambda row: (row.item.task, _effect(row), row.item.id)):
        why = f" ({one.because})" if one.because else ""
        said = f"{one.old or 'unscored'} → {one.new or 'unscored'}{why}"
        yield f"  {_effect(one):<9} {one.item.task} {one.item.id}: {said}"
        yield f"            people: {one.people}; {one.item.question}"


def _grid(trial: Trial) -> Grid:
    metrics = list(dict.fromkeys(one.metric for one in trial.measured if one.metric in _SHOWN))
    rows = {(one.task, one.metric): one for one in trial.measured}
    tasks = list(dict.fromkeys(one.task for one in trial.measured))
    grid = Grid(
        f"{trial.judge} against people, on items that the proposal was made without",
        "Task",
        [Column("", _SHOWN[metric]) for metric in metrics],
        [
            (f"{TASK_NAMES[task]}, {name}", [_entry(rows.get((task, metric)), part) for metric in metrics])
            for task in tasks
            for name, part in (("old", "old"), ("new", "new"), ("new − old", "difference"))
        ],
    )
    return _noted(grid, [rows[task, "accuracy"] for task in tasks])


def _noted(grid: Grid, of_tasks: Sequence[Measured]) -> Grid:
    grid.notes = [
        f"{TASK_NAMES[one.task]}: {one.old.rows} items of {one.old.labels} labels"
        + (f", {one.unscored} more unscored by one or the other" if one.unscored else "")
        for one in of_tasks
    ]
    grid.notes.append("95 % intervals by bootstrap over labels; those of differences over the same samples.")
    if any(one.old.labels < FEW_LABELS for one in of_tasks):
        grid.notes.append(f"With fewer labels than {FEW_LABELS} intervals are too narrow.")
    return grid


def _entry(one: Measured | None, part: str) -> Entry | None:
    found: Estimate | None = getattr(one, part) if one else None
    return None if found is None or found.value is None else Entry(found.value, found.low, found.high)


def _effect(one: Judged) -> str:
    if not one.scored:
        return "unscored"
    return "mended" if one.new == one.people else "broken" if one.old == one.people else "moved"


def _moved_row(one: Judged) -> Mapping[str, str]:
    said = {"people": one.people, "old": one.old, "new": one.new, "because": one.because}
    return {"item": one.item.id, "task": one.item.task, "subject": one.item.subject, **said, "effect": _effect(one)}


def _value(one: Estimate) -> str:
    return "–" if one.value is None else f"{one.value:.3f}"


def _bounded(one: Estimate) -> str:
    if one.value is None or one.low is None or one.high is None:
        return "–" if one.value is None else f"{one.value:+.3f}"
    return f"{one.value:+.3f} [{one.low:+.3f}, {one.high:+.3f}]"
