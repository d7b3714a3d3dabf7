"""The loss, step by step, and what follows from it: where it was lowest, and when to stop."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(slots=True)
class LossPoint:
    """One step. `loss` and `validation_loss` are the mean cross-entropy in nats of an answer's token, the first before
    the step was taken, the second after it, None where nobody looked. `tokens` are those of the answers in the step.
    """

    step: int
    epoch: float
    loss: float
    rate: float
    tokens: int
    validation_loss: float | None = None


def checked(step: int, loss: float) -> float:
    """The loss. Raises ValueError where it is no finite number: no later step would mend that."""
    if not math.isfinite(loss):
        raise ValueError(f"the loss of step {step} is {loss}: the training diverged; set a lower --rate")
    return loss


def lowest(curve: Sequence[LossPoint]) -> LossPoint | None:
    """The first of the points with the lowest validation loss; None where nobody has looked yet."""
    looks = [one for one in curve if one.validation_loss is not None]
    return min(looks, key=lambda one: one.validation_loss or 0.0, default=None)


def has_settled(curve: Sequence[LossPoint], patience: int) -> bool:
    """Whether the last `patience` looks all came after the lowest one."""
    best = lowest(curve)
    return (
        best is not None and sum(one.validation_loss is not None and one.step > best.step for one in curve) >= patience
    )
