"""How to train, and what that makes of a number of sequences: steps, rates, when to look at the validation part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_WARM_UP = 0.03
"""Share of the steps over which the rate rises to its full height."""
_LOOKS_AN_EPOCH = 4


@dataclass(frozen=True, slots=True)
class Recipe:
    """Numbers of a training. `length` is in tokens, `batch` in sequences of such a length, over all workers.

    `evaluate_every` is in steps; None looks four times an epoch. Training ends after `patience` looks without a lower
    validation loss. No dropout: results then do not depend on how many workers there are. Source of the method: Hu et
    al. 2021 (LoRA); of three epochs: QA-RAG §2.3.
    """

    rank: int = 16
    alpha: int = 32
    rate: float = 2e-4
    epochs: int = 3
    batch: int = 4
    length: int = 2048
    evaluate_every: int | None = None
    patience: int = 4
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps, counted from 1, that a recipe takes over so many sequences."""

    recipe: Recipe
    sequences: int

    @property
    def steps_an_epoch(self) -> int:
        return -(-self.sequences // self.recipe.batch)

    @property
    def steps(self) -> int:
        return self.steps_an_epoch * self.recipe.epochs

    def members(self, step: int) -> list[int]:
        """The sequences of a step; each epoch has an order of its own."""
        epoch, at = divmod(step - 1, self.steps_an_epoch)
        order = np.random.default_rng([self.recipe.seed, epoch]).permutation(self.sequences)
        return [int(one) for one in order[at * self.recipe.batch : (at + 1) * self.recipe.batch]]

    def rate(self, step: int) -> float:
        """The learning rate: it rises over the first steps and then falls to 0 in a straight line."""
        rising = max(1, round(self.steps * _WARM_UP))
        if step <= rising:
            return self.recipe.rate * step / rising
        return self.recipe.rate * (self.steps - step + 1) / (self.steps - rising + 1)

    def looks(self, step: int) -> bool:
        """Whether the validation loss is taken, and a checkpoint written, after this step."""
        every = self.recipe.evaluate_every or max(1, self.steps_an_epoch // _LOOKS_AN_EPOCH)
        return step % every == 0 or step == self.steps
