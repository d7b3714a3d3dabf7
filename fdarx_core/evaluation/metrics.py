"""The metrics of every job: a function of one row with a name (`mean_metric`), or of sums within each label (`Metric`).

Sums of labels add up. The metric of a bootstrap sample of labels is therefore a matrix product, not a pass over rows.
`metric_table` makes columns of the numbers that functions return for rows. A number that a row should have and lacks
counts as unscored: the row names it in `unscored` as `field: reason`. Another package adds a function of an answer by
the entry point group `fdarx.metrics`, a caller by `fdarx_core.evaluate(metrics=…)`.
Source: FDARxBench §3.5, §4.1, §4.2, §B.6–B.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fdarx_core.evaluation.gold import RANKING_METRICS
from fdarx_core.evaluation.settings import GIVEN_CONTEXT
from fdarx_core.plugins import load_plugins
from fdarx_core.records import Grade, Prediction, QuestionAnswer
from fdarx_core.records.question_types import UNANSWERABLE_TYPES, TypeNames

Numbers = NDArray[np.float64]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]


class ScoreColumns:
    """The columns of Score or RetrievalScore rows, sorted by cluster and question.

    `clusters` are the distinct clusters in ascending order; `cluster_of` gives each row's position among them.
    """

    def __init__(self, table: pa.Table) -> None:
        self._table = table.sort_by([("cluster", "ascending"), ("question_id", "ascending")]).combine_chunks()
        encoded = pc.dictionary_encode(self._table["cluster"].combine_chunks())  # in the order of the rows
        self.clusters: list[str] = encoded.dictionary.to_pylist()
        self.cluster_of: Codes = encoded.indices.to_numpy().astype(np.int64)
        self._numbers: dict[str, Numbers] = {}
        self._masks: dict[tuple[str, tuple[str, ...]], Mask] = {}
        self._components: dict[str, tuple[Mask, Mask, Numbers]] = {}

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
        """Return whether the column has a number in any row."""
        return name in self._table.column_names and self._table[name].null_count < self.rows

    def is_in(self, name: str, *values: str) -> Mask:
        """Return the mask of the rows in which the column has one of the values."""
        key = (name, values)
        if key not in self._masks:
            found = pc.is_in(self._table[name], value_set=pa.array(values, pa.string()))
            self._masks[key] = np.asarray(found.to_numpy(), dtype=np.bool_)
        return self._masks[key]

    def strings(self, name: str) -> NDArray[np.str_]:
        return np.asarray(self._table[name].to_pylist(), dtype=np.str_)

    def components(self, metric: Metric) -> tuple[Mask, Mask, Numbers]:
        """Return the rows that a metric concerns, those of them with a value, and their components (0 elsewhere)."""
        if metric.name not in self._components:
            over, components = metric.over(self), metric.components(self)
            rests_on = over & ~np.isnan(components).any(axis=1)
            self._components[metric.name] = over, rests_on, np.where(rests_on[:, None], components, 0.0)
        return self._components[metric.name]


ANSWERABLE = TypeNames("answerable", chosen=attrgetter("answerable"))
ALL = ("all",)
EVERY = TypeNames("answerable", "all")

HALLUCINATIONS = "hallucination_rate"
"""The share of wrong answers among all graded ones: of an answerable question, those graded incorrect; of a refusal
question, every answer but a refusal. A refusal and an answer that attempts nothing are graded, and are not wrong.
Sources: Wei et al. 2024 (SimpleQA), which tells incorrect from not attempted; FDARxBench §B.7, §B.8.
"""

RowMask = Callable[["ScoreColumns"], Mask]
"""Marks the rows that a metric is about."""
RowFunction = Callable[..., float | None]
"""Returns the number of one row, None where it has no meaning."""
AnswerFunction = Callable[[QuestionAnswer, Prediction, Grade | None], float | None]
"""Returns the number of one answer from the question, the prediction and its grade; None where it has no meaning."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric over many rows.

    Attributes:
        name: the name in files and tables.
        over: marks the rows that the metric is about.
        components: gives k numbers for every row of the table, shape (rows, k), which are summed; NaN marks a row that
            could not be measured, and counts as unscored.
        combine: turns sums of shape (…, k) into values of shape (…), NaN where they have no meaning.
        types: the groups by question type that an evaluation reports it for.
        function: returns the number of one row, where the metric is a mean of such numbers; see `mean_metric`.
        field: the name in the `unscored` of a row without this number, by default that of the metric.
        title: the name in tables, by default `name`.
    """

    name: str
    over: RowMask
    components: Callable[[ScoreColumns], Numbers]
    combine: Callable[[Numbers], Numbers]
    types: Iterable[str] = ()
    function: RowFunction | None = None
    field: str = ""
    title: str = ""

    def number(self, *row: Any) -> float | None:
        """Return the number of one row; only of a metric made by `mean_metric`."""
        assert self.function is not None, self.name
        return self.function(*row)


def mean_metric(
    function: RowFunction, name: str = "", *, field: str = "", types: Iterable[str] = (), title: str = ""
) -> Metric:
    """Return the mean of a function of a row, about the rows that have its number and those that should have it.

    The name is by default that of the function; for the other arguments see `Metric`.
    """
    name = name or function.__name__

    def over(columns: ScoreColumns) -> Mask:
        return ~np.isnan(columns.number(name)) | (columns.number(f"no_{name}") > 0)

    return Metric(
        name, over, lambda columns: mean_components(columns.number(name)), ratio, types, function, field or name, title
    )


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
    return columns.is_in("type", *UNANSWERABLE_TYPES)


def answerable_questions(columns: ScoreColumns) -> Mask:
    return ~refusal_questions(columns) & by_gold_answer(columns)


def by_gold_answer(columns: ScoreColumns) -> Mask:
    """Return the rows of answers that are compared with gold answers, and not with the context of their prompt."""
    return ~columns.is_in("setting", GIVEN_CONTEXT) if columns.measured("setting") else every_row(columns)


def statements(columns: ScoreColumns) -> Mask:
    """Return the rows of answers that are judged by the context of their prompt and state something."""
    return ~by_gold_answer(columns) & ~columns.is_in("grade", "not_attempted")


def understood(columns: ScoreColumns) -> Mask:
    """Return the rows whose reply could be parsed, as an answer or as a refusal."""
    return columns.is_in("outcome", "answered", "refused")


def refused(columns: ScoreColumns) -> Mask:
    return columns.is_in("outcome", "refused")


def graded(columns: ScoreColumns) -> Mask:
    """Return the rows that have a verdict."""
    return understood(columns) & columns.is_in("grade", *GRADES)


def share_of(column: str, value: str, base: RowMask) -> Callable[[ScoreColumns], Numbers]:
    """Return the components of the share of rows of `base` that have the value in the column; NaN outside `base`."""
    return lambda columns: mean_components(np.where(base(columns), columns.is_in(column, value), np.nan))


def column_mean(column: str, about: RowMask, types: Iterable[str], name: str = "") -> Metric:
    """Return the mean of a column, by default under its name; it concerns no row where no row has a value."""

    def over(columns: ScoreColumns) -> Mask:
        return about(columns) & columns.measured(column)

    return Metric(name or column, over, lambda columns: mean_components(columns.number(column)), ratio, types)


SUPPORTED = "supported_rate"
"""The share of answers whose every statement the context of their prompt supports, among the judged ones."""
GRADES = ("correct", "incorrect", "not_attempted", "supported", "contradicted", "unsupported")
"""The outcomes of a grade that are verdicts; the last three are of answers that are judged by their context."""
JUDGED = frozenset({"accuracy", "accuracy_given_attempted", "not_attempted_rate", HALLUCINATIONS, SUPPORTED})
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


def gold_marked(columns: ScoreColumns) -> Mask:
    """Return the answerable questions with gold passages."""
    return answerable_questions(columns) & (columns.number("gold") > 0)


def citation_metrics(right: str, found: str, suffix: str) -> tuple[Metric, ...]:
    """Return the six metrics on the columns of Score that count right citations and gold passages found.

    Macro metrics average each question's number, micro metrics pool the counts of all questions. A name that ends in
    `_eq` counts equivalent passages as gold. An answer without citations, or a refusal of an
    answerable question, has a precision, recall and F1 of 0.
    """

    def over(columns: ScoreColumns) -> Mask:
        return gold_marked(columns) & columns.measured(right)

    def counts(columns: ScoreColumns) -> Numbers:
        made = np.column_stack([columns.number(name) for name in (right, "cited", found)])
        made = np.where(refused(columns)[:, None], 0.0, made)
        return np.column_stack([made, columns.number("gold")])

    def macro(metric: CountMetric, columns: ScoreColumns) -> Numbers:
        rows = counts(columns)
        without_citations = (rows[:, 1] == 0) & (rows[:, 3] > 0)
        return mean_components(np.where(without_citations, 0.0, metric(rows)))

    named = CITATION_METRICS.items()
    return (
        *(
            Metric(f"citation_{name}{suffix}", over, partial(macro, metric), ratio, ANSWERABLE)
            for name, metric in named
        ),
        *(Metric(f"citation_{name}_micro{suffix}", over, counts, metric, ANSWERABLE) for name, metric in named),
    )


def asked_to_refuse(columns: ScoreColumns) -> Mask:
    """Return every row of a cell that has refusal questions, no row of other cells.

    A refusal is a positive prediction and a refusal question a positive case, so that refusing an answerable question
    is a false positive. All questions count whose reply could be parsed.
    """
    return np.full(columns.rows, refusal_questions(columns).any())


def attempted_questions(columns: ScoreColumns) -> Mask:
    return answerable_questions(columns) & ~columns.is_in("grade", "not_attempted")


def refusal_confusion(columns: ScoreColumns) -> Numbers:
    """Return true positives, false positives, false negatives and true negatives."""
    truth, called = refusal_questions(columns), refused(columns)
    cases = np.column_stack([truth & called, ~truth & called, truth & ~called, ~truth & ~called])
    return np.where(understood(columns)[:, None], cases, np.nan)


def replied(columns: ScoreColumns) -> Mask:
    return ~columns.is_in("outcome", "failed")


def prefix_cache_hits(columns: ScoreColumns) -> Numbers:
    return np.column_stack([columns.number("cached_tokens"), columns.number("prompt_tokens")])


_CORRECT = share_of("grade", "correct", graded)
_BUILT_IN: tuple[Metric, ...] = (
    Metric("accuracy", answerable_questions, _CORRECT, ratio, ANSWERABLE),
    Metric("accuracy_given_attempted", attempted_questions, _CORRECT, ratio, ANSWERABLE),
    Metric("not_attempted_rate", answerable_questions, share_of("grade", "not_attempted", graded), ratio, ANSWERABLE),
    Metric("false_refusal_rate", answerable_questions, share_of("outcome", "refused", understood), ratio, ANSWERABLE),
    Metric("unparsed_rate", every_row, share_of("outcome", "unparsed", every_row), ratio, EVERY),
    Metric("failed_rate", every_row, share_of("outcome", "failed", every_row), ratio, EVERY),
    *(column_mean(name, answerable_questions, ANSWERABLE) for name in ("bleu", "meteor", "rouge_l", "bert_score")),
    *(
        Metric(f"refusal_{name}", asked_to_refuse, refusal_confusion, combine, ALL)
        for name, combine in (
            ("precision", lambda sums: divide(sums[..., 0], sums[..., 0] + sums[..., 1])),
            ("recall", lambda sums: divide(sums[..., 0], sums[..., 0] + sums[..., 2])),
            ("f1", lambda sums: divide(2 * sums[..., 0], 2 * sums[..., 0] + sums[..., 1] + sums[..., 2])),
            ("accuracy", lambda sums: divide(sums[..., 0] + sums[..., 3], sums.sum(axis=-1))),
        )
    ),
    Metric(SUPPORTED, statements, share_of("grade", "supported", graded), ratio, ALL),
    Metric(HALLUCINATIONS, by_gold_answer, share_of("grade", "incorrect", graded), ratio, EVERY),
    *citation_metrics("hits", "hits", ""),
    *citation_metrics("eq_right", "eq_hits", "_eq"),
    column_mean("prompt_tokens", replied, EVERY),
    Metric("prefix_cache_hit_rate", replied, prefix_cache_hits, ratio, EVERY),
    column_mean("completion_tokens", replied, EVERY),
    column_mean("cost", replied, EVERY, "cost_per_question"),
    column_mean("latency_s", replied, EVERY),
)

SCORE_METRICS: dict[str, Metric] = {metric.name: metric for metric in _BUILT_IN}
"""The built-in metrics on Score rows, by name."""

RETRIEVAL_METRICS: dict[str, Metric] = {
    name: column_mean(name, gold_marked, ANSWERABLE)
    for prefix in ("", "eq_")
    for name in (f"{prefix}{metric}" for metric in RANKING_METRICS)
}
"""Metrics on RetrievalScore rows, by name."""

ENTRY_POINTS = "fdarx.metrics"
"""The entry point group by which other packages add metrics; each entry point names an `AnswerFunction`.

