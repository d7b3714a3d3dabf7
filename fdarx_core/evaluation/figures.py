"""Figures of an evaluation from its score rows: metrics by group, differences of cells, and which may be compared.

A metric that rests on grades may be compared only if one judge gave the grades, by one prompt; two judges give the same
answers different accuracies. No metric may be compared if one cell answers a larger share of its questions than the
other does, because the questions that are left out are not left out at random.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from fdarx_core.evaluation.bootstrap import FLIPS, RESAMPLES, estimate_sums, paired_differences, slice_sums, with_holm
from fdarx_core.evaluation.metrics import (
    ANSWERABLE,
    HALLUCINATIONS,
    JUDGED,
    Mask,
    Metric,
    ScoreColumns,
    answerable_questions,
)
from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.labels.loinc import TOPICS
from fdarx_core.records import Difference, Figure, SettingProgress
from fdarx_core.records.question_types import QUESTION_TYPES, UNANSWERABLE_TYPES


class CellKey(NamedTuple):
    """A model in a setting; `retriever` is "" except in the setting retrieved."""

    model: str
    setting: str
    retriever: str

    def __str__(self) -> str:
        return " · ".join(part for part in self if part)


MIN_QUESTIONS = 10
"""The fewest questions of a section with figures of its own, or of such a category that is none of `TOPICS`; smaller
ones are pooled as `OTHER`, because a rate over fewer questions is too uncertain."""
OTHER = "other"
LENGTHS = ("short", "medium", "long")

Edges = tuple[float, float]
"""The most characters of a short label, and of a medium one."""
Group = tuple[str, str, Mask]
"""The keys group_by and group of the figures of a group, and its rows."""


def type_groups(columns: ScoreColumns) -> dict[str, Mask]:
    """Return the rows of each question type, of "answerable" (all types but refusal), and of "all"."""
    by_type = {name: columns.is_in("type", name) for name in QUESTION_TYPES}
    together = {"answerable": answerable_questions(columns), "all": np.ones(columns.rows, dtype=np.bool_)}
    return by_type | together


def subgroups(columns: ScoreColumns, edges: Edges) -> list[Group]:
    """Return all questions by category, and the answerable ones by section, length of the label and whether the answer
    has a number.

    Categories and sections with few questions are pooled as `OTHER`, except `TOPICS`: readers see how few they have.
    """
    answerable, everything = answerable_questions(columns), np.ones(columns.rows, dtype=np.bool_)
    groups: list[Group] = []
    for by, among, always in (("category", everything, TOPICS), ("section", answerable, ())):
        counts = Counter(columns.strings(by)[among].tolist())
        large = (name for name, count in counts.items() if count >= MIN_QUESTIONS or name in always)
        shown = sorted({*large} - {"", OTHER})
        groups += [(by, name, among & columns.is_in(by, name)) for name in shown]
        groups.append((by, OTHER, among & ~columns.is_in(by, *shown)))
    tertile = np.searchsorted(edges, columns.number("label_characters"))
    groups += [("label_length", name, answerable & (tertile == at)) for at, name in enumerate(LENGTHS)]
    numeric = columns.number("numeric") > 0
    return [*groups, ("numeric", "numeric", answerable & numeric), ("numeric", "not numeric", answerable & ~numeric)]


def length_edges(tables: Iterable[pa.Table]) -> Edges:
    """Return the tertiles of label_characters over the distinct labels of Score or RetrievalScore tables.

    Give the tables of a whole evaluation, so that "short" means the same in all its cells.
    """
    lengths: dict[str, int] = {}
    for table in tables:
        distinct = table.select(["set_id", "label_characters"]).group_by(["set_id", "label_characters"]).aggregate([])
        lengths.update(zip(*(distinct[name].to_pylist() for name in ("set_id", "label_characters")), strict=True))
    low, high = np.quantile(list(lengths.values()), [1 / 3, 2 / 3]) if lengths else (0.0, 0.0)
    return float(low), float(high)


SUBGROUP_METRICS = ("accuracy", "false_refusal_rate", "citation_f1", "citation_f1_eq")
RETRIEVAL_SUBGROUP_METRICS = ("recall_5", "mrr", "ndcg_10", "eq_recall_5")


def cell_figures(
    key: CellKey,
    rows: pa.Table,
    metrics: Mapping[str, Metric],
    by_subgroup: Iterable[str],
    edges: Edges,
    *,
    seed: int,
    resamples: int = RESAMPLES,
) -> list[Figure]:
    """Return every figure of one cell.

    The keys of a figure are model, setting, retriever, group_by and group: group_by is type, category, section,
    label_length or numeric, and group its value; for types see `type_groups`. Metrics that apply to no row of a group
    are left out. Figures of retrieval have no model and no setting.

    Args:
        key: the cell.
        rows: its Score or RetrievalScore rows.
        metrics: the metrics by name, each given by question type.
        by_subgroup: the names of those that are also given by category, section, length and number.
        edges: `length_edges` of the whole evaluation.
        seed: fixes the intervals.
        resamples: bootstrap resamples.
    """
    columns = ScoreColumns(rows)
    types = type_groups(columns)
    named = [("type", name, (metric, types[name])) for metric in metrics.values() for name in metric.types]
    for by, name, mask in subgroups(columns, edges):
        listed = [*by_subgroup, *([HALLUCINATIONS] if by == "category" else [])]
        named += [(by, name, (metrics[metric], mask)) for metric in listed if metric in metrics]
    sums = slice_sums(columns, [piece for *_, piece in named])
    # Metrics that rest on grades: where grades are missing, the lower bound counts these answers as 0, and the upper
    # bound as 1. One call estimates all sums, so that they share their samples. Source: Horowitz and Manski 2000.
    affected = [
        at for at, part in enumerate(sums) if part.metric.name in JUDGED and part.unscored.any() and part.rows.any()
    ]
    filled = [sums[at].taking_unscored_as(value) for at in affected for value in (0.0, 1.0)]
    estimates = estimate_sums([*sums, *filled], seed=seed, resamples=resamples)
    estimates, bounds = estimates[: len(sums)], estimates[len(sums) :]
    for at, *extremes in zip(affected, bounds[::2], bounds[1::2], strict=True):
        lows = [bound.low for bound in (estimates[at], *extremes) if bound.low is not None]
        highs = [bound.high for bound in (estimates[at], *extremes) if bound.high is not None]
        estimates[at] = replace(estimates[at], low=min(lows, default=None), high=max(highs, default=None))
    return [
        Figure.of(metric.name, {**key._asdict(), "group_by": by, "group": name}, estimated)
        for (by, name, (metric, _)), estimated in zip(named, estimates, strict=True)
        if estimated.rows or estimated.unscored
    ]


CellPair = tuple[CellKey, CellKey]
MetricGroups = Sequence[tuple[str, str]]
"""Names of metrics, each with the question type or topic of the group."""


@cache
def compared_metrics() -> MetricGroups:
    """Return the metrics that are compared between cells, those by topic only between models."""
    return (
        *(("accuracy", group) for group in ANSWERABLE),
        ("false_refusal_rate", "answerable"),
        *(("citation_f1", group) for group in ANSWERABLE),
        ("citation_f1_eq", "answerable"),
        ("refusal_f1", "all"),
        *((HALLUCINATIONS, group) for group in ("answerable", *UNANSWERABLE_TYPES, "all")),
        *((HALLUCINATIONS, topic) for topic in TOPICS),
    )


@cache
def compared_retrieval_metrics() -> MetricGroups:
    """Return the metrics that are compared between retrievers."""
    return tuple((metric, group) for metric in RETRIEVAL_SUBGROUP_METRICS for group in ANSWERABLE)


def compare_pairs(
    cells: Mapping[CellKey, pa.Table],
    pairs: Mapping[CellPair, MetricGroups],
    metrics: Mapping[str, Metric],
    *,
    seed: int,
    resamples: int = RESAMPLES,
    flips: int = FLIPS,
) -> list[Difference]:
    """Return the differences of pairs of cells.

    A difference has the key group; its sides have the keys model, setting and retriever. A metric of a pair is left out
    if the two cells have fewer than two labels in common.

    Args:
        cells: the rows of each cell.
        pairs: for each pair, the metrics and groups to compare, for which Holm's correction is made.
        metrics: the metrics by name.
        seed: fixes the intervals.
        resamples: bootstrap resamples.
        flips: permutations of the test.

    Raises:
        ValueError: if a cell has a question twice.
    """
    measured = {key: ScoreColumns(cells[key]) for key in dict.fromkeys(key for pair in pairs for key in pair)}
    found: list[Difference] = []
    for (a, b), wanted in pairs.items():
        columns = measured[a]
        groups = type_groups(columns) | {topic: columns.is_in("category", topic) for topic in TOPICS}
        slices = [(metrics[metric], groups[group]) for metric, group in wanted]
        differences = paired_differences(columns, measured[b], slices, seed=seed, resamples=resamples, flips=flips)
        found += [
            replace(difference, keys={"group": group}, first=a._asdict(), second=b._asdict())
            for (_, group), difference in zip(wanted, differences, strict=True)
            if difference is not None
        ]
    return with_holm(found, ["group"])


def comparable_metrics(
    pairs: Iterable[CellPair], cells: Mapping[CellKey, SettingProgress]
) -> dict[CellPair, MetricGroups]:
    """Return for each pair those of `compared_metrics` that a mismatch of the two cells does not exclude."""
    found: dict[CellPair, MetricGroups] = {}
    for a, b in pairs:
        differs = mismatch(cells[a], cells[b])
        found[a, b] = [
            (metric, group)
            for metric, group in compared_metrics()
            if (group not in TOPICS or a.model != b.model)
            and (differs is None or (differs.kind == "judge" and metric not in JUDGED))
        ]
    return found


def related_pairs(cells: Collection[CellKey]) -> list[CellPair]:
    """Return the pairs of cells that have the same setting and retriever, or the same model.

    A cell whose setting is none of `SETTINGS`, with answers of another program, is paired with every other cell.
    """
    imported = {cell for cell in cells if cell.setting not in SETTINGS}
    return [(a, b) for a, b in combinations(cells, 2) if a[1:] == b[1:] or a.model == b.model or {a, b} & imported]


COVERAGE_TOLERANCE = 0.01
"""The largest difference between the answered shares of two cells that are compared."""

FigureT = TypeVar("FigureT", bound=Figure)


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A difference between two cells that excludes comparing them.

    `kind` is "judge", which excludes the metrics in `JUDGED`, or "coverage", which excludes all metrics.
    """

    kind: str
    first: SettingProgress
    second: SettingProgress

    @property
    def reason(self) -> str:
        """The reason in words, without the names of the cells."""
        cells = self.first, self.second
        if self.kind == "judge":
            return f"the judges differ ({'; '.join(map(judge_text, cells))})"
        answered = "; ".join(f"{cell.covered:,} of {cell.due:,} answered" for cell in cells)
        return f"the coverage differs ({answered})"


