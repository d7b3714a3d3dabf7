"""The paper's tables from a run's figures and correlations, and everything that a run reports.

Values are shares from 0 to 1, where the paper has percentages for Support@5 and Contra@5. Source: FAS Tables 1–5, §5.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isclose
from typing import Any, TypeVar

import numpy as np

from fdarx_core.evaluation.bootstrap import FEW_LABELS
from fdarx_core.evaluation.tables import IntervalValue, ResultTable, TableColumn
from fdarx_core.factuality.correlations import FULL, NO_RETRIEVAL, SINGLE, correlations
from fdarx_core.factuality.figures import (
    ALL,
    FLAG_KINDS,
    RESAMPLES,
    FactualityDifference,
    FactualityRows,
    differences,
    figures,
    flag_metric,
    overall,
)
from fdarx_core.records import Correlation, FactualityFigure

BASELINE = "baseline"
T = TypeVar("T")
Key = tuple[str, ...]
Wanted = Sequence[tuple[str, str]]
"""Metrics' short names, and the metrics."""


@dataclass(frozen=True, slots=True)
class KeyedColumn:
    """A column, and the key of what stands in it."""

    column: TableColumn
    key: Key


@dataclass(frozen=True, slots=True)
class KeyedCell:
    """A value and where it belongs: the name of its row, the key of its column."""

    row: str
    key: Key
    value: float | None
    low: float | None
    high: float | None
    clusters: int

    @classmethod
    def of(cls, row: str, key: Key, one: FactualityFigure | FactualityDifference | Correlation) -> KeyedCell:
        value = one.rho if isinstance(one, Correlation) else one.value
        return cls(row, key, value, one.low, one.high, one.clusters)

    @property
    def entry(self) -> IntervalValue | None:
        return None if self.value is None else IntervalValue(self.value, self.low, self.high)


def grid_of(title: str, stub: str, places: Sequence[KeyedColumn], cells: Iterable[KeyedCell]) -> ResultTable:
    """Rows in the order in which their first cells come; rows and columns without a value are left out."""
    keys = {place.key for place in places}
    filled = {(cell.row, cell.key): cell for cell in cells if cell.value is not None and cell.key in keys}
    used = {key for _, key in filled}
    kept = [place for place in places if place.key in used]
    rows = [
        (name, [cell.entry if (cell := filled.get((name, place.key))) else None for place in kept])
        for name in distinct(name for name, _ in filled)
    ]
    return ResultTable(title, stub, [place.column for place in kept], rows, _about_intervals(filled.values()))


def by_dataset(figures: Sequence[FactualityFigure], wanted: Wanted) -> list[KeyedColumn]:
    """Each metric under the name of each dataset."""
    names = datasets(one.dataset for one in figures)
    return [
        KeyedColumn(TableColumn(dataset(name), short), (name, metric)) for name in names for short, metric in wanted
    ]


def datasets(names: Iterable[str]) -> list[str]:
    """Those with a name, in their order; if there is more than one, or none, all together too, at the end."""
    found = distinct(names)
    named = [name for name in found if name != ALL]
    return named if len(named) == 1 else [*named, *([ALL] if ALL in found else [])]


def dataset(name: str) -> str:
    return "All answers" if name == ALL else name


def model(one: FactualityFigure) -> str:
    return joined(one.model, one.setting)


def joined(*names: str) -> str:
    """The names that are given, with points between them."""
    return " · ".join(filter(None, names))


def distinct(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))


def about_engine(rows: FactualityRows) -> str:
    """Who judged the claims."""
    if rows.engine == BASELINE:
        return f"Judged by baseline, rules without a language model, from a probability of {rows.threshold:g} on."
    return f"Judged by {rows.engine}, from a probability of {rows.threshold:g} on."


def about_terms(rows: FactualityRows) -> str:
    """What FAS is made of."""
    weights = rows.weights
    return (
        f"FAS = {weights.similarity:g} × {rows.similarity or 'similarity'} + {weights.support:g} × Support@{rows.k} + "
        f"{weights.contra:g} × (1 − Contra@{rows.k})."
    )


