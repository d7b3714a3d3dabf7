"""Whether the passages bear a factual answer out. Source: FDARxBench §B.4, stage 2 (ii)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.baseline.judging import factual_support
from fdarx_core.filters.decision import Decision, quotes
from fdarx_core.llm import Reply, Task


class FactualSupportReply(Reply):
    """Whether the answer is supported, and the least text that shows it."""

    supported: bool
    evidence: str


def by_rules(slots: Mapping[str, Any]) -> FactualSupportReply:
    """The baseline's answer."""
    supported, evidence = factual_support(slots)
    return FactualSupportReply(supported=supported, evidence=evidence)


def decide(reply: FactualSupportReply) -> Decision:
    """Dropped unless supported."""
    drop = "" if reply.supported else "unsupported"
    return Decision(drop, quotes=quotes((reply.supported, "passages", reply.evidence)))


JUDGE_SUPPORT_FACTUAL = Task.load("judge_support_factual", FactualSupportReply, by_rules)
