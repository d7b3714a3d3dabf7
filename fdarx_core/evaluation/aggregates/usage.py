"""What the answers cost: tokens, money, time, as means over the questions that got a reply."""

from __future__ import annotations

import numpy as np

from fdarx_core.evaluation.aggregates.aggregate import EVERY, Aggregate, averaged, ratio
from fdarx_core.evaluation.aggregates.columns import Columns, Mask, Numbers


def replied(columns: Columns) -> Mask:
    return ~columns.is_in("outcome", "failed")


def prefix_cache_hits(columns: Columns) -> Numbers:
    return np.column_stack([columns.number("cached_tokens"), columns.number("prompt_tokens")])


def mean_of(column: str, name: str) -> Aggregate:
    """The mean of a column of Score; about nothing where no row has it."""

    def over(columns: Columns) -> Mask:
        return replied(columns) & columns.measured(column)

    return Aggregate(name, over, lambda columns: averaged(columns.number(column)), ratio, EVERY)


USAGE: tuple[Aggregate, ...] = (
    mean_of("prompt_tokens", "prompt_tokens"),
    Aggregate("prefix_cache_hit_rate", replied, prefix_cache_hits, ratio, EVERY),
    mean_of("completion_tokens", "completion_tokens"),
    mean_of("cost", "cost_per_question"),
    mean_of("latency_s", "latency_s"),
)
