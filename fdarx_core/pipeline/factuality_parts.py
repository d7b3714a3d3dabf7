"""The part files of a factuality run: the rows of each part, and which parts are to be made again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from fdarx_core.baseline.refusals import declines
from fdarx_core.llm import TRANSIENT, source_digest
from fdarx_core.pipeline.factuality_steps import AnswerState, FactualitySpec
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.steps import Part
from fdarx_core.records import (
    CheckedAnswer,
    Claim,
    ClaimVerdict,
    Evidence,
    FactualityScore,
    PairVerdict,
    Reject,
    SafetyFlag,
)

ANSWERS_PER_PART = 16
CODE_VERSION = source_digest(
    "fdarx_core.factuality", "fdarx_core.retrieval", "fdarx_core.evaluation", "fdarx_core.baseline", "fdarx_core.verify"
)
"""A digest of the code that reads, searches, judges and scores: results of another version are made anew, from the same
replies."""


@dataclass(slots=True)
class ScoredPart:
    """The rows of one part. `evidence` holds each passage once."""

    answers: Sequence[CheckedAnswer]
    claims: list[Claim] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    pairs: list[PairVerdict] = field(default_factory=list)
    verdicts: list[ClaimVerdict] = field(default_factory=list)
    flags: list[SafetyFlag] = field(default_factory=list)
    scores: list[FactualityScore] = field(default_factory=list)


_KINDS: dict[str, type] = {
    "claims": Claim,
    "evidence": Evidence,
    "pairs": PairVerdict,
    "verdicts": ClaimVerdict,
    "flags": SafetyFlag,
    "scores": FactualityScore,
}


@dataclass(frozen=True, slots=True)
class FactualityParts(PartFiles):
    """Reads and writes the parts of one factuality run."""

    code_version: ClassVar[str] = CODE_VERSION

    def split(self, rows: Iterable[CheckedAnswer | Reject]) -> range:
        """Write the answers, part by part, and the rejects; returns the parts' numbers."""
        read = (row if isinstance(row, Reject) else _with_refusal(row) for row in rows)
        return self.cut("answers", read, CheckedAnswer, ANSWERS_PER_PART)

    def states(self, part: Part) -> list[AnswerState]:
        return [AnswerState(answer) for answer in self.answers(part.number)]

    def answers(self, part: int) -> list[CheckedAnswer]:
        return self.read("answers", part, CheckedAnswer)

    def write_states(self, spec: FactualitySpec, part: int, states: Sequence[AnswerState]) -> None:
        """Write what was made of a part. It is made again by the next start if anything failed for now."""
        rows = rows_of(spec, states)
        for kind, record in _KINDS.items():
            self.write(kind, part, getattr(rows, kind), record)
        if not any(_failed_for_now(rows)):
            self.mark("", part)

    def scored(self, number: int, kinds: Sequence[str] = ()) -> ScoredPart:
        """Return the rows of these kinds of a part, or of all kinds and its answers; none where it was never made."""
        rows = ScoredPart(() if kinds else self.answers(number))
        if self.run.part("scores", number).exists():
            for kind in kinds or _KINDS:
                setattr(rows, kind, self.read(kind, number, _KINDS[kind]))
        return rows

    def rejects(self) -> list[Reject]:
        return self.read("rejects", 0, Reject)


def rows_of(spec: FactualitySpec, states: Sequence[AnswerState]) -> ScoredPart:
    """Return the rows of a part in the order in which they are stored."""
    rows = ScoredPart([state.answer for state in states])
    rows.pairs = [row for engine in spec.engines for state in states for row in state.pairs[engine.name]]
    rows.pairs += [row for engine in spec.engines for state in states for row in state.unsearched_pairs(engine.name)]
    evidence: dict[str, Evidence] = {}
    for state in states:
        rows.claims += state.claims
        rows.verdicts += state.verdicts
        rows.flags += [] if isinstance(state.flags, str) else state.flags
        rows.scores += [state.score] if state.score else []
        passages = [passage for found in state.evidence.values() for passage in found]
        evidence |= {passage.id: passage for passage in [*passages, *([state.stand_in] if state.stand_in else [])]}
    rows.evidence = list(evidence.values())
    return rows


def _with_refusal(answer: CheckedAnswer) -> CheckedAnswer:
    """Return an answer with its outcome. Files of answers do not say which of them are refusals."""
    declined = answer.outcome == "answered" and declines(answer.answer)
    return replace(answer, outcome="refused") if declined else answer


def _failed_for_now(rows: ScoredPart) -> Iterator[bool]:
    """Yield whether each reason is a transient failure, which another attempt may cure."""
    yield from (TRANSIENT in reason for score in rows.scores for reason in score.unscored)
    yield from (TRANSIENT in pair.reason for pair in rows.pairs if pair.entailment is None)
