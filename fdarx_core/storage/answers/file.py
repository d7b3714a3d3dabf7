"""Answers of models as people keep them: JSON lines, a JSON list, CSV or Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fdarx_core.records import CheckedAnswer, Reject, content_id
from fdarx_core.storage.answers.gold import Gold
from fdarx_core.storage.answers.rows import normal, reject, text_at, texts_at
from fdarx_core.storage.location import Location
from fdarx_core.storage.rows_file import read_rows

STAGE = "predictions"
NEEDED = "question and answer"

_ANSWER = ("answer", "prediction", "response")
_REFERENCES = ("references", "reference", "ground_truths", "ground_truth", "gold_answer")


def answers_of_file(location: Location, gold: Gold) -> Iterator[CheckedAnswer | Reject]:
    """The file's rows in their order, each as an answer or a reject.

    A row has `question` and `answer` (or prediction, response; a blank one has failed); perhaps `id`, `model` (else the
    file's name, less the gold's that it begins with), `dataset` (else the gold's), `type`, `setting`, `set_id`, `drug`,
    `references` (or reference, ground_truths, ground_truth, gold_answer).
    """
    dataset, model = gold.of_file(location.name.removesuffix(location.suffix))
    for place, row, fault in read_rows(location, NEEDED, blank=_ANSWER):
        try:
            yield _answer(row, fault, model, dataset)
        except ValueError as error:
            yield reject(error, STAGE, text_at(row, "id"), place)


def _answer(row: dict[str, Any], fault: str, model: str, dataset: str) -> CheckedAnswer:
    """Raises `ValueError("reason: detail")`."""
    if fault:
        raise ValueError(fault)
    question = text_at(row, "question")
    if not normal(question):
        raise ValueError("no_question: the key question holds no text")
    said = next((row[key] for key in _ANSWER if row.get(key) is not None), None)
    if not isinstance(said, str):
        raise ValueError(f"no_answer: none of {', '.join(_ANSWER)} holds a text")
    set_id = text_at(row, "set_id")
    question_id = content_id("checked_question", normal(question), set_id)
    named = text_at(row, "model") or model, text_at(row, "dataset") or dataset, text_at(row, "setting")
    return CheckedAnswer(
        id=content_id("checked_answer", *named, text_at(row, "id") or question_id),
        question_id=question_id,
        question=question,
        answer=said,
        model=named[0],
        dataset=named[1],
        setting=named[2],
        type=text_at(row, "type"),
        cluster=set_id or question_id,
        set_id=set_id,
        drug=text_at(row, "drug"),
        outcome="answered" if said.strip() else "failed",
        references=texts_at(row, *_REFERENCES),
    )
