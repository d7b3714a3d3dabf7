"""How much one chunk helps to answer a question. Source: QA-RAG §2.4, the scoring agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from fdarx_core.llm import Reply, Task
from fdarx_core.rag.baseline.scoring import relevance


class ScoreReply(Reply):
    """Why, then the score: a model that writes its reason first scores by it."""

    reason: str
    score: Annotated[int, Field(ge=1, le=10)]


def by_rules(slots: Mapping[str, Any]) -> ScoreReply:
    """The baseline's answer."""
    score, reason = relevance(slots)
    return ScoreReply(reason=reason, score=score)


SCORE_CHUNK = Task.load("score_chunk", ScoreReply, by_rules)
