"""How far figures and their differences can be trusted, with labels as the unit that is sampled."""

from __future__ import annotations

from fdarx_core.evaluation.statistics.bootstrap import Estimate, Slice, estimate, label_weights, percentile_interval
from fdarx_core.evaluation.statistics.holm import holm
from fdarx_core.evaluation.statistics.paired import Difference, Measured, compare

__all__ = [
    "Difference",
    "Estimate",
    "Measured",
    "Slice",
    "compare",
    "estimate",
    "holm",
    "label_weights",
    "percentile_interval",
]
