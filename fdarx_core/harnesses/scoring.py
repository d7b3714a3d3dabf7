"""Scores of replies that a model gave in another harness, by the rules and the judge of `fdarx evaluate`.

A reply is parsed and graded alone. What it adds to each metric is a list of numbers (its components, which are summed),
so that a harness may keep them with the sample and combine them at the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from fdarx_core.evaluation.metrics import SCORE_METRICS, ScoreColumns, asked_to_refuse
from fdarx_core.evaluation.predictions import (
    ANSWER_TASKS,
    EVALUATION_RULES_VERSION,
    EVALUATION_TASKS,
    prediction_from_response,
)
from fdarx_core.evaluation.scoring import (
    GRADE_ANSWER,
    grade_without_judge,
    grading_slots,
    question_features,
    read_grade,
    score,
)
from fdarx_core.evaluation.settings import PromptContext, needs_whole_label
from fdarx_core.llm import Baseline, Task
from fdarx_core.records import (
    Equivalence,
    Grade,
    LabelSummary,
    Passage,
    Prediction,
    QuestionAnswer,
    Request,
    Response,
    Score,
)
from fdarx_core.records.arrow import to_table
from fdarx_core.records.question_types import UNANSWERABLE_TYPES

METRICS = (
    "accuracy",
    "accuracy_given_attempted",
    "not_attempted_rate",
    "false_refusal_rate",
    "refusal_precision",
    "refusal_recall",
    "refusal_f1",
    "hallucination_rate",
    "citation_precision",
    "citation_recall",
    "citation_f1",
    "citation_f1_eq",
    "bleu",
    "meteor",
    "rouge_l",
    "unparsed_rate",
    "failed_rate",
)
"""The metrics that a harness reports, each over all questions of a setting that it concerns."""

_BASELINE = Baseline(EVALUATION_TASKS, EVALUATION_RULES_VERSION)

Components = Mapping[str, Sequence[float]]
"""What one reply adds to each metric that it counts for, by the name of the metric."""


@dataclass(frozen=True, slots=True)
class HarnessSample:
    """One question in one setting.

    `gold` are the gold passages, `equivalents` pairs of a gold passage and one that may replace it, `citable` the
    passages that the prompt marks, all as doc_chunk_index values of the label. `system` and `user` are the two messages
    of the prompt.
    """

    id: str
    setting: str
    retriever: str
    type: str
    set_id: str
    drug: str
    question: str
    target: str
    gold: list[int]
    equivalents: list[list[int]]
    citable: list[int]
    system: str = ""
    user: str = ""

    @property
    def qa(self) -> QuestionAnswer:
        """The question with the fields that scoring reads."""
        return QuestionAnswer(
            id=self.id,
            type=self.type,
            answer_kind="",
            source="",
            category="",
            set_id=self.set_id,
            drug_name=self.drug,
            question=self.question,
            answer=self.target,
            gold_passages=self.gold,
            gold_has_answer=[True] * len(self.gold),
        )


@dataclass(frozen=True, slots=True)
class HarnessReply:
    """A parsed reply to a sample. `request` asks a judge for the grade; it is None if a rule gives the grade."""

    sample: HarnessSample
    prediction: Prediction
    request: Request | None

    @classmethod
    def parse(cls, row: Mapping[str, Any], text: str | None, finish_reason: str = "stop") -> HarnessReply:
        """Parse a reply to the sample of an exported row.

        Args:
            row: the fields of the sample.
            text: the text of the reply; None if the model gave none.
            finish_reason: stop, length or content_filter, as OpenAI-compatible servers name it.

        Raises:
            KeyError: the row lacks a field of `HarnessSample`.
        """
        messages = {"system": "", "user": "", **row}
        sample = HarnessSample(**{field.name: messages[field.name] for field in fields(HarnessSample)})
        task, question = ANSWER_TASKS[sample.setting], sample.qa
        # Passages by their key alone: parsing a reply reads no more of them.
        numbered = {index: Passage(sample.set_id, index, 0, *[""] * 6) for index in sample.citable}
        response = _response(task, "", text, finish_reason)
        cell = "", sample.setting, sample.retriever
        shown = PromptContext({}, list(numbered.values()), numbered=numbered)
        prediction = prediction_from_response(cell, question, shown, task, response)
        if grade_without_judge(question, prediction):
            return cls(sample, prediction, None)
        slots = grading_slots(question, prediction)
        return cls(sample, prediction, GRADE_ANSWER.request(slots, endpoint=_BASELINE.name))

    def grade_by_rules(self) -> Grade:
        """Return the grade by rule, or by the built-in judge, which leaves most answers undecided."""
        question = self.sample.qa
        if self.request is None:
            grade = grade_without_judge(question, self.prediction)
            assert grade is not None
            return grade
        [response] = _BASELINE.answer([self.request])
        return read_grade(question, self.prediction, response)

    def grade_by_judge(self, judge: str, text: str | None, finish_reason: str = "stop") -> Grade:
        """Return the grade in the reply of a judge to `request`; unscored if it cannot be parsed."""
        return read_grade(self.sample.qa, self.prediction, _response(GRADE_ANSWER, judge, text, finish_reason))

    def components(self, grade: Grade) -> Components:
        """Return what the reply adds to each metric."""
        sample, question = self.sample, self.sample.qa
        whole, pairs = needs_whole_label(sample.setting), sample.equivalents
        features = question_features(question, LabelSummary(sample.set_id, sample.drug, whole, 0, 0), {})
        equal = Equivalence(sample.id, sample.set_id, [gold for gold, _ in pairs], [member for _, member in pairs])
        row = score(features, question, self.prediction, grade, equal)
        columns = ScoreColumns(to_table([row], Score))
        found: dict[str, list[float]] = {}
        for name in METRICS:
            metric = SCORE_METRICS[name]
            if metric.over is asked_to_refuse:
                if whole:
                    # These count only in a cell with refusal questions, which one row does not know.
                    counts = np.nan_to_num(metric.components(columns)[0])
                    found[name] = [*counts.tolist(), float(row.type in UNANSWERABLE_TYPES)]
                continue
            _, counted, numbers = columns.components(metric)
            if counted[0]:
                found[name] = numbers[0].tolist()
        return found


def combine(name: str, components: Sequence[Sequence[float]]) -> float:
    """Return a metric of the replies with these components; NaN if it has no meaning for them."""
    metric, sums = SCORE_METRICS[name], np.sum(np.asarray(components, dtype=np.float64), axis=0)
    if metric.over is asked_to_refuse:
        *counts, refusal_questions = sums
        return float(metric.combine(np.array(counts))) if refusal_questions else float("nan")
    return float(metric.combine(sums))


def combine_all(replies: Sequence[Components]) -> dict[str, float]:
    """Return all metrics that have a meaning for these replies."""
    found = {name: [reply[name] for reply in replies if name in reply] for name in METRICS}
    values = {name: combine(name, listed) for name, listed in found.items() if listed}
    return {name: value for name, value in values.items() if not np.isnan(value)}


def _response(task: Task[Any], endpoint: str, text: str | None, finish_reason: str) -> Response:
    reason = "no_reply" if text is None else ""
    return Response("", task.name, task.version, endpoint, text or "", reason, finish_reason)
