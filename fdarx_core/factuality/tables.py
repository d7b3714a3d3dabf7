"""The paper's tables from a run's figures and correlations, with intervals. Source: FAS Tables 1–5, §5.3.

Values are shares from 0 to 1, where the paper has percentages for Support@5 and Contra@5.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

from fdarx_core.evaluation.grid import Column, Grid
from fdarx_core.factuality.differences import FactualityDifference
from fdarx_core.factuality.layout import (
    Cell,
    Place,
    Wanted,
    about_engine,
    about_gold,
    about_terms,
    about_unscored,
    by_dataset,
    dataset,
    datasets,
    distinct,
    grid_of,
    joined,
    model,
)
from fdarx_core.factuality.rereading import FULL, NO_RETRIEVAL, SINGLE
from fdarx_core.factuality.rows import ALL, FLAG_KINDS, FactualityRows, flag_metric
from fdarx_core.records import Correlation, FactualityFigure

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
) -> list[Grid]:
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


def table_1(figures: Sequence[FactualityFigure]) -> Grid:
    """ROUGE-L of each model on each dataset. Source: FAS Table 1."""
    return _by_model("Table 1. ROUGE-L by dataset", figures, [("ROUGE-L", "rouge_l")])


def table_2(figures: Sequence[FactualityFigure], rows: FactualityRows) -> Grid:
    """Support@k and Contra@k of each model on each dataset. Source: FAS Table 2."""
    title = f"Table 2. Claims that the best {rows.k} passages support or contradict"
    grid = _by_model(title, figures, [*_shares(rows), ("Unsupported", "unsupported")])
    grid.notes += [about_engine(rows), *about_unscored(figures, f"support@{rows.k}", f"Support@{rows.k}")]
    return grid


def table_3(figures: Sequence[FactualityFigure], rows: FactualityRows) -> Grid:
    """FAS of each model on each dataset. Source: FAS Table 3."""
    grid = _by_model("Table 3. Fact-Aligned Score (FAS) by dataset", figures, [("FAS", "fas")])
    grid.notes += [about_terms(rows), *about_unscored(figures, "fas", "FAS")]
    return grid


def types_table(
    figures: Sequence[FactualityFigure], differences: Sequence[FactualityDifference], rows: FactualityRows
) -> Grid:
    """Each model by question type, and how many of the differences between types are significant. Source: FAS §5.3."""
    typed = [one for one in figures if one.type != ALL]
    named = [one for one in typed if one.dataset != ALL] or typed
    places = by_dataset(named, [*_shares(rows), ("ROUGE-L", "rouge_l"), ("FAS", "fas")])
    cells = [Cell.of(joined(model(one), one.type), (one.dataset, one.metric), one) for one in named]
    grid = grid_of("Question types", "Model and type", places, cells)
    shown = {place.key for place in places}
    between = [one for one in differences if one.varied == "type" and (one.dataset, one.metric) in shown]
    if between:
        sure = sum(one.significant for one in between)
        grid.notes.append(f"Of {len(between):,} differences between types {sure:,} have intervals without 0.")
    return grid


def differences_table(differences: Sequence[FactualityDifference], rows: FactualityRows) -> Grid:
    """Models less each other on the questions that both have. Source: FAS §5.1."""
    kept = [one for one in differences if one.varied == "model"]
    wanted = [("ROUGE-L", "rouge_l"), *_shares(rows), ("FAS", "fas")]
    places = [
        Place(Column(dataset(name), short), (name, metric))
        for name in datasets(one.dataset for one in kept)
        for short, metric in wanted
    ]
    cells = [Cell.of(joined(f"{one.of} − {one.against}", one.setting), (one.dataset, one.metric), one) for one in kept]
    return grid_of("Differences between models", "Models", places, cells)


def metrics_table(correlations: Sequence[Correlation], rows: FactualityRows) -> Grid:
    """Spearman's ρ of every metric with gold factuality, by group of answers. Source: FAS §5.3."""
    kept = [one for one in correlations if one.configuration == FULL and isclose(one.threshold, rows.threshold)]
    groups = distinct((one.dataset, one.type, one.model) for one in kept)
    places = [Place(Column(_group(*group), f"by {GOLDS[gold]}"), (gold, *group)) for group in groups for gold in GOLDS]
    titles = metric_titles(rows)
    cells = [Cell.of(titles[one.metric], (one.gold, one.dataset, one.type, one.model), one) for one in kept]
    grid = grid_of("Spearman's ρ of each metric with gold factuality", "Metric", places, cells)
    grid.notes += [f"Contra@{rows.k} should fall where gold rises: of it, the lower ρ the better.", about_gold(rows)]
    return grid


