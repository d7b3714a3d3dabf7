"""The state of one label in a build, the accounts of the rows that each stage keeps and rejects, and its part files.

In a build by a model, questions on one label are asked of others in a second phase, see `generation.transfers`. What
the first phase made of a part is kept under `WRITTEN`; the parts of the run are made of it and of the transfers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter
from typing import Any

from fdarx_core.filters.round_trip import RoundTripReply
from fdarx_core.generation.contexts import Context
from fdarx_core.generation.pairing import TopicPair
from fdarx_core.generation.transfers import PortableQuestion, fitting_transfers, portable_question
from fdarx_core.labels import Identity
from fdarx_core.llm import Unparsable
from fdarx_core.pipeline.part_files import labels_of_part
from fdarx_core.pipeline.steps import Part
from fdarx_core.records import JudgeVerdict, Label, Passage, QuestionAnswer, Reject, StageCount
from fdarx_core.records.question_types import RoundTripSetting
from fdarx_core.storage import RunDirectory, read_records, write_records


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

    All data of a label stay in one state, so no label waits for another. `plan` has the topics to ask of it; `label`
    stays None where the document can't be read. `replies` are those of the round trip, by question and setting.
    """

    identity: Identity
    plan: TopicPlan = TopicPlan()
    label: Label | None = None
    passages: list[Passage] = field(default_factory=list)
    contexts: list[Context] = field(default_factory=list)
    candidates: list[QuestionAnswer] = field(default_factory=list)
    questions: list[QuestionAnswer] = field(default_factory=list)
    verdicts: list[JudgeVerdict] = field(default_factory=list)
    replies: dict[str, dict[RoundTripSetting, RoundTripReply | Unparsable]] = field(default_factory=dict)
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

    def keep(self, stage: str, kept: list[QuestionAnswer], rejects: Sequence[Reject]) -> None:
        """Make the questions those that a stage kept, and account for the stage."""
        before, self.questions = len(self.questions), kept
        self.account(stage, before, len(kept), len(kept), rejects)


ROWS: dict[str, type[Any]] = {
    "candidates": QuestionAnswer,
    "questions": QuestionAnswer,
    "verdicts": JudgeVerdict,
    "rejects": Reject,
}
"""The rows about questions that are written, by the fields of LabelState that hold them."""
WRITTEN = "written"
"""The folder of a run with the rows of the first phase by kind, where questions are transferred in a second one."""


def add_counts(counts: Iterable[StageCount]) -> list[StageCount]:
    """Return counts added up by stage, in the order in which stages first appear."""
    sums: dict[str, StageCount] = {}
    for count in counts:
        total = sums.setdefault(count.stage, StageCount(count.stage))
        for name in ("rows_in", "kept", "rejected", "rows_out"):
            setattr(total, name, getattr(total, name) + getattr(count, name))
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


def planned_states(part: Part) -> list[LabelState]:
    """Return the labels of a part, to be read, with what to ask of each."""
    return [LabelState(identity, plan) for identity, plan in part.inputs]


def write_labels(run: RunDirectory, folder: str, part: int, states: Sequence[LabelState]) -> list[StageCount]:
    """Write the states of a part, which come by set id; returns the accounts of the part.

    The accounts are written last: a part that has them is complete, and is not made again when a run resumes. `folder`
    is where rows about questions are written, "" where no phase follows that adds to them.
    """
    counts = add_counts(count for state in states for count in state.counts)
    write_records(run.part("labels", part), [state.label for state in states if state.label is not None], Label)
    write_records(run.part("passages", part), [row for state in states for row in state.passages], Passage)
    for kind, record in ROWS.items():
        rows = [row for state in states for row in getattr(state, kind)]
        write_records(run.part(f"{folder}{kind}", part), rows, record)
    write_records(run.part(f"{folder}stages", part), counts, StageCount)
    return counts


def portable_of_part(run: RunDirectory, number: int) -> list[PortableQuestion]:
    """Return the questions of a part that other labels can be asked, of those that the first phase kept."""
    labels = {label.set_id: label for label in read_records(run.part("labels", number), Label)}
    questions = read_records(run.part(f"{WRITTEN}/questions", number), QuestionAnswer)
    found = (portable_question(question, labels[question.set_id]) for question in questions)
    return [question for question in found if question is not None]


def fitting_of_part(
    run: RunDirectory, part: tuple[int, Mapping[str, Sequence[PortableQuestion]]]
) -> dict[str, list[int]]:
    """Return the places of the questions that fit each label of a part among those that are offered to it, by set id.

    The driver chooses among the questions of all labels. It gets places, since the questions would fill its memory.
    """
    number, offered = part
    asked = defaultdict[str, list[str]](list)
    for candidate in read_records(run.part(f"{WRITTEN}/candidates", number), QuestionAnswer):
        asked[candidate.set_id].append(candidate.question)
    found: dict[str, list[int]] = {}
    for set_id, (label, passages) in labels_of_part(run, number).items():
        places = {question.id: place for place, question in enumerate(offered[set_id])}
        fitting = fitting_transfers(label, passages, offered[set_id], asked[set_id])
        found[set_id] = [places[question.twin] for question in fitting]
    return found


def transferred_states(run: RunDirectory, part: Part) -> list[LabelState]:
    """Return the labels of a part as the first phase wrote them, each with the questions of others that fit it."""
    labels = labels_of_part(run, part.number)
    states = []
    for identity, transfers in part.inputs:
        label, passages = labels.get(identity.set_id, (None, []))
        state = LabelState(identity, label=label, passages=passages)
        if label is not None:
            state.candidates = fitting_transfers(label, passages, transfers, ())
            state.account("generate", 0, 0, len(state.candidates))
        states.append(state)
    return states


def write_transferred(run: RunDirectory, part: int, states: Sequence[LabelState]) -> list[StageCount]:
    """Write the rows of both phases of a part by set id, and last its accounts; returns the accounts of this phase."""
    for kind, record in ROWS.items():
        earlier = read_records(run.part(f"{WRITTEN}/{kind}", part), record)
        rows: list[Any] = [*earlier, *(row for state in states for row in getattr(state, kind))]
        write_records(run.part(kind, part), sorted(rows, key=attrgetter("set_id")), record)
    counts = add_counts(count for state in states for count in state.counts)
    earlier_counts = read_records(run.part(f"{WRITTEN}/stages", part), StageCount)
    write_records(run.part("stages", part), add_counts([*earlier_counts, *counts]), StageCount)
    return counts
