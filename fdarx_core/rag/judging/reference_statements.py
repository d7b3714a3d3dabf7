"""Which statements of the reference answer the contexts bear out. Source: Ragas, context recall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fdarx_core.llm import Reply, Task
from fdarx_core.rag.judging.baseline import holding


class StatementVerdict(Reply):
    """On the statement of this number, counted from 1."""

    statement: int
    reason: str
    attributed: bool


class ReferenceStatementsReply(Reply):
    """One verdict for each statement."""

    verdicts: list[StatementVerdict]


def by_rules(slots: Mapping[str, Any]) -> ReferenceStatementsReply:
    """Attributed where a context holds it."""
    question, contexts = str(slots["question"]), [str(text) for text in slots["contexts"]]
    return ReferenceStatementsReply(
        verdicts=[_verdict(number, str(one), contexts, question) for number, one in enumerate(slots["statements"], 1)]
    )


def _verdict(number: int, statement: str, contexts: list[str], question: str) -> StatementVerdict:
    held = next(filter(None, (holding(statement, text, question) for text in contexts)), "")
    return StatementVerdict(statement=number, reason=held or "No two sentences hold it.", attributed=bool(held))


JUDGE_REFERENCE_STATEMENTS = Task.load("judge_reference_statements", ReferenceStatementsReply, by_rules)
