"""The steps of a build that answer every question again, see `fdarx_core.filters.round_trip`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fdarx_core.filters.label_excerpt import LabelExcerpts
from fdarx_core.filters.round_trip import (
    COMPARE_ANSWERS,
    ROUND_TRIP_ANSWER,
    STAGE,
    answer_slots,
    compare_slots,
    outcome,
    read_reply,
    settings_of,
    with_passages,
)
from fdarx_core.llm.model_config import TokenCounter
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.pipeline.steps import Address, Asking
from fdarx_core.records import JudgeVerdict, QuestionAnswer, Reject

LAST_STAGE = "twins"
"""The stage after which the questions of a label are those of the benchmark."""


def answer_again(address: Address, room: tuple[int | None, TokenCounter], state: LabelState) -> Asking:
    """Have a model that did not write the questions answer all of them, see `round_trip`.

    `room` is what `tokens_left` returns for the reader; where it does not hold a label, the reader is shown a part.
    """
    label = state.label
    if label is None:
        return
    excerpts = LabelExcerpts(state.passages, *room)
    asked = [(question, setting) for question in state.questions for setting in settings_of(question)]
    asked.sort(key=lambda pair: pair[1] != "label")  # the whole label first, since these requests share its text
    exchanges = yield [
        address.request(ROUND_TRIP_ANSWER, answer_slots(question, setting, label, state.passages, excerpts))
        for question, setting in asked
    ]
    for (question, setting), (request, response) in zip(asked, exchanges, strict=True):
        state.replies.setdefault(question.id, {})[setting] = read_reply(request.slots, response)


def compare_answers(address: Address, strict: bool, drop_known: bool, planned: bool, state: LabelState) -> Asking:
    """Compare the answers of the round trip with the writer's, and drop questions by them.

    A question of which an answer or the comparison is unusable stays, marked as unscored; `strict` drops it. A question
    that was answered from nothing is marked as known without the label; `drop_known` drops it.
    """
    if state.label is None:
        return
    compared: list[tuple[QuestionAnswer, dict[str, Any]]] = []
    for question in state.questions:
        if not question.answerable:
            continue
        if planned:
            compared.append((question, {"question": question.question, "gold": question.answer, "answers": []}))
        elif (slots := compare_slots(question, state.replies[question.id])) is not None:
            compared.append((question, slots))
    exchanges = yield [address.request(COMPARE_ANSWERS, slots) for _, slots in compared]
    responses = {question.id: reply for (question, _), (_, reply) in zip(compared, exchanges, strict=True)}
    kept: list[QuestionAnswer] = []
    rejects: list[Reject] = []
    for question in state.questions:
        response = responses.get(question.id)
        found = outcome(question, state.replies[question.id], response)
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
        decided = found.outcome, found.reason, found.detail
        replies = state.replies[question.id].items()
        said = [f"{setting}: {getattr(reply, 'answer', '') or '(no usable answer)'}" for setting, reply in replies]
        verdict = JudgeVerdict(question.id, state.label.set_id, STAGE, *decided, said, endpoint=address.name)
        if response is not None:
            verdict.task, verdict.task_version = response.task, response.task_version
            verdict.response_key = response.key
        state.verdicts.append(verdict)
    state.keep(STAGE, kept, rejects)


def keep_twins(state: LabelState) -> None:
    """Drop the refusal questions from templates whose answerable twin was dropped, so that wordings stay balanced.

    Refusal questions that a model wrote, each in its own words, stay without a twin.
    """
    if state.label is None:
        return
    ids = {question.id for question in state.questions}
    kept: list[QuestionAnswer] = []
    rejects: list[Reject] = []
    for question in state.questions:
        if not question.twin or question.twin in ids:
            kept.append(question)
        elif question.template:
            rejects.append(Reject(question.id, LAST_STAGE, "twin_rejected", question.twin, question.set_id))
        else:
            kept.append(replace(question, twin=""))
    state.keep(LAST_STAGE, kept, rejects)


def account_for_sources(state: LabelState) -> None:
    """Count the transferred questions as kept twins: only questions that were kept are transferred."""
    if state.label is not None:
        state.keep(LAST_STAGE, state.questions, ())
