"""What generation asks a model, one module a task."""

from typing import Any

from fdarx_core.generation.tasks.generate_factual import GENERATE_FACTUAL, FactualItem, FactualReply
from fdarx_core.generation.tasks.generate_multihop import GENERATE_MULTIHOP, MultihopItem, MultihopReply
from fdarx_core.generation.tasks.rephrase_refusal import REPHRASE_REFUSAL, RephraseReply
from fdarx_core.llm import Task, source_digest

TASKS: dict[str, Task[Any]] = {task.name: task for task in (GENERATE_FACTUAL, GENERATE_MULTIHOP, REPHRASE_REFUSAL)}

RULES_VERSION = source_digest("fdarx_core.generation")
"""The state of the rules by which the baseline answers these tasks: `Baseline(TASKS, RULES_VERSION)`."""

__all__ = [
    "GENERATE_FACTUAL",
    "GENERATE_MULTIHOP",
    "REPHRASE_REFUSAL",
    "RULES_VERSION",
    "TASKS",
    "FactualItem",
    "FactualReply",
    "MultihopItem",
    "MultihopReply",
    "RephraseReply",
]
