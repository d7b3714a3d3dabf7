"""The public interface of an index: search it and answer questions from it, in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from typing import Any, TypeVar

from fdarx_core.labels.drugs import Mention
from fdarx_core.llm import Model, Unparsable
from fdarx_core.llm.model import BASELINE
from fdarx_core.rag.answers import answer_question
from fdarx_core.rag.comparison import AnswerColumn, AnswerGroup
from fdarx_core.rag.conversation import Turn, standalone_question
from fdarx_core.rag.flow import (
    CANDIDATES,
    CONTEXTS,
    POSTPROCESSORS,
    RagConfig,
    context_budget,
    retrieve_contexts,
)
from fdarx_core.rag.gate import GateReport
from fdarx_core.rag.marks import marked_text
from fdarx_core.rag.search import (
    Role,
    SearchQuery,
    TaskCall,
    available_retrievers,
    encode_queries,
    find_absent_drugs,
    index_encoder,
    search_index,
)
from fdarx_core.rag.strategies import ABLATIONS, STRATEGIES
from fdarx_core.rag.verifying import named_engine
from fdarx_core.records import AbsentDrug, AnswerStatement, Citation, Response, SearchHit
from fdarx_core.retrieval.encoders import Reranker, SentenceEncoder, Vectors
from fdarx_core.retrieval.index import ChunkFilter, IndexReader
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.retrieval.retrievers import RERANK_SUFFIX, Retriever, get_retriever, load_reranker, needs_reranker
from fdarx_core.storage import Location
from fdarx_core.verify import AUTO, VerificationEngine, open_engine

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its sources.

    Attributes:
        text: the answer; [n] cites the n-th of `contexts`, counted from 1.
        statements: its statements with their places in the text and their verdicts; `marked` gives the text with a mark
            at those that are not supported.
        citations: the places in the contexts that its statements rest on, in the order of the text.
        contexts: the hits that the answer was made from.
        refused: whether the answer says that the contexts do not answer the question.
        withheld: whether there was an answer, of which nothing passed the gate; `gate.dropped` says why.
        model: the name of the model that answered.
        gate: how many statements of the model's answer were supported, unsupported, undecided and uncited, which ones
            were dropped, and who verified them.
        standalone_question: the question that was searched with and answered: the question as it was asked, or as it is
            understood without the history.
        columns: the part of the text for each drug of a question about several; none for other questions.
        groups: the drugs of the answer to a question which labels say something ("which labels mention warfarin"), with
            the numbers of their citations; none for other questions.
    """

    text: str
    statements: list[AnswerStatement]
    citations: list[Citation]
    contexts: list[SearchHit]
    refused: bool
    withheld: bool
    model: str
    gate: GateReport
    standalone_question: str
    columns: list[AnswerColumn]
    groups: list[AnswerGroup]

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

    def search(
        self,
        question: str,
        k: int = CONTEXTS,
        *,
        retriever: str | Retriever | None = None,
        drug: str = "",
        set_id: str = "",
        title: str = "",
        exclude: Collection[str] = (),
        section: str = "",
        labeler: str = "",
        document_type: str = "",
        date_from: str = "",
        date_to: str = "",
    ) -> list[SearchHit]:
        """Return the k best chunks for a question, best first.

        A question that names drugs of the index's labels finds their chunks only, unless a filter is given.

        Args:
            question: the question, or any text.
            k: how many hits to return; fewer where fewer chunks pass the filter or share a word with the question.
            retriever: one of `retrievers`, also as `NAME+rerank`, or a retriever; by default hybrid where the index
                has vectors and their embedding model is there, else bm25.
            drug: return only chunks of this drug's labels.
            set_id: return only chunks of the label with this set id.
            title: return only chunks of the document with this title.
            exclude: ids, titles or sources of documents to leave out.
            section: return only chunks of label sections with this LOINC code.
            labeler: return only chunks of this labeler's labels.
            document_type: return only chunks of labels of this type, a LOINC code (34391-3: human prescription).
            date_from: return only chunks of labels with this effective date (YYYY-MM-DD) or a later one.
            date_to: return only chunks of labels with this effective date or an earlier one.

        Raises ValueError for a retriever that cannot search the index, for k below 1, and for a wrong date.
        """
        filter = ChunkFilter(
            drug,
            set_id,
            title,
            tuple(exclude),
            section=section,
            labeler=labeler,
            document_type=document_type,
            date_from=date_from,
            date_to=date_to,
        )
        [hits] = self.search_many([SearchQuery(question, k, is_question=True)], filter, k, retriever)
        return hits

    def search_many(
        self, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int, retriever: str | Retriever | None = None
    ) -> list[list[SearchHit]]:
        """Return the k best chunks for each query; see `search`."""
        found = self._retriever(retriever)
        vectors = self.encode(queries) if found.encoders else None
        return search_index(self.reader, queries, filter, k, found, vectors)

    def encode(self, queries: Sequence[SearchQuery]) -> Vectors:
        """Return the vectors of the queries, shape (queries, dimensions)."""
        return encode_queries(self._encoder, queries)

    def answer(
        self,
        question: str,
        *,
        model: Model | str = BASELINE,
        k: int = CONTEXTS,
        strategy: str = "question",
        postprocess: str = "none",
        retriever: str | Retriever | None = None,
        drug: str = "",
        set_id: str = "",
        title: str = "",
        exclude: Collection[str] = (),
        history: Sequence[tuple[str, str]] = (),
        verifier: str | Model | VerificationEngine = AUTO,
        section: str = "",
        labeler: str = "",
        document_type: str = "",
        date_from: str = "",
        date_to: str = "",
    ) -> Answer:
        """Answer a question from the k best chunks, with citations.

        Each statement of the answer is verified against what it cites: what this contradicts is dropped, and what it
        does not bear out is marked (see `fdarx_core.rag.gate`).

        Args:
            question: the question.
            model: the model that answers, and that writes queries and scores where strategy or post-processing ask for
                it; by default none: the text then quotes the passages and says that it is no answer.
            k: how many chunks the answer is made from.
            strategy: what to search with, a name of `fdarx_core.rag.strategies`.
            postprocess: how candidates are ordered: none, score (by the model) or rerank (needs `reranker_model`).
            retriever: as for `search`, and so are all filters.
            drug: only chunks of this drug.
            set_id: only chunks of the label with this set id.
            title: only chunks of the document with this title.
            exclude: titles of documents to leave out.
            history: the earlier questions of a conversation with their answers, oldest first. The question is then
                rewritten by the model so that it stands alone, as `Answer.standalone_question` gives it; without a
                model it stays as it is.
            verifier: the engine that verifies the statements, as `fdarx.verify` takes it; by default the answering
                model.

        Raises ValueError for unknown names, ModelMissing for a verifier that cannot be loaded, Unparsable where the
        model's reply cannot be used, and what `Model` raises.
        """
        strategies = STRATEGIES | ABLATIONS
        _check_known(strategy, strategies, "strategy")
        _check_known(postprocess, POSTPROCESSORS, "post-processing")
        filter = ChunkFilter(
            drug,
            set_id,
            title,
            tuple(exclude),
            section=section,
            labeler=labeler,
            document_type=document_type,
            date_from=date_from,
            date_to=date_to,
        )
        model = Model(model) if isinstance(model, str) else model
        budget = context_budget(model.config)
        config = RagConfig(strategies[strategy], postprocess, max(k, CANDIDATES), k, budget, filter)
        backend = _LocalBackend(self, model, self._retriever(retriever))
        engine = named_engine(verifier, model.name) if isinstance(verifier, str) else open_engine(verifier)
        return _run(self._answer(question, [Turn(*turn) for turn in history], config, backend, engine))

    async def _answer(
        self,
        question: str,
        history: Sequence[Turn],
        config: RagConfig,
        backend: _LocalBackend,
        verifier: VerificationEngine | None,
    ) -> Answer:
        standalone = await standalone_question(question, history, backend)
        result = await retrieve_contexts(standalone.text, config, backend)
        reply = await answer_question(standalone.text, result, backend, verifier)
        if reply.reason:
            reason, _, detail = reply.reason.partition(": ")
            raise Unparsable(reason, detail)
        return Answer(
            reply.text,
            reply.statements,
            reply.citations,
            result.contexts,
            reply.refused,
            reply.withheld,
            backend.model.name,
            reply.gate,
            standalone.text,
            reply.columns,
            reply.groups,
        )

    def _retriever(self, retriever: str | Retriever | None) -> Retriever:
        if retriever is None:
            retriever = "hybrid" if "hybrid" in self.retrievers else "bm25"
        if not isinstance(retriever, str):
            return retriever
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


@dataclass(frozen=True, slots=True)
class _LocalBackend:
    """The backend of question answering in this process."""

    index: Index
    model: Model
    retriever: Retriever

    async def ask(self, role: Role, calls: Sequence[TaskCall]) -> list[Response]:
        return await self.model.respond_async(calls)

    async def search(self, queries: Sequence[SearchQuery], filter: ChunkFilter, k: int) -> list[list[SearchHit]]:
        return self.index.search_many(queries, filter, k, self.retriever)

    async def find_drugs(self, texts: Sequence[str]) -> list[list[Mention]]:
        return [self.index.reader.label_drugs.names.find(text) for text in texts]

    async def absent_drugs(self, text: str) -> list[AbsentDrug]:
        return find_absent_drugs(self.index.reader, text)

    async def has_labels(self) -> bool:
        return self.index.reader.has_labels

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        return self.index.reranker([(question, text) for text in texts])

    @property
    def answerer(self) -> str:
        return self.model.name


def _run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, also where an event loop is running already, as in a notebook."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()


def _check_known(name: str, known: Collection[str], what: str) -> None:
    if name not in known:
        raise ValueError(f"there is no {what} {name!r}; known are {', '.join(known)}")
