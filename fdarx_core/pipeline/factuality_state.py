"""The state of one answer in a factuality run, and the pairs of it that engines judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fdarx_core.baseline.tokens import contains_name
from fdarx_core.factuality.evidence.sources import reference_evidence
from fdarx_core.factuality.evidence.subjects import ClaimQuery, Subject, drug_of, is_about, subject_of
from fdarx_core.factuality.safety import SAFETY, SafetyFindings, claims_in, states
from fdarx_core.factuality.scores import PairToJudge, statement_pairs
from fdarx_core.records import CheckedAnswer, Claim, ClaimVerdict, Evidence, FactualityScore, PairVerdict, SafetyFlag
from fdarx_core.verify.engine import TextPair
from fdarx_core.verify.exact import ENGINE as EXACT


@dataclass(slots=True)
class AnswerState:
    """An answer and what is known of it so far.

    `evidence` holds the passages found for each claim by its id, best first; `subjects` the drugs that it speaks of;
    `unsearched` says, by the claim's id, why nothing could be searched; `no_claims` why claims could not be extracted.
    `safety` is what the labels hold against the answer, a text where it could not be looked for; `flags` is what the
    verifying model makes of it and of the claims. `pairs` go by engine.
    """

    answer: CheckedAnswer
    claims: Sequence[Claim] = ()
    no_claims: str = ""
    stand_in: Evidence | None = None
    evidence: dict[str, Sequence[Evidence]] = field(default_factory=dict)
    subjects: dict[str, Subject] = field(default_factory=dict)
    unsearched: dict[str, str] = field(default_factory=dict)
    similarity: float | None = None
    safety: SafetyFindings | str = field(default_factory=SafetyFindings)
    flags: list[SafetyFlag] = field(default_factory=list)
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
        stand-in and the reference statements, and, where it is a model, against what labels forbid."""
        by_model = main and engine != EXACT.name
        pairs = list[PairToJudge]()
        for claim in self.claims:
            found = self.evidence.get(claim.id, ())
            pairs += [self._pair(claim, one, "evidence", rank, engine) for rank, one in enumerate(found, 1)]
            if by_model:
                pairs += [self._pair(claim, one, SAFETY, 0, engine) for one in self._statements(claim)]
        if not main:
            return pairs
        if by_model:
            pairs += self._pairs_without_claim(engine)
        if self.stand_in is not None:
            pairs += [self._pair(claim, self.stand_in, "reference", 0, engine) for claim in self.claims]
        return pairs + statement_pairs(self.answer, self.claims, engine=engine)

    @property
    def _statements_by_flag(self) -> list[tuple[SafetyFlag, Evidence]]:
        """The safety candidates that a verifier decides, each with what the label says."""
        found = () if isinstance(self.safety, str) else self.safety.candidates
        return [(one.flag, one.statement) for one in found if one.statement is not None]

    def _statements(self, claim: Claim) -> list[Evidence]:
        """Return the contraindications of the label, and what labels say of the safety candidates in a claim's words,
        each unless the evidence of the claim has it."""
        shown = list(self.evidence.get(claim.id, ()))
        passages = () if isinstance(self.safety, str) else self.safety.contraindications
        of_candidates = (said for flag, said in self._statements_by_flag if claims_in(flag, [claim]))
        added = list[Evidence]()
        for one in (*passages, *of_candidates):
            if not any(states(passage, one) for passage in (*shown, *added)):
                added.append(one)
        return added

    def _pairs_without_claim(self, engine: str) -> list[PairToJudge]:
        """Return the pairs of the safety candidates whose words no claim has: their sentences are judged."""
        answer = self.answer
        return [
            (
                PairVerdict(answer.id, "", said.id, SAFETY, 0, engine, number=number, on_subject=True),
                TextPair(said.text, f"{answer.question} {flag.text}", flag.drug, answer.question, said.heading),
            )
            for number, (flag, said) in enumerate(self._statements_by_flag)
            if not claims_in(flag, self.claims)
        ]

    def all_evidence(self) -> dict[str, Evidence]:
        """Return the passages and statements that the claims are compared with, by id."""
        found = {passage.id: passage for passages in self.evidence.values() for passage in passages}
        found |= {said.id: said for _, said in self._statements_by_flag}
        if not isinstance(self.safety, str):
            found |= {one.id: one for one in self.safety.contraindications}
        return found | ({self.stand_in.id: self.stand_in} if self.stand_in else {})

    def _pair(self, claim: Claim, evidence: Evidence, kind: str, rank: int, engine: str) -> PairToJudge:
        """Return a claim and a passage, with the drug that the claim speaks of, the question, and the titles above the
        passage."""
        answer, query = self.answer, self.query(claim)
        subject = self.subjects.get(claim.id) or subject_of(query)
        row = PairVerdict(answer.id, claim.id, evidence.id, kind, rank, engine, on_subject=is_about(evidence, subject))
        drug = drug_of(query, subject)
        title, _, rest = claim.resolved.partition(": ")
        # a passage of the drug's own label needs no title that names it
        hypothesis = rest if rest and contains_name(f"{drug} {evidence.drug}", title) else claim.resolved
        return row, TextPair(evidence.text, hypothesis, drug, answer.question, evidence.heading)

    def query(self, claim: Claim) -> ClaimQuery:
        """Return what to search for evidence for a claim."""
        return ClaimQuery(claim.resolved, self.answer.question, self.answer.drug, self.answer.set_id)

    def unsearched_pairs(self, engine: str) -> list[PairVerdict]:
        """Return a row without a judgement for each claim for which nothing could be searched: it has no verdict."""
        return [
            PairVerdict(self.answer.id, claim_id, "", "evidence", 1, engine, reason=reason)
            for claim_id, reason in self.unsearched.items()
        ]
