"""Whether a context helps to arrive at the reference answer. Source: Ragas, context precision with a reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.llm import Reply, Task
from fdarx_core.rag.judging.baseline import holding, telling


class UsefulContextReply(Reply):
    """The verdict on one context, and what it rests on in a sentence, first."""

    reason: str
    useful: bool


def by_rules(slots: Mapping[str, Any]) -> UsefulContextReply:
    """Useful where it holds a statement of the reference."""
    question, context = str(slots["question"]), str(slots["context"])
    found = (holding(one, context, question) for one in telling(str(slots["reference"])))
    held = next(filter(None, found), "")
    return UsefulContextReply(reason=held or "No two sentences hold a statement of the reference.", useful=bool(held))


JUDGE_USEFUL_CONTEXT = Task.load("judge_useful_context", UsefulContextReply, by_rules)
