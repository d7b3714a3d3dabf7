"""The tables of the FAS paper from the figures of a factuality run, and everything that a run reports.

Values are shares from 0 to 1; the paper has percentages for Support@5 and Contra@5. Source: FAS Tables 1–5, §5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from fdarx_core.evaluation.tables import SETTING_TITLES, ResultTable, build_table, select
from fdarx_core.evaluation.verifier_scores import measured_note
from fdarx_core.factuality.correlations import FULL, NO_RETRIEVAL, correlations, threshold_name
from fdarx_core.factuality.figures import (
    ALL,
    FLAGS,
    RESAMPLES,
    FactualityRows,
    differences,
    figures,
    flag_metric,
    overall,
    table_texts,
    too_low,
)
from fdarx_core.factuality.scores import ScoringMethod
from fdarx_core.records import Difference, Estimate, Figure

CLUSTERS = "clusters of answers"
AGAINST: dict[str, str] = table_texts()["against"]
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

    They are the mean of each metric over all answers, its rank correlation with completeness, then all figures.
    """
    of_all = {"against": "completeness", "configuration": FULL, "dataset": ALL, "type": ALL, "model": ALL}
    related = select(of_run(summary.correlations, rows.method.threshold), **of_all)
    method = asdict(rows.method)
    return {
        **overall(rows),
        "spearman": {figure.metric: figure.value for figure in related},
        "similarity_measure": method["similarity"],
        **{name: value for name, value in method.items() if name not in ("similarity", "evidence", "claims")},
        "figures": [figure.to_row() for figure in summary.figures],
        "differences": [difference.to_row() for difference in summary.differences],
        "correlations": [correlation.to_row() for correlation in summary.correlations],
    }


def tables(
    figures: Sequence[Figure], correlations: Sequence[Figure], differences: Sequence[Difference], rows: FactualityRows
) -> list[ResultTable]:
    """Return Tables 1 to 5, question types, differences, correlations and safety flags, if they have a row."""
    judged = [
        support_table(figures, rows.method),
        types_table(figures, differences, rows.method),
        fas_table(figures, rows.method),
        differences_table(differences, rows.method),
        metrics_table(correlations, rows.method),
        against_table(differences, rows.method),
        *(ablations_table(correlations, differences, rows.method, against) for against in AGAINST),
        *(thresholds_table(correlations, differences, rows.method, against) for against in AGAINST),
    ]
    for table in judged:
        table.notes += engine_notes(rows.method)
    overlap = _by_model("Table 1. ROUGE-L by dataset", figures, [("ROUGE-L", "rouge_l")])  # Source: FAS Table 1
    found = (overlap, *judged, flags_table(figures))  # those of nothing but 0 are left out
    return [table for table in found if any(one and one.value for _, row in table.rows for one in row)]


def engine_notes(method: ScoringMethod) -> list[str]:
    """Return which engines judged, from which probability on, and how good they were measured to be."""
    return [
        _note("engine", method=method, name=name, measured=measured_note(name, method.measured.get(name)))
        for name in filter(None, (method.engine, method.compared))
    ]


def support_table(figures: Sequence[Figure], method: ScoringMethod) -> ResultTable:
    """Return Support@k and Contra@k of each model on each dataset. Source: FAS Table 2."""
    title = f"Table 2. Claims that the best {method.k} passages support or contradict"
    table = _by_model(title, figures, [*_shares(method), ("Unsupported", "unsupported"), *DECIDED])
    table.notes += [_note("shares"), *_unscored_notes(figures, f"support@{method.k}", f"Support@{method.k}")]
    return table


def fas_table(figures: Sequence[Figure], method: ScoringMethod) -> ResultTable:
    """Return FAS of each model on each dataset, with coverage and the share of decided claims. Source: FAS Table 3."""
    columns = [(fas_title(method), method.fas), ("Coverage", "coverage"), *DECIDED]
    table = _by_model("Table 3. Fact-Aligned Score (FAS) by dataset", figures, columns)
    table.notes.append(_note("fas", method=method))
    if method.floors:
        table.notes.append(_note("floors", method=method))
    withheld = select(too_low(figures, method), type=ALL)
    if withheld:
        table.notes.append(_note("withheld", groups="; ".join(map(_low_name, withheld))))
    table.notes += _unscored_notes(figures, method.fas, "FAS")
    return table


def _low_name(figure: Figure) -> str:
    where = joined(name_of(figure), "" if figure.keys["dataset"] == ALL else figure.keys["dataset"])
    return f"{where} ({figure.metric} {figure.value:.2f})"


