"""Grading of answers, by rule where no judge is needed, otherwise by a judge. Source: FDARxBench §B.8, §C.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fdarx_core.llm import Reply, Task, Unparsable
from fdarx_core.records import Grade, Prediction, QuestionAnswer, Response
from fdarx_core.verify import TextPair, verify

FAULTS: dict[str, str] = {
    "number_missing": "a number of the gold answer is missing",
    "number_contradicted": "a number differs from the gold answer's",
    "unsupported_number": "it states a number that the gold answer does not",
    "population_missing": "it leaves out patients whom the gold answer names",
    "unsupported_population": "it names patients whom the gold answer does not",
    "warning_missing": "a warning or contraindication of the gold answer is missing",
    "unsupported_warning": "it states a warning or contraindication that the gold answer does not",
    "polarity": "it affirms what the gold answer denies, or the reverse",
    "key_content_missing": "what matters in the gold answer is missing",
    "unsupported_content": "it says much that the gold answer does not",
    "abstained": "it claims nothing",
    "vague": "it only says where to look or whom to ask",
}
"""The names with which the reason of a grade other than CORRECT begins, in words; wrong answers are counted by them."""


class GradeReply(Reply):
    """The reply of the judge. The reason comes first, so that the model derives the grade from it."""

    reason: str
    grade: Literal["CORRECT", "INCORRECT", "NOT_ATTEMPTED"]


def baseline_grade(slots: Mapping[str, Any]) -> GradeReply:
    """Return the grade of the baseline: whether the reference answer supports the predicted one."""
    drug, question, gold, predicted = (str(slots[name]) for name in ("drug", "question", "gold", "predicted"))
    [found] = verify([TextPair(gold, predicted, drug, question)], "rules:grading")
    if found.verdict == "supported":
        return GradeReply(reason=found.reason, grade="CORRECT")
    return GradeReply(reason=found.reason, grade="NOT_ATTEMPTED" if found.verdict == "undecided" else "INCORRECT")


GRADE_ANSWER = Task.load("grade_answer", GradeReply, baseline_grade)


BY_RULE = "rule"
"""The name of the judge where no judge was needed."""

_SHOWN = 200
"""Characters of an answer to a refusal question in the detail of its grade."""


def grade_without_judge(question: QuestionAnswer, prediction: Prediction) -> Grade | None:
    """Return the grade of an answer that needs no judge, None for other answers.

    A refusal is not_attempted (refused), whether the question has an answer or not; an answer to a refusal question is
    incorrect (answered_unanswerable). An answer is unscored if there is no reply (no_answer) or if the reply could not
    be parsed (unparsed_answer).
    """
    if prediction.outcome == "failed" or (prediction.outcome == "answered" and not prediction.answer.strip()):
        return _grade(question, prediction, "unscored", "no_answer", prediction.reason)
    if prediction.outcome == "unparsed":
        return _grade(question, prediction, "unscored", "unparsed_answer", prediction.reason)
    if prediction.outcome == "refused":
        return _grade(question, prediction, "not_attempted", "refused")
    if question.type == "refusal":
        return _grade(question, prediction, "incorrect", "answered_unanswerable", prediction.answer[:_SHOWN])
    return None


def grading_slots(question: QuestionAnswer, prediction: Prediction) -> dict[str, Any]:
    """Return the slots of the task grade_answer."""
    return {
        "drug": question.drug_name,
        "question": question.question,
        "gold": question.answer,
        "predicted": prediction.answer,
    }


def read_grade(question: QuestionAnswer, prediction: Prediction, response: Response) -> Grade:
    """Return the grade from the response of the judge; unscored, with the reason of `Unparsable`, if it has none."""
    grade = _grade(question, prediction, "unscored")
    grade.judge, grade.task, grade.task_version = response.endpoint, response.task, response.task_version
    grade.response_key = response.key
    try:
        reply = GRADE_ANSWER.parse(response)
    except Unparsable as error:
        grade.reason, grade.detail = error.reason, error.detail
        return grade
    grade.outcome, grade.detail = reply.grade.lower(), reply.reason
    if grade.outcome != "correct":
        grade.reason, grade.detail = _named(reply.reason)
    return grade


def _named(reason: str) -> tuple[str, str]:
    """Split the reason of a judge into its name of `FAULTS` and the rest; the name is `unnamed` if it has none."""
    name, colon, rest = reason.partition(":")
    name = name.strip(" `\"'*").lower()
    return (name, rest.strip()) if colon and name in FAULTS else ("unnamed", reason)


def _grade(question: QuestionAnswer, prediction: Prediction, outcome: str, reason: str = "", detail: str = "") -> Grade:
    return Grade(prediction.id, question.id, question.set_id, outcome, reason, detail, judge=BY_RULE)
