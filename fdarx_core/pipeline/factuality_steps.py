"""The steps of a factuality run: its specification, the state of one answer, and what each step does with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Literal

from fdarx_core.baseline.claims import claims_of
from fdarx_core.evaluation.similarity import open_similarity, similarity_name
from fdarx_core.evaluation.verifier_scores import known_scores
from fdarx_core.factuality.claims import (
    EXTRACT_CLAIMS,
    FACTUALITY_RULES_VERSION,
    FACTUALITY_TASKS,
    claims_asked,
    read_claims,
)
from fdarx_core.factuality.evidence import parse_evidence
from fdarx_core.factuality.evidence.entrez import PubMed, PubMedSettings
from fdarx_core.factuality.evidence.pubmed_search import YEARS, read_abstracts, search_request
from fdarx_core.factuality.evidence.sources import PUBMED
from fdarx_core.factuality.evidence.subjects import ClaimQuery
from fdarx_core.factuality.safety import SAFETY, flags_of
from fdarx_core.factuality.scores import (
    NO_CLAIMS,
    PairToJudge,
    ScoringMethod,
    judged,
    score_of,
    verdicts_of,
)
from fdarx_core.llm import Baseline, ModelConfig
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.factuality_state import AnswerState
from fdarx_core.pipeline.steps import Address, AskStep, Exchange, ResourceStep, Step, StepContext, batches, guarded
from fdarx_core.records import (
    Evidence,
    PairVerdict,
    Request,
)
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.verify import open_engine
from fdarx_core.verify.engine import Judgement, Unjudged
from fdarx_core.verify.language_model import JUDGE_CLAIM, judge_asked, read_judged

_QUERIES_PER_CALL = 256
_PAIRS_PER_CALL = 2048
"""So many pairs of similar length fill an actor's batches, and a part keeps several actors busy."""
_TYPICAL_ABSTRACT = "Patients were followed for the outcome that the trial had set. " * 25
"""A text as long as abstracts are, about 250 words, for plans."""

