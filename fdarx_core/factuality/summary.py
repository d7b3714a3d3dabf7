"""From all rows of a run to what it reports: figures, differences, correlations, tables and metrics.json.

The job calls `summarise(rows, seed=…)` once, at the end; the page takes its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fdarx_core.evaluation.grid import Grid
from fdarx_core.factuality.correlations import correlations
from fdarx_core.factuality.differences import FactualityDifference
from fdarx_core.factuality.figures import RESAMPLES, differences, figures, overall
from fdarx_core.factuality.rereading import FULL
from fdarx_core.factuality.rows import ALL, FactualityRows
from fdarx_core.factuality.tables import tables
from fdarx_core.records import Correlation, FactualityFigure


@dataclass(frozen=True, slots=True)
class Summary:
    """`metrics` is what metrics.json holds; `grids` are Tables 1 to 5 and those that the paper has in its text."""

    figures: list[FactualityFigure]
    differences: list[FactualityDifference]
    correlations: list[Correlation]
    grids: list[Grid]
    metrics: dict[str, Any]


def summarise(rows: FactualityRows, *, seed: int, resamples: int = RESAMPLES) -> Summary:
    """Everything a run reports, with intervals from `resamples` draws of clusters."""
    means = figures(rows, seed=seed, resamples=resamples)
    related, changed = correlations(rows, seed=seed, resamples=resamples)
    differ = [*differences(rows, seed=seed, resamples=resamples), *changed]
    grids = tables(means, related, differ, rows)
    return Summary(means, differ, related, grids, metrics_json(rows, means, differ, related))


def metrics_json(
    rows: FactualityRows,
    means: Sequence[FactualityFigure],
    differ: Sequence[FactualityDifference],
    related: Sequence[Correlation],
) -> dict[str, Any]:
    """Each metric's mean over all answers, its rank correlation with gold factuality, then all figures."""
    return {
        **overall(rows),
        "spearman": spearman_of(rows, related),
        "similarity_measure": rows.similarity,
        "engine": rows.engine,
        "threshold": rows.threshold,
        "weights": asdict(rows.weights),
        "figures": [asdict(one) for one in means],
        "differences": [asdict(one) for one in differ],
        "correlations": [asdict(one) for one in related],
    }


def spearman_of(rows: FactualityRows, related: Sequence[Correlation]) -> Mapping[str, float | None]:
    """ρ of each metric with gold over all answers; empty without gold."""
    return {
        one.metric: one.rho
        for one in related
        if (one.gold, one.configuration, one.dataset, one.type, one.model) == ("gold", FULL, ALL, ALL, ALL)
        and bool(np.isclose(one.threshold, rows.threshold))
    }
