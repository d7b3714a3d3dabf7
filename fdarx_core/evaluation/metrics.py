"""Metrics over many answers or rankings, defined by sums within each label.

Sums of labels add up. The metric of a bootstrap sample of labels is therefore a matrix product, not a pass over rows.
Another package adds a metric by the entry point group `fdarx.metrics`. Source: FDARxBench §3.5, §4.1, §4.2, §B.6–B.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fdarx_core.plugins import load_plugins
from fdarx_core.records import Grade, Prediction, QuestionAnswer, RetrievalScore

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


class ScoreColumns:
    """The columns of Score or RetrievalScore rows, sorted by label and question.

    `labels` are the distinct set ids in ascending order; `label_of` gives each row's position among them.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table.sort_by([("set_id", "ascending"), ("question_id", "ascending")]).combine_chunks()
        names, codes = np.unique(self.strings("set_id"), return_inverse=True)
        self.labels: list[str] = names.tolist()
        self.label_of: Codes = codes.astype(np.int64)
        self._numbers: dict[str, Numbers] = {}
        self._masks: dict[tuple[str, tuple[str, ...]], Mask] = {}

    @property
    def rows(self) -> int:
        return int(self._table.num_rows)

    def number(self, name: str) -> Numbers:
        """Return a numeric or boolean column, or the values of an added metric, as floats; NaN for no value."""
        if name not in self._numbers:
            if name in self._table.column_names:
                self._numbers[name] = pc.cast(self._table[name], pa.float64()).to_numpy().astype(np.float64)
            else:
                self._numbers[name] = self._extra(name)
        return self._numbers[name]

    def _extra(self, name: str) -> Numbers:
        """Return the value of an added metric from `extra` of each row."""
        rows = self._table["extra"].to_pylist() if "extra" in self._table.column_names else [()] * self.rows
        return np.array([dict(row or ()).get(name, np.nan) for row in rows], dtype=np.float64)

    def measured(self, name: str) -> bool:
        """Return whether the column has a number in any row."""
        return bool(self._table[name].null_count < self.rows)

    def is_in(self, name: str, *values: str) -> Mask:
        """Return the mask of the rows in which the column has one of the values."""
        key = (name, values)
        if key not in self._masks:
            found = pc.is_in(self._table[name], value_set=pa.array(values, pa.string()))
            self._masks[key] = np.asarray(found.to_numpy(), dtype=np.bool_)
        return self._masks[key]

    def strings(self, name: str) -> NDArray[np.str_]:
        return np.asarray(self._table[name].to_pylist(), dtype=np.str_)


ANSWERABLE = ("factual", "multihop", "answerable")
REFUSAL = ("refusal",)
ALL = ("all",)
EVERY = ("factual", "multihop", "refusal", "answerable", "all")


AnswerScorer = Callable[[QuestionAnswer, Prediction, Grade | None], float | None]
"""Returns the number of one answer from the question, the prediction and its grade; None where it has no meaning."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric over many rows.

    `over` marks the rows that the metric is about. `components` gives k numbers for every row of the table, shape
    (rows, k), which are summed; NaN marks a row that could not be measured, and counts as unscored. `combine` turns
    sums of shape (…, k) into values of shape (…), NaN where they have no meaning. `types` are the groups by question
    type that the metric is reported for. `score` gives the number of one answer where `Score` has no field for it; the
    evaluation keeps it in `Score.extra` under the metric's name. `title` is the name in tables, by default `name`.
    """

    name: str
    over: Callable[[ScoreColumns], Mask]
    components: Callable[[ScoreColumns], Numbers]
    combine: Callable[[Numbers], Numbers]
    types: tuple[str, ...]
    score: AnswerScorer | None = None
    title: str = ""