def mismatch(first: SettingProgress, second: SettingProgress) -> Mismatch | None:
    """Return the mismatch of two cells, None if they can be compared; coverage is checked before the judge."""
    if abs(first.coverage - second.coverage) > COVERAGE_TOLERANCE:
        return Mismatch("coverage", first, second)
    engines, prompts = (first.judge_engine, second.judge_engine), (first.judge_prompt, second.judge_prompt)
    if not all(engines):  # an earlier version wrote only the name of the judge
        same = first.judge == second.judge
    else:  # a cell without a prompt has no answer that a judge graded
        same = not all(prompts) or (engines[0] == engines[1] and prompts[0] == prompts[1])
    return None if same else Mismatch("judge", first, second)


def with_provenance(figures: Sequence[FigureT], cell: SettingProgress) -> list[FigureT]:
    """Return figures of a cell with its model, judge and prompts, and the numbers of answered questions and of all."""
    return [
        replace(
            figure,
            judge=judge_text(cell),
            prompts=", ".join(filter(None, (cell.answer_prompt, cell.judge_prompt))),
            engine=cell.engine,
            answered=cell.covered,
            due=cell.due,
        )
        for figure in figures
    ]


def judge_text(cell: SettingProgress) -> str:
    """Return the name of a cell's judge with its engine and prompt, for example "strong (openai gpt-5)"."""
    about = ", ".join(filter(None, (cell.judge_engine, cell.judge_prompt)))
    return f"{cell.judge} ({about})" if about else cell.judge
