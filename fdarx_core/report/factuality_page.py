"""The page of a factuality run: summary, tables, charts and the answer viewer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fdarx_core.evaluation.tables import MISSING, select
from fdarx_core.factuality.correlations import AGAINST, FULL
from fdarx_core.factuality.figures import ALL, flag_metric
from fdarx_core.factuality.safety import safety_counts, safety_sentence
from fdarx_core.factuality.scores import ScoringMethod
from fdarx_core.factuality.tables import Summary, configuration_name, engine_notes, fas_title, name_of, of_run, set_name
from fdarx_core.records import Difference, Estimate, FactualityScore, Figure
from fdarx_core.report.answer_viewer import (
    BY_RULES,
    VERDICTS,
    ScoredAnswer,
    metric_name,
    reason_name,
    unscored_name,
    viewer_payload,
)
from fdarx_core.report.charts import COLORS, Series, bars, intervals
from fdarx_core.report.figure_limits import FactualityChecks
from fdarx_core.report.page_engine import (
    PAGE_WORDS,
    Cell,
    FigurePanel,
    TableBlock,
    duration,
    in_turn,
    packed,
    render_page,
    signed,
    value_and_interval,
)
from fdarx_core.report.result_sentences import difference_sentence, percent
from fdarx_core.report.samples import SeededSample

SHOWN = 200
PER_KIND = 100
"""Answers of a model and kind that are kept in memory while all answers are read."""
_COUNTED = {
    "flagged": "flags",
    "contradicted": "contradicted",
    "unsupported": "unsupported_claims",
    "supported": "supported",
    "undecided": "undecided_claims",
    "unscored": "unscored_claims",
}
KINDS = (*_COUNTED, "no_claims")
"""The kinds of answers; an answer is of the first kind that applies: of which its score counts any."""


@dataclass(slots=True)
class AnswerTally:
    """Counts of all answers of a run; models are in the order of the answers.

    `answers` counts by model and setting, `verdicts` counts claims by model and setting and verdict. `reasons` counts
    why claims have no verdict, `without_fas` why answers have no FAS; `covered` counts claims with a passage on their
    drug; `safety` is as in `safety_counts`.
    """

    answers: Counter[tuple[str, str]] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    datasets: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[tuple[tuple[str, str], str]] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    without_fas: Counter[str] = field(default_factory=Counter)
    covered: int = 0
    safety: Counter[str] = field(default_factory=Counter)

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(model for model, _ in self.answers))

    @property
    def settings(self) -> list[str]:
        """The settings that have a name."""
        return list(dict.fromkeys(set_name("", setting) for _, setting in self.answers if setting))

    def of_verdict(self, verdict: str) -> int:
        """Return the claims of all models with a verdict."""
        return sum(rows for (_, one), rows in self.verdicts.items() if one == verdict)

    def add(self, scored: ScoredAnswer) -> None:
        """Count an answer."""
        place = scored.answer.model, scored.answer.setting
        self.answers[place] += 1
        self.outcomes[scored.answer.outcome] += 1
        self.datasets[scored.answer.dataset] += 1
        self.covered += round((scored.score.coverage or 0.0) * scored.score.claims)
        self.safety.update(safety_counts(scored.score))
        if scored.score.fas is None:
            lacking = next((entry for entry in scored.score.unscored if entry.startswith("fas: ")), "fas: ")
            self.without_fas[lacking] += 1
        self.verdicts.update((place, verdict.verdict) for verdict in scored.verdicts)
        self.reasons.update(verdict.reason for verdict in scored.verdicts if verdict.verdict == "unscored")


def kind_of(score: FactualityScore) -> str:
    """Return the kind of an answer, a name of `KINDS`."""
    return next((kind for kind, field in _COUNTED.items() if getattr(score, field)), "no_claims")


def collect(answers: Iterable[ScoredAnswer], seed: int) -> tuple[AnswerTally, list[ScoredAnswer]]:
    """Count all answers in one pass, and pick up to `SHOWN` of them by a hash of seed and id.

    Each model has the same share, filled from each kind in turn. The answers are sorted by kind, flagged ones first.
    """
    tally, picks = AnswerTally(), SeededSample[ScoredAnswer](PER_KIND, seed)
    for scored in answers:
        tally.add(scored)

        # An answer is kept longer than its part, so only its own passages are kept with it.
        def alone(scored: ScoredAnswer = scored) -> ScoredAnswer:
            wanted = {pair.evidence_id for pair in scored.pairs}
            return replace(scored, evidence={name: row for name, row in scored.evidence.items() if name in wanted})

        picks.offer((scored.answer.model, kind_of(scored.score)), scored.answer.id, alone)
    shares = [list(in_turn([picks.of((model, kind)) for kind in KINDS])) for model in tally.models]
    picked = list(in_turn(shares))[:SHOWN]
    return tally, sorted(picked, key=lambda scored: KINDS.index(kind_of(scored.score)))


Named = tuple[str, Mapping[str, Figure]]
"""A row of a chart: its name, and its correlation by what it is with."""


def shares(tally: AnswerTally) -> FigurePanel | None:
    """Return the verdicts on the claims of each model; None if no answer has a claim."""
    kinds = [name for name in VERDICTS if tally.of_verdict(name)]
    places = [place for place in tally.answers if any(tally.verdicts[place, kind] for kind in kinds)]
    if not places:
        return None
    counts = [(place, [tally.verdicts[place, kind] for kind in kinds]) for place in places]
    series = [
        Series(VERDICTS[kind]["name"], VERDICTS[kind]["color"], [claims[at] / sum(claims) for _, claims in counts])
        for at, kind in enumerate(kinds)
    ]
    return FigurePanel.worded(
        "verdicts",
        bars([set_name(*place) for place in places], series, "parts", "of claims"),
        ["Model", "Answers", "Claims", *(one.name for one in series)],
        [[set_name(*place), tally.answers[place], sum(claims), *claims] for place, claims in counts],
        legend=[(f"{VERDICTS[kind]['sign']} {VERDICTS[kind]['name']}", VERDICTS[kind]["color"]) for kind in kinds],
    )


def correlation_panels(correlations: Sequence[Figure], method: ScoringMethod) -> list[FigurePanel]:
    """Return ρ with the reference statements over all answers.

    It is of each metric, and of FAS by configuration and by threshold, where there are several of these.
    """
    of_all = select(correlations, dataset=ALL, type=ALL, model=ALL)
    at_threshold = of_run(of_all, method.threshold)
    full, fas = select(at_threshold, configuration=FULL), select(at_threshold, method.fas)
    thresholds = select(of_all, method.fas, configuration=FULL)
    thresholds.sort(key=lambda one: float(one.keys["threshold"]))
    panels = (
        _panel("correlations", method, _rows(full, lambda one: metric_name(one.metric))),
        _panel("ablations", method, _rows(fas, lambda one: configuration_name(one.keys["configuration"])), least=2),
        _panel("thresholds", method, _rows(thresholds, lambda one: f"{float(one.keys['threshold']):.2g}"), least=2),
    )
    return [panel for panel in panels if panel]


def _panel(name: str, method: ScoringMethod, rows: Sequence[Named], least: int = 1) -> FigurePanel | None:
    kinds = [kind for kind in AGAINST if any(kind in found for _, found in rows)]
    if len(rows) < least or not kinds:
        return None

    def written(one: Figure | None) -> list[Cell]:
        counts = [MISSING] * 2 if one is None or one.value is None else [one.rows, one.clusters]
        return [*value_and_interval(one, signed), *counts]

    series = [
        Series(metric_name(kind), COLORS[at], [found.get(kind) or Estimate(None) for _, found in rows])
        for at, kind in enumerate(kinds)
    ]
    return FigurePanel.worded(
        name,
        intervals([row for row, _ in rows], series, "Spearman's ρ"),
        ["", *(part for kind in kinds for part in (f"ρ, {metric_name(kind)}", "95 %", "Answers", "Clusters"))],
        [[row, *(part for kind in kinds for part in written(found.get(kind)))] for row, found in rows],
        legend=[(one.name, one.color) for one in series],
        fas=fas_title(method),
    )


def _rows(kept: Iterable[Figure], name: Callable[[Figure], str]) -> list[Named]:
    """Return the correlations that have a value by their names, in the order of the names."""
    rows: dict[str, dict[str, Figure]] = {}
    for figure in kept:
        if figure.value is not None:
            rows.setdefault(name(figure), {})[figure.keys["against"]] = figure
    return list(rows.items())


def factuality_sentence(summary: Summary, method: ScoringMethod) -> str:
    """Return the shares of claims that the evidence supports and contradicts, and how models differ.

    Of more than two sets of answers it names the one with most supported claims and the one with most contradicted.
    """
    whole = {"dataset": ALL, "type": ALL}
    supported, contradicted = (
        [one for one in select(summary.figures, f"{kind}@{method.k}", **whole) if one.value is not None]
        for kind in ("support", "contra")
    )
    if len(supported) > 2:
        most, least = (max(rows, key=lambda one: one.value or 0.0) for rows in (supported, contradicted))
        said = (
            f"Of {len(supported)} sets of answers, the evidence supports most in {name_of(most)}: {percent(most)} of "
            f"the decided claims in the mean answer; it contradicts most in {name_of(least)}: {percent(least)}"
        )
    else:
        said = "; ".join(
            f"{name_of(one)}: the evidence supports {percent(one)} and contradicts {percent(other)} of the decided "
            "claims in the mean answer"
            for one, other in zip(supported, contradicted, strict=True)
        )
    pairs = [one for one in select(summary.differences, f"contra@{method.k}", **whole) if "model" in one.first]
    rate = "share of contradicted claims"

    def where(one: Difference) -> str:
        setting = set_name("", one.keys.get("setting", ""))
        return f"in the setting “{setting}”" if setting else ""

    compared = difference_sentence(pairs, lambda side: side["model"], f"has a higher {rate}", rate, where)
    return f"{said or 'No claim is decided'}. {compared}".strip()


def factuality_page(
    info: Mapping[str, Any],
    method: ScoringMethod,
    summary: Summary,
    answers: Iterable[ScoredAnswer],
    rejects: Mapping[tuple[str, str], int],
) -> str:
    """Return the page of a factuality run.

    Args:
        info: the content of the finished run.json; its `notes` are shown.
        method: how the answers were scored.
        summary: the figures and tables of the run.
        answers: read once, so that they may be read part by part; a bounded sample is kept.
        rejects: the numbers of rejected rows by stage and reason.
    """
    checks = FactualityChecks(method)
    tally, picked = collect(checks.counted(answers), int(info["config"].get("seed", 0)))
    viewer = viewer_payload(picked, method)
    panels = [shares(tally), *correlation_panels(summary.correlations, method)]
    full = select(of_run(summary.correlations, method.threshold), configuration=FULL, against="completeness")
    of_all = {one.metric: one for one in select(full, dataset=ALL, type=ALL, model=ALL) if one.value is not None}
    in_paper = (method.fas, f"support@{method.k}", "rouge_l", "bleu_4")  # Source: FAS §5.3
    by_model = any(figure.metric == flag_metric("any") for figure in summary.figures)
    return render_page(
        "factuality.html.j2",
        info=info,
        result=factuality_sentence(summary, method),
        method=method,
        took=duration(info),
        total=tally.answers.total(),
        models=tally.models,
        tiles=[(style, name, tally.of_verdict(name)) for name, style in VERDICTS.items()],
        tally=tally,
        flagged=tally.safety["flagged"] if by_model else None,
        safety=safety_sentence(tally.safety, by_model=by_model),
        by_rules=method.claims == BY_RULES,
        unscored=[(reason_name(why).rstrip("."), rows) for why, rows in tally.reasons.most_common(5)],
        without_fas=[(unscored_name(why).partition(": ")[2], rows) for why, rows in tally.without_fas.most_common(5)],
        evidence="; ".join(
            PAGE_WORDS["evidence_kinds"].get(source.partition(":")[0], "passages")
            for source in method.evidence.split(", ")
        ),
        engine_notes=engine_notes(method),
        fas=fas_title(method),
        correlations=[(metric_name(name), of_all[name]) for name in in_paper if name in of_all],
        judged_by_exact=method.engine == "exact",
        styles=VERDICTS,
        limits=checks.sentences(),
        tables=[TableBlock(f"table-{at}", table) for at, table in enumerate(summary.grids, 1) if table.rows],
        figures=[one for one in panels if one],
        rejects=Counter(rejects),
        shown=len(viewer["items"]),
        viewer=packed(viewer),
    )
