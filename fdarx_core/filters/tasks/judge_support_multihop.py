"""What each of two passages contributes to an answer. Source: FDARxBench §B.4, stage 2 (ii)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.baseline.judging import multihop_support
from fdarx_core.filters.decision import Decision, quotes
from fdarx_core.llm import Reply, Task


class MultihopSupportReply(Reply):
    """Whether each passage supports its part, whether both are needed, and the least text that shows it."""

    supported_by_a: bool
    supported_by_b: bool
    both_needed: bool
    evidence_a: str
    evidence_b: str


def by_rules(slots: Mapping[str, Any]) -> MultihopSupportReply:
    """The baseline's answer."""
    a, b, both_needed = multihop_support(slots)
    return MultihopSupportReply(
        supported_by_a=bool(a), supported_by_b=bool(b), both_needed=both_needed, evidence_a=a, evidence_b=b
    )


def decide(reply: MultihopSupportReply) -> Decision:
    """Kept only where both passages support the answer and neither does alone."""
    supports = reply.supported_by_a + reply.supported_by_b
    drop = ("unsupported", "supported_by_one_section", "" if reply.both_needed else "one_section_enough")[supports]
    evidence = quotes(
        (reply.supported_by_a, "context_a", reply.evidence_a), (reply.supported_by_b, "context_b", reply.evidence_b)
    )
    return Decision(drop, quotes=evidence)


JUDGE_SUPPORT_MULTIHOP = Task.load("judge_support_multihop", MultihopSupportReply, by_rules)
