"""The averaged perceptron, a linear classifier of sets of features. Source: Collins 2002."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence


class AveragedPerceptron:
    """A classifier that learns from one example at a time; `average` ends the learning.

    Args:
        classes: the names of the classes; the first one is that of examples without known features.
    """

    def __init__(self, classes: Sequence[str]) -> None:
        self._classes = tuple(classes)
        self._weights: dict[str, list[float]] = {}
        self._totals: defaultdict[str, list[float]] = defaultdict(lambda: [0.0] * len(self._classes))
        self._step = 1

    def scores(self, features: Iterable[str]) -> list[float]:
        """Return the score of each class for an example."""
        found = [self._weights[name] for name in features if name in self._weights]
        return [sum(values) for values in zip(*found, strict=True)] if found else [0.0] * len(self._classes)

    def best(self, features: Iterable[str]) -> str:
        """Return the class of an example."""
        scores = self.scores(features)
        return self._classes[scores.index(max(scores))]

    def learn(self, features: Sequence[str], name: str) -> None:
        """Learn the class of an example."""
        guess = self.best(features)
        if guess != name:
            own, other = self._classes.index(name), self._classes.index(guess)
            for feature in features:
                weights, totals = self._weights.setdefault(feature, [0.0] * len(self._classes)), self._totals[feature]
                weights[own] += 1
                weights[other] -= 1
                totals[own] += self._step
                totals[other] -= self._step
        self._step += 1

    def average(self) -> None:
        """Replace the weights by their means over all steps, which generalize better than the last ones."""
        for feature, weights in self._weights.items():
            totals = self._totals[feature]
            self._weights[feature] = [value - total / self._step for value, total in zip(weights, totals, strict=True)]
        self._totals.clear()
