"""The end of the flow: dossiers become the run's part files, the accounts last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fdarx_core.pipeline.dossier import Dossier, total
from fdarx_core.records import Label, Passage, QuestionAnswer, Reject, StageCount, Verdict
from fdarx_core.storage import RunDirectory, write_records

ACCOUNTS = "stages"


@dataclass(frozen=True, slots=True)
class Sink:
    """Writes one part of a run. A part whose accounts stand is whole, and is not made again when a run resumes."""

    run: RunDirectory

    def __call__(self, part: int, dossiers: Sequence[Dossier]) -> list[StageCount]:
        """Write the dossiers, which come by set id, as part number `part`; returns its accounts."""
        labels = [dossier.label for dossier in dossiers if dossier.label is not None]
        counts = total(count for dossier in dossiers for count in dossier.counts)
        self._write("labels", part, labels, Label)
        self._write("passages", part, [row for dossier in dossiers for row in dossier.passages], Passage)
        self._write("candidates", part, [row for dossier in dossiers for row in dossier.candidates], QuestionAnswer)
        self._write("questions", part, [row for dossier in dossiers for row in dossier.questions], QuestionAnswer)
        self._write("verdicts", part, [row for dossier in dossiers for row in dossier.verdicts], Verdict)
        self._write("rejects", part, [row for dossier in dossiers for row in dossier.rejects], Reject)
        self._write(ACCOUNTS, part, counts, StageCount)
        return counts

    def _write(self, kind: str, part: int, rows: Sequence[object], record: type) -> None:
        write_records(self.run.part(kind, part), rows, record)
