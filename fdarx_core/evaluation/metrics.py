"""Metrics over many answers or rankings, defined by sums within each label.

Sums of labels add up. The metric of a bootstrap sample of labels is therefore a matrix product, not a pass over rows.
Rows that carry their own numbers become columns by `measure_table`; a measure that a row should have and lacks counts
as unscored: the row names it in `unscored` as `field: reason`. Another package adds a metric by the entry point group
`fdarx.metrics`. Source: FDARxBench §3.5, §4.1, §4.2, §B.6–B.8.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fdarx_core.plugins import PluginError, load_plugins
from fdarx_core.records import Grade, Prediction, QuestionAnswer, RetrievalScore

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CellFacts:
    """What holds for all rows of a cell: the columns with a value in any row, and whether refusal questions occur."""

    measured: frozenset[str]
    refusals: bool


class ScoreColumns:
    """The columns of Score or RetrievalScore rows, sorted by cluster and question.

    `clusters` are the distinct clusters in ascending order; `cluster_of` gives each row's position among them. Where
    the table is a part of the rows of a cell, `facts` are those of the whole cell.
    """

    def __init__(self, table: pa.Table, facts: CellFacts | None = None) -> None:
        self._facts = facts
        self._table = table.sort_by([("cluster", "ascending"), ("question_id", "ascending")]).combine_chunks()
        encoded = pc.dictionary_encode(self._table["cluster"].combine_chunks())  # in the order of the rows
        self.clusters: list[str] = encoded.dictionary.to_pylist()
        self.cluster_of: Codes = encoded.indices.to_numpy().astype(np.int64)
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
                rows = self._table["extra"].to_pylist() if "extra" in self._table.column_names else [()] * self.rows
                self._numbers[name] = np.array([dict(row or ()).get(name, np.nan) for row in rows], dtype=np.float64)
        return self._numbers[name]

    def measured(self, name: str) -> bool:
        """Return whether the column has a number in any row of the cell."""
        return name in self.facts.measured

    @property
    def facts(self) -> CellFacts:
        if self._facts is None:
            measured = (name for name in self._table.column_names if self._table[name].null_count < self.rows)
            refusals = "type" in self._table.column_names and bool(self.is_in("type", *REFUSAL).any())
            self._facts = CellFacts(frozenset(measured), refusals)
        return self._facts

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


HALLUCINATIONS = "hallucination_rate"
"""The share of wrong answers among all graded ones: of an answerable question, those graded incorrect; of a refusal
question, every answer but a refusal. A refusal and an answer that attempts nothing are graded, and are not wrong.
Sources: Wei et al. 2024 (SimpleQA), which tells incorrect from not attempted; FDARxBench §B.7, §B.8.
"""

RowMask = Callable[["ScoreColumns"], Mask]
"""Marks the rows that a metric is about."""
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
    over: RowMask
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


def share_of(column: str, value: str, base: RowMask) -> Callable[[ScoreColumns], Numbers]:
    """Return the components of the share of the rows of `base` that have the value in the column.

    They are 1 for rows with the value, and 1 to count rows; NaN outside `base`.
    """

    def components(columns: ScoreColumns) -> Numbers:
        counts = np.column_stack([columns.is_in(column, value), np.ones(columns.rows)])
        return np.where(base(columns)[:, None], counts, np.nan)

    return components


def column_mean(column: str, about: RowMask, types: tuple[str, ...], name: str = "") -> Metric:
    """Return the mean of a column, by default under its name; it concerns no row where no row has a value."""

    def over(columns: ScoreColumns) -> Mask:
        return about(columns) & columns.measured(column)

    return Metric(name or column, over, lambda columns: mean_components(columns.number(column)), ratio, types)


def attempts(columns: ScoreColumns) -> Mask:
    """Return the answerable questions except those that the judge found not attempted."""
    return answerable_questions(columns) & ~columns.is_in("grade", "not_attempted")


ANSWERS: tuple[Metric, ...] = (
    Metric("accuracy", answerable_questions, share_of("grade", "correct", graded), ratio, ANSWERABLE),
    Metric("accuracy_given_attempted", attempts, share_of("grade", "correct", graded), ratio, ANSWERABLE),
    Metric("not_attempted_rate", answerable_questions, share_of("grade", "not_attempted", graded), ratio, ANSWERABLE),
    Metric("false_refusal_rate", answerable_questions, share_of("outcome", "refused", understood), ratio, ANSWERABLE),
    Metric("unparsed_rate", every_row, share_of("outcome", "unparsed", every_row), ratio, EVERY),
    Metric("failed_rate", every_row, share_of("outcome", "failed", every_row), ratio, EVERY),
    *(column_mean(name, answerable_questions, ANSWERABLE) for name in ("bleu", "meteor", "rouge_l", "bert_score")),
)

JUDGED = frozenset({"accuracy", "accuracy_given_attempted", "not_attempted_rate", HALLUCINATIONS})
"""The metrics that rest on the grades of a judge."""


CountMetric = Callable[[Numbers], Numbers]
"""A citation metric of counts, shape (…, 4): right citations, citations, gold passages found, gold passages."""


def citation_f1(counts: Numbers) -> Numbers:
    """Return the harmonic mean of precision and recall, 0 where nothing was found."""
    right, cited, found, gold = np.moveaxis(counts, -1, 0)
    both = right * gold + found * cited
    return np.where((both == 0) & (gold > 0), 0.0, divide(2 * right * found, both))


CITATION_METRICS: dict[str, CountMetric] = {
    "precision": lambda counts: divide(counts[..., 0], counts[..., 1]),
    "recall": lambda counts: divide(counts[..., 2], counts[..., 3]),
    "f1": citation_f1,
}


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

    def macro(metric: CountMetric, columns: ScoreColumns) -> Numbers:
        rows = counts(columns)
        without_citations = (rows[:, 1] == 0) & (rows[:, 3] > 0)
        return mean_components(np.where(without_citations, 0.0, metric(rows)))

    return (
        *(
            Metric(f"citation_{name}{suffix}", over, partial(macro, metric), ratio, ANSWERABLE)
            for name, metric in CITATION_METRICS.items()
        ),
        *(
            Metric(f"citation_{name}_micro{suffix}", over, counts, metric, ANSWERABLE)
            for name, metric in CITATION_METRICS.items()
        ),
    )


CITATIONS: tuple[Metric, ...] = (*citation_metrics("hits", "hits", ""), *citation_metrics("eq_right", "eq_hits", "_eq"))


def asked_to_refuse(columns: ScoreColumns) -> Mask:
    """Return every row of a cell that has refusal questions, no row of other cells.

    A refusal is a positive prediction and a refusal question a positive case, so that refusing an answerable question
    is a false positive. All questions count whose reply could be parsed.
    """
    return np.full(columns.rows, columns.facts.refusals)


def refusal_confusion(columns: ScoreColumns) -> Numbers:
    """Return true positives, false positives, false negatives and true negatives."""
    truth, called = refusal_questions(columns), refused(columns)
    cases = np.column_stack([truth & called, ~truth & called, truth & ~called, ~truth & ~called])
    return np.where(understood(columns)[:, None], cases, np.nan)


REFUSALS: tuple[Metric, ...] = (
    *(
        Metric(f"refusal_{name}", asked_to_refuse, refusal_confusion, combine, ALL)
        for name, combine in (
            ("precision", lambda sums: divide(sums[..., 0], sums[..., 0] + sums[..., 1])),
            ("recall", lambda sums: divide(sums[..., 0], sums[..., 0] + sums[..., 2])),
            ("f1", lambda sums: divide(2 * sums[..., 0], 2 * sums[..., 0] + sums[..., 1] + sums[..., 2])),
            ("accuracy", lambda sums: divide(sums[..., 0] + sums[..., 3], sums.sum(axis=-1))),
        )
    ),
    Metric(HALLUCINATIONS, every_row, share_of("grade", "incorrect", graded), ratio, EVERY),
)


_NAMES = [field.name for field in fields(RetrievalScore)]


def with_gold(columns: ScoreColumns) -> Mask:
    return answerable_questions(columns) & (columns.number("gold") > 0)


RETRIEVAL: tuple[Metric, ...] = tuple(
    column_mean(name, with_gold, ANSWERABLE) for name in _NAMES[_NAMES.index("gold") + 1 :]
)


def replied(columns: ScoreColumns) -> Mask:
    return ~columns.is_in("outcome", "failed")


def prefix_cache_hits(columns: ScoreColumns) -> Numbers:
    return np.column_stack([columns.number("cached_tokens"), columns.number("prompt_tokens")])


USAGE: tuple[Metric, ...] = (
    column_mean("prompt_tokens", replied, EVERY),
    Metric("prefix_cache_hit_rate", replied, prefix_cache_hits, ratio, EVERY),
    column_mean("completion_tokens", replied, EVERY),
    column_mean("cost", replied, EVERY, "cost_per_question"),
    column_mean("latency_s", replied, EVERY),
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

    Raises PluginError for an entry point that is no `Metric`, and for a name that a built-in metric has.
    """
    found: dict[str, Metric] = {}
    for entry, metric in load_plugins(ENTRY_POINTS).items():
        if not isinstance(metric, Metric):
            raise PluginError(f"entry point {entry!r} of {ENTRY_POINTS} is a {type(metric).__name__}; name a Metric")
        if metric.name in SCORE_METRICS or metric.name in found:
            raise PluginError(f"entry point {entry!r} of {ENTRY_POINTS}: a metric {metric.name!r} exists; rename it")
        found[metric.name] = metric
    return found


