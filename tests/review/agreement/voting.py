"""Items and votes made up by a seed: a truth, and a judge and people who each see it with errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from fdarx_core.records.review import Annotation, ReviewItem
from fdarx_core.review.tasks import REVIEW_TASKS

PEOPLE = ("anna", "ben", "cleo")
TYPES = ("factual", "multihop", "refusal")


def item(name: str, task: str = "correctness", decision: str = "correct", **other: object) -> ReviewItem:
    given: dict[str, object] = {
        "id": name, "task": task, "subject": f"q-{name}", "set_id": f"label-{name}", "drug": "Examplol",
        "type": "factual", "category": "", "question": f"What does {name} say?", "answer": "It says so.",
        "choices": list(REVIEW_TASKS[task].choices), "decision": decision, "judge": "llm",
    }  # fmt: skip
    return ReviewItem(**(given | other))  # type: ignore[arg-type]


def votes(on: ReviewItem, said: Mapping[str, str], **other: object) -> list[Annotation]:
    """One annotation a name; "" is no vote."""
    return [
        Annotation(on.id, name, on.task, value, **other)  # type: ignore[arg-type]
        for name, value in said.items()
        if value
    ]


def simulated(
    tasks: Sequence[str] = tuple(REVIEW_TASKS), *, n: int = 60, seed: int = 0, people: Sequence[str] = PEOPLE
) -> tuple[list[ReviewItem], list[Annotation]]:
    """`n` items a task, on half as many labels; people and judge each err, and leave some items out."""
    dice = Random(seed)
    items: list[ReviewItem] = []
    given: list[Annotation] = []
    for task in tasks:
        choices = list(REVIEW_TASKS[task].choices)
        for at in range(n):
            truth = dice.choice(choices)
            seen = [truth if dice.random() < 0.8 else dice.choice(choices) for _ in range(len(people) + 1)]
            undecided = dice.random() < 0.1
            one = item(
                f"{task}-{at}",
                task,
                "" if undecided else seen[0],
                set_id=f"label-{at % (n // 2)}",
                type=dice.choice(TYPES),
                fraction=dice.choice((0.1, 0.5, 1.0)),
            )
            items.append(one)
            said = {name: "" if dice.random() < 0.15 else value for name, value in zip(people, seen[1:], strict=True)}
            given += votes(one, said, saw_decision=dice.random() < 0.1, remark="so it says" if at % 7 == 0 else "")
    return items, given
