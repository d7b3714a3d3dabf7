"""What was scored and what came of it, in sentences and small tables."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose

from fdarx_core.factuality.rereading import FULL
from fdarx_core.factuality.rows import flag_metric
from fdarx_core.records import Correlation
from fdarx_core.report.evaluation.wording import plural
from fdarx_core.report.exhibit import Cell
from fdarx_core.report.factuality.exhibits import is_whole, signed
from fdarx_core.report.factuality.results import FactualityResults, Method
from fdarx_core.report.factuality.sample import Tally
from fdarx_core.report.factuality.wording import (
    BY_RULES,
    EVIDENCE_NAMES,
    VERDICTS,
    metric_name,
    reason_name,
    unscored_name,
)
from fdarx_core.report.retention import readable


def sentences(results: FactualityResults, tally: Tally) -> list[tuple[str, str]]:
    """A heading and what is to be said under it."""
    told = [
        ("Scored", _scored(tally)),
        ("Claims", _claims(results.method, tally)),
        ("Evidence", _evidence(results.method)),
        ("Entailment", _entailment(results.method)),
        ("FAS", _fas(results.method, tally)),
        ("Against gold", _against_gold(results)),
        ("Safety", _safety(results, tally)),
        ("Left out", _left_out(results, tally)),
    ]
    return [(name, text) for name, text in told if text]


def looked_for_flags(results: FactualityResults) -> bool:
    """Whether there were labels to find safety flags by."""
    return any(one.metric == flag_metric("any") for one in results.summary.figures)


def reject_rows(results: FactualityResults) -> list[list[Cell]]:
    """Stage, reason, rows; most frequent first."""
    ordered = sorted(results.rejects.items(), key=lambda item: (-item[1], item[0]))
    return [[readable(stage), readable(reason), rows] for (stage, reason), rows in ordered]


def _scored(tally: Tally) -> str:
    answers = tally.answers.total()
    of = [f"{rows:,} {outcome}" for outcome, rows in tally.outcomes.items() if outcome != "answered"]
    datasets = [f"{name} ({rows:,})" for name, rows in tally.datasets.items() if name]
    return " ".join(
        part
        for part in [
            f"{plural(answers, 'answer')} of {_listed(tally.models)}{f' ({_listed(of)})' if of else ''}.",
            f"Datasets: {_listed(datasets)}." if datasets else "",
            f"Settings: {_listed(tally.settings)}." if tally.settings else "",
        ]
        if part
    )


def _claims(method: Method, tally: Tally) -> str:
    counts = {name: tally.of_verdict(name) for name in VERDICTS}
    total = sum(counts.values())
    by = "rules: sentences, and clauses that carry a fact of their own" if method.claims == BY_RULES else method.claims
    reasons = [f"{reason_name(reason)} ({rows:,})" for reason, rows in tally.reasons.most_common(5)]
    judged = [f"{rows:,} {VERDICTS[name].name.lower()} ({rows / max(total, 1):.1%})" for name, rows in counts.items()]
    why = f" Unscored because: {'; '.join(reasons)}." if reasons else ""
    return f"{plural(total, 'claim')}, made out by {by}. {_listed(judged)}.{why}".replace("..", ".")


def _evidence(method: Method) -> str:
    words = EVIDENCE_NAMES.get(method.evidence.partition(":")[0], "Passages")
    return f"{words} ({method.evidence}). Each claim is held against the {plural(method.k, 'best passage')}."


def _entailment(method: Method) -> str:
    rule = (
        "Among a claim's passages the highest probability, of entailment or of contradiction, decides if it is at "
        f"least {method.threshold:g}; else the claim is unsupported."
    )
    beside = f" For comparison also by {method.compared}." if method.compared else ""
    return f"Judged by {method.entailment}. {rule}{beside}"


def _fas(method: Method, tally: Tally) -> str:
    weights = method.weights
    formula = (
        f"{weights.similarity:g} × {method.similarity} + {weights.support:g} × Support@{method.k} + "
        f"{weights.contra:g} × (1 − Contra@{method.k})"
    )
    without = tally.without_fas.total()
    told = f" {plural(without, 'answer has', 'answers have')} none" if without else ""
    whys = [f"{unscored_name(why).partition(': ')[2]} ({rows:,})" for why, rows in tally.without_fas.most_common(5)]
    return f"FAS = {formula}.{told}{f': {_joined(whys)}.' if told else ''}"


def _against_gold(results: FactualityResults) -> str:
    threshold = results.method.threshold
    kept = [one for one in results.summary.correlations if one.configuration == FULL and one.gold == "gold"]
    kept = [one for one in kept if is_whole(one) and one.rho is not None and isclose(one.threshold, threshold)]
    found = {one.metric: one for one in kept}
    told = [f"{metric_name(name)} {_rho(found[name])}" for name in _compared(results.method) if name in found]
    if not told:
        return ""
    rows = max(one.rows for one in found.values())
    return f"Spearman's ρ with gold over {plural(rows, 'answer')}: {_joined(told)}."


def _compared(method: Method) -> list[str]:
    """Whose correlation with gold is named. Source: FAS §5.3."""
    return ["fas", f"support@{method.k}", "rouge_l", "bleu_4"]


def _rho(one: Correlation) -> str:
    ends = "" if one.low is None or one.high is None else f" [{signed(one.low)}, {signed(one.high)}]"
    return f"{signed(one.rho or 0.0)}{ends}"


def _safety(results: FactualityResults, tally: Tally) -> str:
    if not looked_for_flags(results):
        return "No labels were given to check answers against: there are no safety flags."
    table = plural(results.contraindications, "contraindication")
    flagged, answers = tally.flagged, tally.answers.total()
    return (
        f"{flagged:,} of {plural(answers, 'answer')} ({flagged / max(answers, 1):.1%}) are flagged, by the labels "
        f"and the table of {table} made from them. Flags are no part of FAS."
    )


def _left_out(results: FactualityResults, tally: Tally) -> str:
    rows = sum(results.rejects.values())
    told = [f"{plural(rows, 'row')} rejected, listed under “The run”"] if rows else []
    unscored = tally.of_verdict("unscored")
    told += [f"{plural(unscored, 'claim')} without a verdict, counted in no share"] if unscored else []
    return f"{_listed(told)}." if told else ""


def _listed(parts: Sequence[str]) -> str:
    """ "a, b and c"."""
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def _joined(parts: Sequence[str]) -> str:
    return "; ".join(parts)
