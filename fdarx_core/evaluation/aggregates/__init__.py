"""The aggregate metrics. A new one is a function and a line in the tuple of its module."""

from __future__ import annotations

from fdarx_core.evaluation.aggregates.aggregate import Aggregate, counted
from fdarx_core.evaluation.aggregates.answers import ANSWERS
from fdarx_core.evaluation.aggregates.citations import CITATIONS
from fdarx_core.evaluation.aggregates.columns import Codes, Columns, Mask, Numbers
from fdarx_core.evaluation.aggregates.refusals import REFUSALS
from fdarx_core.evaluation.aggregates.retrieval import RETRIEVAL
from fdarx_core.evaluation.aggregates.usage import USAGE

SCORE_AGGREGATES: dict[str, Aggregate] = {one.name: one for one in (*ANSWERS, *REFUSALS, *CITATIONS, *USAGE)}
"""Metrics on Score rows, by name."""

RETRIEVAL_AGGREGATES: dict[str, Aggregate] = {one.name: one for one in RETRIEVAL}
"""Metrics on RetrievalScore rows, by name."""

__all__ = [
    "RETRIEVAL_AGGREGATES",
    "SCORE_AGGREGATES",
    "Aggregate",
    "Codes",
    "Columns",
    "Mask",
    "Numbers",
    "counted",
]
