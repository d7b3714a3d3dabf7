"""The tasks that answering a question asks of models: texts to search with, a score for each chunk, the answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from fdarx_core.baseline.answering import hypothetical_answer, made_up_passage, other_questions, relevance
from fdarx_core.llm import CutTo, Note, Reply, Task, source_digest
from fdarx_core.rag.metrics import JUDGE_TASKS
from fdarx_core.verify.language_model import JUDGE_CLAIM

MORE = 3
"""Other questions of a multiquery."""
LONGEST_STANDALONE = 4_000
"""Characters of the longest question that a rewriting may have."""


class MoreQuestionsReply(Reply):
    """Other questions that ask for the same."""

    questions: Annotated[list[Annotated[str, Field(min_length=1), CutTo(500)]], Field(min_length=MORE), CutTo(MORE)]


class StandaloneReply(Reply):
    """A question that can be understood without the conversation before it."""

    question: Annotated[str, Field(min_length=1, max_length=LONGEST_STANDALONE)]


class ScopeReply(Reply):
    """Whether a question asks about the drugs that it names, or which of all labels say something."""

    reason: Note
    scope: Literal["named", "several"]


class ScoreReply(Reply):
    """A reason, then the score: a model that writes its reason first bases the score on it."""

    reason: Note
    score: Annotated[int, Field(ge=1, le=10)]


def score_chunk_by_rules(slots: Mapping[str, Any]) -> ScoreReply:
    """Return the baseline's reply."""
    score, reason = relevance(slots)
    return ScoreReply(reason=reason, score=score)


HYPOTHETICAL_ANSWER = Task.load("hypothetical_answer", str, hypothetical_answer)
"""An expert's answer from memory, to search with. Source: QA-RAG §2.3."""
HYDE_PASSAGE = Task.load("hyde_passage", str, made_up_passage)
"""A passage that would answer a question, to search with. Source: QA-RAG §3.4; Gao et al. 2022."""
MORE_QUESTIONS = Task.load(
    "more_questions", MoreQuestionsReply, lambda slots: MoreQuestionsReply(questions=other_questions(slots))
)
"""Three other questions that ask for the same, to search with. Source: QA-RAG §3.4, multiquery questions."""
STANDALONE_QUESTION = Task.load("standalone_question", StandaloneReply)
"""A question of a conversation as it is understood without the earlier turns."""
SCORE_CHUNK = Task.load("score_chunk", ScoreReply, score_chunk_by_rules)
"""How much a chunk helps to answer a question. Source: QA-RAG §2.4, the scoring agent."""
QUESTION_SCOPE = Task.load("question_scope", ScopeReply)
"""Whether the answer to a question is a list of drugs that the question does not name."""
ANSWER_WITH_CITATIONS = Task.load("answer_with_citations", str)
"""The answer to a question from numbered contexts. Source: QA-RAG §2.5."""
COMPARE_DRUGS = Task.load("compare_drugs", str)
"""What the answers for several drugs have in common, and how they differ."""

RAG_TASKS: dict[str, Task[Any]] = {
    **{
        task.name: task
        for task in (
            HYPOTHETICAL_ANSWER,
            HYDE_PASSAGE,
            MORE_QUESTIONS,
            STANDALONE_QUESTION,
            QUESTION_SCOPE,
            SCORE_CHUNK,
            ANSWER_WITH_CITATIONS,
            COMPARE_DRUGS,
            JUDGE_CLAIM,
        )
    },
    **JUDGE_TASKS,
}
"""All tasks of answering questions, of verifying and of judging answers, by name."""
RAG_RULES_VERSION = source_digest(
    "fdarx_core.baseline", "fdarx_core.text", "fdarx_core.labels", "fdarx_core.rag.metrics", "fdarx_core.verify"
)
"""The state of the baseline's rules: `Baseline(RAG_TASKS, RAG_RULES_VERSION)`."""
