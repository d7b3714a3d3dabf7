"""The page of a factuality run: summary, tables, charts and the answer viewer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fdarx_core.evaluation.tables import MISSING, ResultTable
from fdarx_core.factuality.correlations import FULL
from fdarx_core.factuality.figures import ALL, flag_metric
from fdarx_core.factuality.safety import FLAGGED, TO_REVIEW, safety_sentence
from fdarx_core.factuality.scores import ScoringMethod
from fdarx_core.factuality.tables import configuration_name, engine_notes, fas_title, joined, of_run
from fdarx_core.records import Estimate, FactualityScore, Figure
from fdarx_core.report.answer_viewer import (
    BY_RULES,
    EVIDENCE_NAMES,
    STATEMENT_METRICS,
    VERDICTS,
    FactualityResults,
    ScoredAnswer,
    metric_name,
    reason_name,
    unscored_name,
    viewer_payload,
)
from fdarx_core.report.charts import Series, intervals, stacked_bars
from fdarx_core.report.factuality_limits import FactualityChecks
from fdarx_core.report.page_engine import (
    Cell,
    FigurePanel,
    TableBlock,
    duration,
    in_turn,
    render_page,
    signed,
)
from fdarx_core.report.samples import SeededSample

SHOWN = 200
PER_KIND = 100
"""Answers of a model and kind that are kept in memory while all answers are read."""
KINDS = ("flagged", "contradicted", "unsupported", "supported", "undecided", "unscored", "no_claims")
"""The kinds of answers; an answer is of the first kind that applies."""

ModelSetting = tuple[str, str]
"""Model and setting."""


@dataclass(slots=True)
class AnswerTally:
    """Counts of all answers of a run; models are in the order of the answers.

    `answers` counts by model and setting, `verdicts` counts claims by model and setting and verdict. `reasons` counts
    why claims have no verdict, `without_fas` why answers have no FAS; `covered` counts claims with a passage on their
    drug, `flagged` answers with a safety flag, `flags` the flags and the candidates to be reviewed, by status.
    """

    answers: Counter[ModelSetting] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    datasets: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[tuple[ModelSetting, str]] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    without_fas: Counter[str] = field(default_factory=Counter)
    flagged: int = 0
    covered: int = 0
    flags: Counter[str] = field(default_factory=Counter)

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(model for model, _ in self.answers))

    @property
    def settings(self) -> list[str]:
        """The settings that have a name."""
        return list(dict.fromkeys(setting for _, setting in self.answers if setting))

    def of_verdict(self, verdict: str) -> int:
        """Return the claims of all models with a verdict."""
        return sum(rows for (_, one), rows in self.verdicts.items() if one == verdict)

    def add(self, one: ScoredAnswer) -> None:
        """Count an answer."""
        place = one.answer.model, one.answer.setting
        self.answers[place] += 1
        self.outcomes[one.answer.outcome] += 1
        self.datasets[one.answer.dataset] += 1
        self.covered += round((one.score.coverage or 0.0) * one.score.claims)
        self.flagged += any(flag.status == "flagged" for flag in one.flags)
        self.flags.update(flag.status for flag in one.flags)
        if one.score.fas is None:
            lacking = next((entry for entry in one.score.unscored if entry.startswith("fas: ")), "fas: ")
            self.without_fas[lacking] += 1
        self.verdicts.update((place, verdict.verdict) for verdict in one.verdicts)
        self.reasons.update(verdict.reason for verdict in one.verdicts if verdict.verdict == "unscored")


def kind_of(score: FactualityScore) -> str:
    """Return the kind of an answer, a name of `KINDS`."""
    found = {
        "flagged": score.flags,
        "contradicted": score.contradicted,
        "unsupported": score.unsupported_claims,
        "supported": score.supported,
        "undecided": score.undecided_claims,
        "unscored": score.unscored_claims,
    }
    return next((kind for kind, rows in found.items() if rows), "no_claims")


def collect(answers: Iterable[ScoredAnswer], seed: int) -> tuple[AnswerTally, list[ScoredAnswer]]:
    """Count all answers in one pass, and pick up to `SHOWN` of them by a hash of seed and id.

    Each model has the same share, filled from each kind in turn. The answers are sorted by kind, flagged ones first.
    """
    tally, picks = AnswerTally(), SeededSample[ScoredAnswer](PER_KIND, seed)
    for one in answers:
        tally.add(one)
        picks.offer((one.answer.model, kind_of(one.score)), one.answer.id, lambda one=one: _alone(one))  # type: ignore[misc]
    shares = [list(in_turn([picks.of((model, kind)) for kind in KINDS])) for model in tally.models]
    picked = list(in_turn(shares))[:SHOWN]
    return tally, sorted(picked, key=lambda one: KINDS.index(kind_of(one.score)))


def _alone(one: ScoredAnswer) -> ScoredAnswer:
    """Return an answer with its own passages only, because it is kept longer than its part."""
    wanted = {pair.evidence_id for pair in one.pairs}
    return replace(one, evidence={name: row for name, row in one.evidence.items() if name in wanted})


COLORS = ("#4477aa", "#d98b33")
Named = tuple[str, Mapping[str, Figure]]
"""A row of a chart: its name, and its correlation by what it is with."""


def shares(tally: AnswerTally) -> FigurePanel | None:
    """Return the verdicts on the claims of each model; None if no answer has a claim."""
    kinds = [name for name in VERDICTS if tally.of_verdict(name)]
    places = [place for place in tally.answers if any(tally.verdicts[place, kind] for kind in kinds)]
    if not places:
        return None
    series = [
        Series(VERDICTS[kind].name, VERDICTS[kind].color, [tally.verdicts[place, kind] for place in places])
        for kind in kinds
    ]
    drawn = stacked_bars([joined(*place) for place in places], series, "% of claims").update_layout(barnorm="percent")
    drawn.update_traces(hovertemplate="%{y}<br>%{x:.1f} %<extra>%{fullData.name}</extra>")
    return FigurePanel.worded(
        "verdicts",
        drawn.update_xaxes(range=[0, 100], tickformat=".0f"),
        ["Model", "Answers", "Claims", *(one.name for one in series)],
        [_counted(place, tally, kinds) for place in places],
        legend=[(f"{VERDICTS[kind].sign} {VERDICTS[kind].name}", VERDICTS[kind].color) for kind in kinds],
    )


def by_metric(correlations: Sequence[Figure], method: ScoringMethod) -> FigurePanel | None:
    """Return ρ of each metric with the reference statements over all answers, if any."""
    kept = [one for one in _of_method(correlations, method) if one.keys["configuration"] == FULL]
    return _panel("correlations", method, _rows(kept, lambda one: metric_name(one.metric)))


def by_configuration(correlations: Sequence[Figure], method: ScoringMethod) -> FigurePanel | None:
    """Return ρ of FAS in each configuration; None if there is only the full one."""
    kept = [one for one in _of_method(correlations, method) if one.metric == method.fas]
    rows = _rows(kept, lambda one: configuration_name(one.keys["configuration"]))
    return _panel("ablations", method, rows, least=2)


def by_threshold(correlations: Sequence[Figure], method: ScoringMethod) -> FigurePanel | None:
    """Return ρ of FAS at each threshold; None if there is only one."""
    kept = [one for one in _of_all(correlations) if (one.metric, one.keys["configuration"]) == (method.fas, FULL)]
    kept.sort(key=lambda one: float(one.keys["threshold"]))
    rows = _rows(kept, lambda one: f"{float(one.keys['threshold']):.2g}")
    return _panel("thresholds", method, rows, least=2)


def _panel(name: str, method: ScoringMethod, rows: Sequence[Named], least: int = 1) -> FigurePanel | None:
    kinds = [kind for kind in STATEMENT_METRICS if any(kind in found for _, found in rows)]
    if len(rows) < least or not kinds:
        return None
    series = [
        Series(metric_name(kind), COLORS[at], [found.get(kind) or Estimate(None) for _, found in rows])
        for at, kind in enumerate(kinds)
    ]
    return FigurePanel.worded(
        name,
        intervals([row for row, _ in rows], series, "Spearman's ρ"),
        ["", *(part for kind in kinds for part in (f"ρ, {metric_name(kind)}", "95 %", "Answers", "Clusters"))],
        [[row, *(part for kind in kinds for part in _written(found.get(kind)))] for row, found in rows],
        legend=[(one.name, one.color) for one in series],
        fas=fas_title(method),
    )


def _rows(kept: Iterable[Figure], name: Callable[[Figure], str]) -> list[Named]:
    """Return the correlations that have a value by their names, in the order of the names."""
    rows: dict[str, dict[str, Figure]] = {}
    for one in kept:
        if one.value is not None:
            rows.setdefault(name(one), {})[one.keys["against"]] = one
    return list(rows.items())


def _of_all(correlations: Iterable[Figure]) -> list[Figure]:
    """Return the correlations over all answers."""
    return [one for one in correlations if all(one.keys[name] == ALL for name in ("dataset", "type", "model"))]


def _of_method(correlations: Iterable[Figure], method: ScoringMethod) -> list[Figure]:
    """Return the correlations over all answers at the threshold of the run."""
    return of_run(_of_all(correlations), method.threshold)


def _written(one: Figure | None) -> list[Cell]:
    if one is None or one.value is None:
        return [MISSING] * 4
    ends = MISSING if one.low is None or one.high is None else f"{signed(one.low)} to {signed(one.high)}"
    return [signed(one.value), ends, one.rows, one.clusters]


def _counted(place: ModelSetting, tally: AnswerTally, kinds: Sequence[str]) -> list[Cell]:
    claims = [tally.verdicts[place, kind] for kind in kinds]
    return [joined(*place), tally.answers[place], sum(claims), *claims]


def looked_for_flags(results: FactualityResults) -> bool:
    """Return whether there were labels for safety checks."""
    return any(one.metric == flag_metric("any") for one in results.summary.figures)


def completeness_correlations(results: FactualityResults) -> list[tuple[str, Figure]]:
    """Return the correlations with completeness that the paper names, by metric. Source: FAS §5.3."""
    found = {
        one.metric: one
        for one in _of_method(results.summary.correlations, results.method)
        if (one.keys["configuration"], one.keys["against"]) == (FULL, "completeness") and one.value is not None
    }
    named = [results.method.fas, f"support@{results.method.k}", "rouge_l", "bleu_4"]
    return [(metric_name(name), found[name]) for name in named if name in found]


def factuality_page(results: FactualityResults, calibrated: Sequence[ResultTable] = ()) -> str:
    """Return the page of a factuality run. The answers are read once. Tables of `calibrated` figures come first."""
    checks = FactualityChecks(results.method)
    tally, picked = collect(checks.counted(results.answers), int(results.info["config"].get("seed", 0)))
    method, correlations = results.method, results.summary.correlations
    panels = [
        shares(tally),
        by_metric(correlations, method),
        by_configuration(correlations, method),
        by_threshold(correlations, method),
    ]
    return render_page(
        "factuality.html.j2",
        info=results.info,
        method=method,
        took=duration(results.info),
        total=tally.answers.total(),
        models=tally.models,
        tiles=[(style, name, tally.of_verdict(name)) for name, style in VERDICTS.items()],
        tally=tally,
        flagged=tally.flagged if looked_for_flags(results) else None,
        safety=safety_sentence(tally.flags[FLAGGED], tally.flags[TO_REVIEW], verified=method.engine != "exact"),
        contraindications=results.contraindications,
        by_rules=method.claims == BY_RULES,
        unscored=[(reason_name(why).rstrip("."), rows) for why, rows in tally.reasons.most_common(5)],
        without_fas=[(unscored_name(why).partition(": ")[2], rows) for why, rows in tally.without_fas.most_common(5)],
        evidence=EVIDENCE_NAMES.get(method.evidence.partition(":")[0], "Passages"),
        engine_notes=engine_notes(method),
        fas=fas_title(method),
        correlations=completeness_correlations(results),
        judged_by_exact=method.engine == "exact",
        styles=VERDICTS,
        limits=checks.sentences(),
        tables=[TableBlock(f"table-{at}", table) for at, table in enumerate(results.summary.grids, 1) if table.rows],
        calibrated=[TableBlock(f"calibrated-{at}", table) for at, table in enumerate(calibrated, 1)],
        figures=[one for one in panels if one],
        rejects=Counter(results.rejects),
        viewer=viewer_payload(picked, method),
    )
