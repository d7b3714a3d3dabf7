"""The steps of a RAG evaluation: its specification, the state of a question, and its part files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, TypeVar

from fdarx_core.evaluation.similarity import token_f1
from fdarx_core.labels.drugs import Mention
from fdarx_core.llm import TRANSIENT, Baseline, ModelConfig, source_digest
from fdarx_core.llm.failures import all_done
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Address, Part, ResourceStep, Step, StepContext
from fdarx_core.rag.answers import answer_question
from fdarx_core.rag.flow import context_budget, retrieve_contexts
from fdarx_core.rag.metrics import apply_verdicts as with_verdicts
from fdarx_core.rag.metrics import context_calls, title_rank
from fdarx_core.rag.query import CANDIDATES, CONTEXTS, RagQuery
from fdarx_core.rag.quotes import NO_MODEL
from fdarx_core.rag.search import (
    Role,
    SearchQuery,
    TaskCall,
    encode_queries,
    find_absent_drugs,
    index_encoder,
    search_index,
)
from fdarx_core.rag.strategies import ALL_STRATEGIES
from fdarx_core.rag.tasks import RAG_RULES_VERSION, RAG_TASKS
from fdarx_core.records import AbsentDrug, RagAnswer, RagQuestion, RagScore, Response, SearchHit, TitleRank
from fdarx_core.retrieval.index import ChunkFilter, IndexReader
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.retrieval.retrievers import load_reranker
from fdarx_core.storage import Location

CODE_VERSION = source_digest(
    "fdarx_core.rag", "fdarx_core.retrieval", "fdarx_core.baseline", "fdarx_core.text", "fdarx_core.verify"
)
"""Digest of the code that searches, parses and judges. Parts of another version are computed again."""


Timed = tuple[Any, float]
"""A result, and the seconds that its computation took."""

Shared = dict[Hashable, tuple[asyncio.Future[list[Any]], int]]
"""Results that several variants share, each by the work that computes it once, and its place among the results."""

Result = TypeVar("Result")


def baseline() -> Baseline:
    """Return the built-in rules for all tasks of answering and judging."""
    return Baseline(RAG_TASKS, RAG_RULES_VERSION)


@dataclass(frozen=True, slots=True)
class RagSetup:
    """The specification of a comparison. `roles` maps each role to a model of `models`, or to `baseline`.

    `exclude` leaves documents out of every search. `exclude_own` also leaves out each question's own document, as in
    the paper's test. `encoder` and `bertscore` are model directories, for the similarity of answers.
    Source: QA-RAG §3.
    """

    place: Location
    version: str
    retriever: str
    retrievers: Sequence[str]
    strategies: Sequence[str]
    postprocessors: Sequence[str]
    roles: Mapping[Role, str]
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    candidates: int = CANDIDATES
    contexts: int = CONTEXTS
    exclude: Sequence[str] = ()
    exclude_own: bool = False
    directories: ModelDirectories = field(default_factory=ModelDirectories)
    encoder: str | None = None
    bertscore: str | None = None
    bertscore_layers: int | None = None

    def filter(self, question: RagQuestion) -> ChunkFilter:
        """Return the filter of chunks for the searches of a question."""
        own = (question.title,) if self.exclude_own and question.title else ()
        return ChunkFilter(exclude=(*self.exclude, *own))

    @property
    def used(self) -> dict[str, ModelConfig]:
        """The models that the comparison asks."""
        roles: set[Role] = {"answerer", "judge"}
        roles |= {role for name in self.strategies if (role := ALL_STRATEGIES[name].role)}
        if "score" in self.postprocessors:
            roles.add("scorer")
        asked = {self.roles[role] for role in roles}
        return {name: model for name, model in self.models.items() if name in asked}

    @property
    def measures_similarity(self) -> bool:
        """Whether a model measures the similarity of answers and references."""
        return bool(self.bertscore or self.encoder)


@dataclass(slots=True)
class QuestionState:
    """A question, its answers in all variants with their scores, and the ranks of its document."""

    question: RagQuestion
    answers: list[tuple[RagAnswer, RagScore]] = field(default_factory=list)
    ranks: list[TitleRank] = field(default_factory=list)


def rag_steps(spec: RagSetup, *, planned: bool = False) -> list[Step[QuestionState]]:
    """Return the steps of a comparison; for a plan, those that lead to requests."""
    steps: list[Step[QuestionState]] = [ResourceStep("answer", partial(answer_and_judge, spec))]
    if spec.measures_similarity and not planned:
        steps.append(ResourceStep("similarity", measure_similarity))
    return steps


async def answer_and_judge(spec: RagSetup, states: Sequence[QuestionState], context: StepContext) -> None:
    """Answer each question by each strategy with each post-processing, and judge the answers, all concurrently."""

    async def answer(state: QuestionState) -> None:
        question, cache = state.question, Shared()
        variants = [
            _answer_in_variant(spec, question, strategy, postprocess, _JobTools(spec, context, cache))
            for strategy, postprocess in product(spec.strategies, spec.postprocessors)
        ]
        state.answers = await all_done(variants)
        tools = _JobTools(spec, context, cache)
        for name in spec.retrievers if question.title and not spec.exclude_own else ():
            hits = await tools.first(question.question, spec.filter(question), spec.candidates, name)
            rank = title_rank([hit.chunk.title for hit in hits], question.title)
            state.ranks.append(TitleRank(question.id, question.cluster, name, rank or 0))

    await all_done(map(answer, states))


async def measure_similarity(states: Sequence[QuestionState], context: StepContext) -> None:
    """Measure the similarity of answers to their first reference, with the models of the resource `similarity`.

    An answer that failed has none.
    """
    pairs = [
        (row, score, state.question.references[0])
        for state in states
        for row, score in state.answers
        if row.outcome != "failed" and state.question.references
    ]
    answers, references = [row.answer for row, _, _ in pairs], [reference for _, _, reference in pairs]
    measured = await context.call("similarity", "measure", answers, references)
    for (_, score, _), values in zip(pairs, measured, strict=True):
        for name, value in values.items():
            setattr(score, name, value)


class IndexSearcher:
    """An index in memory, with its encoder."""

    def __init__(self, spec: RagSetup) -> None:
        index = IndexReader.open(spec.place, version=spec.version)
        encoder = None
        if any(index.needs_vectors(name) for name in spec.retrievers):
            encoder = index_encoder(index, spec.directories)
            index.check_encoder(encoder.info)
        self._index, self._encoder = index, encoder

    def search(self, search: SearchQuery, only: ChunkFilter, k: int, retriever: str) -> Timed:
        start = time.perf_counter()
        encoder = self._encoder if self._index.needs_vectors(retriever) else None
        vectors = encode_queries(encoder, [search]) if encoder else None
        [found] = search_index(self._index, [search], only, k, retriever, vectors)
        return found, time.perf_counter() - start

    def find_drugs(self, texts: Sequence[str]) -> list[list[Mention]] | None:
        if not self._index.has_labels:
            return None
        return [self._index.label_drugs.names.find(text) for text in texts]

    def absent_drugs(self, text: str) -> list[AbsentDrug]:
        return find_absent_drugs(self._index, text)


class Reranker:
    """A cross-encoder in memory."""

    def __init__(self, spec: RagSetup) -> None:
        self._score = load_reranker(spec.directories)

    def score(self, pairs: Sequence[tuple[str, str]]) -> Timed:
        start = time.perf_counter()
        return self._score(pairs), time.perf_counter() - start


async def _shared(
    begun: Shared, keys: Sequence[Hashable], make: Callable[[list[Any]], Awaitable[list[Result]]]
) -> list[Result]:
    """Return one result per key; `make` is called once, with those keys that no caller has requested yet."""
    new = [key for key in dict.fromkeys(keys) if key not in begun]
    if new:
        work = asyncio.ensure_future(make(new))
        begun |= {key: (work, at) for at, key in enumerate(new)}
    return [(await work)[at] for work, at in map(begun.__getitem__, keys)]


class _JobTools:
    """`RagBackend` for one question in one variant. Times are without waiting for other work.

    The results of searches and scores are in `cache`, which the variants of one question share.
    """

    def __init__(self, spec: RagSetup, context: StepContext, cache: Shared) -> None:
        self.search_s = self.rerank_s = 0.0
        self._spec, self._context, self._cache = spec, context, cache

    async def ask(self, role: Role, asks: Sequence[TaskCall]) -> list[Response]:
        address = Address.of(self._spec.roles[role], self._spec.models, baseline())
        return await self._context.ask([address.request(task, slots) for task, slots in asks])

    async def search(self, searches: Sequence[SearchQuery], only: ChunkFilter, k: int) -> list[list[SearchHit]]:
        timed = await asyncio.gather(*(self._search(query, only, k, self._spec.retriever) for query in searches))
        self.search_s += sum(seconds for _, seconds in timed)
        return [[SearchHit(hit.chunk, hit.score, number) for hit in found] for number, (found, _) in enumerate(timed)]

    async def find_drugs(self, texts: Sequence[str]) -> list[list[Mention]] | None:
        found: list[list[Mention]] | None = await self._context.call("index", "find_drugs", texts)
        return found

    async def first(self, question: str, only: ChunkFilter, k: int, retriever: str) -> list[SearchHit]:
        """Return the hits of a retriever for the question itself."""
        found, _ = await self._search(SearchQuery(question, k, True), only, k, retriever)
        return list(found)

    async def absent_drugs(self, text: str) -> list[AbsentDrug]:
        found: list[AbsentDrug] = await self._context.call("index", "absent_drugs", text)
        return found

    async def rerank(self, question: str, texts: Sequence[str]) -> list[float]:
        async def score(keys: list[tuple[str, str]]) -> list[tuple[float, float]]:
            scores, seconds = await self._context.call("reranker", "score", keys)
            return [(value, seconds / len(keys)) for value in scores]

        scored = await _shared(self._cache, [(question, text) for text in texts], score)
        self.rerank_s += sum(seconds for _, seconds in scored)
        return [value for value, _ in scored]

    @property
    def answerer(self) -> str:
        return self._spec.roles["answerer"]

    @property
    def max_context_characters(self) -> int | None:
        return context_budget(self._spec.models.get(self.answerer))

    async def _search(self, search: SearchQuery, only: ChunkFilter, k: int, retriever: str) -> Timed:
        async def find(keys: list[Any]) -> list[Timed]:
            return [await self._context.call("index", "search", search, only, k, retriever)]

        [timed] = await _shared(self._cache, [(search.text, search.is_question, only, k, retriever)], find)
        return timed


async def _answer_in_variant(
    spec: RagSetup, question: RagQuestion, strategy: str, postprocess: str, tools: _JobTools
) -> tuple[RagAnswer, RagScore]:
    """Return an answer with its measures, except those that need a local model (`similarity`).

    Its times are without waiting; requests of one step run at the same time.
    """
    only = spec.filter(question)
    query = RagQuery(
        question.question, spec.contexts, strategy, postprocess=postprocess, candidates=spec.candidates, filter=only
    )
    found = await retrieve_contexts(query, tools)
    reply = await answer_question(found, tools, None)
    asked = [*found.rewritten, *found.scored, *reply.responses, *reply.checks]
    unverified = [statement for statement in reply.statements if statement.verdict != "supported"]
    prices_of = {name: model.prices for name, model in spec.models.items()}
    row = RagAnswer(
        question_id=question.id,
        strategy=strategy,
        postprocess=postprocess,
        model=spec.roles["answerer"],
        searches=[search.text for search in found.searches],
        candidates=[hit.chunk.id for hit in found.candidates],
        candidate_titles=[hit.chunk.title for hit in found.candidates],
        contexts=[hit.chunk.id for hit in found.contexts],
        context_texts=[hit.chunk.text for hit in found.contexts],
        answer=reply.text.removeprefix(NO_MODEL).lstrip(),
        citations=reply.cited,
        unverified_starts=[statement.start for statement in unverified],
        unverified_ends=[statement.end for statement in unverified],
        outcome="failed" if reply.reason else "refused" if reply.refused or reply.withheld else "answered",
        reason="; ".join(filter(None, [reply.reason, *found.missing])),
        requests=len(asked),
        prompt_tokens=sum(response.prompt_tokens for response in asked),
        completion_tokens=sum(response.completion_tokens for response in asked),
        cost=sum(prices.cost(response) for response in asked if (prices := prices_of.get(response.endpoint))),
        rewrite_s=_longest(found.rewritten),
        search_s=tools.search_s,
        postprocess_s=tools.rerank_s + _longest(found.scored),
        answer_s=_longest(reply.responses),
    )
    score = RagScore(row.question_id, question.cluster, row.strategy, row.postprocess, row.model)
    score.title_rank = title_rank(row.candidate_titles, question.title)
    if row.outcome != "failed":
        score.token_f1 = token_f1(row.answer, question.references)
    responses = await tools.ask("judge", context_calls(question, row.context_texts))
    return row, with_verdicts(score, question, row.context_texts, responses)


def _longest(responses: Iterable[Response]) -> float:
    return max((response.latency_s for response in responses), default=0.0)


def read_states(parts: PartFiles, part: Part) -> list[QuestionState]:
    """Return the questions of a part."""
    return [QuestionState(question) for question in parts.read("questions", part.number, RagQuestion)]


def write_states(parts: PartFiles, part: int, states: Sequence[QuestionState]) -> None:
    """Write the results of a part. After a transient failure, the next start computes the part again."""
    rows = [row for state in states for row in state.answers]
    parts.write("title_ranks", part, [rank for state in states for rank in state.ranks], TitleRank)
    parts.write("answers", part, [row for row, _ in rows], RagAnswer)
    parts.write("scores", part, [score for _, score in rows], RagScore)
    if not any(TRANSIENT in reason for row, score in rows for reason in (row.reason, *score.unscored)):
        parts.mark_complete("", part)
