"""The scores of one answer: shares of its claims, similarity to its references, Fact-Aligned Score. Source: FAS §3."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field, replace
from math import isclose, isfinite
from typing import Any

import numpy as np

from fdarx_core.evaluation.metrics import Numbers
from fdarx_core.evaluation.similarity import TOKEN_F1, bleu_4, rouge
from fdarx_core.factuality.evidence.sources import K
from fdarx_core.records import CheckedAnswer, Claim, ClaimVerdict, FactualityScore, PairVerdict, SafetyFlag
from fdarx_core.verify.engine import THRESHOLD, Inference, TextPair, decide

SUPPORTED, CONTRADICTED, UNSUPPORTED = "supported", "contradicted", "unsupported"
UNDECIDED, UNSCORED = "undecided", "unscored"
NO_EVIDENCE = "no_evidence"
NOT_JUDGED = "not_judged"
LEAST = 0.5
"""Default of the least coverage and the least share of decided claims with which a FAS is reported."""


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of the terms of FAS. Raises `ValueError` unless none is negative and they add up to 1.

    Source: FAS §3.2.
    """

    similarity: float = 0.3
    support: float = 0.4
    contra: float = 0.3

    def __post_init__(self) -> None:
        terms = astuple(self)
        if not all(isfinite(term) and term >= 0 for term in terms) or not isclose(sum(terms), 1, abs_tol=1e-9):
            raise ValueError(
                f"weights {', '.join(f'{term:g}' for term in terms)} (similarity, support, contra) must be 0 or more "
                f"and add up to 1; these add up to {sum(terms):g}"
            )

    @classmethod
    def read(cls, text: str) -> Weights:
        """Parse `0.3,0.4,0.3` (similarity, support, contra). Raises `ValueError` for other texts."""
        try:
            terms = [float(term) for term in text.split(",")]
        except ValueError:
            terms = []
        if len(terms) != 3:
            raise ValueError(f"weights are three numbers, similarity,support,contra, as 0.3,0.4,0.3; not {text!r}")
        return cls(*terms)


WEIGHTS = Weights()


@dataclass(frozen=True, slots=True)
class ScoringMethod:
    """How the answers of a run are scored.

    Attributes:
        claims: baseline, or the name of the model that extracts claims.
        engine: the engine that judges, as in `PairVerdict.engine`.
        evidence: the source of evidence.
        similarity: the measure that is the first term of FAS.
        threshold: the probability from which a class decides.
        k: passages for each claim.
        weights: the weights of the terms of FAS.
        compared: the second engine of the ablation, "" for none.
        least_coverage: the least share of claims with a passage on their subject with which there is a FAS.
        least_decided: the least share of decided claims, or statements, with which there is a FAS, or a completeness.
        measured: by the name of an engine, what `fdarx verify --out` has written of it.
    """

    claims: str = "baseline"
    engine: str = "exact"
    evidence: str = ""
    similarity: str = TOKEN_F1
    threshold: float = THRESHOLD
    k: int = K
    weights: Weights = WEIGHTS
    compared: str = ""
    least_coverage: float = LEAST
    least_decided: float = LEAST
    measured: Mapping[str, Any] = field(default_factory=dict)

    @property
    def fas(self) -> str:
        """The name of the Fact-Aligned Score, with that of its similarity."""
        return f"fas[{self.similarity}]"

    @property
    def floors(self) -> dict[str, float]:
        """The least values of other scores with which there is a FAS; none if verdicts have no weight in it."""
        least = {"coverage": self.least_coverage, "decided": self.least_decided}
        return least if self.weights.support or self.weights.contra else {}


def judged(pair: PairVerdict, inference: Inference) -> PairVerdict:
    """Return the pair with the result of the inference; a passage on another drug does not speak of the claim's."""
    found = asdict(inference)
    other_drug = found.pop("other_drug")
    return replace(pair, **found, on_subject=pair.on_subject and not other_drug)


def verdicts_of(claims: Iterable[Claim], pairs: Iterable[PairVerdict], method: ScoringMethod) -> list[ClaimVerdict]:
    """Return a verdict for each claim, in order, from the pairs that the engine of the method judged."""
    by_claim: dict[str, list[PairVerdict]] = defaultdict(list)
    for pair in pairs:
        if pair.engine == method.engine:
            by_claim[pair.claim_id].append(pair)
    return [verdict_of(claim, by_claim[claim.id], method.threshold, method.k) for claim in claims]


