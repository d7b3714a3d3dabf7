"""The steps of a factuality run: its specification, the state of one answer, and what each step does with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, Literal

from fdarx_core.evaluation.similarity import AnswerSimilarity, similarity_name
from fdarx_core.evaluation.verifier_scores import known_scores
from fdarx_core.factuality.claims import EXTRACT_CLAIMS, claims_of, claims_slots, read_claims
from fdarx_core.factuality.evidence.pubmed import YEARS, read_abstracts, search_request
from fdarx_core.factuality.evidence.sources import PUBMED, reference_evidence
from fdarx_core.factuality.evidence.subjects import ClaimQuery, Subject, drug_of, is_about, subject_of
from fdarx_core.factuality.safety import CHECK_SAFETY, read_safety, safety_slots
from fdarx_core.factuality.scores import (
    NO_CLAIMS,
    PairToJudge,
    ScoringMethod,
    judged,
    score_of,
    statement_pairs,
    verdicts_of,
)
from fdarx_core.llm import Baseline, ModelConfig, Task, source_digest
from fdarx_core.pipeline.steps import Address, Asking, ResourceStep, Step, StepContext, batches, guarded
from fdarx_core.records import CheckedAnswer, Claim, ClaimVerdict, Evidence, FactualityScore, PairVerdict, SafetyFlag
from fdarx_core.retrieval.models import ModelDirectories
from fdarx_core.text.tokens import word_overlap
from fdarx_core.verify import Judgement, TextPair, Unjudged, open_engine
from fdarx_core.verify.language_model import JUDGE_CLAIM, judge_slots, read_judged

_QUERIES_PER_CALL = 256
_PAIRS_PER_CALL = 2048
"""So many pairs of similar length fill an actor's batches, and a part keeps several actors busy."""
_TYPICAL_ABSTRACT = "Patients were followed for the outcome that the trial had set. " * 25
"""A text as long as abstracts are, about 250 words, for plans."""

FACTUALITY_TASKS: dict[str, Task[Any]] = {task.name: task for task in (EXTRACT_CLAIMS, JUDGE_CLAIM, CHECK_SAFETY)}
"""All tasks of checking answers, by name."""
FACTUALITY_RULES = Baseline(FACTUALITY_TASKS, source_digest("fdarx_core.text", "fdarx_core.verify"))


@dataclass(frozen=True, slots=True)
class EngineSpec:
    """Who judges entailment: exact, which needs no model; nli, the model in the directory or of the hub's name `place`;
    judge, one of `models`. Verdicts and tables name it `name`."""

    kind: Literal["exact", "nli", "judge"] = "exact"
    name: str = "exact"
    place: str = ""
    labels: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class FactualitySetup:
    """One factuality run. `claims` is baseline or a name of `models`; `compared` a second engine for the ablation.

    `scoring` holds thresholds, weights and floors, and by the name of an engine its figures on marked pairs (see
    `read_engine_scores`); `method` adds the rest.

    `safety` is the run whose labels safety flags rest on, `rxnorm` the place of RxNorm's names for others than theirs,
    each "" for none. `bertscore` and `encoder` are directories of models for the similarity of answers and references.
    `retriever` searches the evidence, None for the default of its source.
    """

    evidence: Sequence[str]
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
            evidence=", ".join(self.evidence),
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
        return PUBMED in self.evidence

    @property
    def searched(self) -> dict[str, str]:
        """The sources of evidence but PubMed, by the names of their resources."""
        sources = [source for source in self.evidence if source != PUBMED]
        return {f"evidence {at}" if at else "evidence": source for at, source in enumerate(sources)}

    @property
    def names_from(self) -> str:
        """The resource that knows names of drugs: evidence with labels, else those of safety, else a file; or ""."""
        with_names = [name for name, source in self.searched.items() if not source.startswith("file:")]
        return next(iter([*with_names, *(["names"] if self.safety else []), *self.searched]), "")

    @property
    def checks_safety(self) -> bool:
        """Whether a language model checks the answers against labels."""
        return bool(self.safety) and self.engine.kind == "judge"

    @property
    def used(self) -> dict[str, ModelConfig]:
        """The models that are asked at all."""
        asked = {self.claims, *(engine.name for engine in self.engines if engine.kind == "judge")}
        return {name: model for name, model in self.models.items() if name in asked}

    @property
    def directories(self) -> ModelDirectories:
        """The directories of the embedding model of the search."""
        return ModelDirectories(cosine=self.encoder)

    def address(self, name: str) -> Address:
        """Return where requests to a model go."""
        return Address.of(name, self.models, FACTUALITY_RULES)


