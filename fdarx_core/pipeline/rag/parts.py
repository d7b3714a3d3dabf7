"""The part files of a comparison: some questions each, with what every way made of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from fdarx_core.llm import source_digest
from fdarx_core.pipeline.parted.files import PartFiles
from fdarx_core.records import RagAnswer, RagQuestion, RagScore, Reject, TitleRank

QUESTIONS_A_PART = 8
UNDERSTOOD_BY = source_digest("fdarx_core.rag", "fdarx_core.retrieval")
"""The state of all that searches, reads and judges: what another left is made anew, from the same replies."""


@dataclass(frozen=True, slots=True)
class RagParts(PartFiles):
    """Reads and writes the parts of one comparison."""

    understood_by: ClassVar[str] = UNDERSTOOD_BY

    def split(self, rows: Iterable[RagQuestion | Reject]) -> range:
        """Write the questions down, part by part, and the rejects; returns the parts' numbers."""
        return self.cut("questions", rows, RagQuestion, QUESTIONS_A_PART)

    def questions(self, part: int) -> list[RagQuestion]:
        return self.read("questions", part, RagQuestion)

    def write_made(
        self,
        part: int,
        answers: Sequence[RagAnswer],
        scores: Sequence[RagScore],
        ranks: Sequence[TitleRank],
        whole: bool,
    ) -> None:
        """What was made of a part. It is asked again next time unless it is `whole`: nothing failed for now."""
        self.write("title_ranks", part, ranks, TitleRank)
        self.write("answers", part, answers, RagAnswer)
        self.write("scores", part, scores, RagScore)
        if whole:
            self.mark("", part)
