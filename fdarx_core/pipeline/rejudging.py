"""Asking about the criteria of judges: a model proposes changes, and a judge decides held-out items by old and new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from fdarx_core.filters.judges import Judge, judges_by
from fdarx_core.llm import AskingStopped, Criteria, ModelConfig, ResponseStore, Unparsable
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.build_steps import baseline
from fdarx_core.pipeline.executor import Executor, PartProgress, Work
from fdarx_core.pipeline.steps import Address, AskStep, Exchange, Part, Stage, batches
from fdarx_core.records import Request
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.review.agreement_metrics import consensus
from fdarx_core.review.criteria import RejudgedItem, ReviewCriteria
from fdarx_core.review.criteria_proposals import PROPOSE_CRITERIA, PROPOSED_FILE, CriterionChange, proposal_slots
from fdarx_core.review.items import JudgeInput, judge_slots, read_judge_inputs, verdict_value
from fdarx_core.review.tasks import REVIEW_TASKS
from fdarx_core.storage import RunDirectory, StorageError

_ITEMS_PER_PART = 8


@dataclass(slots=True)
class ItemState:
    """A held-out item, what its judge reads, and the judge's decisions: by the old criteria, then by the new.

    A decision is a value of the item's task, "" for none, and the reason.
    """

    item: ReviewItem
    people: str
    given: JudgeInput
    decisions: list[tuple[str, str]] = field(default_factory=list)


def propose_changes(work: ReviewCriteria, model: ModelConfig, executor: Executor) -> list[CriterionChange]:
    """Ask a model for changes of the criteria; none where it finds nothing general.

    Raises ValueError for a reply that can't be used, and AskingStopped.
    """
    slots = proposal_slots(work.learned, work.criteria)
    if not slots["groups"]:
        raise ValueError("nothing to propose from: no rejection or remark, outside what is held out, bears on criteria")
    request = Address(model.name, model.request_parameters).request(PROPOSE_CRITERIA, slots)
    step: AskStep[list[Any]] = AskStep("propose", frozenset((model.name,)), lambda state: [request], _keep_response)
    stage = Stage("propose", lambda part: [[]], [step], lambda number, states: states[0])
    [[response]] = _make_all(stage, [Part(0)], model, work.store, executor, lambda done, of: None)
    try:
        return PROPOSE_CRITERIA.parse(response).changes
    except Unparsable as error:
        raise ValueError(f"the reply of {model.name} can't be used, {error.reason}: {error.detail}") from error


def _keep_response(state: list[Any], exchanges: Sequence[Exchange]) -> None:
    state.extend(response for _, response in exchanges)


def judge_twice(
    work: ReviewCriteria, new: Criteria, model: ModelConfig, executor: Executor, progress: PartProgress
) -> tuple[list[RejudgedItem], int]:
    """Judge each held-out item by the old and by the new criteria; return the items and how many requests were sent.

    Responses of the run and of earlier trials are read back, and a prompt that is the same by both is asked once.
    Raises AskingStopped, and StorageError where responses can't be stored, or an item's question is not in the run.
    """
    states = _states(work)
    step = rejudge_step((work.criteria, new), Address(model.name, model.request_parameters))
    keys = {request.key for state in states for request in step.requests(state)}
    missing = keys - work.store.find(keys).keys()
    known = ResponseStore(work.run.file("responses")).get(sorted(missing))
    work.store.put(known.values())
    parts = [Part(number, batch) for number, batch in enumerate(batches(states, _ITEMS_PER_PART))]
    stage = Stage("rejudge", lambda part: part.inputs, [step], _rejudged)
    made = _make_all(stage, parts, model, work.store, executor, progress)
    return [item for part in made for item in part], len(missing - known.keys())


def rejudge_step(criteria: Sequence[Criteria], address: Address) -> AskStep[ItemState]:
    """Return the step that has an item judged by each of the criteria."""
    judges = [{judge.stage: judge for judge in judges_by(one, PROPOSED_FILE)} for one in criteria]
    return AskStep(
        "rejudge", frozenset((address.name,)), partial(_judge_requests, judges, address), partial(_decide, judges)
    )


def _judge_requests(judges: Sequence[dict[str, Judge]], address: Address, state: ItemState) -> list[Request]:
    stage = REVIEW_TASKS[state.item.task].stage
    requests = []
    for judge in (one[stage] for one in judges):
        task = judge.by_type[state.given[0].type].task
        requests.append(address.request(task, judge_slots(judge, state.given)))
    return requests


def _decide(judges: Sequence[dict[str, Judge]], state: ItemState, exchanges: Sequence[Exchange]) -> None:
    task = REVIEW_TASKS[state.item.task]
    state.decisions = []
    for by_stage, (request, response) in zip(judges, exchanges, strict=True):
        verdict = by_stage[task.stage].read(state.given[0], request.slots, response)
        if verdict.outcome == "unscored":
            state.decisions.append(("", f"{verdict.reason}: {verdict.detail}"))
        else:
            state.decisions.append((verdict_value(task, verdict), verdict.detail or verdict.reason))


def _rejudged(part: int, states: Sequence[ItemState]) -> list[RejudgedItem]:
    items = []
    for state in states:
        (old, _), (new, because) = state.decisions
        items.append(RejudgedItem(state.item, state.people, old, new, because))
    return items


def _states(work: ReviewCriteria) -> list[ItemState]:
    items = work.measured_items()
    inputs = _judge_inputs(work.run, {one.item.subject for one in items})
    return [ItemState(one.item, consensus(one.values), inputs[one.item.subject]) for one in items]


def _judge_inputs(run: RunDirectory, wanted: set[str]) -> dict[str, JudgeInput]:
    inputs: dict[str, JudgeInput] = {}
    for part in run.parts("candidates") if wanted else []:
        inputs |= read_judge_inputs(run, part.name, wanted)
    if missing := sorted(wanted - inputs.keys()):
        raise StorageError(f"{run.root} has no question {missing[0]} of the review; give the run that was reviewed")
    return inputs


def _make_all(
    stage: Stage[Any],
    parts: Sequence[Part],
    model: ModelConfig,
    store: ResponseStore,
    executor: Executor,
    progress: PartProgress,
) -> list[Any]:
    """Return what the stage's `write` returned for each part, in their order. Raises AskingStopped."""
    made: dict[int, Any] = {}
    progress(0, len(parts))
    for result in executor.run(Work([(stage, parts)], ClientPool(baseline(), {model.name: model}), store)):
        if result.ended:
            raise AskingStopped(result.ended)
        if result.part is not None:
            made[result.part] = result.account
            progress(len(made), len(parts))
    return [made[part.number] for part in parts]