@dataclass(slots=True)
class AnswerState:
    """An answer and what is known of it so far.

    `evidence` holds the passages found for each claim by its id, best of each source first; `subjects` its drugs;
    `unsearched` says, by the claim's id, why nothing could be searched; `no_claims` why claims could not be extracted.
    `safety` has the passages of labels that the answer is checked against, a text where they could not be found or the
    check has no usable reply; `flags` are what they contradict, and `dropped_flags` counts those that are not verbatim.
    `pairs` go by engine.
    """

    answer: CheckedAnswer
    claims: Sequence[Claim] = ()
    no_claims: str = ""
    stand_in: Evidence | None = None
    evidence: dict[str, Sequence[Evidence]] = field(default_factory=dict)
    subjects: dict[str, Subject] = field(default_factory=dict)
    unsearched: dict[str, str] = field(default_factory=dict)
    similarity: float | None = None
    safety: Sequence[Evidence] | str = ()
    flags: list[SafetyFlag] = field(default_factory=list)
    dropped_flags: int = 0
    pairs: dict[str, list[PairVerdict]] = field(default_factory=dict)
    verdicts: list[ClaimVerdict] = field(default_factory=list)
    score: FactualityScore | None = None

    def set_claims(self, claims: list[Claim] | str) -> None:
        """Note the claims, or why they could not be extracted."""
        if isinstance(claims, str):
            self.no_claims = claims
        else:
            self.claims, self.stand_in = claims, reference_evidence(self.answer)

    def pairs_to_judge(self, engine: str, *, main: bool) -> list[PairToJudge]:
        """Return the pairs for an engine: each claim against its evidence; for the main engine, also against the
        stand-in and the reference statements."""
        pairs = list[PairToJudge]()
        for claim in self.claims:
            ranks = Counter[str]()  # in each source
            for passage in self.evidence.get(claim.id, ()):
                ranks[passage.source] += 1
                pairs.append(self._pair(claim, passage, "evidence", ranks[passage.source], engine))
        if not main:
            return pairs
        if self.stand_in is not None:
            pairs += [self._pair(claim, self.stand_in, "reference", 0, engine) for claim in self.claims]
        return pairs + statement_pairs(self.answer, self.claims, engine=engine)

    def all_evidence(self) -> dict[str, Evidence]:
        """Return the passages that the claims are compared with, by id."""
        found = {passage.id: passage for passages in self.evidence.values() for passage in passages}
        return found | ({self.stand_in.id: self.stand_in} if self.stand_in else {})

    def _pair(self, claim: Claim, evidence: Evidence, kind: str, rank: int, engine: str) -> PairToJudge:
        """Return a claim and a passage, with the drug that the claim speaks of, the question, and the titles above the
        passage."""
        answer, query = self.answer, self.query(claim)
        subject = self.subjects.get(claim.id) or subject_of(query)
        row = PairVerdict(answer.id, claim.id, evidence.id, kind, rank, engine, on_subject=is_about(evidence, subject))
        row.words = word_overlap(claim.resolved, evidence.text)
        drug = drug_of(query, subject)
        return row, TextPair(evidence.text, claim.resolved, drug, answer.question, evidence.heading)

    def query(self, claim: Claim) -> ClaimQuery:
        """Return what to search for evidence for a claim."""
        return ClaimQuery(claim.resolved, self.answer.question, self.answer.drug, self.answer.set_id)

    def unsearched_pairs(self, engine: str) -> list[PairVerdict]:
        """Return a row without a judgement for each claim for which nothing could be searched: it has no verdict."""
        return [
            PairVerdict(self.answer.id, claim_id, "", "evidence", 1, engine, reason=reason)
            for claim_id, reason in self.unsearched.items()
        ]


def factuality_steps(spec: FactualitySetup, *, planned: bool = False) -> list[Step[AnswerState]]:
    """Return the steps of a run; for a plan, those that lead to requests. Those that need no model come last, so that
    they run beside the others."""
    k = spec.scoring.k
    claims = spec.address(spec.claims)
    ask_claims = claims.step("claims", partial(_ask_claims, claims))
    steps: list[Step[AnswerState]] = [extract_claims if spec.claims == Baseline.name else ask_claims]
    steps += [ResourceStep("search", partial(find_evidence, k, resource)) for resource in spec.searched]
    if spec.from_pubmed:
        steps.append(ResourceStep("search", partial(search_pubmed, k, spec.years)))
    if spec.names_from and not planned:
        steps.append(ResourceStep("subjects", partial(find_subjects, spec.names_from)))
    if spec.measures_similarity and not planned:
        steps.append(ResourceStep("similarity", partial(note_of_answers, "similarity", "of", "similarity")))
    if spec.checks_safety:
        judge = spec.address(spec.engine.name)
        steps.append(ResourceStep("label passages", partial(note_of_answers, "safety", "find", "safety")))
        steps.append(judge.step("safety", partial(check_safety, judge)))
    for engine in sorted(spec.engines, key=lambda engine: engine.kind == "exact"):
        main = engine is spec.engine
        if engine.kind == "judge":
            judge = spec.address(engine.name)
            steps.append(judge.step(engine.name, partial(ask_judge, judge, main)))
        elif engine.kind == "nli" and not planned:
            steps.append(ResourceStep(engine.name, partial(judge_by_model, engine.name, main)))
        elif not planned:
            steps.append(partial(judge_exactly, engine.name, main))
    return steps if planned else [*steps, partial(score, spec)]


def extract_claims(state: AnswerState) -> None:
    """Answer → claims, by rules."""
    state.set_claims(guarded(claims_of, state.answer))


