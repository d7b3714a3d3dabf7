"""Rows to hold metrics against independent computations."""

from __future__ import annotations

from random import Random

import pytest

from tests.conftest import EXAMPLES
from tests.evaluation.metric_rows import MetricRow, metric_rows


@pytest.fixture(scope="session", params=["examples", "real"])
def rows(request: pytest.FixtureRequest) -> list[MetricRow]:
    """Up to 200 questions of the example labels, and of real ones where there are some."""
    labels = EXAMPLES if request.param == "examples" else request.getfixturevalue("real_labels")
    made = metric_rows(labels)
    return Random(0).sample(made, min(200, len(made)))