def types_table(figures: Sequence[Figure], differences: Sequence[Difference], method: ScoringMethod) -> ResultTable:
    """Return each model by question type, and the number of significant differences of types. Source: FAS §5.3."""
    typed = [figure for figure in figures if figure.keys["type"] != ALL]
    named = [figure for figure in typed if figure.keys["dataset"] != ALL] or typed
    columns = _by_dataset(named, [*_shares(method), *DECIDED, ("ROUGE-L", "rouge_l"), (fas_title(method), method.fas)])
    cells: Cells = [(joined(name_of(figure), figure.keys["type"]), _key(figure), figure) for figure in named]
    table = build_table("Question types", "Model and type", columns, cells, CLUSTERS)
    shown = {key for *_, key in columns}
    between = [difference for difference in differences if "type" in difference.first and _key(difference) in shown]
    if between:
        sure = sum(difference.significant for difference in between)
        table.notes.append(_note("types", between=len(between), sure=sure))
    return table


def differences_table(differences: Sequence[Difference], method: ScoringMethod) -> ResultTable:
    """Return the differences of models on their common questions. Source: FAS §5.1."""
    kept = [difference for difference in differences if "model" in difference.first]
    columns = _by_dataset(kept, [("ROUGE-L", "rouge_l"), *_shares(method), *DECIDED, (fas_title(method), method.fas)])
    cells: Cells = [
        (set_name(f"{one.first['model']} − {one.second['model']}", one.keys["setting"]), _key(one), one) for one in kept
    ]
    return build_table("Differences between models", "Models", columns, cells, CLUSTERS)


def metrics_table(correlations: Sequence[Figure], method: ScoringMethod) -> ResultTable:
    """Return Spearman's ρ of every metric with the reference statements, by group of answers. Source: FAS §5.3."""
    kept = select(of_run(correlations, method.threshold), configuration=FULL)
    columns = [
        (joined(*(name for name in group if name != ALL)) or _dataset(ALL), f"with {name}", (against, group))
        for group in dict.fromkeys(map(_group, kept))
        for against, name in AGAINST.items()
    ]
    titles = metric_titles(method)
    cells: Cells = [(titles[figure.metric], (figure.keys["against"], _group(figure)), figure) for figure in kept]
    table = build_table("Spearman's ρ of each metric with the reference statements", "Metric", columns, cells, CLUSTERS)
    table.notes += [_note("contra", method=method), _note("statements", method=method)]
    return table


def against_table(differences: Sequence[Difference], method: ScoringMethod) -> ResultTable:
    """Return ρ of FAS minus that of each other metric, on the answers that both can score. Source: FAS §5.3."""
    kept = [difference for difference in differences if "metric" in difference.first]
    columns = [
        (_dataset(group), f"with {name}", (key, group)) for group in _datasets(kept) for key, name in AGAINST.items()
    ]
    titles = metric_titles(method)
    cells: Cells = [
        (titles[difference.second["metric"]], (difference.keys["against"], difference.keys["dataset"]), difference)
        for difference in kept
    ]
    title = f"ρ of {fas_title(method)} with the reference statements minus that of other metrics"
    return build_table(title, "FAS less", columns, cells, CLUSTERS)


def ablations_table(
    correlations: Sequence[Figure], differences: Sequence[Difference], method: ScoringMethod, against: str
) -> ResultTable:
    """Return ρ of FAS by configuration, and the change from the full one. Source: FAS Table 4."""
    kept = of_run(select(correlations, method.fas, against=against, type=ALL, model=ALL), method.threshold)
    title = f"Table 4. Ablations: ρ of {fas_title(method)} with {AGAINST[against]}"
    table = _changes(title, "Configuration", kept, differences, against, configuration_name)
    if any(figure.keys["configuration"] == NO_RETRIEVAL for figure in kept):
        table.notes.append(_note("no_retrieval"))
    table.notes.append(_note("statements", method=method))
    return table


def thresholds_table(
    correlations: Sequence[Figure], differences: Sequence[Difference], method: ScoringMethod, against: str
) -> ResultTable:
    """Return ρ of FAS by threshold, and the change from that of the run. Source: FAS Table 5."""
    kept = select(correlations, method.fas, against=against, configuration=FULL, type=ALL, model=ALL)
    kept.sort(key=lambda figure: float(figure.keys["threshold"]))
    title = f"Table 5. Thresholds: ρ of {fas_title(method)} with {AGAINST[against]}"
    table = _changes(title, "Threshold", kept, differences, against)
    table.notes.append(_note("threshold", method=method))
    return table


