"""How many replies of the models of a build were unusable, and why; how many questions lack a verdict for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, get_args

import pyarrow.compute as pc

from fdarx_core.filters.round_trip import Setting
from fdarx_core.generation.candidates import NOTHING_TO_ASK
from fdarx_core.generation.candidates import STAGE as GENERATE
from fdarx_core.storage import RunDirectory, read_table

_NO_REPLY = "failed_request"
"""The reason of a request that has no reply; why it has none begins the detail, after the setting of an answer."""
_SETTING = f"^(?:{'|'.join(get_args(Setting))}): "


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
    its verdict is unscored. A request without a reply has the reason of its failure, such as context_too_long.
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
    """Return the numbers of rows of a kind by these columns, of which one is `reason`, part by part."""
    counted: list[dict[str, Any]] = []
    for part in run.parts(kind):
        table = read_table(part, [*columns, "detail"])
        failed = pc.replace_substring_regex(table["detail"], _SETTING, "")
        failure = pc.list_element(pc.split_pattern(pc.binary_join_element_wise(failed, "", ":"), ":"), 0)
        reasons = pc.if_else(pc.equal(table["reason"], _NO_REPLY), failure, table["reason"])
        table = table.set_column(table.column_names.index("reason"), "reason", reasons)
        counted += table.group_by(columns).aggregate([([], "count_all")]).to_pylist()
    return counted


def questions_without_verdict(run: RunDirectory) -> int:
    """Return the number of questions that were kept though a verdict on them is missing."""
    return sum(
        pc.sum(pc.greater(pc.list_value_length(read_table(part, ["unscored"])["unscored"]), 0)).as_py() or 0
        for part in run.parts("questions")
    )
