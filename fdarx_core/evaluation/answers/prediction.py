"""A response, understood as a Prediction."""

from __future__ import annotations

from fdarx_core.evaluation.answers.reading import UNPARSED, Reading, read_reply
from fdarx_core.evaluation.settings import Shown
from fdarx_core.llm import TextTask, Unparsable
from fdarx_core.records import Passage, Prediction, QuestionAnswer, Response, content_id

FAILED = "failed"


def predict(
    cell: tuple[str, str, str],
    question: QuestionAnswer,
    shown: Shown,
    task: TextTask,
    response: Response,
    cost: float | None = None,
) -> Prediction:
    """What a model (`cell`: its name, the setting, the retriever or "") said to a question that came with `shown`.

    A request that failed for good gives the outcome failed under the response's own reason; a reply that is empty or
    cut short is unparsed.
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


def _read(task: TextTask, response: Response, shown: Shown) -> Reading:
    try:
        reply = task.parse(response)
    except Unparsable as fault:
        if fault.reason == "failed_request":
            return Reading(FAILED, reason=response.reason)
        return Reading(UNPARSED, reason=fault.reason)
    return read_reply(reply, shown.numbered)


def _named(passages: list[Passage], question: QuestionAnswer) -> tuple[list[int], list[str]]:
    """Indices, and the labels' set ids unless all are of the question's own."""
    set_ids = [passage.set_id for passage in passages]
    own = all(set_id == question.set_id for set_id in set_ids)
    return [passage.doc_chunk_index for passage in passages], [] if own else set_ids
