"""Gold factuality of an answer from the must-have and nice-to-have statements of its question (MedLFQA).

A must-have statement that the answer does not state, or contradicts, is a violation, and so is a nice-to-have statement
that it contradicts; one that it leaves out is none. Source: FAS §5.3, which says no more than that must-have statements
are mapped to supported claims and unsupported or contradicted ones to violations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fdarx_core.factuality.entailment.inference import Pair
from fdarx_core.factuality.verdicts import THRESHOLD
from fdarx_core.records import CheckedAnswer, Claim, PairVerdict

MUST_HAVE, NICE_TO_HAVE, CLAIM_IN_GOLD = "must_have", "nice_to_have", "claim_in_gold"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be judged, and the row that keeps the judgement (`verdicts.judged` fills it)."""

    verdict: PairVerdict
    pair: Pair


def gold_pairs(answer: CheckedAnswer, claims: Sequence[Claim], *, engine: str) -> list[Asked]:
    """Each statement against the whole answer, then each claim against all statements; none without must-haves.

    A failed answer has none, and one without text entails nothing: it is not asked about either.
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
            Asked(_row(answer, "", kind, engine, at), Pair(answer.answer, text.strip(), answer.drug))
            for kind, at, text in statements
        ),
        *(
            Asked(_row(answer, claim.id, CLAIM_IN_GOLD, engine), Pair(premise, claim.resolved, answer.drug))
            for claim in claims
        ),
    ]


def gold_of(answer: CheckedAnswer, pairs: Sequence[PairVerdict], threshold: float = THRESHOLD) -> float | None:
    """Must-have statements that the answer entails ÷ (must-have statements + nice-to-have ones that it contradicts).

    Over the statements that one engine judged; None without must-have statements, or where none of them was judged.
    An answer without text states nothing: 0.
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
    """The share of an answer's claims that the statements entail, of those that one engine judged; None for none."""
    told = [pair for pair in pairs if pair.kind == CLAIM_IN_GOLD and pair.entailment is not None]
    return sum(_reaches(pair.entailment, threshold) for pair in told) / len(told) if told else None


def _row(answer: CheckedAnswer, claim_id: str, kind: str, engine: str, number: int = 0) -> PairVerdict:
    return PairVerdict(answer.id, claim_id, "", kind, 0, engine, number=number)


def _reaches(probability: float | None, threshold: float) -> bool:
    return probability is not None and probability >= threshold


def _sentence(text: str) -> str:
    """Statements often lack their full stop, and would run together."""
    text = text.strip()
    return text if text.endswith((".", "!", "?")) else f"{text}."
