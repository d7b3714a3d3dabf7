"""What people can be asked about a question or an answer, and the words in which they reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fdarx_core.filters.baseline.relevance import NO_TOPIC
from fdarx_core.labels.topics import TOPICS

BUILD_TASKS = ("relevance", "category", "correctness", "quality")
"""What is asked about the questions of a build."""
EVALUATION_TASKS = ("grade",)
"""What is asked about the predictions of an evaluation."""


@dataclass(frozen=True, slots=True)
class ReviewTask:
    """`choices` maps each value to what an annotator reads; `stage` is the judge of a build that decides the same.

    `positive` is the value that F1, precision and recall count, "" for a task of many equal classes. `answered`: the
    answer is judged too; else its judge is shown the question alone, and so are people.
    """

    name: str
    asks: str
    choices: Mapping[str, str]
    positive: str
    stage: str = ""
    answered: bool = True


REVIEW_TASKS: dict[str, ReviewTask] = {
    task.name: task
    for task in (
        ReviewTask(
            "relevance",
            "Is the question relevant to bioequivalence review?",
            {
                "relevant": "Relevant",
                "somewhat": "Somewhat: true of the label, but seldom decisive in review",
                "irrelevant": "Irrelevant",
            },
            "relevant",
            "relevance",
            answered=False,
        ),
        ReviewTask(
            "category",
            "Which topic of the label does the question ask about?",
            {topic: topic for topic in (*TOPICS, NO_TOPIC)},
            "",
            "relevance",
            answered=False,
        ),
        ReviewTask(
            "correctness",
            "Is the answer right, by the text shown alone?",
            {
                "correct": "Correct: the text supports all of it",
                "incorrect": "Incorrect: the text contradicts a part of it, or does not support it",
            },
            "correct",
            "support",
        ),
        ReviewTask(
            "quality",
            "Is the question fit for a benchmark?",
            {
                "fit": "Fit",
                "unfit": "Unfit: it gives its answer away, asks what the text does not hold, or is vague or trivial",
            },
            "fit",
            "quality",
        ),
        ReviewTask(
            "grade",
            "How do you grade the answer against the reference?",
            {
                "correct": "A · Correct: all that matters clinically is there, nothing contradicts, nothing is made up",
                "incorrect": "B · Incorrect: it contradicts the reference, adds what is unsupported, or leaves out "
                "what matters",
                "not_attempted": "C · Not attempted: it declines or gives no answer, and claims nothing wrong",
            },
            "correct",
        ),
    )
}
"""By name, in the order in which they are asked. Source: FDARxBench §A.1, §B.4, §B.8, §B.9."""