def metric_components(metric: Metric, columns: ScoreColumns) -> tuple[Mask, Mask, Numbers]:
    """Return the rows that the metric concerns, those of them with a value, and their components (0 elsewhere)."""
    over = metric.over(columns)
    components = metric.components(columns)
    rests_on = over & ~np.isnan(components).any(axis=1)
    return over, rests_on, np.where(rests_on[:, None], components, 0.0)


def share_components(part: Mask, base: Mask) -> Numbers:
    """Return the components of a share: 1 for rows in `part`, and 1 to count rows; NaN outside `base`."""
    return np.where(base[:, None], np.column_stack([part, np.ones(len(part))]), np.nan)


def mean_components(values: Numbers) -> Numbers:
    """Return the components of the mean of `values`, which may be NaN."""
    return np.column_stack([values, np.ones(len(values))])


def ratio(sums: Numbers) -> Numbers:
    """Return the first sum divided by the second, NaN where that is 0."""
    return divide(sums[..., 0], sums[..., 1])


def divide(above: Numbers, below: Numbers) -> Numbers:
    """Divide element by element; NaN where the divisor is 0."""
    return np.asarray(np.divide(above, below, out=np.full(np.shape(below), np.nan), where=below != 0))


def every_row(columns: ScoreColumns) -> Mask:
    return np.ones(columns.rows, dtype=np.bool_)


def refusal_questions(columns: ScoreColumns) -> Mask:
    return columns.is_in("type", "refusal")


def answerable_questions(columns: ScoreColumns) -> Mask:
    return ~refusal_questions(columns)


def understood(columns: ScoreColumns) -> Mask:
    """Return the rows whose reply could be parsed, as an answer or as a refusal."""
    return columns.is_in("outcome", "answered", "refused")


def refused(columns: ScoreColumns) -> Mask:
    return columns.is_in("outcome", "refused")


def graded(columns: ScoreColumns) -> Mask:
    """Return the rows that have a verdict."""
    return understood(columns) & columns.is_in("grade", "correct", "incorrect", "not_attempted")


def accuracy(columns: ScoreColumns) -> Numbers:
    return share_components(columns.is_in("grade", "correct"), graded(columns))


def not_attempted(columns: ScoreColumns) -> Numbers:
    return share_components(columns.is_in("grade", "not_attempted"), graded(columns))


def attempts(columns: ScoreColumns) -> Mask:
    """Return the answerable questions except those that the judge found not attempted."""
    return answerable_questions(columns) & ~columns.is_in("grade", "not_attempted")


def false_refusals(columns: ScoreColumns) -> Numbers:
    return share_components(refused(columns), understood(columns))


def unparsed(columns: ScoreColumns) -> Numbers:
    return share_components(columns.is_in("outcome", "unparsed"), every_row(columns))


def failed(columns: ScoreColumns) -> Numbers:
    return share_components(columns.is_in("outcome", "failed"), every_row(columns))


def overlap_metric(metric: str) -> Metric:
    """Return the mean of a text overlap, a column of Score; it concerns no row where no row has a value."""

    def over(columns: ScoreColumns) -> Mask:
        return answerable_questions(columns) & columns.measured(metric)

    return Metric(metric, over, lambda columns: mean_components(columns.number(metric)), ratio, ANSWERABLE)


ANSWERS: tuple[Metric, ...] = (
    Metric("accuracy", answerable_questions, accuracy, ratio, ANSWERABLE),
    Metric("accuracy_given_attempted", attempts, accuracy, ratio, ANSWERABLE),
    Metric("not_attempted_rate", answerable_questions, not_attempted, ratio, ANSWERABLE),
    Metric("false_refusal_rate", answerable_questions, false_refusals, ratio, ANSWERABLE),
    Metric("unparsed_rate", every_row, unparsed, ratio, EVERY),
    Metric("failed_rate", every_row, failed, ratio, EVERY),
    *map(overlap_metric, ("bleu", "meteor", "rouge_l", "bert_score")),
)


CountMetric = Callable[[Numbers], Numbers]
"""A citation metric of counts, shape (…, 4): right citations, citations, gold passages found, gold passages."""


