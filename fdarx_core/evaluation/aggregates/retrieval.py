"""How well a retriever finds the gold passages: the mean of each number of RetrievalScore. Source: FDARxBench §4.2."""

from __future__ import annotations

from dataclasses import fields

from fdarx_core.evaluation.aggregates.aggregate import ANSWERABLE, Aggregate, answerable_questions, averaged, ratio
from fdarx_core.evaluation.aggregates.columns import Columns, Mask
from fdarx_core.records import RetrievalScore

_NAMES = [field.name for field in fields(RetrievalScore)]


def with_gold(columns: Columns) -> Mask:
    return answerable_questions(columns) & (columns.number("gold") > 0)


def mean_of(name: str) -> Aggregate:
    return Aggregate(name, with_gold, lambda columns: averaged(columns.number(name)), ratio, ANSWERABLE)


RETRIEVAL: tuple[Aggregate, ...] = tuple(map(mean_of, _NAMES[_NAMES.index("gold") + 1 :]))
