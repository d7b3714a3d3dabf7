"""A scoring of answers' factuality as one HTML page that opens from disk and loads nothing."""

from __future__ import annotations

from typing import Any

from fdarx_core.report.environment import duration, environment
from fdarx_core.report.evaluation.grids import show
from fdarx_core.report.factuality import exhibits, overview
from fdarx_core.report.factuality.dossier import dossier
from fdarx_core.report.factuality.results import FactualityResults
from fdarx_core.report.factuality.sample import Tally, collect
from fdarx_core.report.factuality.wording import BY_RULES, VERDICTS


def factuality_page(results: FactualityResults) -> str:
    """The page. The answers are gone through once."""
    tally, picked = collect(results.answers, int(results.info["config"].get("seed", 0)))
    shown = dossier(picked, results.method)
    content = {**_head(results, tally), **_measured(results, tally), "viewer": shown}
    return environment().get_template("factuality.html.j2").render(content)


def _head(results: FactualityResults, tally: Tally) -> dict[str, Any]:
    return {
        "info": results.info,
        "method": results.method,
        "took": duration(results.info),
        "total": tally.answers.total(),
        "models": tally.models,
        "tiles": [(style, name, tally.of_verdict(name)) for name, style in VERDICTS.items()],
        "flagged": tally.flagged if overview.looked_for_flags(results) else None,
        "sentences": overview.sentences(results, tally),
        "judged_by_rules": results.method.entailment == BY_RULES,
        "styles": VERDICTS,
    }


def _measured(results: FactualityResults, tally: Tally) -> dict[str, Any]:
    method, correlations = results.method, results.summary.correlations
    figures = [
        exhibits.shares(tally),
        exhibits.by_metric(correlations, method),
        exhibits.by_configuration(correlations, method),
        exhibits.by_threshold(correlations),
    ]
    tables = [show(grid) for grid in results.summary.grids]
    return {
        "tables": [one for one in tables if one.grid.columns and one.grid.rows],
        "figures": [one for one in figures if one],
        "rejects": overview.reject_rows(results),
    }
