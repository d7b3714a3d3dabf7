"""The scores of one answer: shares of its claims, similarity to its references, Fact-Aligned Score. Source: FAS §3."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from math import isclose, isfinite

import numpy as np
from numpy.typing import NDArray

from fdarx_core.evaluation.overlap import bleu_4, rouge
from fdarx_core.factuality.evidence.sources import K
from fdarx_core.records import CheckedAnswer, Claim, ClaimVerdict, FactualityScore, PairVerdict, SafetyFlag
from fdarx_core.verify.engine import THRESHOLD, Inference, TextPair

SUPPORTED, CONTRADICTED, UNSUPPORTED, UNSCORED = "supported", "contradicted", "unsupported", "unscored"
NO_EVIDENCE = "no_evidence"
NOT_JUDGED = "not_judged"


def judged(pair: PairVerdict, inference: Inference) -> PairVerdict:
    """Return the pair with the result of the inference."""
    return replace(
        pair,
        entailment=inference.entailment,
        neutral=inference.neutral,
        contradiction=inference.contradiction,
        start=inference.start,
        end=inference.end,
        reason=inference.reason,
    )


def verdicts_of(
    claims: Iterable[Claim],
    pairs: Iterable[PairVerdict],
    *,
    engine: str,
    threshold: float = THRESHOLD,
    k: int = K,
) -> list[ClaimVerdict]:
    """Return a verdict for each claim, in order, from the pairs that `engine` judged."""
    by_claim: dict[str, list[PairVerdict]] = defaultdict(list)
    for pair in pairs:
        if pair.engine == engine:
            by_claim[pair.claim_id].append(pair)
    return [verdict_of(claim, by_claim[claim.id], threshold, k) for claim in claims]


def verdict_of(claim: Claim, pairs: Sequence[PairVerdict], threshold: float = THRESHOLD, k: int = K) -> ClaimVerdict:
    """Return the verdict on a claim from the pairs of one engine of kind evidence and rank 1 to k.

    The highest probability of entailment or contradiction decides if it is at least `threshold`; of equal ones
    entailment is preferred, and the better rank. Otherwise the claim is unsupported, or unscored if a passage that
    could have decided was not judged. Without any passage it is unsupported, with the reason no_evidence.
    """
    near = sorted((pair for pair in pairs if pair.kind == "evidence" and pair.rank <= k), key=lambda pair: pair.rank)
    if not near:
        return ClaimVerdict(claim.id, claim.answer_id, UNSUPPORTED, reason=NO_EVIDENCE)
    supporting, opposing = _surest(near, "entailment"), _surest(near, "contradiction")
    for_it, against_it = _probability(supporting, "entailment"), _probability(opposing, "contradiction")
    verdict, pair, score = max(
        (SUPPORTED, supporting, for_it), (CONTRADICTED, opposing, against_it), key=lambda decided: decided[2]
    )
    lacking = next((one for one in near if one.entailment is None), None)
    if pair is not None and score >= threshold:
        return ClaimVerdict(claim.id, claim.answer_id, verdict, pair.evidence_id, score, pair.reason)
    if lacking is not None or supporting is None:
        return ClaimVerdict(
            claim.id, claim.answer_id, UNSCORED, reason=(lacking.reason if lacking else "") or NOT_JUDGED
        )
    return ClaimVerdict(claim.id, claim.answer_id, UNSUPPORTED, supporting.evidence_id, for_it, supporting.reason)


def _surest(pairs: Sequence[PairVerdict], of: str) -> PairVerdict | None:
    """Return the first pair with the highest probability."""
    with_verdict = [pair for pair in pairs if pair.entailment is not None]
    return max(with_verdict, key=lambda pair: _probability(pair, of), default=None)


def _probability(pair: PairVerdict | None, of: str) -> float:
    value: float | None = None if pair is None else getattr(pair, of)
    return -1.0 if value is None else value


MUST_HAVE, NICE_TO_HAVE, CLAIM_IN_GOLD = "must_have", "nice_to_have", "claim_in_gold"


PairToJudge = tuple[PairVerdict, TextPair]
"""The row for a verdict, which `judged` completes, and the pair to judge."""


def gold_pairs(answer: CheckedAnswer, claims: Sequence[Claim], *, engine: str) -> list[PairToJudge]:
    """Return each statement with the whole answer, then each claim with all statements; none without must-haves.

    A failed or blank answer has no pairs.
    """
    if not answer.must_have or answer.outcome == "failed" or not answer.answer.strip():
        return []
    statements = [
        *((MUST_HAVE, at, text) for at, text in enumerate(answer.must_have)),
        *((NICE_TO_HAVE, at, text) for at, text in enumerate(answer.nice_to_have)),
    ]
    premise = "\n".join(_sentence(text) for _, _, text in statements)
    return [
        *(
            (_row(answer, "", kind, engine, at), TextPair(answer.answer, text.strip(), answer.drug))
            for kind, at, text in statements
        ),
        *(
            (_row(answer, claim.id, CLAIM_IN_GOLD, engine), TextPair(premise, claim.resolved, answer.drug))
            for claim in claims
        ),
    ]


def gold_of(answer: CheckedAnswer, pairs: Sequence[PairVerdict], threshold: float = THRESHOLD) -> float | None:
    """Return must-have statements that the answer entails ÷ (must-have statements + contradicted nice-to-have ones).

    Only statements that the engine judged count; None without must-have statements, or if none was judged. A blank
    answer has 0.
    """
    if not answer.must_have:
        return None
    if not answer.answer.strip():
        return 0.0
    needed = [pair for pair in pairs if pair.kind == MUST_HAVE and pair.entailment is not None]
    stated = sum(_reaches(pair.entailment, threshold) for pair in needed)
    denied = sum(_reaches(pair.contradiction, threshold) for pair in pairs if pair.kind == NICE_TO_HAVE)
    return stated / (len(needed) + denied) if needed else None


def gold_claims_of(pairs: Sequence[PairVerdict], threshold: float = THRESHOLD) -> float | None:
    """Return the share of the judged claims of an answer that the statements entail; None without judged claims."""
    with_verdict = [pair for pair in pairs if pair.kind == CLAIM_IN_GOLD and pair.entailment is not None]
    return (
        sum(_reaches(pair.entailment, threshold) for pair in with_verdict) / len(with_verdict) if with_verdict else None
    )


def _row(answer: CheckedAnswer, claim_id: str, kind: str, engine: str, number: int = 0) -> PairVerdict:
    return PairVerdict(answer.id, claim_id, "", kind, 0, engine, number=number)


def _reaches(probability: float | None, threshold: float) -> bool:
    return probability is not None and probability >= threshold


def _sentence(text: str) -> str:
    """Return a statement with a full stop, which many lack."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."