def citation_precision(counts: Numbers) -> Numbers:
    """Return the precision of counts (…, 4): right citations, citations, gold passages found, gold passages."""
    return divide(counts[..., 0], counts[..., 1])


def citation_recall(counts: Numbers) -> Numbers:
    return divide(counts[..., 2], counts[..., 3])


def citation_f1(counts: Numbers) -> Numbers:
    """Return the harmonic mean of precision and recall, 0 where nothing was found."""
    right, cited, found, gold = np.moveaxis(counts, -1, 0)
    both = right * gold + found * cited
    return np.where((both == 0) & (gold > 0), 0.0, divide(2 * right * found, both))


def per_row(metric: CountMetric, counts: Numbers) -> Numbers:
    """Return the metric of each row; without citations the precision is 0."""
    return np.where((counts[:, 1] == 0) & (counts[:, 3] > 0), 0.0, metric(counts))


def citation_metrics(right: str, found: str, suffix: str) -> tuple[Metric, ...]:
    """Return the six metrics on the columns of Score that count right citations and gold passages found.

    Macro metrics average each question's number, micro metrics pool the counts of all questions. A name that ends in
    `_eq` counts equivalent passages as gold. An answer without citations, or a refusal of an
    answerable question, has a precision, recall and F1 of 0.
    """

    def over(columns: ScoreColumns) -> Mask:
        return answerable_questions(columns) & (columns.number("gold") > 0) & columns.measured(right)

    def counts(columns: ScoreColumns) -> Numbers:
        made = np.column_stack([columns.number(name) for name in (right, "cited", found)])
        made = np.where(refused(columns)[:, None], 0.0, made)
        return np.column_stack([made, columns.number("gold")])

    def macro(name: str, metric: CountMetric) -> Metric:
        rows = lambda columns: mean_components(per_row(metric, counts(columns)))  # noqa: E731
        return Metric(f"citation_{name}{suffix}", over, rows, ratio, ANSWERABLE)

    metrics: tuple[tuple[str, CountMetric], ...] = (
        ("precision", citation_precision),
        ("recall", citation_recall),
        ("f1", citation_f1),
    )
    micro = (Metric(f"citation_{name}_micro{suffix}", over, counts, metric, ANSWERABLE) for name, metric in metrics)
    return (*(macro(name, metric) for name, metric in metrics), *micro)


CITATIONS: tuple[Metric, ...] = (*citation_metrics("hits", "hits", ""), *citation_metrics("eq_right", "eq_hits", "_eq"))


def asked_to_refuse(columns: ScoreColumns) -> Mask:
    """Return every row of a cell that has refusal questions, no row of other cells.

    A refusal is a positive prediction and a refusal question a positive case, so that refusing an answerable question
    is a false positive. All questions count whose reply could be parsed.
    """
    return np.full(columns.rows, refusal_questions(columns).any())


def refusal_confusion(columns: ScoreColumns) -> Numbers:
    """Return true positives, false positives, false negatives and true negatives."""
    truth, called = refusal_questions(columns), refused(columns)
    cases = np.column_stack([truth & called, ~truth & called, truth & ~called, ~truth & ~called])
    return np.where(understood(columns)[:, None], cases, np.nan)


def refusal_precision(sums: Numbers) -> Numbers:
    return divide(sums[..., 0], sums[..., 0] + sums[..., 1])


def refusal_recall(sums: Numbers) -> Numbers:
    return divide(sums[..., 0], sums[..., 0] + sums[..., 2])


def refusal_f1(sums: Numbers) -> Numbers:
    return divide(2 * sums[..., 0], 2 * sums[..., 0] + sums[..., 1] + sums[..., 2])


def refusal_accuracy(sums: Numbers) -> Numbers:
    return divide(sums[..., 0] + sums[..., 3], sums.sum(axis=-1))


def hallucinations(columns: ScoreColumns) -> Numbers:
    return share_components(~refused(columns), understood(columns))


