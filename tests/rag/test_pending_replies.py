"""Questions whose requests wait in batch files: all requests are made, and nothing is answered without the replies."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from fdarx_core.labels.drugs import Mention
from fdarx_core.llm.failures import ReplyPending
from fdarx_core.rag.flow import retrieve_contexts
from fdarx_core.rag.query import RagQuery
from fdarx_core.rag.search import Role, SearchQuery, TaskCall
from fdarx_core.rag.verifying import StatementVerifier
from fdarx_core.records import AbsentDrug, Response, SearchHit
from fdarx_core.retrieval.index import ChunkFilter
from fdarx_core.verify import TextPair


class PendingBackend:
    """A model whose replies are all pending; requests of the role answerer arrive a little later than others."""

    answerer = "m"
    max_context_characters = None

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        if role == "answerer":
            await asyncio.sleep(0.01)
        self.asked += [task.name for task, _ in calls]
        raise ReplyPending("requests to m wait for their replies")

    async def find_drugs(self, texts: Sequence[str]) -> list[list[Mention]]:
        return [[] for _ in texts]

    async def absent_drugs(self, text: str) -> list[AbsentDrug]:
        return []

    async def search(self, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int) -> list[list[SearchHit]]:
        raise AssertionError

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        raise AssertionError


def test_all_requests_of_a_question_are_made_before_it_waits() -> None:
    backend = PendingBackend()

    async def retrieve() -> tuple[list[str], int]:
        with pytest.raises(ReplyPending):
            await retrieve_contexts(RagQuery("What is the dose?", strategy="qa_rag"), backend)
        return list(backend.asked), len(asyncio.all_tasks())

    asked, tasks = asyncio.run(retrieve())
    assert sorted(asked) == ["hypothetical_answer", "question_scope"]
    assert tasks == 1, "no request is made after the question has been given up"


def test_a_pending_verdict_is_no_verdict() -> None:
    verifier = StatementVerifier(PendingBackend(), None)
    with pytest.raises(ReplyPending):
        asyncio.run(verifier.verify([TextPair("The dose is 10 mg.", "It is 10 mg.")]))