Numbers = NDArray[np.float64]

FAILED = "failed"
NO_CLAIMS = "no_claims"
NO_REFERENCE = "no_reference"
NO_VERDICT = "no_verdict"
"""None of the claims could be judged."""
NOT_MEASURED = "not_measured"
OVERLAPS = ("rouge_1", "rouge_2", "rouge_l", "bleu_4")
SHARES = ("support", "contra", "unsupported")


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
    weights: Weights = WEIGHTS,
    *,
    engine: str,
    threshold: float = THRESHOLD,
) -> FactualityScore:
    """Return the score of one answer; only `pairs` of `engine` count.

    `similarity` is that of `Similarity.of`. A failed answer has no values; an answer without claims, such as a refusal,
    has no shares and no FAS. Missing values are listed in `unscored` as `field: reason`.
    """
    counts = Counter(verdict.verdict for verdict in verdicts)
    mine = [pair for pair in pairs if pair.engine == engine]
    score = FactualityScore(
        answer.id, answer.question_id, answer.model, answer.dataset, answer.type, answer.setting, answer.cluster,
        answer.outcome, len(claims), counts[SUPPORTED], counts[CONTRADICTED], counts[UNSUPPORTED], counts[UNSCORED],
        flags=len(flags),
    )  # fmt: skip
    if answer.outcome == FAILED:
        score.unscored = [f"{name}: {FAILED}" for name in ("similarity", *OVERLAPS, *SHARES, "fas")]
        return score
    score.gold, score.gold_claims = gold_of(answer, mine, threshold), gold_claims_of(mine, threshold)
    _overlaps(score, answer)
    _shares(score)
    score.similarity = similarity
    if similarity is None:
        score.unscored.append(f"similarity: {NOT_MEASURED if answer.references else NO_REFERENCE}")
    _aligned(score, weights)
    return score


def _overlaps(score: FactualityScore, answer: CheckedAnswer) -> None:
    if not answer.references:
        score.unscored += [f"{name}: {NO_REFERENCE}" for name in OVERLAPS]
        return
    score.rouge_1, score.rouge_2, score.rouge_l = rouge(answer.answer, answer.references)
    score.bleu_4 = bleu_4(answer.answer, answer.references)


def _shares(score: FactualityScore) -> None:
    with_verdict = score.supported + score.contradicted + score.unsupported_claims
    if not with_verdict:
        reason = NO_VERDICT if score.claims else NO_CLAIMS
        score.unscored += [f"{name}: {reason}" for name in SHARES]
        return
    score.support, score.contra = score.supported / with_verdict, score.contradicted / with_verdict
    score.unsupported = score.unsupported_claims / with_verdict


def _aligned(score: FactualityScore, weights: Weights) -> None:
    """Set FAS, or the reasons why its terms are missing."""
    terms = (np.asarray(np.nan if term is None else term) for term in (score.similarity, score.support, score.contra))
    value = float(fact_aligned_score(weights, *terms))
    if not np.isnan(value):
        score.fas = min(1.0, max(0.0, value))
        return
    used = {name for name in ("similarity", "support", "contra") if getattr(weights, name)}
    lacking = [one.partition(": ") for one in score.unscored]
    score.unscored.append(f"fas: {', '.join(dict.fromkeys(why for name, _, why in lacking if name in used))}")