def score_metrics() -> dict[str, Metric]:
    """Return all metrics on Score rows, by name: the built-in ones, then those of other packages."""
    return SCORE_METRICS | added_metrics()


Measure = tuple[str, Callable[[Any], float | None]]
"""The field that a row's `unscored` names where the number is missing, and the function that reads the number."""


def measure_table(
    rows: Sequence[Any],
    measures: Mapping[str, Measure],
    *,
    cluster: Callable[[Any], str],
    question: Callable[[Any], str],
    keys: Sequence[str] = (),
) -> pa.Table:
    """Return the measures of all rows as the table that `ScoreColumns` reads.

    Args:
        rows: the rows; their field `unscored`, if they have it, names what could not be measured.
        measures: the measures by name.
        cluster: returns the cluster of a row, which is the column `cluster` of the table.
        question: returns the question of a row.
        keys: text fields of the rows that become columns too.
    """
    columns: dict[str, pa.Array] = {
        "cluster": pa.array([cluster(row) for row in rows], pa.string()),
        "question_id": pa.array([question(row) for row in rows], pa.string()),
        **{name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in keys},
    }
    for name, (field, read) in measures.items():
        lacking = [any(one.partition(":")[0] == field for one in getattr(row, "unscored", ())) for row in rows]
        columns[name] = pa.array([read(row) for row in rows], pa.float64())
        columns[_lacking(name)] = pa.array(lacking, pa.bool_())
    return pa.table(columns)


def mean_metric(name: str) -> Metric:
    """Return the mean of a measure of `measure_table`, about the rows that have it and those that should have it."""

    def over(columns: ScoreColumns) -> Mask:
        return ~np.isnan(columns.number(name)) | (columns.number(_lacking(name)) > 0)

    return Metric(name, over, lambda columns: mean_components(columns.number(name)), ratio, ())


def _lacking(name: str) -> str:
    return f"no_{name}"
