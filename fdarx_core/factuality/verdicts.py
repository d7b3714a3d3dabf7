"""What the passages found for a claim say of it together: supported, contradicted, unsupported, or unscored.

Source: FAS §3.2: of the claim's passages the surest one decides, if its probability reaches the threshold.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from fdarx_core.factuality.entailment.inference import Inference
from fdarx_core.factuality.evidence.source import K
from fdarx_core.records import Claim, ClaimVerdict, PairVerdict

THRESHOLD = 0.7
"""Probability from which a passage supports or contradicts a claim. Source: FAS §3.2, Table 5."""
SUPPORTED, CONTRADICTED, UNSUPPORTED, UNSCORED = "supported", "contradicted", "unsupported", "unscored"
NO_EVIDENCE = "no_evidence"
NOT_JUDGED = "not_judged"


def judged(pair: PairVerdict, inference: Inference) -> PairVerdict:
    """The pair with what was inferred of it."""
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
    """A verdict for each claim, in their order, from what `engine` judged of it; pairs of other kinds don't count."""
    by_claim: dict[str, list[PairVerdict]] = defaultdict(list)
    for pair in pairs:
        if pair.engine == engine:
            by_claim[pair.claim_id].append(pair)
    return [verdict_of(claim, by_claim[claim.id], threshold, k) for claim in claims]


def verdict_of(claim: Claim, pairs: Sequence[PairVerdict], threshold: float = THRESHOLD, k: int = K) -> ClaimVerdict:
    """The verdict on a claim by one engine's pairs of it: those of kind evidence and rank 1 to k count.

    Entailment or contradiction with the highest probability decides from `threshold` on; entailment goes before an
    equal contradiction, the better rank before a worse. Below it the claim is unsupported, or unscored where a passage
    was not judged, which might have decided. Without any passage it is unsupported, for the reason no_evidence.
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
    """The first of those with the highest probability."""
    told = [pair for pair in pairs if pair.entailment is not None]
    return max(told, key=lambda pair: _probability(pair, of), default=None)


def _probability(pair: PairVerdict | None, of: str) -> float:
    value: float | None = None if pair is None else getattr(pair, of)
    return -1.0 if value is None else value
