"""The steps of a build that answer every question again, see `fdarx_core.filters.round_trip`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from fdarx_core.filters.label_excerpt import LabelExcerpts, PromptRoom
from fdarx_core.filters.round_trip import (
    COMPARE_ANSWERS,
    ROUND_TRIP_ANSWER,
    STAGE,
    RoundTripReply,
    Setting,
    answer_slots,
    compare_slots,
    outcome,
    read_reply,
    settings_of,
    with_passages,
)
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.pipeline.steps import Address, AskStep, Exchange
from fdarx_core.records import JudgeVerdict, QuestionAnswer, Reject, Request

LAST_STAGE = "twins"
"""The stage after which the questions of a label are those of the benchmark."""


def answer_again(address: Address, room: PromptRoom | None = None) -> AskStep[LabelState]:
    """Return the step that has every question answered by somebody who did not write it, see `round_trip`.

    `room` is that of the reader; where it does not hold a label, the reader is shown a part of it.
    """
    return AskStep("round_trip", frozenset((address.name,)), partial(_answer_requests, address, room), _take_answers)


def _answered_settings(state: LabelState) -> list[tuple[QuestionAnswer, Setting]]:
    return [(question, setting) for question in state.questions for setting in settings_of(question)]


def _answer_requests(address: Address, room: PromptRoom | None, state: LabelState) -> list[Request]:
    label = state.label
    if label is None:
        return []
    excerpts = LabelExcerpts(state.passages, room)
    # Requests with the whole label come first, one after the other, since they share its text.
    return [
        address.request(ROUND_TRIP_ANSWER, answer_slots(question, setting, label, state.passages, excerpts))
        for question, setting in _whole_label_first(state)
    ]


def _whole_label_first(state: LabelState) -> list[tuple[QuestionAnswer, Setting]]:
    return sorted(_answered_settings(state), key=lambda one: one[1] != "label")


def _take_answers(state: LabelState, exchanges: Sequence[Exchange]) -> None:
    if state.label is None:
        return
    for (question, setting), (request, response) in zip(_whole_label_first(state), exchanges, strict=True):
        state.replies.setdefault(question.id, {})[setting] = read_reply(request.slots, response)


def compare_answers(
    address: Address, *, strict: bool = False, drop_known: bool = False, planned: bool = False
) -> AskStep[LabelState]:
    """Return the step that compares the answers of the round trip with the writer's, and drops questions by them.

    A question of which an answer or the comparison is unusable stays, marked as unscored; `strict` drops it. A question
    that was answered from nothing is marked as known without the label; `drop_known` drops it.
    """
    return AskStep(
        "compare_answers",
        frozenset((address.name,)),
        partial(_compare_requests, address, planned),
        partial(_take_comparisons, address, strict, drop_known, planned),
    )


def _compared(state: LabelState, planned: bool) -> list[tuple[QuestionAnswer, dict[str, Any]]]:
    """Return the questions whose usable answers have to be compared, with the slots; in a plan all with an answer."""
    compared = []
    for question in state.questions:
        replies = state.replies[question.id]
        if question.type == "refusal":
            continue
        if planned:
            compared.append((question, {"question": question.question, "gold": question.answer, "answers": []}))
        else:
            slots = compare_slots(question, {k: one for k, one in replies.items() if isinstance(one, RoundTripReply)})
            if slots is not None:
                compared.append((question, slots))
    return compared


def _compare_requests(address: Address, planned: bool, state: LabelState) -> list[Request]:
    if state.label is None:
        return []
    return [address.request(COMPARE_ANSWERS, slots) for _, slots in _compared(state, planned)]


def _take_comparisons(
    address: Address, strict: bool, drop_known: bool, planned: bool, state: LabelState, exchanges: Sequence[Exchange]
) -> None:
    if state.label is None:
        return
    asked = zip(_compared(state, planned), exchanges, strict=True)
    compared = {question.id: response for (question, _), (_, response) in asked}
    kept: list[QuestionAnswer] = []
    rejects: list[Reject] = []
    for question in state.questions:
        found = outcome(question, state.replies[question.id], compared.get(question.id))
        verdict = JudgeVerdict(question.id, state.label.set_id, STAGE, "kept", endpoint=address.name)
        if response := compared.get(question.id):
            verdict.task, verdict.task_version, verdict.response_key = (
                response.task,
                response.task_version,
                response.key,
            )
        question.known_without_label = found.known
        if found.known and drop_known and found.outcome != "dropped":
            found = replace(found, outcome="dropped", reason="known_without_label", detail="answered from nothing")
        if planned or found.outcome == "kept":
            kept.append(with_passages(question, found.more_passages, state.passages))
        elif found.outcome == "unscored" and not strict:
            question.unscored = [*question.unscored, STAGE]
            kept.append(question)
        else:
            reason = found.reason if found.outcome == "dropped" else f"unscored_{found.reason}"
            rejects.append(Reject(question.id, STAGE, reason, found.detail, question.set_id))
        verdict.outcome, verdict.reason, verdict.detail = found.outcome, found.reason, found.detail
        state.verdicts.append(verdict)
    before = len(state.questions)
    state.questions = kept
    state.account(STAGE, before, len(kept), len(kept), rejects)


def keep_twins(state: LabelState) -> None:
    """Drop the refusal questions from templates whose answerable twin was dropped, so that wordings stay balanced.

    Refusal questions that a model wrote, each in its own words, stay without a twin.
    """
    if state.label is None:
        return
    ids = {question.id for question in state.questions}
    alone = [one for one in state.questions if one.template and one.twin and one.twin not in ids]
    rejects = [Reject(one.id, LAST_STAGE, "twin_rejected", one.twin, one.set_id) for one in alone]
    before = len(state.questions)
    dropped = {one.id for one in alone}
    kept = [one for one in state.questions if one.id not in dropped]
    state.questions = [replace(one, twin="") if one.twin and one.twin not in ids else one for one in kept]
    state.account(LAST_STAGE, before, len(state.questions), len(state.questions), rejects)
