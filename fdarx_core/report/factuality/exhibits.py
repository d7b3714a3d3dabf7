"""The figures of a scoring with their numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isclose

from fdarx_core.factuality.layout import joined
from fdarx_core.factuality.rereading import FULL
from fdarx_core.factuality.rows import ALL
from fdarx_core.factuality.tables import CONFIGURATIONS
from fdarx_core.records import Correlation
from fdarx_core.report.evaluation.charts import Bars, Interval
from fdarx_core.report.exhibit import Cell, Exhibit
from fdarx_core.report.factuality.charts import intervals
from fdarx_core.report.factuality.results import Method
from fdarx_core.report.factuality.sample import Place, Tally
from fdarx_core.report.factuality.wording import GOLD_MEANINGS, GOLD_NAMES, VERDICTS, metric_name
from fdarx_core.report.figures import Series, stacked_bars

MISSING = "–"
GOLD_COLOURS = ("#4477aa", "#d98b33")
Named = tuple[str, Mapping[str, Correlation]]
"""A row of a figure: its name, and its correlation by the measure of gold."""


def shares(tally: Tally) -> Exhibit | None:
    """How the claims of each model fared; None where no answer has a claim."""
    kinds = [name for name in VERDICTS if tally.of_verdict(name)]
    places = [place for place in tally.answers if any(tally.verdicts[place, kind] for kind in kinds)]
    if not places:
        return None
    series = [
        Series(VERDICTS[kind].name, VERDICTS[kind].colour, [tally.verdicts[place, kind] for place in places])
        for kind in kinds
    ]
    drawn = stacked_bars([joined(*place) for place in places], series, "% of claims").update_layout(barnorm="percent")
    drawn.update_traces(hovertemplate="%{y}<br>%{x:.1f} %<extra>%{fullData.name}</extra>")
    return Exhibit(
        "verdicts",
        "Verdicts on claims by model",
        "Each bar is all claims of a model's answers, pooled. The tables give the mean over answers instead.",
        drawn.update_xaxes(range=[0, 100], tickformat=".0f"),
        ["Model", "Answers", "Claims", *(one.name for one in series)],
        [_counted(place, tally, kinds) for place in places],
        legend=[(f"{VERDICTS[kind].sign} {VERDICTS[kind].name}", VERDICTS[kind].colour) for kind in kinds],
    )


def by_metric(correlations: Sequence[Correlation], method: Method) -> Exhibit | None:
    """ρ of each metric with gold over all answers; None where there is none."""
    kept = [one for one in correlations if is_whole(one) and one.configuration == FULL and _near(one, method)]
    return _exhibit(
        "correlations",
        "Rank correlation with gold factuality",
        _rows(kept, lambda one: metric_name(one.metric)),
        "Spearman's ρ over answers, with 95 % intervals: 0 says that a metric tells nothing of gold factuality. "
        + " ".join(GOLD_MEANINGS.values()),
    )


def by_configuration(correlations: Sequence[Correlation], method: Method) -> Exhibit | None:
    """ρ of FAS under each ablation; None where there is none but the full one."""
    kept = [one for one in correlations if one.metric == "fas" and is_whole(one) and _near(one, method)]
    return _exhibit(
        "ablations",
        "FAS with parts taken away",
        _rows(kept, lambda one: CONFIGURATIONS.get(one.configuration, f"Judged by {one.configuration}")),
        "Spearman's ρ of FAS with gold factuality: a single passage a claim; the reference, or the question, in place "
        "of searched passages; another engine of entailment.",
        least=2,
    )


def by_threshold(correlations: Sequence[Correlation]) -> Exhibit | None:
    """ρ of FAS at each threshold; None where there is but one."""
    kept = [one for one in correlations if one.metric == "fas" and is_whole(one) and one.configuration == FULL]
    kept.sort(key=lambda one: one.threshold)
    return _exhibit(
        "thresholds",
        "FAS at other thresholds",
        _rows(kept, lambda one: f"{one.threshold:.2g}"),
        "Spearman's ρ of FAS with gold factuality where a verdict takes this probability.",
        least=2,
    )


def _exhibit(name: str, title: str, rows: Sequence[Named], note: str, least: int = 1) -> Exhibit | None:
    golds = [gold for gold in GOLD_NAMES if any(gold in found for _, found in rows)]
    if len(rows) < least or not golds:
        return None
    series = [
        Bars(GOLD_NAMES[gold], GOLD_COLOURS[at], [_interval(found.get(gold)) for _, found in rows])
        for at, gold in enumerate(golds)
    ]
    return Exhibit(
        name,
        title,
        note,
        intervals([row for row, _ in rows], series, "Spearman's ρ"),
        ["", *(part for gold in golds for part in (f"ρ, {GOLD_NAMES[gold]}", "95 %", "Answers", "Clusters"))],
        [[row, *(part for gold in golds for part in _written(found.get(gold)))] for row, found in rows],
        legend=[(one.name, one.colour) for one in series],
    )


def _rows(kept: Iterable[Correlation], name: Callable[[Correlation], str]) -> list[Named]:
    """By name, in the order in which names come; those without a value are left out."""
    rows: dict[str, dict[str, Correlation]] = {}
    for one in kept:
        if one.rho is not None:
            rows.setdefault(name(one), {})[one.gold] = one
    return list(rows.items())


def is_whole(one: Correlation) -> bool:
    """Over all answers, not a part of them."""
    return (one.dataset, one.type, one.model) == (ALL, ALL, ALL)


def _near(one: Correlation, method: Method) -> bool:
    return isclose(one.threshold, method.threshold)


def _interval(one: Correlation | None) -> Interval:
    return Interval(one.rho, one.low, one.high) if one else Interval(None)


def _written(one: Correlation | None) -> list[Cell]:
    if one is None or one.rho is None:
        return [MISSING] * 4
    ends = MISSING if one.low is None or one.high is None else f"{signed(one.low)} to {signed(one.high)}"
    return [signed(one.rho), ends, one.rows, one.clusters]


def signed(value: float) -> str:
    """ "+0.12", "−0.12"."""
    return f"{'+' if value > 0 else '−' if value < 0 else ''}{abs(value):.2f}"


def _counted(place: Place, tally: Tally, kinds: Sequence[str]) -> list[Cell]:
    claims = [tally.verdicts[place, kind] for kind in kinds]
    return [joined(*place), tally.answers[place], sum(claims), *claims]
