"""The tables of the FAS paper from the figures of a factuality run, and everything that a run reports.

Values are shares from 0 to 1; the paper has percentages for Support@5 and Contra@5. Source: FAS Tables 1–5, §5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fdarx_core.evaluation.tables import ResultTable, build_table
from fdarx_core.factuality.correlations import FULL, NO_RETRIEVAL, SINGLE, correlations, threshold_name
from fdarx_core.factuality.figures import (
    ALL,
    FLAG_KINDS,
    RESAMPLES,
    FactualityRows,
    differences,
    figures,
    flag_metric,
    overall,
)
from fdarx_core.records import Difference, Estimate, Figure

BASELINE = "baseline"
CLUSTERS = "clusters of answers"
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
"""The upper header and the header of each kind of flag."""

Named = Sequence[tuple[str, str]]
"""Headers of columns, and their metrics."""
Cells = list[tuple[str, Hashable, Estimate]]


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of a run: figures, differences, correlations, and the tables made from them."""

    figures: list[Figure]
    differences: list[Difference]
    correlations: list[Figure]
    grids: list[ResultTable]


def summarize(rows: FactualityRows, *, seed: int, resamples: int = RESAMPLES) -> Summary:
    """Compute everything that a run reports, with intervals from `resamples` draws of clusters."""
    means = figures(rows, seed=seed, resamples=resamples)
    related, changed = correlations(rows, seed=seed, resamples=resamples)
    differ = [*differences(rows, seed=seed, resamples=resamples), *changed]
    return Summary(means, differ, related, tables(means, related, differ, rows))


def metrics_json(rows: FactualityRows, summary: Summary) -> dict[str, Any]:
    """Return the values of metrics.json.

    They are the mean of each metric over all answers, its rank correlation with gold factuality, then all figures.
    """
    deltas = {_variant(one, one.first): one.value for one in summary.differences}
    return {
        **overall(rows),
        "spearman": {
            one.metric: one.value
            for one in of_run(summary.correlations, rows.threshold)
            if (one.keys["gold"], *_group(one)) == ("gold", ALL, ALL, ALL) and one.keys["configuration"] == FULL
        },
        "similarity_measure": rows.similarity,
        "engine": rows.engine,
        "threshold": rows.threshold,
        "weights": asdict(rows.weights),
        "figures": [one.to_row() for one in summary.figures],
        "differences": [_difference_json(one) for one in summary.differences],
        "correlations": [
            {
                "metric": one.metric,
                **one.keys,
                "threshold": float(one.keys["threshold"]),
                "rho": one.value,
                "low": one.low,
                "high": one.high,
                "delta": deltas.get(_variant(one, _varied(one))) if one.metric == "fas" else None,
                "rows": one.rows,
                "clusters": one.clusters,
            }
            for one in summary.correlations
        ],
    }


def _difference_json(one: Difference) -> dict[str, Any]:
    ((varied, first),) = one.first.items()
    shared = {name: one.keys.get(name, "") for name in ("model", "setting", "dataset", "type", "gold")}
    counts = {"value": one.value, "low": one.low, "high": one.high, "rows": one.rows, "clusters": one.clusters}
    return {
        "metric": one.metric, "varied": varied, "of": first, "against": one.second[varied], **shared, **counts,
    }  # fmt: skip


def _varied(one: Figure) -> dict[str, str]:
    name = "threshold" if one.keys["configuration"] == FULL else "configuration"
    return {name: one.keys[name]}


def _variant(one: Figure, varied: Mapping[str, str]) -> Hashable:
    """Return what identifies a variant of FAS, and the difference of its ρ, within a run."""
    group = {name: one.keys.get(name, "") for name in ("gold", "dataset", "type", "model")}
    return frozenset({**group, **varied}.items())


def tables(
    figures: Sequence[Figure], correlations: Sequence[Figure], differences: Sequence[Difference], rows: FactualityRows
) -> list[ResultTable]:
    """Return Tables 1 to 5, question types, differences, metrics against gold and safety flags, if they have a row."""
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
    return [table for table in found if table.rows]


def table_1(figures: Sequence[Figure]) -> ResultTable:
    """Return ROUGE-L of each model on each dataset. Source: FAS Table 1."""
    return _by_model("Table 1. ROUGE-L by dataset", figures, [("ROUGE-L", "rouge_l")])


def table_2(figures: Sequence[Figure], rows: FactualityRows) -> ResultTable:
    """Return Support@k and Contra@k of each model on each dataset. Source: FAS Table 2."""
    title = f"Table 2. Claims that the best {rows.k} passages support or contradict"
    table = _by_model(title, figures, [*_shares(rows), ("Unsupported", "unsupported")])
    judged = f"Judged by {rows.engine}" + (", rules without a language model" if rows.engine == BASELINE else "")
    table.notes.append(f"{judged}, from a probability of {rows.threshold:g} on.")
    table.notes += _unscored_notes(figures, f"support@{rows.k}", f"Support@{rows.k}")
    return table


