"""The public interface of an index: search it and answer questions from it, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike, fspath
from typing import Any

from fdarx_core.llm import Model, Unparsable
from fdarx_core.llm.model import BASELINE
from fdarx_core.rag.answers import answer_question
from fdarx_core.rag.cited_text import marked_text
from fdarx_core.rag.flow import context_budget, retrieve_contexts
from fdarx_core.rag.gated_reply import CitedAnswer
from fdarx_core.rag.query import CONTEXTS, RagQuery
from fdarx_core.rag.search import (
    IndexNames,
    Role,
    SearchQuery,
    TaskCall,
    available_retrievers,
    encode_queries,
    index_encoder,
    search_index,
)
from fdarx_core.rag.verifying import named_engine
from fdarx_core.records import Response, SearchHit
from fdarx_core.retrieval.encoders import Reranker, SentenceEncoder
from fdarx_core.retrieval.index import ChunkFilter, IndexReader
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.retrieval.retrievers import RERANK_SUFFIX, Retriever, get_retriever, load_reranker, needs_reranker
from fdarx_core.storage import Location
from fdarx_core.verify import AUTO, VerificationEngine, open_engine


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(CitedAnswer):
    """An answer with its sources.

    Attributes:
        contexts: the hits that the answer was made from; [n] in its text cites the n-th, counted from 1.
        model: the name of the model that answered.
        standalone_question: the question that was searched with and answered: the question as it was asked, or as it is
            understood without the history.
    """

    contexts: list[SearchHit]
    model: str
    standalone_question: str

    @property
    def marked(self) -> str:
        """The text, in which each statement that is not supported begins with "[unverified]"."""
        return marked_text(self.text, self.statements)


class Index:
    """A search index, open for questions. Make one with `fdarx index`, and open it with `Index.open`.

        index = Index.open("INDEX")
        for hit in index.search("What is the maximum daily dose?", k=3):
            print(hit.score, hit.set_id, hit.text)
        print(index.answer("What is the maximum daily dose?").text)

    Attributes:
        reader: the version of the index that is open; a newer one needs another `open`.
        retrievers: the names of the retrievers that can search the index on this machine.
        notice: why some retrievers are missing, else "".
    """

    def __init__(self, reader: IndexReader, directories: ModelDirectories) -> None:
        self.reader = reader
        self.retrievers, self.notice = available_retrievers(reader, directories)
        self._directories = directories

    @classmethod
    def open(
        cls,
        path: str | PathLike[str] | Location,
        *,
        version: str | None = None,
        cosine_model: str | None = None,
        reranker_model: str | None = None,
    ) -> Index:
        """Open an index.

        Args:
            path: its folder, on disk or s3://.
            version: the name of an older version; by default the current one.
            cosine_model: the directory of the embedding model that made the vectors; not needed for an index of words
                only, or where the index was made with the installed package of all-MiniLM-L6-v2.
            reranker_model: the directory of a BGE reranker, for retrievers `NAME+rerank`.

        Raises StorageError where there is no such index or version, and where the given embedding model is not the
        index's; IndexDamaged; ModelMissing where the given embedding model cannot be used.
        """
        place = path if isinstance(path, Location) else Location(fspath(path))
        directories = ModelDirectories(cosine=cosine_model, reranker=reranker_model)
        return cls(IndexReader.open(place, version=version), directories)

    def __len__(self) -> int:
        """Return the number of chunks."""
        return len(self.reader)

    def search(self, question: str | RagQuery, k: int = CONTEXTS, **options: Any) -> list[SearchHit]:
        """Return the k best chunks for a question, best first.

        A question that names drugs of the index's labels finds their chunks only, unless a filter is given.

        Args:
            question: the question, or any text; or a query, of which retriever, k and filter count.
            k: how many hits to return; fewer where fewer chunks pass the filter or share a word with the question.
            options: other fields of the query, and of its filter: `RagQuery.of(question, **options)`.

        Raises ValueError for a retriever that cannot search the index, for k below 1, and for a wrong date.
        """
        query = question if isinstance(question, RagQuery) else RagQuery.of(question, k=k, **options)
        asked = [SearchQuery(query.question, query.k, is_question=True)]
        [hits] = self.search_many(asked, query.filter, query.k, query.retriever)
        return hits

    def search_many(
        self, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int, retriever: str | Retriever = ""
    ) -> list[list[SearchHit]]:
        """Return the k best chunks for each query; see `search`."""
        found = self._retriever(retriever)
        vectors = encode_queries(self._encoder, queries) if found.encoders else None
        return search_index(self.reader, queries, filter, k, found, vectors)

    def answer(
        self,
        question: str | RagQuery,
        *,
        model: Model | str = BASELINE,
        verifier: str | Model | VerificationEngine = AUTO,
        **options: Any,
    ) -> Answer:
        """Answer a question from the k best chunks, with citations.

        Each statement of the answer is verified against what it cites: what this contradicts is dropped, and what it
        does not bear out is marked (see `fdarx_core.rag.gate`).

        Args:
            question: the question, or a query.
            model: the model that answers, and that writes queries and scores where strategy or post-processing ask for
                it; by default none: the text then quotes the passages and says that it is no answer. It rewrites a
                question with a history so that it stands alone, as `Answer.standalone_question` gives it.
            verifier: the engine that verifies the statements, as `fdarx.verify` takes it; by default the answering
                model.
            options: other fields of the query, and of its filter: `RagQuery.of(question, **options)`.

        Raises ValueError for unknown names, ModelMissing for a verifier that cannot be loaded, Unparsable where the
        model's reply cannot be used, and what `Model` raises.
        """
        query = question if isinstance(question, RagQuery) else RagQuery.of(question, **options)
        model = Model(model) if isinstance(model, str) else model
        backend = _LocalBackend(self, model, self._retriever(query.retriever))
        engine = named_engine(verifier, model.name) if isinstance(verifier, str) else open_engine(verifier)

        async def answer() -> Answer:
            result = await retrieve_contexts(query, backend)
            reply = await answer_question(result, backend, engine)
            if reply.reason:
                reason, _, detail = reply.reason.partition(": ")
                raise Unparsable(reason, detail)
            own = {field.name: getattr(reply, field.name) for field in fields(reply)}
            return Answer(**own, contexts=result.contexts, model=model.name, standalone_question=result.question)

        with ThreadPoolExecutor(1) as thread:  # an event loop may be running already, as in a notebook
            return thread.submit(asyncio.run, answer()).result()

    def _retriever(self, retriever: str | Retriever) -> Retriever:
        if not isinstance(retriever, str):
            return retriever
        retriever = retriever or ("hybrid" if "hybrid" in self.retrievers else "bm25")
        if retriever.removesuffix(RERANK_SUFFIX) not in self.retrievers:
            raise ValueError(f"no retriever {retriever!r} here; there are {', '.join(self.retrievers)}. {self.notice}")
        return get_retriever(retriever, self.reranker if needs_reranker(retriever) else None)

    @cached_property
    def reranker(self) -> Reranker:
        """The cross-encoder, loaded at its first use. Raises ModelMissing."""
        return load_reranker(self._directories)

    @cached_property
    def _encoder(self) -> SentenceEncoder:
        return index_encoder(self.reader, self._directories)


class _LocalBackend(IndexNames):
    def __init__(self, index: Index, model: Model, retriever: Retriever) -> None:
        super().__init__(index.reader)
        self._open, self._model, self._retriever = index, model, retriever
        self.answerer, self.max_context_characters = model.name, context_budget(model.config)

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        return await self._model.respond_async(calls)

    async def search(self, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int) -> list[list[SearchHit]]:
        return self._open.search_many(queries, filter, k, self._retriever)

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        return self._open.reranker([(question, text) for text in texts])
