"""One figure less another: a model less a model, a question type less a type, an ablation less the whole."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class FactualityDifference:
    """`metric` of `of` less that of `against`, which differ in `varied`: model, type, metric, configuration, threshold.

    `metric` is that of a FactualityFigure, or `spearman`: ρ with `gold`, of FAS or of the metrics that are compared.
    `low` and `high` bound the 95 % interval by bootstrap over clusters, the same draws for both. Models are compared on
    the questions that both have, and metrics, configurations and thresholds on the answers that both can score: `rows`,
    of both sides for models and types, over `clusters` clusters.
    """

    metric: str
    varied: str
    of: str
    against: str
    model: str
    setting: str
    dataset: str
    type: str
    gold: str
    value: float
    low: float | None
    high: float | None
    rows: int
    clusters: int

    @property
    def significant(self) -> bool:
        """Whether the interval leaves out 0. Source: FAS §4."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)
