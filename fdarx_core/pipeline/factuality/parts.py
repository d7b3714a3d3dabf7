"""The part files of a scoring: some answers each, with all that was found of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from fdarx_core.evaluation.answers.refusals import declines
from fdarx_core.llm import source_digest
from fdarx_core.pipeline.parted.files import PartFiles
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

ANSWERS_A_PART = 16
UNDERSTOOD_BY = source_digest("fdarx_core.factuality", "fdarx_core.retrieval", "fdarx_core.evaluation")
"""The state of all that reads, searches, judges and scores: what another left is made anew, from the same replies."""


@dataclass(slots=True)
class Checked:
    """What was made of the answers of a part. `evidence` holds each passage once."""

    answers: Sequence[CheckedAnswer]
    claims: list[Claim] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    pairs: list[PairVerdict] = field(default_factory=list)
    verdicts: list[ClaimVerdict] = field(default_factory=list)
    flags: list[SafetyFlag] = field(default_factory=list)
    scores: list[FactualityScore] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FactualityParts(PartFiles):
    """Reads and writes the parts of one scoring."""

    understood_by: ClassVar[str] = UNDERSTOOD_BY

    def split(self, rows: Iterable[CheckedAnswer | Reject]) -> range:
        """Write the answers down, part by part, and the rejects; returns the parts' numbers."""
        understood = (row if isinstance(row, Reject) else _understood(row) for row in rows)
        return self.cut("answers", understood, CheckedAnswer, ANSWERS_A_PART)

    def answers(self, part: int) -> list[CheckedAnswer]:
        return self.read("answers", part, CheckedAnswer)

    def write_made(self, part: int, made: Checked, whole: bool) -> None:
        """It is made again next time unless it is `whole`: nothing failed for now."""
        self.write("claims", part, made.claims, Claim)
        self.write("evidence", part, made.evidence, Evidence)
        self.write("pairs", part, made.pairs, PairVerdict)
        self.write("verdicts", part, made.verdicts, ClaimVerdict)
        self.write("flags", part, made.flags, SafetyFlag)
        self.write("scores", part, made.scores, FactualityScore)
        if whole:
            self.mark("", part)

    def made(self, number: int) -> Checked:
        """All that was made of a part; nothing beyond the answers where it never was."""
        made = Checked(self.answers(number))
        if self.run.part("scores", number).exists():
            made.claims = self.read("claims", number, Claim)
            made.evidence = self.read("evidence", number, Evidence)
            made.pairs = self.read("pairs", number, PairVerdict)
            made.verdicts = self.read("verdicts", number, ClaimVerdict)
            made.flags = self.read("flags", number, SafetyFlag)
            made.scores = self.read("scores", number, FactualityScore)
        return made

    def scored(self, number: int) -> Checked:
        """The scores and flags alone, which all answers' figures are made from."""
        made = Checked(())
        if self.run.part("scores", number).exists():
            made.flags = self.read("flags", number, SafetyFlag)
            made.scores = self.read("scores", number, FactualityScore)
        return made

    def rejects(self) -> list[Reject]:
        return self.read("rejects", 0, Reject)


def _understood(answer: CheckedAnswer) -> CheckedAnswer:
    """Answers from files don't say which of them decline to answer."""
    declined = answer.outcome == "answered" and declines(answer.answer)
    return replace(answer, outcome="refused") if declined else answer
