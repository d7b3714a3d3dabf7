"""The tasks of a review: what annotators are asked about a question or an answer, what they read, and the values.

They read the texts of an item, and its passages with the sentences that are most like the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import Any

import yaml

from fdarx_core.filters.tasks import NO_TOPIC
from fdarx_core.labels.loinc import TOPICS
from fdarx_core.records.benchmark import ReviewItem
from fdarx_core.records.question_types import UNANSWERABLE_TYPES
from fdarx_core.text.stems import best_sentences, terms

GRADE_TASK, CLAIM_TASK, FLAG_TASK, ANSWER_TASK = "grade", "claim", "flag", "answer"
EVALUATE, FACTUALITY, SERVICE = "evaluate", "score_factuality", "service"
TASKS_BY_JOB: dict[str, tuple[str, ...]] = {
    "build_benchmark": ("relevance", "category", "correctness", "quality"),
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
    shown: str = "Text to judge by"

    @property
    def options(self) -> dict[str, str]:
        """All values that annotators may give, with their texts."""
        return {**self.choices, UNSURE: UNSURE_TEXT}


_TASKS: dict[str, dict[str, Any]] = yaml.safe_load(files(__package__).joinpath("tasks.yaml").read_text("utf-8"))
_TASKS["category"]["choices"] = {topic: topic for topic in (*TOPICS, NO_TOPIC)}
REVIEW_TASKS = {name: ReviewTask(name=name, **fields) for name, fields in _TASKS.items()}
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


EMPTY = "(empty)"
"""What Label Studio shows for a text without characters."""

Piece = tuple[str, str]
"""A kind (plain, evidence or near) and characters of the context."""


def pieces_of(item: ReviewItem) -> list[Piece]:
    """Return the whole context in order.

    Pieces of kind evidence are the text that the judge was shown. Pieces of kind near are its sentences with most of
    the words and numbers of the answer (of the reference where an answer is graded, of the question where no answer is
    expected, of the claim where one is judged). Rules find them, for rejected questions too, because the quotation of
    the judge would show its decision.
    """
    sought = item.statement or (item.question if item.type in UNANSWERABLE_TYPES else item.gold or item.answer)
    near, pieces, at = best_sentences(terms(sought), "\n".join(item.evidence)), list[Piece](), 0
    for passage in item.evidence:
        start = item.context.find(passage, at)
        if start < 0:
            continue
        pieces.append(("plain", item.context[at:start]))
        within = 0
        for place, sentence in sorted((passage.find(sentence), sentence) for sentence in near):
            if place >= within:
                pieces += [("evidence", passage[within:place]), ("near", sentence)]
                within = place + len(sentence)
        pieces.append(("evidence", passage[within:]))
        at = start + len(passage)
    pieces.append(("plain", item.context[at:]))
    return [(kind, text) for kind, text in pieces if text]


def text_titles(task: ReviewTask) -> dict[str, str]:
    """Return the fields of an item that annotators read beside its passages, with their titles, in order."""
    titles = {"question": "Question", "gold": "Reference" if task.name == GRADE_TASK else ""}
    titles |= {"answer": "Answer" if task.shows_answer else "", "statement": task.statement}
    return {name: title for name, title in titles.items() if title}


def passages_html(item: ReviewItem) -> str:
    """Return the whole context as HTML for Label Studio, with the pieces of kind near in `<mark>`.

    It is one line, because a blank line would end the block of HTML for a reader of Markdown.
    """
    made = [f"<mark>{_html(text)}</mark>" if kind == "near" else _html(text) for kind, text in pieces_of(item)]
    return f"<div>{''.join(made) or 'There is no text for this item.'}</div>"


def _html(text: str) -> str:
    return "<br>".join(escape(line) for line in text.splitlines()) + ("<br>" if text.endswith("\n") else "")