def table_3(figures: Sequence[Figure], rows: FactualityRows) -> ResultTable:
    """Return FAS of each model on each dataset. Source: FAS Table 3."""
    table = _by_model("Table 3. Fact-Aligned Score (FAS) by dataset", figures, [("FAS", "fas")])
    weights = rows.weights
    table.notes += [
        f"FAS = {weights.similarity:g} × {rows.similarity or 'similarity'} + {weights.support:g} × Support@{rows.k} + "
        f"{weights.contra:g} × (1 − Contra@{rows.k}).",
        *_unscored_notes(figures, "fas", "FAS"),
    ]
    return table


def types_table(figures: Sequence[Figure], differences: Sequence[Difference], rows: FactualityRows) -> ResultTable:
    """Return each model by question type, and the number of significant differences of types. Source: FAS §5.3."""
    typed = [one for one in figures if one.keys["type"] != ALL]
    named = [one for one in typed if one.keys["dataset"] != ALL] or typed
    columns = _by_dataset(named, [*_shares(rows), ("ROUGE-L", "rouge_l"), ("FAS", "fas")])
    cells: Cells = [(joined(_model(one), one.keys["type"]), _key(one), one) for one in named]
    table = build_table("Question types", "Model and type", columns, cells, CLUSTERS)
    shown = {key for *_, key in columns}
    between = [one for one in differences if "type" in one.first and _key(one) in shown]
    if between:
        sure = sum(one.significant for one in between)
        table.notes.append(f"Of {len(between):,} differences between types {sure:,} have intervals without 0.")
    return table


def differences_table(differences: Sequence[Difference], rows: FactualityRows) -> ResultTable:
    """Return the differences of models on their common questions. Source: FAS §5.1."""
    kept = [one for one in differences if "model" in one.first]
    columns = _by_dataset(kept, [("ROUGE-L", "rouge_l"), *_shares(rows), ("FAS", "fas")])
    cells: Cells = [
        (joined(f"{one.first['model']} − {one.second['model']}", one.keys["setting"]), _key(one), one) for one in kept
    ]
    return build_table("Differences between models", "Models", columns, cells, CLUSTERS)


def metrics_table(correlations: Sequence[Figure], rows: FactualityRows) -> ResultTable:
    """Return Spearman's ρ of every metric with gold factuality, by group of answers. Source: FAS §5.3."""
    kept = [one for one in of_run(correlations, rows.threshold) if one.keys["configuration"] == FULL]
    columns = [
        (joined(*(name for name in group if name != ALL)) or _dataset(ALL), f"by {GOLDS[gold]}", (gold, group))
        for group in dict.fromkeys(map(_group, kept))
        for gold in GOLDS
    ]
    titles = metric_titles(rows)
    cells: Cells = [(titles[one.metric], (one.keys["gold"], _group(one)), one) for one in kept]
    table = build_table("Spearman's ρ of each metric with gold factuality", "Metric", columns, cells, CLUSTERS)
    table.notes += [f"Contra@{rows.k} should be low where gold is high: for it, a lower ρ is better.", _gold_note(rows)]
    return table


def against_table(differences: Sequence[Difference], rows: FactualityRows) -> ResultTable:
    """Return ρ of FAS minus that of each other metric, on the answers that both can score. Source: FAS §5.3."""
    kept = [one for one in differences if "metric" in one.first]
    columns = [(_dataset(name), f"by {GOLDS[gold]}", (gold, name)) for name in _datasets(kept) for gold in GOLDS]
    titles = metric_titles(rows)
    cells: Cells = [(titles[one.second["metric"]], (one.keys["gold"], one.keys["dataset"]), one) for one in kept]
    title = "ρ of FAS with gold factuality minus that of other metrics"
    return build_table(title, "FAS less", columns, cells, CLUSTERS)


def table_4(
    correlations: Sequence[Figure], differences: Sequence[Difference], rows: FactualityRows, gold: str
) -> ResultTable:
    """Return ρ of FAS with gold by configuration, and the change from the full one. Source: FAS Table 4."""
    kept = of_run(_of_fas(correlations, gold), rows.threshold)
    title = f"Table 4. Ablations: FAS and gold by {GOLDS[gold]}"
    table = _changes(title, "Configuration", kept, differences, gold, configuration_name)
    if any(one.keys["configuration"] == NO_RETRIEVAL for one in kept):
        table.notes.append(
            "Without retrieval claims are compared with the first reference (or the question if there is none), which "
            "may state the same as the gold statements."
        )
    table.notes.append(_gold_note(rows))
    return table


