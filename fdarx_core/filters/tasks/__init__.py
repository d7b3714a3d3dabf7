"""What judges ask a model, one module a task: the reply, the baseline's answer, and what a reply decides."""

from typing import Any

from fdarx_core.filters.tasks.judge_quality_factual import JUDGE_QUALITY_FACTUAL, FactualQualityReply
from fdarx_core.filters.tasks.judge_quality_multihop import JUDGE_QUALITY_MULTIHOP, MultihopQualityReply
from fdarx_core.filters.tasks.judge_relevance import JUDGE_RELEVANCE, RelevanceReply
from fdarx_core.filters.tasks.judge_support_factual import JUDGE_SUPPORT_FACTUAL, FactualSupportReply
from fdarx_core.filters.tasks.judge_support_multihop import JUDGE_SUPPORT_MULTIHOP, MultihopSupportReply
from fdarx_core.filters.tasks.judge_support_refusal import JUDGE_SUPPORT_REFUSAL, RefusalSupportReply
from fdarx_core.llm import Task, source_digest

JUDGE_TASKS: dict[str, Task[Any]] = {
    task.name: task
    for task in (
        JUDGE_RELEVANCE,
        JUDGE_SUPPORT_FACTUAL,
        JUDGE_SUPPORT_MULTIHOP,
        JUDGE_SUPPORT_REFUSAL,
        JUDGE_QUALITY_FACTUAL,
        JUDGE_QUALITY_MULTIHOP,
    )
}

JUDGE_RULES_VERSION = source_digest("fdarx_core.baseline")
"""The state of the rules by which the baseline answers these tasks: `Baseline(JUDGE_TASKS, JUDGE_RULES_VERSION)`."""

__all__ = [
    "JUDGE_QUALITY_FACTUAL",
    "JUDGE_QUALITY_MULTIHOP",
    "JUDGE_RELEVANCE",
    "JUDGE_RULES_VERSION",
    "JUDGE_SUPPORT_FACTUAL",
    "JUDGE_SUPPORT_MULTIHOP",
    "JUDGE_SUPPORT_REFUSAL",
    "JUDGE_TASKS",
    "FactualQualityReply",
    "FactualSupportReply",
    "MultihopQualityReply",
    "MultihopSupportReply",
    "RefusalSupportReply",
    "RelevanceReply",
]
