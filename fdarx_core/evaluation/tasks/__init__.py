"""What an evaluation asks models: for an answer, and for its grade; one module a task."""

from typing import Any

from fdarx_core.evaluation.settings import CLOSED_BOOK, FULL_LABEL, ORACLE, RETRIEVED
from fdarx_core.evaluation.tasks.answer_closed_book import ANSWER_CLOSED_BOOK
from fdarx_core.evaluation.tasks.answer_full_label import ANSWER_FULL_LABEL
from fdarx_core.evaluation.tasks.answer_oracle import ANSWER_ORACLE
from fdarx_core.evaluation.tasks.answer_retrieved import ANSWER_RETRIEVED
from fdarx_core.evaluation.tasks.grade_answer import GRADE_ANSWER
from fdarx_core.llm import Task, TextTask, source_digest

ANSWER_TASKS: dict[str, TextTask] = {
    CLOSED_BOOK: ANSWER_CLOSED_BOOK,
    FULL_LABEL: ANSWER_FULL_LABEL,
    ORACLE: ANSWER_ORACLE,
    RETRIEVED: ANSWER_RETRIEVED,
}
"""The task of each setting."""

EVALUATION_TASKS: dict[str, TextTask | Task[Any]] = {
    **{task.name: task for task in ANSWER_TASKS.values()},
    GRADE_ANSWER.name: GRADE_ANSWER,
}
"""All tasks of an evaluation, by name."""

EVALUATION_RULES_VERSION = source_digest(
    "fdarx_core.evaluation.baseline", "fdarx_core.filters.baseline", "fdarx_core.filters.text"
)
"""The state of the baseline's rules: `Baseline(EVALUATION_TASKS, EVALUATION_RULES_VERSION)`."""

__all__ = [
    "ANSWER_CLOSED_BOOK",
    "ANSWER_FULL_LABEL",
    "ANSWER_ORACLE",
    "ANSWER_RETRIEVED",
    "ANSWER_TASKS",
    "EVALUATION_RULES_VERSION",
    "EVALUATION_TASKS",
    "GRADE_ANSWER",
]
