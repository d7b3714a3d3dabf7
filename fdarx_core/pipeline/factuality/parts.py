"""The part files of a scoring: some answers each, with all that was found of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fdarx_core.evaluation.answers.refusals import declines
from fdarx_core.llm import source_digest
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
from fdarx_core.storage import RunDirectory, read_records, write_records

ANSWERS_A_PART = 16
UNDERSTOOD_BY = source_digest("fdarx_core.factuality", "fdarx_core.retrieval", "fdarx_core.evaluation")
"""The state of all that reads, searches, judges and scores: what another left is made anew, from the same replies."""

R = TypeVar("R")


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
class FactualityParts:
    """Reads and writes the parts of one run."""

    run: RunDirectory

    def split(self, rows: Iterable[CheckedAnswer | Reject]) -> range:
        """Write the answers down, part by part, and the rejects; returns the parts' numbers."""
        number, group, rejects = 0, list[CheckedAnswer](), list[Reject]()
        for row in rows:
            if isinstance(row, Reject):
                rejects.append(row)
                continue
            group.append(_understood(row))
            if len(group) == ANSWERS_A_PART:
                self._write("answers", number, group, CheckedAnswer)
                number, group = number + 1, []
        if group:
            self._write("answers", number, group, CheckedAnswer)
            number += 1
        self._write("rejects", 0, rejects, Reject)
        return range(number)

    def answers(self, part: int) -> list[CheckedAnswer]:
        return self._read("answers", part, CheckedAnswer)

    def write(self, part: int, made: Checked, whole: bool) -> None:
        """It is made again next time unless it is `whole`: nothing failed for now."""
        self._write("claims", part, made.claims, Claim)
        self._write("evidence", part, made.evidence, Evidence)
        self._write("pairs", part, made.pairs, PairVerdict)
        self._write("verdicts", part, made.verdicts, ClaimVerdict)
        self._write("flags", part, made.flags, SafetyFlag)
        self._write("scores", part, made.scores, FactualityScore)
        if whole:
            self._write(f"done/{UNDERSTOOD_BY}", part, [], FactualityScore)

    def undone(self, numbers: Iterable[int]) -> list[int]:
        """The parts that are still to be checked."""
        there = {place.name for place in self.run.parts(f"done/{UNDERSTOOD_BY}")}
        return [number for number in numbers if self.run.part("done", number).name not in there]

    def made(self, number: int) -> Checked:
        """All that was made of a part; nothing beyond the answers where it never was."""
        made = Checked(self.answers(number))
        if self.run.part("scores", number).exists():
            made.claims = self._read("claims", number, Claim)
            made.evidence = self._read("evidence", number, Evidence)
            made.pairs = self._read("pairs", number, PairVerdict)
            made.verdicts = self._read("verdicts", number, ClaimVerdict)
            made.flags = self._read("flags", number, SafetyFlag)
            made.scores = self._read("scores", number, FactualityScore)
        return made

    def scored(self, number: int) -> Checked:
        """The scores and flags alone, which all answers' figures are made from."""
        made = Checked(())
        if self.run.part("scores", number).exists():
            made.flags = self._read("flags", number, SafetyFlag)
            made.scores = self._read("scores", number, FactualityScore)
        return made

    def all_made(self, numbers: Iterable[int]) -> Iterator[Checked]:
        """Part by part, so that one is held at a time."""
        return map(self.made, numbers)

    def rejects(self) -> list[Reject]:
        return self._read("rejects", 0, Reject)

    def _read(self, kind: str, part: int, record: type[R]) -> list[R]:
        return list(read_records(self.run.part(kind, part), record))

    def _write(self, kind: str, part: int, rows: Iterable[object], record: type) -> None:
        write_records(self.run.part(kind, part), rows, record)


def _understood(answer: CheckedAnswer) -> CheckedAnswer:
    """Answers from files don't say which of them decline to answer."""
    declined = answer.outcome == "answered" and declines(answer.answer)
    return replace(answer, outcome="refused") if declined else answer