def about_gold(rows: FactualityRows) -> str:
    """Where gold factuality is from, and what follows for its correlation with FAS."""
    return (
        f"Gold: must-have and nice-to-have statements, held against the answers by {rows.engine}. That engine judges "
        "the claims too, so ρ of what rests on it may be too high."
    )


def about_unscored(figures: Sequence[FactualityFigure], metric: str, name: str) -> list[str]:
    """How many answers are in no value of a metric."""
    kept = [one for one in figures if (one.metric, one.dataset, one.type) == (metric, ALL, ALL)]
    unscored = sum(one.unscored for one in kept)
    total = unscored + sum(one.rows for one in kept)
    return (
        [f"{unscored:,} of {total:,} answers are in no {name}: they have no claim, or no verdict."] if unscored else []
    )


def _about_intervals(cells: Iterable[KeyedCell]) -> list[str]:
    clusters = max((cell.clusters for cell in cells), default=0)
    if clusters < 2:
        return ["No intervals: they need answers to two questions at least."]
    few = " So few clusters make them too narrow." if clusters < FEW_LABELS else ""
    return [f"Intervals: 95 %, bootstrap over clusters of answers (up to {clusters:,}).{few}"]


GOLDS = {"gold": "statements", "gold_claims": "claims"}
CONFIGURATIONS = {FULL: "Full (FAS)", NO_RETRIEVAL: "Without retrieval", SINGLE: "Single passage"}
FLAGS = {
    "any": ("Any", "flag"),
    "dose_missing": ("Dose", "missing"),
    "dose_unsupported": ("Dose", "unsupported"),
    "contraindicated_population": ("Contraindicated", "population"),
    "contraindicated_condition": ("Contraindicated", "condition"),
    "contraindicated_drug": ("Contraindicated", "drug"),
}
"""The upper and the lower header of each kind of flag."""


def tables(
    figures: Sequence[FactualityFigure],
    correlations: Sequence[Correlation],
    differences: Sequence[FactualityDifference],
    rows: FactualityRows,
) -> list[ResultTable]:
    """Tables 1 to 5, question types, differences, metrics against gold and safety flags; those with a row."""
    found = [
        table_1(figures),
        table_2(figures, rows),
        types_table(figures, differences, rows),
        table_3(figures, rows),
        differences_table(differences, rows),
        metrics_table(correlations, rows),
        against_table(differences, rows),
        *(table_4(correlations, differences, rows, gold) for gold in GOLDS),
        *(table_5(correlations, differences, rows, gold) for gold in GOLDS),
        flags_table(figures),
    ]
    return [grid for grid in found if grid.rows]


def metric_titles(rows: FactualityRows) -> dict[str, str]:
    """What tables call the metrics of answers, in their order."""
    k = rows.k
    return {
        "fas": "FAS",
        f"support@{k}": f"Support@{k}",
        f"contra@{k}": f"Contra@{k}",
        "unsupported": "Unsupported",
        "similarity": rows.similarity or "Similarity",
        "rouge_1": "ROUGE-1",
        "rouge_2": "ROUGE-2",
        "rouge_l": "ROUGE-L",
        "bleu_4": "BLEU-4",
        "gold": "Gold, by statements",
        "gold_claims": "Gold, by claims",
        "claims": "Claims an answer",
    }


def table_1(figures: Sequence[FactualityFigure]) -> ResultTable:
    """ROUGE-L of each model on each dataset. Source: FAS Table 1."""
    return _by_model("Table 1. ROUGE-L by dataset", figures, [("ROUGE-L", "rouge_l")])


def table_2(figures: Sequence[FactualityFigure], rows: FactualityRows) -> ResultTable:
    """Support@k and Contra@k of each model on each dataset. Source: FAS Table 2."""
    title = f"Table 2. Claims that the best {rows.k} passages support or contradict"
    grid = _by_model(title, figures, [*_shares(rows), ("Unsupported", "unsupported")])
    grid.notes += [about_engine(rows), *about_unscored(figures, f"support@{rows.k}", f"Support@{rows.k}")]
    return grid


