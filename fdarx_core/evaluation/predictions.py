"""The answer tasks of the four settings, and predictions made from replies. Source: FDARxBench §3.4, §B.6."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from fdarx_core.baseline.answering import from_gold, from_memory, from_passages
from fdarx_core.evaluation.grading import GRADE_ANSWER
from fdarx_core.evaluation.replies import UNPARSED, ParsedReply, parse_reply
from fdarx_core.evaluation.settings import CLOSED_BOOK, FULL_LABEL, ORACLE, RETRIEVED, PromptContext
from fdarx_core.llm import Task, Unparsable, source_digest
from fdarx_core.records import Passage, Prediction, QuestionAnswer, Response, content_id
from fdarx_core.storage.predictions import ImportedPrediction

ANSWER_FULL_LABEL = Task.load("answer_full_label", str, from_passages)

ANSWER_TASKS: dict[str, Task[str]] = {
    CLOSED_BOOK: Task.load("answer_closed_book", str, from_memory),
    FULL_LABEL: ANSWER_FULL_LABEL,
    ORACLE: Task.load("answer_oracle", str, from_gold),
    RETRIEVED: Task.load("answer_retrieved", str, from_passages),
}
"""The task of each setting."""

EVALUATION_TASKS: dict[str, Task[Any]] = {
    **{task.name: task for task in ANSWER_TASKS.values()},
    GRADE_ANSWER.name: GRADE_ANSWER,
}
"""All tasks of an evaluation, by name."""

EVALUATION_RULES_VERSION = source_digest("fdarx_core.baseline", "fdarx_core.verify")
"""The version of the baseline's rules, for `Baseline(EVALUATION_TASKS, EVALUATION_RULES_VERSION)`."""


FAILED = "failed"


def prediction_from_response(
    cell: tuple[str, str, str],
    question: QuestionAnswer,
    shown: PromptContext,
    task: Task[str],
    response: Response,
    cost: float | None = None,
) -> Prediction:
    """Return the prediction of a model (`cell`: its name, the setting, the retriever or "") from its response.

    `shown` is the evidence in the prompt. A request that failed permanently gives the outcome failed with the reason of
    the response; a reply that is empty or truncated is unparsed.
    """
    model, setting, retriever = cell
    reading = _read(task, response, shown)
    cited, cited_set_ids = _named(reading.cited, question)
    seen, seen_set_ids = _named(shown.passages, question)
    return Prediction(
        id=content_id(question.id, model, setting, retriever),
        question_id=question.id,
        set_id=question.set_id,
        model=model,
        setting=setting,
        retriever=retriever,
        outcome=reading.outcome,
        answer=reading.answer,
        text=response.text,
        reason=reading.reason,
        cited=cited,
        cited_set_ids=cited_set_ids,
        cited_unknown=reading.unknown,
        shown=seen,
        shown_set_ids=seen_set_ids,
        cuts=shown.cuts,
        task=task.name,
        task_version=task.version,
        response_key=response.key,
        prompt_tokens=response.prompt_tokens,
        cached_tokens=response.cached_tokens,
        completion_tokens=response.completion_tokens,
        latency_s=response.latency_s,
        cost=cost,
    )


def _read(task: Task[str], response: Response, shown: PromptContext) -> ParsedReply:
    try:
        reply = task.parse(response)
    except Unparsable as fault:
        if fault.reason == "failed_request":
            return ParsedReply(FAILED, reason=response.reason)
        return ParsedReply(UNPARSED, reason=fault.reason)
    return parse_reply(reply, shown.numbered)


def _named(passages: list[Passage], question: QuestionAnswer) -> tuple[list[int], list[str]]:
    """Return the indices, and the set ids of the labels unless all passages are of the label of the question."""
    set_ids = [passage.set_id for passage in passages]
    own = all(set_id == question.set_id for set_id in set_ids)
    return [passage.doc_chunk_index for passage in passages], [] if own else set_ids


def citing_settings(answers: Iterable[ImportedPrediction]) -> frozenset[str]:
    """Return the settings in which any answer cites.

    In these settings an answer without citations counts as one; in others no citations were asked for.
    """
    return frozenset(one.setting for one in answers if one.cited or parse_reply(one.text, {}).unknown)


def prediction_from_given(
    question: QuestionAnswer, passages: Sequence[Passage], given: ImportedPrediction
) -> Prediction:
    """Return the prediction of an answer from elsewhere, which may cite all these passages of the label.

    Citations in a column of the row replace those in the text.
    """
    numbered = {passage.doc_chunk_index: passage for passage in passages}
    reading = parse_reply(given.text, numbered)
    cited, unknown = [passage.doc_chunk_index for passage in reading.cited], reading.unknown
    if given.cited is not None:
        named = list(dict.fromkeys(given.cited))
        cited = [index for index in named if index in numbered]
        unknown = len(named) - len(cited)
    return Prediction(
        id=content_id(question.id, given.model, given.setting, given.retriever),
        question_id=question.id,
        set_id=question.set_id,
        model=given.model,
        setting=given.setting,
        retriever=given.retriever,
        outcome=reading.outcome,
        answer=reading.answer,
        text=given.text,
        reason=reading.reason,
        cited=cited,
        cited_unknown=unknown,
    )
