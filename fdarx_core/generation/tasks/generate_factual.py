"""Question-answer pairs from one passage. Source: FDARxBench §B.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from fdarx_core.generation.baseline.factual import factual_questions
from fdarx_core.llm import Reply, Task

AnswerKind = Literal["factual", "list", "numeric"]


class FactualItem(Reply):
    """One pair; `type` is the kind of its answer."""

    question: str
    answer: str
    type: AnswerKind


class FactualReply(Reply):
    """No item where the passage holds nothing worth asking."""

    items: list[FactualItem]


def by_rules(slots: Mapping[str, Any]) -> FactualReply:
    """The baseline's answer."""
    pairs = factual_questions(slots)
    return FactualReply(items=[FactualItem(question=q, answer=a, type=cast(AnswerKind, kind)) for q, a, kind in pairs])


GENERATE_FACTUAL = Task.load("generate_factual", FactualReply, by_rules)
