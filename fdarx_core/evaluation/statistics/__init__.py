"""How far figures and their differences can be trusted, with labels as the unit that is sampled."""

from __future__ import annotations

from fdarx_core.evaluation.statistics.bootstrap import (
    Estimate,
    Slice,
    contrast,
    estimate,
    label_weights,
    percentile_interval,
    weight_blocks,
)
from fdarx_core.evaluation.statistics.holm import holm
from fdarx_core.evaluation.statistics.paired import Difference, Measured, compare
from fdarx_core.evaluation.statistics.rank_correlation import Contrast, Related, spearman

__all__ = [
    "Contrast",
    "Difference",
    "Estimate",
    "Measured",
    "Related",
    "Slice",
    "compare",
    "contrast",
    "estimate",
    "holm",
    "label_weights",
    "percentile_interval",
    "spearman",
    "weight_blocks",
]