def _ask_claims(address: Address, state: AnswerState) -> Asking:
    """Answer → claims, by a language model, which is asked of answers that say something."""
    answer = state.answer
    says_something = answer.outcome == "answered" and answer.answer.strip()
    exchanges = yield [address.request(EXTRACT_CLAIMS, claims_slots(answer))] if says_something else []
    parsed = [guarded(read_claims, answer, response) for _, response in exchanges]
    state.set_claims(parsed[0] if parsed else [])


async def find_evidence(k: int, resource: str, states: Sequence[AnswerState], context: StepContext) -> None:
    """Find evidence for the claims in the source that a resource holds."""
    calls = (context.call(resource, "find", batch, k) for batch in batches(_queries(states), _QUERIES_PER_CALL))
    found = await asyncio.gather(*calls)
    _set_evidence(states, (passages for piece in found for passages in piece))


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
            passages = next(found)
            if isinstance(passages, str):
                state.unsearched[claim.id] = passages
            else:
                state.evidence[claim.id] = [*state.evidence.get(claim.id, ()), *passages]


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


def ask_judge(address: Address, main: bool, state: AnswerState) -> Asking:
    """Pairs → judgements, by a language model: one request for a claim and the passages of one kind."""

    def request_of(asked: PairToJudge) -> tuple[str, str, int]:
        row = asked[0]
        return row.claim_id, row.kind, row.number

    to_judge = state.pairs_to_judge(address.name, main=main)
    groups = [list(group) for _, group in groupby(to_judge, key=request_of)]
    exchanges = yield [address.request(JUDGE_CLAIM, judge_slots([pair for _, pair in group])) for group in groups]
    rows: list[PairVerdict] = []
    for group, (_, response) in zip(groups, exchanges, strict=True):
        parsed = guarded(read_judged, response, [pair for _, pair in group])
        rows += _filled(group, [Unjudged(parsed)] * len(group) if isinstance(parsed, str) else parsed)
    state.pairs[address.name] = rows


def check_safety(address: Address, state: AnswerState) -> Asking:
    """Answer and passages of labels → safety flags, by a language model."""
    answer, passages = state.answer, state.safety
    if isinstance(passages, str) or not passages:
        return
    [(_, response)] = yield [address.request(CHECK_SAFETY, safety_slots(answer, passages))]
    found = guarded(read_safety, answer, passages, response)
    if isinstance(found, str):
        state.safety = found
    else:
        state.flags, state.dropped_flags = found


async def judge_by_model(engine: str, main: bool, states: Sequence[AnswerState], context: StepContext) -> None:
    """Judge the pairs by the NLI model of the resource with the engine's name.

    The pairs of a part are sorted by length, so that batches need little padding.
    """
    asked = [(state, pair) for state in states for pair in state.pairs_to_judge(engine, main=main)]
    pairs = [pair for _, (_, pair) in asked]
    order = sorted(range(len(pairs)), key=lambda at: len(pairs[at].premise) + len(pairs[at].hypothesis))
    calls = (context.call(engine, "judge", [pairs[at] for at in batch]) for batch in batches(order, _PAIRS_PER_CALL))
    judgements = dict(
        zip(order, (judgement for piece in await asyncio.gather(*calls) for judgement in piece), strict=True)
    )
    for state in states:
        state.pairs[engine] = []
    for at, (state, pair) in enumerate(asked):
        state.pairs[engine] += _filled([pair], [judgements[at]])


def judge_exactly(engine: str, main: bool, state: AnswerState) -> None:
    """Judge the pairs by exact matching."""
    asked = state.pairs_to_judge(engine, main=main)
    found = (guarded(open_engine("exact").judge, [pair]) for _, pair in asked)
    state.pairs[engine] = _filled(
        asked, [Unjudged(judgements) if isinstance(judgements, str) else judgements[0] for judgements in found]
    )


def _filled(asked: Sequence[PairToJudge], judgements: Sequence[Judgement]) -> list[PairVerdict]:
    return [
        replace(row, reason=judgement.reason) if isinstance(judgement, Unjudged) else judged(row, judgement)
        for (row, _), judgement in zip(asked, judgements, strict=True)
    ]


def score(spec: FactualitySetup, state: AnswerState) -> None:
    """Make the verdicts of claims and the score of the answer from judged pairs."""
    if not spec.measures_similarity:
        [state.similarity] = AnswerSimilarity().of([state.answer])
    pairs = [row for engine in spec.engines for row in state.pairs[engine.name]]
    pairs += [row for engine in spec.engines for row in state.unsearched_pairs(engine.name)]
    state.verdicts = verdicts_of(state.claims, pairs, spec.method)
    row = score_of(state.answer, state.claims, state.verdicts, pairs, state.similarity, state.flags, spec.method)
    row.dropped_flags = state.dropped_flags
    if isinstance(state.safety, str):
        row.unscored.append(f"flags: {state.safety}")
    if state.no_claims:
        why = f"claims_failed: {state.no_claims}"
        row = replace(row, unscored=[reason.replace(NO_CLAIMS, why) for reason in row.unscored])
    state.score = row
