"""The tasks of a review: what annotators are asked about a question or an answer, and the values they choose from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

import yaml

from fdarx_core.filters.tasks import NO_TOPIC
from fdarx_core.labels.loinc import TOPICS

BUILD_TASKS = ("relevance", "category", "correctness", "quality")
GRADE_TASK, CLAIM_TASK, FLAG_TASK, ANSWER_TASK = "grade", "claim", "flag", "answer"
EVALUATE, FACTUALITY, SERVICE = "evaluate", "score_factuality", "service"
TASKS_BY_JOB: dict[str, tuple[str, ...]] = {
    "build_benchmark": BUILD_TASKS,
    EVALUATE: (GRADE_TASK,),
    FACTUALITY: (CLAIM_TASK, FLAG_TASK),
}
"""The tasks that fit the runs of a job, in the order in which they are asked."""
ON_REQUEST = ("relevance", "category")
"""Tasks that `fdarx review sample` asks only where they are named: they are about what a question bears on. The others
are about what a benchmark needs: natural questions that are clear by themselves, with right and complete answers."""
UNSURE = "unsure"
"""The choice of every task that is no verdict: it is counted, and no figure uses it."""
UNSURE_TEXT = "Unsure: I cannot decide it from what is shown"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewTask:
    """A task for annotators.

    `choices` maps each value to the text on the annotator's page, without unsure, which each task has too. `positive`
    is the value that F1, precision and recall are of, "" where all classes count alike. `stage` names the judge of a
    build that decides the same. Where `shows_answer` is false, the judge sees the question without its answer, and so
    do annotators. `statement` is the name of what is judged where that is a part of the answer. `title` is its name in
    tables, and `shown` the title of the text beside an item.
    """

    name: str
    title: str
    asks: str
    guide: str
    choices: Mapping[str, str]
    positive: str = ""
    stage: str = ""
    shows_answer: bool = True
    statement: str = ""
    shown: str = "Text that the judge was shown"

    @property
    def options(self) -> dict[str, str]:
        """All values that annotators may give, with their texts."""
        return {**self.choices, UNSURE: UNSURE_TEXT}


def _read_tasks() -> dict[str, ReviewTask]:
    tasks = yaml.safe_load(files(__package__).joinpath("tasks.yaml").read_text("utf-8"))
    tasks["category"]["choices"] = {topic: topic for topic in (*TOPICS, NO_TOPIC)}
    return {name: ReviewTask(name=name, **fields) for name, fields in tasks.items()}


REVIEW_TASKS = _read_tasks()
"""All tasks by name, in the order of tasks.yaml."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A nominal scale for the values of a task.

    With a `positive` value, which comes first, the scale has two values: this one and all others together.
    """

    task: str
    values: tuple[str, ...]
    positive: str = ""

    def read(self, value: str) -> str:
        """Return the value of this scale for a choice of the task."""
        return value if not self.positive or value == self.positive else self.values[1]

    def code(self, value: str) -> float:
        """Return the position of a value in `values`, NaN for ""."""
        return float(self.values.index(value)) if value else float("nan")


def task_scales(task: ReviewTask) -> list[Scale]:
    """Return the scale of two values, where the task has a positive one, and the scale of all values, where more."""
    values = tuple(task.choices)
    if not task.positive:
        return [Scale(task.name, values)]
    others = [value for value in values if value != task.positive]
    negative = others[0] if len(others) == 1 else f"not {task.positive}"
    binary = Scale(task.name, (task.positive, negative), task.positive)
    return [binary, Scale(task.name, values)] if len(others) > 1 else [binary]
