"""The state of one label in a build, and the accounts of the rows that each stage keeps and rejects."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from fdarx_core.filters.round_trip import RoundTripReply, Setting
from fdarx_core.generation.contexts import Context
from fdarx_core.generation.pairing import TopicPair
from fdarx_core.labels import Identity
from fdarx_core.llm import Unparsable
from fdarx_core.records import JudgeVerdict, Label, Passage, QuestionAnswer, Reject, StageCount


@dataclass(frozen=True, slots=True)
class TopicPlan:
    """What to ask of one label: pairs of topics, and where a model writes, also passages of all sections.

    `transfers` is the number of questions of other labels that it is expected to be asked, for a plan.
    """

    pairs: Sequence[TopicPair] = ()
    by_model: bool = False
    transfers: int = 0


@dataclass(slots=True)
class LabelState:
    """Everything known of one label so far, and every row that was rejected on the way.

    A label travels whole, so what concerns one label never waits for another. `plan` has the topics to ask of it;
    `label` stays None where the document can't be read. `replies` are those of the round trip, by question and setting.
    """

    identity: Identity
    plan: TopicPlan = TopicPlan()
    label: Label | None = None
    passages: list[Passage] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    candidates: list[QuestionAnswer] = field(default_factory=list)
    questions: list[QuestionAnswer] = field(default_factory=list)
    verdicts: list[JudgeVerdict] = field(default_factory=list)
    replies: dict[str, dict[Setting, RoundTripReply | Unparsable]] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)
    counts: list[StageCount] = field(default_factory=list)

    def account(self, stage: str, rows_in: int, kept: int, rows_out: int, rejects: Iterable[Reject] = ()) -> None:
        """Count one stage: rows in, rows kept and rejected; `rows_out` are the rows made from those that were kept.

        Raises RuntimeError when a row left the flow without a Reject.
        """
        rejected = list(rejects)
        if rows_in != kept + len(rejected):
            raise RuntimeError(
                f"stage {stage}, set id {self.identity.set_id}: {rows_in} rows in, {kept} kept, {len(rejected)} "
                "rejected; this is a fault of FDARx, please report it with the label"
            )
        self.rejects.extend(rejected)
        self.counts.append(StageCount(stage, rows_in, kept, len(rejected), rows_out))


ROWS: dict[str, type[Any]] = {
    "candidates": QuestionAnswer,
    "questions": QuestionAnswer,
    "verdicts": JudgeVerdict,
    "rejects": Reject,
}
"""The rows about questions that are written, by the fields of LabelState that hold them."""


def add_counts(counts: Iterable[StageCount]) -> list[StageCount]:
    """Return counts added up by stage, in the order in which stages first appear."""
    sums: dict[str, StageCount] = {}
    for count in counts:
        one = sums.setdefault(count.stage, StageCount(count.stage))
        one.rows_in += count.rows_in
        one.kept += count.kept
        one.rejected += count.rejected
        one.rows_out += count.rows_out
    return list(sums.values())


def check_accounts(stages: Sequence[StageCount]) -> None:
    """Check that rows in = rows kept + rejects at every stage, and that each stage got what the one before it made.

    Raises RuntimeError naming the stage.
    """
    for stage in stages:
        if stage.rows_in != stage.kept + stage.rejected:
            raise RuntimeError(f"stage {stage.stage} does not add up: {stage}")
    for before, after in pairwise(stages):
        # Contexts are chosen per label, not per passage.
        rows = before.kept if before.stage == "passages" else before.rows_out
        if rows != after.rows_in:
            raise RuntimeError(f"stage {after.stage} got {after.rows_in} rows, {before.stage} made {rows}")
