"""Paired differences as rows for a page's table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fdarx_core.records import Comparison
from fdarx_core.report.evaluation.wording import GROUP_NAMES, METRIC_NAMES, setting_name

SIGNIFICANT = 0.05
"""Of p after Holm's correction."""


def differences(comparisons: Sequence[Comparison]) -> dict[str, Any]:
    """What the page's script reads: `level` of significance and `rows`, the surest first.

    A row is metric, questions, A, B, difference, low, high, p, p after Holm, number of questions and of labels.
    """
    ordered = sorted(comparisons, key=lambda one: (one.p_holm, one.p, -abs(one.difference)))
    return {"level": SIGNIFICANT, "rows": [_row(one) for one in ordered]}


def _row(one: Comparison) -> list[str | int | float]:
    return [
        METRIC_NAMES.get(one.metric, one.metric),
        GROUP_NAMES.get(one.group, one.group),
        _named(one.model_a, one.setting_a, one.retriever_a),
        _named(one.model_b, one.setting_b, one.retriever_b),
        *(round(value, 5) for value in (one.difference, one.low, one.high, one.p, one.p_holm)),
        one.rows,
        one.labels,
    ]


def _named(model: str, setting: str, retriever: str) -> str:
    """ "model · Full label"; a retriever alone by its name."""
    return f"{model} · {setting_name(setting, retriever)}" if model else retriever
