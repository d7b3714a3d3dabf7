"""Three other questions to the same end, to search with. Source: QA-RAG §3.4, multiquery questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from fdarx_core.llm import Reply, Task
from fdarx_core.rag.baseline.rewriting import other_questions

MORE = 3


class MoreQuestionsReply(Reply):
    """None of them is empty."""

    questions: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=MORE, max_length=MORE)]


def by_rules(slots: Mapping[str, Any]) -> MoreQuestionsReply:
    """The baseline's answer."""
    return MoreQuestionsReply(questions=other_questions(slots))


MORE_QUESTIONS = Task.load("more_questions", MoreQuestionsReply, by_rules)
