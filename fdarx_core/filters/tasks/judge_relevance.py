"""Under which topic a question falls, and whether it matters. Source: FDARxBench §B.4, stage 2 (i)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fdarx_core.baseline.judging import NO_TOPIC, relevance
from fdarx_core.filters.decision import Decision
from fdarx_core.labels.loinc import Topic
from fdarx_core.llm import Reply, Task


class RelevanceReply(Reply):
    """One topic of drug labels or none, and relevance to bioequivalence review."""

    category: Literal[Topic, "None / Irrelevant"]
    relevance: Literal["relevant", "somewhat", "irrelevant"]


def by_rules(slots: Mapping[str, Any]) -> RelevanceReply:
    """The baseline's answer."""
    category, matters = relevance(slots)
    return RelevanceReply(category=category, relevance=matters)


def decide(reply: RelevanceReply) -> Decision:
    """Kept only where both say so: what is but weakly related is dropped too."""
    if reply.category == NO_TOPIC:
        drop = "irrelevant_topic"
    else:
        drop = {"relevant": "", "somewhat": "somewhat_relevant", "irrelevant": "irrelevant"}[reply.relevance]
    return Decision(drop, f"{reply.category}: {reply.relevance}", category=reply.category, relevance=reply.relevance)


JUDGE_RELEVANCE = Task.load("judge_relevance", RelevanceReply, by_rules)
