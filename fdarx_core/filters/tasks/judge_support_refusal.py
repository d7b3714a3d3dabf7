"""Whether a label indeed has no answer. Source: FDARxBench §B.4, stage 2 (ii)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.baseline.judging import contradicting_span
from fdarx_core.filters.decision import Decision, quotes
from fdarx_core.llm import Reply, Task


class RefusalSupportReply(Reply):
    """Whether the label gives no answer, else the least text that gives it."""

    absence_is_right: bool
    contradicting_span: str


def by_rules(slots: Mapping[str, Any]) -> RefusalSupportReply:
    """The baseline's answer."""
    span = contradicting_span(slots)
    return RefusalSupportReply(absence_is_right=not span, contradicting_span=span)


def decide(reply: RefusalSupportReply) -> Decision:
    """Dropped where the label answers after all."""
    drop = "" if reply.absence_is_right else "answer_in_label"
    return Decision(drop, quotes=quotes((not reply.absence_is_right, "passages", reply.contradicting_span)))


JUDGE_SUPPORT_REFUSAL = Task.load("judge_support_refusal", RefusalSupportReply, by_rules)
