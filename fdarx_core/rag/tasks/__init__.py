"""What answering asks models: texts to search with, scores for what was found, the answer; one module a task."""

from typing import Any

from fdarx_core.llm import Task, TextTask, source_digest
from fdarx_core.rag.judging import JUDGE_TASKS
from fdarx_core.rag.tasks.answer_with_citations import ANSWER_WITH_CITATIONS
from fdarx_core.rag.tasks.hyde_passage import HYDE_PASSAGE
from fdarx_core.rag.tasks.hypothetical_answer import HYPOTHETICAL_ANSWER
from fdarx_core.rag.tasks.more_questions import MORE_QUESTIONS
from fdarx_core.rag.tasks.score_chunk import SCORE_CHUNK

RAG_TASKS: dict[str, TextTask | Task[Any]] = {
    **{
        task.name: task
        for task in (HYPOTHETICAL_ANSWER, HYDE_PASSAGE, MORE_QUESTIONS, SCORE_CHUNK, ANSWER_WITH_CITATIONS)
    },
    **JUDGE_TASKS,
}
"""All that answering and judging answers ask, by name."""

RAG_RULES_VERSION = source_digest(
    "fdarx_core.rag.baseline",
    "fdarx_core.rag.judging",
    "fdarx_core.evaluation.baseline",
    "fdarx_core.filters.baseline",
    "fdarx_core.filters.text",
)
"""The state of the baseline's rules: `Baseline(RAG_TASKS, RAG_RULES_VERSION)`."""

__all__ = [
    "ANSWER_WITH_CITATIONS",
    "HYDE_PASSAGE",
    "HYPOTHETICAL_ANSWER",
    "MORE_QUESTIONS",
    "RAG_RULES_VERSION",
    "RAG_TASKS",
    "SCORE_CHUNK",
]