def flags_table(figures: Sequence[Figure]) -> ResultTable:
    """Return the share of answers with a safety flag, by kind; flags are not part of FAS. Source: FAS §3.2."""
    columns = [(*FLAGS[kind], flag_metric(kind)) for kind in FLAGS]
    kept = select(figures, dataset=ALL, type=ALL)
    cells: Cells = [(name_of(figure), figure.metric, figure) for figure in kept]
    return build_table("Safety flags: share of answers", "Model", columns, cells, CLUSTERS)


def fas_title(method: ScoringMethod) -> str:
    """Return the name of FAS in tables, with that of its similarity."""
    return f"FAS [{method.similarity}]"


def metric_titles(method: ScoringMethod) -> dict[str, str]:
    """Return the names of the metrics that are correlated with reference statements, in their order."""
    return {
        method.fas: fas_title(method),
        f"support@{method.k}": f"Support@{method.k}",
        f"contra@{method.k}": f"Contra@{method.k}",
        "similarity": method.similarity,
        **table_texts()["metrics"],
    }


def configuration_name(name: str) -> str:
    """Return the name of a configuration in tables."""
    names: dict[str, str] = table_texts()["configurations"]
    return names.get(name, f"Judged by {name}")


def of_run(correlations: Iterable[Figure], threshold: float) -> list[Figure]:
    """Return the correlations at the threshold of the run."""
    return select(correlations, threshold=threshold_name(threshold))


def joined(*names: str) -> str:
    """Return the names that are not empty, separated by points."""
    return " · ".join(filter(None, names))


def set_name(model: str, setting: str) -> str:
    """Return the name of the answers of a model in a setting, which is named as in evaluations: "Retrieved by bm25"."""
    name, _, retriever = setting.partition("/")
    return joined(model, f"{SETTING_TITLES[name]} {retriever}".rstrip() if name in SETTING_TITLES else setting)


def _by_model(title: str, figures: Sequence[Figure], named: Named) -> ResultTable:
    kept = select(figures, type=ALL)
    cells: Cells = [(name_of(figure), _key(figure), figure) for figure in kept]
    return build_table(title, "Model", _by_dataset(kept, named), cells, CLUSTERS)


def _changes(
    title: str,
    stub: str,
    kept: Sequence[Figure],
    differences: Sequence[Difference],
    against: str,
    name: Callable[[str], str] = str,
) -> ResultTable:
    """Return ρ and its change for each value of the key `stub`, under the name of each dataset."""
    key = stub.lower()
    columns = _by_dataset(kept, [("ρ", "rho"), ("Δ", "delta")])
    cells: Cells = [(name(figure.keys[key]), (figure.keys["dataset"], "rho"), figure) for figure in kept]
    cells += [
        (name(difference.first[key]), (difference.keys["dataset"], "delta"), difference)
        for difference in differences
        if key in difference.first and difference.keys.get("against") == against
    ]
    return build_table(title, stub, columns, cells, CLUSTERS)


def _by_dataset(figures: Iterable[Figure], named: Named) -> list[tuple[str, str, tuple[str, str]]]:
    """Return columns of each metric under the name of each dataset."""
    return [(_dataset(name), short, (name, metric)) for name in _datasets(figures) for short, metric in named]


def _datasets(figures: Iterable[Figure]) -> list[str]:
    """Return the named datasets; if there is more than one, or none, all answers together too, at the end."""
    found = list(dict.fromkeys(figure.keys["dataset"] for figure in figures))
    named = [name for name in found if name != ALL]
    return named if len(named) == 1 else [*named, *([ALL] if ALL in found else [])]


def _dataset(name: str) -> str:
    return "All answers" if name == ALL else name


def _key(figure: Figure) -> tuple[str, str]:
    return figure.keys["dataset"], figure.metric


def _group(figure: Figure) -> tuple[str, str, str]:
    return figure.keys["dataset"], figure.keys["type"], figure.keys["model"]


def name_of(figure: Figure) -> str:
    """Return the name of the answers that a figure is of."""
    return set_name(figure.keys["model"], figure.keys["setting"])


DECIDED = [("Decided", "decided")]


def _shares(method: ScoringMethod) -> Named:
    return [(f"S@{method.k}", f"support@{method.k}"), (f"C@{method.k}", f"contra@{method.k}")]


def _note(name: str, /, **values: object) -> str:
    """Return a note of `tables.yaml` with these values."""
    template: str = table_texts()["notes"][name]
    return template.format(**values)


def _unscored_notes(figures: Sequence[Figure], metric: str, name: str) -> list[str]:
    """Return how many answers are in no value of a metric."""
    kept = select(figures, metric, dataset=ALL, type=ALL)
    unscored = sum(figure.unscored for figure in kept)
    total = unscored + sum(figure.rows for figure in kept)
    return [_note("unscored", unscored=unscored, total=total, name=name)] if unscored else []
