"""How a task's values are read: as they are, or as the positive value and any other."""

from __future__ import annotations

from dataclasses import dataclass

from fdarx_core.review.tasks import ReviewTask


@dataclass(frozen=True, slots=True)
class Scale:
    """The values of a task in their order. With a `positive` one, which stands first, all others are one value."""

    task: str
    values: tuple[str, ...]
    positive: str = ""

    def read(self, value: str) -> str:
        """A choice as a value of this scale."""
        return value if not self.positive or value == self.positive else self.values[1]

    def code(self, value: str) -> float:
        """The place of a value among `values`, NaN for ""."""
        return float(self.values.index(value)) if value else float("nan")


def scales(task: ReviewTask) -> list[Scale]:
    """Positive or not, where the task has a positive value, and all values, where they are more than that."""
    values = tuple(task.choices)
    others = [value for value in values if value != task.positive]
    if not task.positive:
        return [Scale(task.name, values)]
    negative = others[0] if len(others) == 1 else f"not {task.positive}"
    two = Scale(task.name, (task.positive, negative), task.positive)
    return [two, Scale(task.name, values)] if len(others) > 1 else [two]
