"""What answering needs of the world around it: someone to ask, something to search in, something that reranks."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from fdarx_core.llm import Task, TextTask
from fdarx_core.records import Found, Response
from fdarx_core.retrieval.index import Only

Role = Literal["hypothesis", "rewriter", "scorer", "answerer", "judge"]
"""Who is asked: hypothetical answers (an LLM tuned on the domain, at best), other wordings of the question, a score
for each chunk, the answer itself, a verdict on it."""

Ask: TypeAlias = tuple[TextTask | Task[Any], Mapping[str, Any]]
"""A task and its slots."""


@dataclass(frozen=True, slots=True)
class Search:
    """One text to search with, and how many of the candidates it draws.

    `is_question`: it is encoded as a question, with the encoder's instruction for such; else as what is searched.
    """

    text: str
    share: int
    is_question: bool


class Tools(Protocol):
    """The service gives Ray Serve handles, the comparison an asker and actors; rag knows neither."""

    async def ask(self, role: Role, asks: Sequence[Ask]) -> list[Response]: ...

    async def search(self, searches: Sequence[Search], only: Only, k: int) -> list[list[Found]]:
        """The k best chunks for each search, best first."""
        ...

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        """How well each text answers the question; higher is better."""
        ...


class StreamingTools(Tools, Protocol):
    """What a service has besides."""

    def stream(self, role: Role, ask: Ask) -> AsyncGenerator[str | Response, None]:
        """The reply's text as it comes, piece by piece, and at the end the whole Response."""
        ...