def verdict_of(claim: Claim, pairs: Sequence[PairVerdict], threshold: float = THRESHOLD, k: int = K) -> ClaimVerdict:
    """Return the verdict on a claim from the pairs of one engine of kind evidence and rank 1 to k.

    The highest probability of entailment or contradiction decides if it is at least `threshold`; of equal ones
    entailment is preferred, then more words of the claim, then the better rank. Otherwise the claim is unscored if a
    passage that could have decided was not judged; unsupported if the probability of neutral is at least `threshold`
    for every passage; else undecided. A claim without any passage is undecided, with the reason no_evidence.
    """
    near = [pair for pair in pairs if pair.kind == "evidence" and pair.rank <= k]
    near.sort(key=lambda pair: (-pair.words, pair.rank))
    if not near:
        return ClaimVerdict(claim.id, claim.answer_id, UNDECIDED, reason=NO_EVIDENCE)
    for_it = max(near, key=lambda pair: probability(pair.entailment))
    against_it = max(near, key=lambda pair: probability(pair.contradiction))
    nearest = min(near, key=lambda pair: probability(pair.neutral))
    of_pair = {SUPPORTED: for_it.entailment, CONTRADICTED: against_it.contradiction, UNSUPPORTED: nearest.neutral}
    scores = {verdict: probability(value) for verdict, value in of_pair.items()}
    verdict = decide(scores[SUPPORTED], scores[UNSUPPORTED], scores[CONTRADICTED], threshold)
    lacking = next((pair for pair in near if pair.entailment is None), None)
    if lacking is not None and verdict in (UNSUPPORTED, UNDECIDED):
        return ClaimVerdict(claim.id, claim.answer_id, UNSCORED, reason=lacking.reason or NOT_JUDGED)
    surest = SUPPORTED if scores[SUPPORTED] >= scores[CONTRADICTED] else CONTRADICTED
    rests_on = verdict if verdict in scores else surest
    pair = {SUPPORTED: for_it, CONTRADICTED: against_it, UNSUPPORTED: nearest}[rests_on]
    return ClaimVerdict(claim.id, claim.answer_id, verdict, pair.evidence_id, scores[rests_on], pair.reason)


def probability(value: float | None) -> float:
    """Return the value, -1 for none."""
    return -1.0 if value is None else value


def class_of(pair: PairVerdict, threshold: float = THRESHOLD) -> tuple[str, float | None]:
    """Return the verdict of one pair by itself, and its probability; None where no class reaches the threshold."""
    if pair.entailment is None or pair.neutral is None or pair.contradiction is None:
        return UNSCORED, None
    verdict = decide(pair.entailment, pair.neutral, pair.contradiction, threshold)
    found = {SUPPORTED: pair.entailment, CONTRADICTED: pair.contradiction, UNSUPPORTED: pair.neutral}
    return verdict, found.get(verdict)


MUST_HAVE, NICE_TO_HAVE, ALL_STATEMENTS = "must_have", "nice_to_have", "all_statements"

PairToJudge = tuple[PairVerdict, TextPair]
"""The row for a verdict, which `judged` completes, and the pair to judge."""


def statement_pairs(answer: CheckedAnswer, claims: Sequence[Claim], *, engine: str) -> list[PairToJudge]:
    """Return each statement with the whole answer, then each claim with all statements; none without must-haves.

    A failed or blank answer has no pairs.
    """
    if not answer.must_have or answer.outcome == FAILED or not answer.answer.strip():
        return []
    statements = [
        *((MUST_HAVE, at, text) for at, text in enumerate(answer.must_have)),
        *((NICE_TO_HAVE, at, text) for at, text in enumerate(answer.nice_to_have)),
    ]
    # many statements lack a full stop
    texts = [text.strip() for _, _, text in statements]
    premise = "\n".join(text if text.endswith((".", "!", "?")) else f"{text}." for text in texts)

    def row(claim_id: str, kind: str, number: int = 0) -> PairVerdict:
        return PairVerdict(answer.id, claim_id, "", kind, 0, engine, number=number)

    return [
        *((row("", kind, at), TextPair(answer.answer, text.strip(), answer.drug)) for kind, at, text in statements),
        *((row(claim.id, ALL_STATEMENTS), TextPair(premise, claim.resolved, answer.drug)) for claim in claims),
    ]


def completeness_of(answer: CheckedAnswer, pairs: Sequence[PairVerdict], method: ScoringMethod) -> float | str | None:
    """Return must-have statements that the answer entails ÷ (decided must-have + contradicted nice-to-have ones).

    Returns why there is none where the share of decided must-have statements is below that of the method. None
    without must-have statements, or if none was judged. A blank answer has 0.
    """
    if not answer.must_have:
        return None
    if not answer.answer.strip():
        return 0.0
    denied = _classes(pairs, NICE_TO_HAVE, method)[CONTRADICTED]
    return _share_supported(_classes(pairs, MUST_HAVE, method), method, denied)


def stated_in_references_of(pairs: Sequence[PairVerdict], method: ScoringMethod) -> float | str | None:
    """Return the share of the decided claims that the statements entail; else as `completeness_of`."""
    return _share_supported(_classes(pairs, ALL_STATEMENTS, method), method)


def _classes(pairs: Sequence[PairVerdict], kind: str, method: ScoringMethod) -> Counter[str]:
    return Counter(class_of(pair, method.threshold)[0] for pair in pairs if pair.kind == kind)


def _share_supported(counts: Counter[str], method: ScoringMethod, denied: int = 0) -> float | str | None:
    decided = counts[SUPPORTED] + counts[CONTRADICTED] + counts[UNSUPPORTED]
    if not decided + counts[UNDECIDED]:
        return None
    if not decided or decided / (decided + counts[UNDECIDED]) < method.least_decided:
        return FEW_DECIDED
    return counts[SUPPORTED] / (decided + denied)