def against_table(differences: Sequence[FactualityDifference], rows: FactualityRows) -> Grid:
    """ρ of FAS less that of each other metric, on the answers that both can score. Source: FAS §5.3."""
    kept = [one for one in differences if one.varied == "metric"]
    names = datasets(one.dataset for one in kept)
    places = [Place(Column(dataset(name), f"by {GOLDS[gold]}"), (gold, name)) for name in names for gold in GOLDS]
    titles = metric_titles(rows)
    cells = [Cell.of(titles[one.against], (one.gold, one.dataset), one) for one in kept]
    return grid_of("ρ of FAS with gold factuality less that of other metrics", "FAS less", places, cells)


def table_4(
    correlations: Sequence[Correlation], differences: Sequence[FactualityDifference], rows: FactualityRows, gold: str
) -> Grid:
    """ρ of FAS with gold by configuration, and the change from the whole. Source: FAS Table 4."""
    kept = [one for one in _of_fas(correlations, gold) if isclose(one.threshold, rows.threshold)]
    cells = [Cell.of(_configuration(one.configuration), (one.dataset, "rho"), one) for one in kept]
    cells += [
        Cell.of(_configuration(one.of), (one.dataset, "delta"), one)
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
) -> Grid:
    """ρ of FAS with gold by threshold, and the change from the run's own. Source: FAS Table 5."""
    kept = [one for one in _of_fas(correlations, gold) if one.configuration == FULL]
    kept.sort(key=lambda one: one.threshold)
    cells = [Cell.of(f"{one.threshold:g}", (one.dataset, "rho"), one) for one in kept]
    cells += [
        Cell.of(one.of, (one.dataset, "delta"), one)
        for one in differences
        if (one.varied, one.gold) == ("threshold", gold)
    ]
    grid = grid_of(f"Table 5. Thresholds: FAS and gold by {GOLDS[gold]}", "Threshold", _changes(kept), cells)
    grid.notes.append(f"Δ is from the threshold of this run, {rows.threshold:g}. Gold keeps that threshold.")
    return grid


def flags_table(figures: Sequence[FactualityFigure]) -> Grid:
    """The share of answers with a safety flag, by kind; apart from FAS. Source: FAS §3.2."""
    kept = [one for one in figures if one.dataset == ALL and one.type == ALL]
    places = [Place(Column(*FLAGS[kind]), (flag_metric(kind),)) for kind in ("any", *FLAG_KINDS)]
    cells = [Cell.of(model(one), (one.metric,), one) for one in kept]
    return grid_of("Safety flags: share of answers", "Model", places, cells)


def _by_model(title: str, figures: Sequence[FactualityFigure], wanted: Wanted) -> Grid:
    kept = [one for one in figures if one.type == ALL]
    cells = [Cell.of(model(one), (one.dataset, one.metric), one) for one in kept]
    return grid_of(title, "Model", by_dataset(kept, wanted), cells)


def _shares(rows: FactualityRows) -> Wanted:
    return [(f"S@{rows.k}", f"support@{rows.k}"), (f"C@{rows.k}", f"contra@{rows.k}")]


def _of_fas(correlations: Sequence[Correlation], gold: str) -> list[Correlation]:
    return [one for one in correlations if (one.metric, one.gold, one.type, one.model) == ("fas", gold, ALL, ALL)]


def _changes(correlations: Sequence[Correlation]) -> list[Place]:
    """ρ and its change under the name of each dataset."""
    return [
        Place(Column(dataset(name), short), (name, key))
        for name in datasets(one.dataset for one in correlations)
        for short, key in (("ρ", "rho"), ("Δ", "delta"))
    ]


def _configuration(name: str) -> str:
    return CONFIGURATIONS.get(name, f"Judged by {name}")


def _group(of_dataset: str, of_type: str, of_model: str) -> str:
    names = [name for name in (of_dataset, of_type, of_model) if name != ALL]
    return joined(*names) if names else dataset(ALL)
