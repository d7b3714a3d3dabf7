"""A question that needs a passage from each of two sections. Source: FDARxBench §B.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.generation.baseline.multihop import multihop_questions
from fdarx_core.llm import Reply, Task


class MultihopItem(Reply):
    """One pair; its answer holds a fact of each passage."""

    question: str
    answer: str


class MultihopReply(Reply):
    """No item where nothing sensible links the two passages."""

    items: list[MultihopItem]


def by_rules(slots: Mapping[str, Any]) -> MultihopReply:
    """The baseline's answer."""
    return MultihopReply(items=[MultihopItem(question=q, answer=a) for q, a in multihop_questions(slots)])


GENERATE_MULTIHOP = Task.load("generate_multihop", MultihopReply, by_rules)