def table_3(figures: Sequence[FactualityFigure], rows: FactualityRows) -> ResultTable:
    """FAS of each model on each dataset. Source: FAS Table 3."""
    grid = _by_model("Table 3. Fact-Aligned Score (FAS) by dataset", figures, [("FAS", "fas")])
    grid.notes += [about_terms(rows), *about_unscored(figures, "fas", "FAS")]
    return grid


def types_table(
    figures: Sequence[FactualityFigure], differences: Sequence[FactualityDifference], rows: FactualityRows
) -> ResultTable:
    """Each model by question type, and how many of the differences between types are significant. Source: FAS §5.3."""
    typed = [one for one in figures if one.type != ALL]
    named = [one for one in typed if one.dataset != ALL] or typed
    places = by_dataset(named, [*_shares(rows), ("ROUGE-L", "rouge_l"), ("FAS", "fas")])
    cells = [KeyedCell.of(joined(model(one), one.type), (one.dataset, one.metric), one) for one in named]
    grid = grid_of("Question types", "Model and type", places, cells)
    shown = {place.key for place in places}
    between = [one for one in differences if one.varied == "type" and (one.dataset, one.metric) in shown]
    if between:
        sure = sum(one.significant for one in between)
        grid.notes.append(f"Of {len(between):,} differences between types {sure:,} have intervals without 0.")
    return grid


def differences_table(differences: Sequence[FactualityDifference], rows: FactualityRows) -> ResultTable:
    """Models less each other on the questions that both have. Source: FAS §5.1."""
    kept = [one for one in differences if one.varied == "model"]
    wanted = [("ROUGE-L", "rouge_l"), *_shares(rows), ("FAS", "fas")]
    places = [
        KeyedColumn(TableColumn(dataset(name), short), (name, metric))
        for name in datasets(one.dataset for one in kept)
        for short, metric in wanted
    ]
    cells = [
        KeyedCell.of(joined(f"{one.of} − {one.against}", one.setting), (one.dataset, one.metric), one) for one in kept
    ]
    return grid_of("Differences between models", "Models", places, cells)


def metrics_table(correlations: Sequence[Correlation], rows: FactualityRows) -> ResultTable:
    """Spearman's ρ of every metric with gold factuality, by group of answers. Source: FAS §5.3."""
    kept = [one for one in correlations if one.configuration == FULL and isclose(one.threshold, rows.threshold)]
    groups = distinct((one.dataset, one.type, one.model) for one in kept)
    places = [
        KeyedColumn(TableColumn(_group(*group), f"by {GOLDS[gold]}"), (gold, *group))
        for group in groups
        for gold in GOLDS
    ]
    titles = metric_titles(rows)
    cells = [KeyedCell.of(titles[one.metric], (one.gold, one.dataset, one.type, one.model), one) for one in kept]
    grid = grid_of("Spearman's ρ of each metric with gold factuality", "Metric", places, cells)
    grid.notes += [f"Contra@{rows.k} should fall where gold rises: of it, the lower ρ the better.", about_gold(rows)]
    return grid


def against_table(differences: Sequence[FactualityDifference], rows: FactualityRows) -> ResultTable:
    """ρ of FAS less that of each other metric, on the answers that both can score. Source: FAS §5.3."""
    kept = [one for one in differences if one.varied == "metric"]
    names = datasets(one.dataset for one in kept)
    places = [
        KeyedColumn(TableColumn(dataset(name), f"by {GOLDS[gold]}"), (gold, name)) for name in names for gold in GOLDS
    ]
    titles = metric_titles(rows)
    cells = [KeyedCell.of(titles[one.against], (one.gold, one.dataset), one) for one in kept]
    return grid_of("ρ of FAS with gold factuality less that of other metrics", "FAS less", places, cells)


