"""How many replies of the models of a build were unusable, and why."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from fdarx_core.generation.candidates import NOTHING_TO_ASK
from fdarx_core.generation.candidates import STAGE as GENERATE
from fdarx_core.storage import RunDirectory, read_table


@dataclass(slots=True)
class UnusableReplies:
    """The replies of one stage: `unusable` of `replies` could not be used, most often for `reason`."""

    stage: str
    replies: int
    unusable: int
    reason: str


def count_unusable(run: RunDirectory) -> list[UnusableReplies]:
    """Return the counts of each stage at which models reply, in the order of the build.

    A reply to a context is unusable where the context is rejected for it; one of a judge or of the round trip, where
    its verdict is unscored.
    """
    replies, unusable, reasons = Counter[str](), Counter[str](), dict[str, Counter[str]]()

    def add(stage: str, number: int, reason: str) -> None:
        unusable[stage] += number
        reasons.setdefault(stage, Counter())[reason] += number

    for part in run.parts("stages"):
        for row in read_table(part, ["stage", "rows_in"]).to_pylist():
            if row["stage"] == GENERATE:
                replies[GENERATE] += row["rows_in"]
    for row in _counts(run, "rejects", ["stage", "reason"]):
        if row["stage"] == GENERATE and row["reason"] != NOTHING_TO_ASK:
            add(GENERATE, row["count_all"], row["reason"])
    for row in _counts(run, "verdicts", ["stage", "outcome", "reason"]):
        replies[row["stage"]] += row["count_all"]
        if row["outcome"] == "unscored":
            add(row["stage"], row["count_all"], row["reason"])
    return [
        UnusableReplies(stage, number, unusable[stage], reasons[stage].most_common(1)[0][0] if stage in reasons else "")
        for stage, number in replies.items()
    ]


def _counts(run: RunDirectory, kind: str, columns: list[str]) -> list[dict[str, Any]]:
    """Return the numbers of rows of a kind by these columns, part by part."""
    return [
        row
        for part in run.parts(kind)
        for row in read_table(part, columns).group_by(columns).aggregate([([], "count_all")]).to_pylist()
    ]
