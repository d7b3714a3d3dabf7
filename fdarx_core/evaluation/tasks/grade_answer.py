"""Whether an answer says what the reference says. Source: FDARxBench §B.8, §C.1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from fdarx_core.evaluation.baseline.grading import grade
from fdarx_core.llm import Reply, Task

FAULTS = frozenset(
    {
        "number_missing",
        "number_contradicted",
        "unsupported_number",
        "population_missing",
        "unsupported_population",
        "warning_missing",
        "unsupported_warning",
        "polarity",
        "key_content_missing",
        "unsupported_content",
        "abstained",
        "vague",
    }
)
"""What a reason begins with unless the grade is CORRECT, so that wrong answers can be counted by it."""


class GradeReply(Reply):
    """Why, then the grade, in this order: a model that writes its reasons first grades by them."""

    reason: str
    grade: Literal["CORRECT", "INCORRECT", "NOT_ATTEMPTED"]


def by_rules(slots: Mapping[str, Any]) -> GradeReply:
    """The baseline's answer."""
    outcome, fault, detail = grade(slots)
    return GradeReply(reason=f"{fault}: {detail}" if fault else detail, grade=outcome)


GRADE_ANSWER = Task.load("grade_answer", GradeReply, by_rules)
