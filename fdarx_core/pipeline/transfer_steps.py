"""The second phase of a build by a model: questions on one label are asked of others, see `generation.transfers`.

What the first phase made of a part is kept under `WRITTEN`; the parts of the run are made of it and of the transfers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from fdarx_core.generation.transfers import PortableQuestion, fitting_transfers, portable_question
from fdarx_core.pipeline.label_state import ROWS, LabelState, add_counts
from fdarx_core.pipeline.round_trip_steps import LAST_STAGE
from fdarx_core.pipeline.steps import Part, Stage, Step
from fdarx_core.records import Label, Passage, QuestionAnswer, StageCount
from fdarx_core.storage import RunDirectory, read_records, write_records

STAGE = "transfer"
WRITTEN = "written"
"""The folder of a run with the rows of the first phase, by kind."""


def transfer_stage(run: RunDirectory, steps: Sequence[Step[LabelState]]) -> Stage[LabelState]:
    """Return the stage that takes transferred questions through steps and writes the parts of the run.

    The inputs of its parts are labels by identity, each with the questions of other labels that it is asked.
    """
    return Stage(STAGE, partial(_states, run), steps, partial(_write_part, run), 16, LabelState)


def portable_of_part(run: RunDirectory, number: int) -> list[PortableQuestion]:
    """Return the questions of a part that other labels can be asked, of those that the first phase kept."""
    labels = {one.set_id: one for one in read_records(run.part("labels", number), Label)}
    questions = read_records(run.part(f"{WRITTEN}/questions", number), QuestionAnswer)
    found = (portable_question(one, labels[one.set_id]) for one in questions)
    return [one for one in found if one is not None]


def fitting_of_part(
    run: RunDirectory, part: tuple[int, Mapping[str, Sequence[PortableQuestion]]]
) -> dict[str, list[int]]:
    """Return the places of the questions that fit each label of a part among those that are offered to it, by set id.

    The driver, which chooses among those of all labels, has no memory for the questions as they are asked.
    """
    number, offered = part
    asked = defaultdict[str, list[str]](list)
    for one in read_records(run.part(f"{WRITTEN}/candidates", number), QuestionAnswer):
        asked[one.set_id].append(one.question)
    found: dict[str, list[int]] = {}
    for set_id, (label, passages) in _labels(run, number).items():
        places = {one.id: place for place, one in enumerate(offered[set_id])}
        fitting = fitting_transfers(label, passages, offered[set_id], asked[set_id])
        found[set_id] = [places[one.twin] for one in fitting]
    return found


def _labels(run: RunDirectory, number: int) -> dict[str, tuple[Label, list[Passage]]]:
    found = {one.set_id: (one, list[Passage]()) for one in read_records(run.part("labels", number), Label)}
    for passage in read_records(run.part("passages", number), Passage):
        found[passage.set_id][1].append(passage)
    return found


def _states(run: RunDirectory, part: Part) -> list[LabelState]:
    labels = _labels(run, part.number)
    states = []
    for identity, transfers in part.inputs:
        label, passages = labels.get(identity.set_id, (None, []))
        state = LabelState(identity, label=label, passages=passages)
        if label is not None:
            state.candidates = fitting_transfers(label, passages, transfers, ())
            state.account("generate", 0, 0, len(state.candidates))
        states.append(state)
    return states


def account_for_sources(state: LabelState) -> None:
    """Count the transferred questions as kept twins: only questions that were kept are transferred."""
    if state.label is not None:
        number = len(state.questions)
        state.account(LAST_STAGE, number, number, number)


def _write_part(run: RunDirectory, part: int, states: Sequence[LabelState]) -> list[StageCount]:
    """Write the rows of both phases of a part by set id, and last its accounts; returns the accounts of this phase."""
    for kind, record in ROWS.items():
        earlier = read_records(run.part(f"{WRITTEN}/{kind}", part), record)
        rows: list[Any] = [*earlier, *(row for state in states for row in getattr(state, kind))]
        write_records(run.part(kind, part), sorted(rows, key=attrgetter("set_id")), record)
    counts = add_counts(count for state in states for count in state.counts)
    earlier_counts = read_records(run.part(f"{WRITTEN}/stages", part), StageCount)
    write_records(run.part("stages", part), add_counts([*earlier_counts, *counts]), StageCount)
    return counts
