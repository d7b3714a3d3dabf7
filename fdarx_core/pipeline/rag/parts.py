"""The part files of a comparison: some questions each, with what every way made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fdarx_core.llm import source_digest
from fdarx_core.records import RagAnswer, RagQuestion, RagScore, TitleRank
from fdarx_core.storage import RunDirectory, read_records, write_records

QUESTIONS_A_PART = 8
UNDERSTOOD_BY = source_digest("fdarx_core.rag", "fdarx_core.retrieval")
"""The state of all that searches, reads and judges: what another left is made anew, from the same replies."""

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class RagParts:
    """Reads and writes the parts of one run."""

    run: RunDirectory

    def split(self, questions: Sequence[RagQuestion]) -> range:
        """Write the questions down, part by part; returns the parts' numbers."""
        for number, start in enumerate(range(0, len(questions), QUESTIONS_A_PART)):
            chosen = questions[start : start + QUESTIONS_A_PART]
            write_records(self.run.part("questions", number), chosen, RagQuestion)
        return range(-(-len(questions) // QUESTIONS_A_PART))

    def questions(self, part: int) -> list[RagQuestion]:
        return list(read_records(self.run.part("questions", part), RagQuestion))

    def write(
        self,
        part: int,
        answers: Sequence[RagAnswer],
        scores: Sequence[RagScore],
        ranks: Sequence[TitleRank],
        whole: bool,
    ) -> None:
        """What was made of a part. It is asked again next time unless it is `whole`: nothing failed for now."""
        write_records(self.run.part("title_ranks", part), ranks, TitleRank)
        write_records(self.run.part("answers", part), answers, RagAnswer)
        write_records(self.run.part("scores", part), scores, RagScore)
        if whole:
            write_records(self.run.part(f"done/{UNDERSTOOD_BY}", part), [], RagScore)

    def undone(self, numbers: Iterable[int]) -> list[int]:
        """The parts that are still to be answered."""
        return [number for number in numbers if not self.run.part(f"done/{UNDERSTOOD_BY}", number).exists()]

    def answers(self, numbers: Iterable[int]) -> list[RagAnswer]:
        return self._all("answers", numbers, RagAnswer)

    def scores(self, numbers: Iterable[int]) -> list[RagScore]:
        return self._all("scores", numbers, RagScore)

    def ranks(self, numbers: Iterable[int]) -> list[TitleRank]:
        return self._all("title_ranks", numbers, TitleRank)

    def _all(self, kind: str, numbers: Iterable[int], record: type[R]) -> list[R]:
        places = [self.run.part(kind, number) for number in numbers]
        return [row for place in places if place.exists() for row in read_records(place, record)]
