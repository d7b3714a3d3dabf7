"""The tasks of question generation. Source: FDARxBench §B.2, §B.3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

from fdarx_core.generation.factual import factual_questions
from fdarx_core.generation.multihop import multihop_questions
from fdarx_core.generation.refusal import rephrase
from fdarx_core.llm import Reply, Task, source_digest

AnswerKind = Literal["factual", "list", "numeric"]


class FactualItem(Reply):
    """One pair; `type` is the kind of its answer."""

    question: str
    answer: str
    type: AnswerKind


class FactualReply(Reply):
    """No item where the passage holds nothing worth asking."""

    items: list[FactualItem]


class MultihopItem(Reply):
    """One pair; its answer holds a fact of each passage."""

    question: str
    answer: str


class MultihopReply(Reply):
    """No item where nothing sensible links the two passages."""

    items: list[MultihopItem]


class RephraseReply(Reply):
    """The same question in other words, drug and entity kept."""

    question: str


def baseline_factual(slots: Mapping[str, Any]) -> FactualReply:
    """Return the baseline's questions on one passage."""
    pairs = factual_questions(slots)
    return FactualReply(items=[FactualItem(question=q, answer=a, type=cast(AnswerKind, kind)) for q, a, kind in pairs])


def baseline_multihop(slots: Mapping[str, Any]) -> MultihopReply:
    """Return the baseline's questions on two passages."""
    return MultihopReply(items=[MultihopItem(question=q, answer=a) for q, a in multihop_questions(slots)])


GENERATE_FACTUAL = Task.load("generate_factual", FactualReply, baseline_factual)
GENERATE_MULTIHOP = Task.load("generate_multihop", MultihopReply, baseline_multihop)
REPHRASE_REFUSAL = Task.load("rephrase_refusal", RephraseReply, lambda slots: RephraseReply(question=rephrase(slots)))
TASKS: dict[str, Task[Any]] = {task.name: task for task in (GENERATE_FACTUAL, GENERATE_MULTIHOP, REPHRASE_REFUSAL)}
RULES_VERSION = source_digest("fdarx_core.generation", "fdarx_core.baseline")
"""A digest of the rules by which the baseline does these tasks, for `Baseline(TASKS, RULES_VERSION)`."""
