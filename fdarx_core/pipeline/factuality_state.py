"""The state of one answer in a factuality run, and the pairs of it that engines judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fdarx_core.factuality.evidence.sources import reference_evidence
from fdarx_core.factuality.evidence.subjects import ClaimQuery, Subject, drug_of, is_about, subject_of
from fdarx_core.factuality.scores import PairToJudge, statement_pairs
from fdarx_core.records import CheckedAnswer, Claim, ClaimVerdict, Evidence, FactualityScore, PairVerdict, SafetyFlag
from fdarx_core.verify import TextPair


@dataclass(slots=True)
class AnswerState:
    """An answer and what is known of it so far.

    `evidence` holds the passages found for each claim by its id, best first; `subjects` the drugs that it speaks of;
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
            found = self.evidence.get(claim.id, ())
            pairs += [self._pair(claim, passage, "evidence", rank, engine) for rank, passage in enumerate(found, 1)]
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