def table_4(
    correlations: Sequence[Correlation], differences: Sequence[FactualityDifference], rows: FactualityRows, gold: str
) -> ResultTable:
    """ρ of FAS with gold by configuration, and the change from the whole. Source: FAS Table 4."""
    kept = [one for one in _of_fas(correlations, gold) if isclose(one.threshold, rows.threshold)]
    cells = [KeyedCell.of(_configuration(one.configuration), (one.dataset, "rho"), one) for one in kept]
    cells += [
        KeyedCell.of(_configuration(one.of), (one.dataset, "delta"), one)
        for one in differences
        if (one.varied, one.gold) == ("configuration", gold)
    ]
    grid = grid_of(f"Table 4. Ablations: FAS and gold by {GOLDS[gold]}", "Configuration", _changes(kept), cells)
    if any(one.configuration == NO_RETRIEVAL for one in kept):
        grid.notes.append(
            "Without retrieval claims are held against the first reference (the question where there is none), which "
            "may say what the gold statements say."
        )
    grid.notes.append(about_gold(rows))
    return grid


def table_5(
    correlations: Sequence[Correlation], differences: Sequence[FactualityDifference], rows: FactualityRows, gold: str
) -> ResultTable:
    """ρ of FAS with gold by threshold, and the change from the run's own. Source: FAS Table 5."""
    kept = [one for one in _of_fas(correlations, gold) if one.configuration == FULL]
    kept.sort(key=lambda one: one.threshold)
    cells = [KeyedCell.of(f"{one.threshold:g}", (one.dataset, "rho"), one) for one in kept]
    cells += [
        KeyedCell.of(one.of, (one.dataset, "delta"), one)
        for one in differences
        if (one.varied, one.gold) == ("threshold", gold)
    ]
    grid = grid_of(f"Table 5. Thresholds: FAS and gold by {GOLDS[gold]}", "Threshold", _changes(kept), cells)
    grid.notes.append(f"Δ is from the threshold of this run, {rows.threshold:g}. Gold keeps that threshold.")
    return grid


def flags_table(figures: Sequence[FactualityFigure]) -> ResultTable:
    """The share of answers with a safety flag, by kind; apart from FAS. Source: FAS §3.2."""
    kept = [one for one in figures if one.dataset == ALL and one.type == ALL]
    places = [KeyedColumn(TableColumn(*FLAGS[kind]), (flag_metric(kind),)) for kind in ("any", *FLAG_KINDS)]
    cells = [KeyedCell.of(model(one), (one.metric,), one) for one in kept]
    return grid_of("Safety flags: share of answers", "Model", places, cells)


def _by_model(title: str, figures: Sequence[FactualityFigure], wanted: Wanted) -> ResultTable:
    kept = [one for one in figures if one.type == ALL]
    cells = [KeyedCell.of(model(one), (one.dataset, one.metric), one) for one in kept]
    return grid_of(title, "Model", by_dataset(kept, wanted), cells)


def _shares(rows: FactualityRows) -> Wanted:
    return [(f"S@{rows.k}", f"support@{rows.k}"), (f"C@{rows.k}", f"contra@{rows.k}")]


def _of_fas(correlations: Sequence[Correlation], gold: str) -> list[Correlation]:
    return [one for one in correlations if (one.metric, one.gold, one.type, one.model) == ("fas", gold, ALL, ALL)]


def _changes(correlations: Sequence[Correlation]) -> list[KeyedColumn]:
    """ρ and its change under the name of each dataset."""
    return [
        KeyedColumn(TableColumn(dataset(name), short), (name, key))
        for name in datasets(one.dataset for one in correlations)
        for short, key in (("ρ", "rho"), ("Δ", "delta"))
    ]


def _configuration(name: str) -> str:
    return CONFIGURATIONS.get(name, f"Judged by {name}")


def _group(of_dataset: str, of_type: str, of_model: str) -> str:
    names = [name for name in (of_dataset, of_type, of_model) if name != ALL]
    return joined(*names) if names else dataset(ALL)


@dataclass(frozen=True, slots=True)
class Summary:
    """`metrics` is what metrics.json holds; `grids` are Tables 1 to 5 and those that the paper has in its text."""

    figures: list[FactualityFigure]
    differences: list[FactualityDifference]
    correlations: list[Correlation]
    grids: list[ResultTable]
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