REFUSALS: tuple[Metric, ...] = (
    Metric("refusal_precision", asked_to_refuse, refusal_confusion, refusal_precision, ALL),
    Metric("refusal_recall", asked_to_refuse, refusal_confusion, refusal_recall, ALL),
    Metric("refusal_f1", asked_to_refuse, refusal_confusion, refusal_f1, ALL),
    Metric("refusal_accuracy", asked_to_refuse, refusal_confusion, refusal_accuracy, ALL),
    Metric("hallucination_rate", refusal_questions, hallucinations, ratio, REFUSAL),
)


_NAMES = [field.name for field in fields(RetrievalScore)]


def with_gold(columns: ScoreColumns) -> Mask:
    return answerable_questions(columns) & (columns.number("gold") > 0)


def retrieval_metric(name: str) -> Metric:
    return Metric(name, with_gold, lambda columns: mean_components(columns.number(name)), ratio, ANSWERABLE)


RETRIEVAL: tuple[Metric, ...] = tuple(map(retrieval_metric, _NAMES[_NAMES.index("gold") + 1 :]))


def replied(columns: ScoreColumns) -> Mask:
    return ~columns.is_in("outcome", "failed")


def prefix_cache_hits(columns: ScoreColumns) -> Numbers:
    return np.column_stack([columns.number("cached_tokens"), columns.number("prompt_tokens")])


def usage_metric(column: str, name: str) -> Metric:
    """Return the mean of a column of Score; it concerns no row where no row has a value."""

    def over(columns: ScoreColumns) -> Mask:
        return replied(columns) & columns.measured(column)

    return Metric(name, over, lambda columns: mean_components(columns.number(column)), ratio, EVERY)


USAGE: tuple[Metric, ...] = (
    usage_metric("prompt_tokens", "prompt_tokens"),
    Metric("prefix_cache_hit_rate", replied, prefix_cache_hits, ratio, EVERY),
    usage_metric("completion_tokens", "completion_tokens"),
    usage_metric("cost", "cost_per_question"),
    usage_metric("latency_s", "latency_s"),
)


SCORE_METRICS: dict[str, Metric] = {one.name: one for one in (*ANSWERS, *REFUSALS, *CITATIONS, *USAGE)}
"""The built-in metrics on Score rows, by name."""

RETRIEVAL_METRICS: dict[str, Metric] = {one.name: one for one in RETRIEVAL}
"""Metrics on RetrievalScore rows, by name."""

ENTRY_POINTS = "fdarx.metrics"
"""The entry point group by which other packages add metrics; each entry point names a `Metric`."""


def answer_metric(name: str, score: AnswerScorer, *, title: str = "", types: tuple[str, ...] = ANSWERABLE) -> Metric:
    """Return the metric that is the mean of `score` over the answers that it gives a number for."""

    def over(columns: ScoreColumns) -> Mask:
        return ~np.isnan(columns.number(name))

    return Metric(name, over, lambda columns: mean_components(columns.number(name)), ratio, types, score, title)


@cache
def added_metrics() -> dict[str, Metric]:
    """Return the metrics that installed packages add, by name.

    Raises ValueError for an entry point that is no `Metric`, and for a name that a built-in metric has.
    """
    found: dict[str, Metric] = {}
    for entry, metric in load_plugins(ENTRY_POINTS).items():
        if not isinstance(metric, Metric):
            raise ValueError(f"entry point {entry!r} of {ENTRY_POINTS} is a {type(metric).__name__}; name a Metric")
        if metric.name in SCORE_METRICS or metric.name in found:
            raise ValueError(f"entry point {entry!r} of {ENTRY_POINTS}: a metric {metric.name!r} exists; rename it")
        found[metric.name] = metric
    return found


def score_metrics() -> dict[str, Metric]:
    """Return all metrics on Score rows, by name: the built-in ones, then those of other packages."""
    return SCORE_METRICS | added_metrics()
