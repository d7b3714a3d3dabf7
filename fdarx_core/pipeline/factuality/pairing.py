"""Which pairs are to be judged for an answer: its claims against evidence, the stand-in and the gold statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fdarx_core.factuality.entailment.inference import Pair
from fdarx_core.factuality.evidence.stand_in import SOURCE as STAND_IN
from fdarx_core.factuality.gold import Asked, gold_pairs
from fdarx_core.filters.text import names, plain
from fdarx_core.records import CheckedAnswer, Claim, Evidence, PairVerdict


@dataclass(slots=True)
class Held:
    """An answer, its claims, and what was found for each of them by its id, best first.

    `failed` says, by the claim's id, why nothing could be searched; `no_claims` why claims could not be made out.
    """

    answer: CheckedAnswer
    claims: Sequence[Claim] = ()
    stand_in: Evidence | None = None
    found: Mapping[str, Sequence[Evidence]] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    no_claims: str = ""


def to_judge(held: Held, engine: str) -> list[Asked]:
    """All pairs of an answer for the main engine."""
    return [*against_evidence(held, engine), *_against_stand_in(held, engine), *_gold(held, engine)]


def against_evidence(held: Held, engine: str) -> list[Asked]:
    """Each claim against the passages that were found for it: all that a compared engine judges."""
    return [
        _asked(held.answer, claim, one, "evidence", rank, engine)
        for claim in held.claims
        for rank, one in enumerate(held.found.get(claim.id, ()), 1)
    ]


def not_searched(held: Held, engine: str) -> list[PairVerdict]:
    """A row without a judgement for each claim for which nothing could be searched: no verdict, not unsupported."""
    return [
        PairVerdict(held.answer.id, claim_id, "", "evidence", 1, engine, reason=reason)
        for claim_id, reason in held.failed.items()
    ]


def _against_stand_in(held: Held, engine: str) -> list[Asked]:
    if held.stand_in is None:
        return []
    return [_asked(held.answer, claim, held.stand_in, "reference", 0, engine) for claim in held.claims]


def _gold(held: Held, engine: str) -> list[Asked]:
    return gold_pairs(held.answer, held.claims, engine=engine)


def _asked(answer: CheckedAnswer, claim: Claim, evidence: Evidence, kind: str, rank: int, engine: str) -> Asked:
    row = PairVerdict(answer.id, claim.id, evidence.id, kind, rank, engine)
    return Asked(row, Pair(evidence.text, claim.resolved, _drug_of(answer, claim, evidence)))


def _drug_of(answer: CheckedAnswer, claim: Claim, evidence: Evidence) -> str:
    """The names of the drug of which claim and passage both speak, "" where they may speak of different ones."""
    if not evidence.set_id:
        return answer.drug if evidence.source == STAND_IN else ""
    own = evidence.set_id == answer.set_id or plain(evidence.drug) == plain(answer.drug)
    if own or names(claim.resolved, evidence.drug):
        return " ".join(dict.fromkeys(filter(None, (answer.drug if own else "", evidence.drug))))
    return ""
