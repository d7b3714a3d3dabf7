"""Judging the contexts of an answer against its question's reference: two tasks, and the baseline judge's rules."""

from typing import Any

from fdarx_core.llm import Task, source_digest
from fdarx_core.rag.judging.reference_statements import (
    JUDGE_REFERENCE_STATEMENTS,
    ReferenceStatementsReply,
    StatementVerdict,
)
from fdarx_core.rag.judging.useful_context import JUDGE_USEFUL_CONTEXT, UsefulContextReply
from fdarx_core.rag.judging.verdicts import (
    context_asks,
    judged,
    precision_asks,
    read_statements,
    read_useful,
    recall_ask,
    statements_of,
)

JUDGE_TASKS: dict[str, Task[Any]] = {task.name: task for task in (JUDGE_USEFUL_CONTEXT, JUDGE_REFERENCE_STATEMENTS)}

JUDGE_RULES_VERSION = source_digest("fdarx_core.rag.judging", "fdarx_core.filters.baseline", "fdarx_core.filters.text")
"""The state of the rules by which the baseline answers these tasks: `Baseline(JUDGE_TASKS, JUDGE_RULES_VERSION)`."""

__all__ = [
    "JUDGE_REFERENCE_STATEMENTS",
    "JUDGE_RULES_VERSION",
    "JUDGE_TASKS",
    "JUDGE_USEFUL_CONTEXT",
    "ReferenceStatementsReply",
    "StatementVerdict",
    "UsefulContextReply",
    "context_asks",
    "judged",
    "precision_asks",
    "read_statements",
    "read_useful",
    "recall_ask",
    "statements_of",
]