_RULES = Baseline(FACTUALITY_TASKS, FACTUALITY_RULES_VERSION)


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Who judges entailment: exact, which needs no model; nli, the model in the directory or of the hub's name `place`;
    judge, one of `models`. Verdicts and tables name it `name`."""

    kind: Literal["exact", "nli", "judge"] = "exact"
    name: str = "exact"
    place: str = ""
    labels: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class FactualitySpec:
    """One factuality run. `claims` is baseline or a name of `models`; `compared` a second engine for the ablation.

    `scoring` holds thresholds, weights and floors, and by the name of an engine its figures on marked pairs (see
    `read_engine_scores`); `method` adds the rest.

    `safety` is the run whose labels safety flags rest on, `rxnorm` the place of RxNorm's names for others than theirs,
    each "" for none. `bertscore` and `encoder` are directories of models for the similarity of answers and references.
    `retriever` searches the evidence, None for the default of its source.
    """

    evidence: str
    engine: EngineSpec = field(default_factory=EngineSpec)
    compared: EngineSpec | None = None
    claims: str = Baseline.name
    models: Mapping[str, ModelConfig] = field(default_factory=dict)
    scoring: ScoringMethod = field(default_factory=ScoringMethod)
    safety: str = ""
    rxnorm: str = ""
    bertscore: str | None = None
    bertscore_layers: int | None = None
    encoder: str | None = None
    years: tuple[int, int] = YEARS
    pubmed: PubMedSettings = field(default_factory=PubMedSettings)
    max_requests: int | None = None
    max_cost: float | None = None
    retriever: str | None = None

    @property
    def engines(self) -> list[EngineSpec]:
        """The engines, the main one first."""
        return [self.engine, *([self.compared] if self.compared else [])]

    @property
    def method(self) -> ScoringMethod:
        """The description of the scoring on the page."""
        engines = [engine.name for engine in self.engines]
        found = {name: self.scoring.measured.get(name) or known_scores(name) for name in engines}
        return replace(
            self.scoring,
            claims=self.claims,
            engine=self.engine.name,
            evidence=self.evidence,
            similarity=similarity_name(self.bertscore, self.encoder),
            compared=self.compared.name if self.compared else "",
            measured={name: kept for name, kept in found.items() if kept},
        )

    @property
    def measures_similarity(self) -> bool:
        """Whether a model measures the similarity of answers and references."""
        return bool(self.bertscore or self.encoder)

    @property
    def from_pubmed(self) -> bool:
        return parse_evidence(self.evidence)[0] == PUBMED

    @property
    def names_from(self) -> str:
        """The resource that knows names of drugs: the labels for evidence without them, else the evidence; or ""."""
        if parse_evidence(self.evidence)[0] in (PUBMED, "file") and self.safety:
            return "names"
        return "" if self.from_pubmed else "evidence"

    def looks_for_candidates(self, *, planned: bool) -> bool:
        """Return whether safety candidates are looked for; for a plan, only where a language model is asked of them."""
        return bool(self.safety) and (not planned or self.engine.kind == "judge")

    @property
    def used(self) -> dict[str, ModelConfig]:
        """The models that are asked at all."""
        asked = {self.claims, *(engine.name for engine in self.engines if engine.kind == "judge")}
        return {name: model for name, model in self.models.items() if name in asked}

    @property
    def clients(self) -> ClientPool:
        others = [partial(PubMed, self.pubmed)] if self.from_pubmed else []
        return ClientPool(_RULES, self.used, self.max_requests, self.max_cost, shared_fate=False, others=others)

    @property
    def directories(self) -> ModelDirectories:
        """The directories of the embedding model of the search."""
        return ModelDirectories(cosine=self.encoder)

    def address(self, name: str) -> Address:
        """Return where requests to a model go."""
        return Address.of(name, self.models, _RULES)


def factuality_steps(spec: FactualitySpec, *, planned: bool = False) -> list[Step[AnswerState]]:
    """Return the steps of a run; for a plan, those that lead to requests. Those that need no model come last, so that
    they run beside the others."""
    k = spec.scoring.k
    search = partial(search_pubmed, k, spec.years) if spec.from_pubmed else partial(find_evidence, k)
    claims = spec.address(spec.claims)
    ask_claims = AskStep("claims", frozenset((claims.name,)), partial(_claim_requests, claims), _take_claims)
    steps: list[Step[AnswerState]] = [extract_claims if spec.claims == Baseline.name else ask_claims]
    steps.append(ResourceStep("search", search))
    if spec.names_from and not planned:
        steps.append(ResourceStep("subjects", partial(find_subjects, spec.names_from)))
    if spec.measures_similarity and not planned:
        steps.append(ResourceStep("similarity", partial(note_of_answers, "similarity", "of", "similarity")))
    if spec.looks_for_candidates(planned=planned):
        steps.append(ResourceStep("safety", partial(note_of_answers, "safety", "find", "safety")))
    for engine in sorted(spec.engines, key=lambda one: one.kind == "exact"):
        main = engine is spec.engine
        if engine.kind == "judge":
            steps.append(ask_judge(spec.address(engine.name), main=main))
        elif engine.kind == "nli" and not planned:
            steps.append(ResourceStep(engine.name, partial(judge_by_model, engine.name, main)))
        elif not planned:
            steps.append(partial(judge_exactly, engine.name, main))
    return steps if planned else [*steps, partial(score, spec)]


def extract_claims(state: AnswerState) -> None:
    """Answer → claims, by rules."""
    state.set_claims(guarded(claims_of, state.answer))


def _claim_requests(address: Address, state: AnswerState) -> list[Request]:
    """Ask a language model for the claims of an answer that says something."""
    answer = state.answer
    if answer.outcome != "answered" or not answer.answer.strip():
        return []
    return [address.request(EXTRACT_CLAIMS, claims_asked(answer))]


def _take_claims(state: AnswerState, exchanges: Sequence[Exchange]) -> None:
    parsed = [guarded(read_claims, state.answer, response) for _, response in exchanges]
    state.set_claims(parsed[0] if parsed else [])


async def find_evidence(k: int, states: Sequence[AnswerState], context: StepContext) -> None:
    """Find evidence for the claims in the source that the resource `evidence` holds."""
    calls = (context.call("evidence", "find", batch, k) for batch in batches(_queries(states), _QUERIES_PER_CALL))
    found = await asyncio.gather(*calls)
    _set_evidence(states, (one for piece in found for one in piece))


async def search_pubmed(k: int, years: tuple[int, int], states: Sequence[AnswerState], context: StepContext) -> None:
    """Find evidence for the claims in PubMed. Each search is a request, which is stored with its response.

    A plan counts each search with the requested number of abstracts of average length.
    """
    requests = [search_request(query, k, years) for query in _queries(states)]
    if context.note is not None:
        context.note(requests)
        typical = [Evidence(f"typical-{rank}", PUBMED, "", _TYPICAL_ABSTRACT) for rank in range(k)]
        _set_evidence(states, (typical for _ in requests))
    else:
        _set_evidence(states, (guarded(read_abstracts, response) for response in await context.ask(requests)))


def _queries(states: Sequence[AnswerState]) -> list[ClaimQuery]:
    return [state.query(claim) for state in states for claim in state.claims]


def _set_evidence(states: Sequence[AnswerState], found: Iterator[list[Evidence] | str]) -> None:
    for state in states:
        for claim in state.claims:
            one = next(found)
            if isinstance(one, str):
                state.unsearched[claim.id] = one
            else:
                state.evidence[claim.id] = one


async def find_subjects(resource: str, states: Sequence[AnswerState], context: StepContext) -> None:
    """Find the drugs that the claims speak of, by the names that a resource knows."""
    found = iter(await context.call(resource, "subjects", _queries(states)))
    for state in states:
        state.subjects = {claim.id: next(found) for claim in state.claims}


async def note_of_answers(
    resource: str, method: str, field: str, states: Sequence[AnswerState], context: StepContext
) -> None:
    """Answer → what a method of a resource makes of it, such as its similarity to the reference, in a field."""
    values = await context.call(resource, method, [state.answer for state in states])
    for state, value in zip(states, values, strict=True):
        setattr(state, field, value)


def ask_judge(address: Address, *, main: bool) -> AskStep[AnswerState]:
    """Return the step Pairs → judgements, by a language model: one request for a claim and the passages of one kind."""
    requests, take = partial(_judge_requests, address, main), partial(_take_judgements, address.name, main)
    return AskStep(address.name, frozenset((address.name,)), requests, take)


def _judge_requests(address: Address, main: bool, state: AnswerState) -> list[Request]:
    requests = []
    for group in _claim_groups(state, address.name, main):
        requests.append(address.request(JUDGE_CLAIM, judge_asked([pair for _, pair in group])))
    return requests


def _take_judgements(engine: str, main: bool, state: AnswerState, exchanges: Sequence[Exchange]) -> None:
    rows: list[PairVerdict] = []
    for group, (_, response) in zip(_claim_groups(state, engine, main), exchanges, strict=True):
        parsed = guarded(read_judged, response, [pair for _, pair in group])
        rows += _filled(group, [Unjudged(parsed)] * len(group) if isinstance(parsed, str) else parsed)
    state.pairs[engine] = rows


def _claim_groups(state: AnswerState, engine: str, main: bool) -> list[list[PairToJudge]]:
    """Return the pairs of each request: those of one claim and kind; what labels say of a claim joins its evidence."""

    def request_of(asked: PairToJudge) -> tuple[str, str, int]:
        row = asked[0]
        return row.claim_id, "evidence" if row.kind == SAFETY and row.claim_id else row.kind, row.number

    pairs = state.pairs_to_judge(engine, main=main)
    return [list(group) for _, group in groupby(pairs, key=request_of)]


async def judge_by_model(engine: str, main: bool, states: Sequence[AnswerState], context: StepContext) -> None:
    """Judge the pairs by the NLI model of the resource with the engine's name.

    The pairs of a part are sorted by length, so that batches need little padding.
    """
    asked = [(state, one) for state in states for one in state.pairs_to_judge(engine, main=main)]
    pairs = [pair for _, (_, pair) in asked]
    order = sorted(range(len(pairs)), key=lambda at: len(pairs[at].premise) + len(pairs[at].hypothesis))
    calls = (context.call(engine, "judge", [pairs[at] for at in batch]) for batch in batches(order, _PAIRS_PER_CALL))
    judgements = dict(zip(order, (one for piece in await asyncio.gather(*calls) for one in piece), strict=True))
    for state in states:
        state.pairs[engine] = []
    for at, (state, one) in enumerate(asked):
        state.pairs[engine] += _filled([one], [judgements[at]])


def judge_exactly(engine: str, main: bool, state: AnswerState) -> None:
    """Judge the pairs by exact matching."""
    asked = state.pairs_to_judge(engine, main=main)
    found = (guarded(open_engine("exact").judge, [pair]) for _, pair in asked)
    state.pairs[engine] = _filled(asked, [Unjudged(one) if isinstance(one, str) else one[0] for one in found])


def _filled(asked: Sequence[PairToJudge], judgements: Sequence[Judgement]) -> list[PairVerdict]:
    return [
        replace(row, reason=judgement.reason) if isinstance(judgement, Unjudged) else judged(row, judgement)
        for (row, _), judgement in zip(asked, judgements, strict=True)
    ]


def score(spec: FactualitySpec, state: AnswerState) -> None:
    """Make the verdicts of claims and the score of the answer from judged pairs."""
    if not spec.measures_similarity:
        [state.similarity] = open_similarity(None, None, None).of([state.answer])
    pairs = [row for one in spec.engines for row in state.pairs[one.name]]
    pairs += [row for one in spec.engines for row in state.unsearched_pairs(one.name)]
    state.verdicts = verdicts_of(state.claims, pairs, spec.method)
    if isinstance(state.safety, str):
        state.flags = []
    elif spec.engine.kind == "exact":
        state.flags = [one.flag for one in state.safety.candidates]
    elif spec.safety:
        state.flags = flags_of(
            state.safety.candidates, state.claims, state.verdicts, pairs, state.all_evidence(), spec.method
        )
    row = score_of(state.answer, state.claims, state.verdicts, pairs, state.similarity, state.flags, spec.method)
    if isinstance(state.safety, str):
        row.unscored.append(f"flags: {state.safety}")
    if state.no_claims:
        why = f"claims_failed: {state.no_claims}"
        row = replace(row, unscored=[one.replace(NO_CLAIMS, why) for one in row.unscored])
    state.score = row
