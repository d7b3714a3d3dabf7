"""One label's file as it goes through the flow: everything known of it so far, and every row that it lost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from fdarx_core.generation.contexts import Context
from fdarx_core.labels import Identity
from fdarx_core.records import Label, Passage, QuestionAnswer, Reject, StageCount, Verdict


@dataclass(slots=True)
class Dossier:
    """The unit that streams: a label travels whole, so what concerns one label never waits for another.

    Stages add to it. `label` stays None where the document turned out unreadable after all.
    """

    identity: Identity
    label: Label | None = None
    passages: list[Passage] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    candidates: list[QuestionAnswer] = field(default_factory=list)
    questions: list[QuestionAnswer] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    counts: list[StageCount] = field(default_factory=list)

    def close(self, stage: str, rows_in: int, kept: int, rows_out: int, rejects: Iterable[Reject] = ()) -> None:
        """Account for one stage: rows that came in, went on, and were rejected; `rows_out` is what those became.

        Raises AccountingError when a row is missing.
        """
        lost = list(rejects)
        if rows_in != kept + len(lost):
            raise AccountingError(
                f"stage {stage}, set id {self.identity.set_id}: {rows_in} rows in, {kept} kept, {len(lost)} rejected; "
                "this is a fault of FDARx, please report it with the label"
            )
        self.rejects.extend(lost)
        self.counts.append(StageCount(stage, rows_in, kept, len(lost), rows_out))


class AccountingError(Exception):
    """A row left the flow without a Reject."""


def total(counts: Iterable[StageCount]) -> list[StageCount]:
    """Counts added up by stage, in the order in which stages first appear."""
    sums: dict[str, StageCount] = {}
    for count in counts:
        one = sums.setdefault(count.stage, StageCount(count.stage))
        one.rows_in += count.rows_in
        one.kept += count.kept
        one.rejected += count.rejected
        one.rows_out += count.rows_out
    return list(sums.values())
