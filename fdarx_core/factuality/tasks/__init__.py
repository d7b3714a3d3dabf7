"""What checking answers asks models: the claims of an answer, and what passages say of a claim; one module a task."""

from typing import Any

from fdarx_core.factuality.tasks.extract_claims import EXTRACT_CLAIMS
from fdarx_core.factuality.tasks.judge_claim import JUDGE_CLAIM
from fdarx_core.llm import Task, source_digest

FACTUALITY_TASKS: dict[str, Task[Any]] = {task.name: task for task in (EXTRACT_CLAIMS, JUDGE_CLAIM)}
"""All that checking answers asks, by name."""

FACTUALITY_RULES_VERSION = source_digest(
    "fdarx_core.factuality.claims",
    "fdarx_core.factuality.entailment",
    "fdarx_core.evaluation.answers",
    "fdarx_core.evaluation.baseline",
    "fdarx_core.filters.text",
)
"""The state of the baseline's rules: `Baseline(FACTUALITY_TASKS, FACTUALITY_RULES_VERSION)`."""

__all__ = ["EXTRACT_CLAIMS", "FACTUALITY_RULES_VERSION", "FACTUALITY_TASKS", "JUDGE_CLAIM"]