def table_5(
    correlations: Sequence[Figure], differences: Sequence[Difference], rows: FactualityRows, gold: str
) -> ResultTable:
    """Return ρ of FAS with gold by threshold, and the change from that of the run. Source: FAS Table 5."""
    kept = [one for one in _of_fas(correlations, gold) if one.keys["configuration"] == FULL]
    kept.sort(key=lambda one: float(one.keys["threshold"]))
    table = _changes(f"Table 5. Thresholds: FAS and gold by {GOLDS[gold]}", "Threshold", kept, differences, gold)
    table.notes.append(f"Δ is from the threshold of this run, {rows.threshold:g}. Gold keeps that threshold.")
    return table


def flags_table(figures: Sequence[Figure]) -> ResultTable:
    """Return the share of answers with a safety flag, by kind; flags are not part of FAS. Source: FAS §3.2."""
    columns = [(*FLAGS[kind], flag_metric(kind)) for kind in ("any", *FLAG_KINDS)]
    kept = [one for one in figures if one.keys["dataset"] == one.keys["type"] == ALL]
    cells: Cells = [(_model(one), one.metric, one) for one in kept]
    return build_table("Safety flags: share of answers", "Model", columns, cells, CLUSTERS)


def metric_titles(rows: FactualityRows) -> dict[str, str]:
    """Return the names of the metrics of answers in tables, in their order."""
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


def configuration_name(name: str) -> str:
    """Return the name of a configuration in tables."""
    return CONFIGURATIONS.get(name, f"Judged by {name}")


def of_run(correlations: Iterable[Figure], threshold: float) -> list[Figure]:
    """Return the correlations at the threshold of the run."""
    return [one for one in correlations if one.keys["threshold"] == threshold_name(threshold)]


def joined(*names: str) -> str:
    """Return the names that are not empty, separated by points."""
    return " · ".join(filter(None, names))


def _by_model(title: str, figures: Sequence[Figure], named: Named) -> ResultTable:
    kept = [one for one in figures if one.keys["type"] == ALL]
    cells: Cells = [(_model(one), _key(one), one) for one in kept]
    return build_table(title, "Model", _by_dataset(kept, named), cells, CLUSTERS)


def _changes(
    title: str,
    stub: str,
    kept: Sequence[Figure],
    differences: Sequence[Difference],
    gold: str,
    name: Callable[[str], str] = str,
) -> ResultTable:
    """Return ρ and its change for each value of the key `stub`, under the name of each dataset."""
    key = stub.lower()
    columns = _by_dataset(kept, [("ρ", "rho"), ("Δ", "delta")])
    cells: Cells = [(name(one.keys[key]), (one.keys["dataset"], "rho"), one) for one in kept]
    cells += [
        (name(one.first[key]), (one.keys["dataset"], "delta"), one)
        for one in differences
        if key in one.first and one.keys.get("gold") == gold
    ]
    return build_table(title, stub, columns, cells, CLUSTERS)


def _by_dataset(figures: Iterable[Figure], named: Named) -> list[tuple[str, str, tuple[str, str]]]:
    """Return columns of each metric under the name of each dataset."""
    return [(_dataset(name), short, (name, metric)) for name in _datasets(figures) for short, metric in named]


def _datasets(figures: Iterable[Figure]) -> list[str]:
    """Return the named datasets; if there is more than one, or none, all answers together too, at the end."""
    found = list(dict.fromkeys(one.keys["dataset"] for one in figures))
    named = [name for name in found if name != ALL]
    return named if len(named) == 1 else [*named, *([ALL] if ALL in found else [])]


def _dataset(name: str) -> str:
    return "All answers" if name == ALL else name


def _key(one: Figure) -> tuple[str, str]:
    return one.keys["dataset"], one.metric


def _group(one: Figure) -> tuple[str, str, str]:
    return one.keys["dataset"], one.keys["type"], one.keys["model"]


def _model(one: Figure) -> str:
    return joined(one.keys["model"], one.keys["setting"])


def _shares(rows: FactualityRows) -> Named:
    return [(f"S@{rows.k}", f"support@{rows.k}"), (f"C@{rows.k}", f"contra@{rows.k}")]


def _of_fas(correlations: Sequence[Figure], gold: str) -> list[Figure]:
    return [
        one for one in correlations if (one.metric, one.keys["gold"], one.keys["type"], one.keys["model"])
        == ("fas", gold, ALL, ALL)
    ]  # fmt: skip


def _gold_note(rows: FactualityRows) -> str:
    """Return the note on where gold factuality is from, and what that means for its correlation with FAS."""
    return (
        f"Gold: must-have and nice-to-have statements, compared with the answers by {rows.engine}. That engine judges "
        "the claims too, so ρ of metrics that use its verdicts may be too high."
    )


def _unscored_notes(figures: Sequence[Figure], metric: str, name: str) -> list[str]:
    """Return how many answers are in no value of a metric."""
    kept = [one for one in figures if (one.metric, one.keys["dataset"], one.keys["type"]) == (metric, ALL, ALL)]
    unscored = sum(one.unscored for one in kept)
    total = unscored + sum(one.rows for one in kept)
    return (
        [f"{unscored:,} of {total:,} answers are in no {name}: they have no claim, or no verdict."] if unscored else []
    )