FAILED = "failed"
NO_CLAIMS = "no_claims"
NO_REFERENCE = "no_reference"
NO_VERDICT = "no_verdict"
"""None of the claims could be judged."""
NONE_DECIDED = "none_decided"
"""The engine decided none of the claims that it judged."""
LOW_COVERAGE = "low_coverage"
"""Too few claims have a passage on their subject."""
FEW_DECIDED = "few_decided"
"""Too few of the judged claims, or statements, are decided."""
TOO_LOW = {"coverage": LOW_COVERAGE, "decided": FEW_DECIDED}
NOT_MEASURED = "not_measured"
OVERLAPS = ("rouge_1", "rouge_2", "rouge_l", "bleu_4")
SHARES = ("support", "contra", "unsupported")


def fact_aligned_score(weights: Weights, similarity: Numbers, support: Numbers, contra: Numbers) -> Numbers:
    """Return FAS element by element, in 0 to 1; NaN where a term with a weight is NaN. Source: FAS §3.2."""
    total = np.zeros(np.shape(support))
    for weight, term in zip(astuple(weights), (similarity, support, 1 - np.asarray(contra)), strict=True):
        if weight:
            total = total + weight * term
    return np.asarray(total, dtype=np.float64)


def score_of(
    answer: CheckedAnswer,
    claims: Sequence[Claim],
    verdicts: Sequence[ClaimVerdict],
    pairs: Sequence[PairVerdict],
    similarity: float | None,
    flags: Sequence[SafetyFlag],
    method: ScoringMethod,
) -> FactualityScore:
    """Return the score of one answer; only `pairs` of the engine of the method count.

    `similarity` is that of `Similarity.of`. A failed answer has no values; an answer without claims, such as a refusal,
    has no shares and no FAS. Missing values are listed in `unscored` as `field: reason`.
    """
    counts = Counter(verdict.verdict for verdict in verdicts)
    mine = [pair for pair in pairs if pair.engine == method.engine]
    score = FactualityScore(
        answer.id, answer.question_id, answer.model, answer.dataset, answer.type, answer.setting, answer.cluster,
        answer.outcome, len(claims), counts[SUPPORTED], counts[CONTRADICTED], counts[UNSUPPORTED], counts[UNDECIDED],
        counts[UNSCORED], flags=len(flags),
    )  # fmt: skip
    if answer.outcome == FAILED:
        score.unscored = [f"{name}: {FAILED}" for name in ("similarity", *OVERLAPS, *SHARES, "fas")]
        return score
    for name, value in (
        ("completeness", completeness_of(answer, mine, method)),
        ("stated_in_references", stated_in_references_of(mine, method)),
    ):
        if isinstance(value, str):
            score.unscored.append(f"{name}: {value}")
        else:
            setattr(score, name, value)
    if answer.references:
        score.rouge_1, score.rouge_2, score.rouge_l = rouge(answer.answer, answer.references)
        score.bleu_4 = bleu_4(answer.answer, answer.references)
    else:
        score.unscored += [f"{name}: {NO_REFERENCE}" for name in OVERLAPS]
    _shares(score)
    if claims:
        near = {pair.claim_id for pair in mine if pair.kind == "evidence" and pair.rank <= method.k and pair.on_subject}
        score.coverage = len(near) / len(claims)
    score.similarity = similarity
    if similarity is None:
        score.unscored.append(f"similarity: {NOT_MEASURED if answer.references else NO_REFERENCE}")
    _aligned(score, method)
    return score


def _shares(score: FactualityScore) -> None:
    decided = score.supported + score.contradicted + score.unsupported_claims
    with_verdict = decided + score.undecided_claims
    if with_verdict:
        score.decided = decided / with_verdict
    if not decided:
        reason = NONE_DECIDED if with_verdict else NO_VERDICT if score.claims else NO_CLAIMS
        score.unscored += [f"{name}: {reason}" for name in SHARES]
        return
    score.support, score.contra = score.supported / decided, score.contradicted / decided
    score.unsupported = score.unsupported_claims / decided


def _aligned(score: FactualityScore, method: ScoringMethod) -> None:
    """Set FAS, or the reasons why it is missing: those of its terms, and too little coverage or too few decided."""
    used = {name for name in ("similarity", "support", "contra") if getattr(method.weights, name)}
    missing = [why for name, _, why in (reason.partition(": ") for reason in score.unscored) if name in used]
    if not missing:
        missing = [TOO_LOW[name] for name, least in method.floors.items() if (getattr(score, name) or 0.0) < least]
    if missing:
        score.unscored.append(f"fas: {', '.join(dict.fromkeys(missing))}")
        return
    terms = (np.asarray(np.nan if term is None else term) for term in (score.similarity, score.support, score.contra))
    score.fas = min(1.0, max(0.0, float(fact_aligned_score(method.weights, *terms))))