A `Metric` made by `mean_metric` of such a function has a title and question types of its own.
"""


@lru_cache(maxsize=8)
def added_metrics(given: tuple[AnswerFunction | Metric, ...] = ()) -> dict[str, Metric]:
    """Return the metrics of answers that installed packages add, and those that are given, by name.

    A function becomes the mean over the answerable questions for which it returns a number. It has the name of its
    entry point; a given one has its own.

    Raises:
        PluginError: an entry point names no function and no `Metric`.
        ValueError: a metric has the name of another, or a given function has none.
    """
    plugins = load_plugins(ENTRY_POINTS, "function", Callable, Metric)
    found: dict[str, Metric] = {}
    for name, added in [*plugins.items(), *(("", added) for added in given)]:
        if not (isinstance(added, Metric) or name or getattr(added, "__name__", "<lambda>") != "<lambda>"):
            raise ValueError(
                f"the metric {added!r} has no name; define a function, or give mean_metric(function, NAME)"
            )
        metric = added if isinstance(added, Metric) else mean_metric(added, name, types=ANSWERABLE)
        if metric.name in SCORE_METRICS or metric.name in found:
            raise ValueError(f"a metric {metric.name!r} exists already; give the function another name")
        found[metric.name] = metric
    return found


def metric_table(
    rows: Sequence[Any],
    metrics: Iterable[Metric],
    *,
    cluster: Callable[[Any], str],
    question: Callable[[Any], str],
    keys: Sequence[str] = (),
) -> pa.Table:
    """Return the numbers of metrics that are functions of a row as the table that `ScoreColumns` reads.

    For each metric it has a column with its numbers, and a column `no_NAME` of whether the row should have one.

    Args:
        rows: the rows; their field `unscored`, if they have it, names what could not be measured.
        metrics: the metrics.
        cluster: returns the cluster of a row, which is the column `cluster` of the table.
        question: returns the question of a row.
        keys: text fields of the rows that become columns too.
    """
    columns: dict[str, pa.Array] = {
        "cluster": pa.array([cluster(row) for row in rows], pa.string()),
        "question_id": pa.array([question(row) for row in rows], pa.string()),
        **{name: pa.array([getattr(row, name) for row in rows], pa.string()) for name in keys},
    }
    for metric in metrics:
        lacking = [any(why.partition(":")[0] == metric.field for why in getattr(row, "unscored", ())) for row in rows]
        columns[metric.name] = pa.array([metric.number(row) for row in rows], pa.float64())
        columns[f"no_{metric.name}"] = pa.array(lacking, pa.bool_())
    return pa.table(columns)
