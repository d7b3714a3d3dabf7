"""What makes a factual question unfit. Source: FDARxBench §B.4, stage 2 (iii)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fdarx_core.baseline.judging import factual_fault
from fdarx_core.filters.decision import Decision, flagged
from fdarx_core.llm import Reply, Task

FactualFlag = Literal["answer_leakage", "context_mismatch", "unanswerable", "low_utility", "other"]


class FactualQualityReply(Reply):
    """The faults of a question, none where it is fit, and what is wrong in a sentence."""

    flags: list[FactualFlag]
    note: str


def by_rules(slots: Mapping[str, Any]) -> FactualQualityReply:
    """The baseline's answer."""
    fault = factual_fault(slots)
    return FactualQualityReply(flags=[fault[0]], note=fault[1]) if fault else FactualQualityReply(flags=[], note="")


def decide(reply: FactualQualityReply) -> Decision:
    """Dropped with any flag."""
    return flagged(list(reply.flags), reply.note)


JUDGE_QUALITY_FACTUAL = Task.load("judge_quality_factual", FactualQualityReply, by_rules)
