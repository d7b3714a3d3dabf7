"""What makes a multi-hop question unfit. Source: FDARxBench §B.4, stage 2 (iii)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fdarx_core.baseline.judging import multihop_fault
from fdarx_core.filters.decision import Decision, flagged
from fdarx_core.llm import Reply, Task

MultihopFlag = Literal["one_sided", "hop_mismatch", "leak_from_context", "unanswerable", "other"]


class MultihopQualityReply(Reply):
    """The faults of a question, none where it is fit, and what is wrong in a sentence."""

    flags: list[MultihopFlag]
    note: str


def by_rules(slots: Mapping[str, Any]) -> MultihopQualityReply:
    """The baseline's answer."""
    fault = multihop_fault(slots)
    return MultihopQualityReply(flags=[fault[0]], note=fault[1]) if fault else MultihopQualityReply(flags=[], note="")


def decide(reply: MultihopQualityReply) -> Decision:
    """Dropped with any flag."""
    return flagged(list(reply.flags), reply.note)


JUDGE_QUALITY_MULTIHOP = Task.load("judge_quality_multihop", MultihopQualityReply, by_rules)
