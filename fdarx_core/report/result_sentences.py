"""The result of a run in words, with which its page begins and its command ends."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from math import ceil
from statistics import NormalDist

from fdarx_core.evaluation.metrics import HALLUCINATIONS, SUPPORTED
from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.evaluation.tables import FILE_TITLES, select
from fdarx_core.records import Difference, Estimate
from fdarx_core.records.question_types import ANSWERABLE_TYPES, QUESTION_TYPES
from fdarx_core.report.evaluation_figures import FULL_LABEL, Condition, EvaluationTables
from fdarx_core.report.figure_limits import is_comparable
from fdarx_core.report.page_engine import (
    PAGE_WORDS,
    SIGNIFICANT,
    listed,
    plural,
    setting_name,
    signed,
    value_and_interval,
)

LEAST_DIFFERENCE = 0.01
"""The smallest difference for which `questions_needed` is computed."""


def result_sentence(sheets: EvaluationTables) -> str:
    """Return the best accuracy and retriever and how models differ, or why no model has an accuracy."""
    asked = [cell for cell in sheets.cells if cell.status != "skipped"]
    imported = [
        f"{percent(one)} of the graded answers of “{model}” are correct {_where(condition, 0)}"
        f"{_rate_alone(sheets, condition)}"
        for condition in sheets.conditions
        if condition[0] not in SETTINGS  # of answers that other programs made
        for model, one in _graded(sheets, condition)
    ]
    imported += [
        f"the given contexts support {percent(one)} of the judged answers of “{model}”"
        for condition in sheets.conditions
        for model, one in _graded(sheets, condition, SUPPORTED, "all")
    ]
    answered = [*filter(None, [_accuracy_clause(sheets)]), *imported]
    if asked and not answered:
        if any(cell.answered or cell.refused for cell in asked):
            return "No accuracy can be given: too many replies are unusable, or too many answers have no verdict."
        reason = next((cell.reason for cell in asked if cell.reason), "")
        return f"No model answered a question{f'. The first reason is: {reason}' * bool(reason)}."
    found = select(sheets.figures, "recall_5", model="", group_by="type", group="answerable")
    if recalls := [(one.value, one) for one in found if one.value is not None]:
        best, figure = max(recalls, key=lambda item: item[0])
        names = [one.keys["retriever"] for value, one in recalls if value == best]
        verb = "finds" if len(names) == 1 else "each find"
        answered.append(f"{listed(names)} {verb} {percent(figure)} of the gold passages among the first five")
    clauses = f"{'; '.join(answered)}." if answered else ""
    unusable = {(cell.model, cell.setting, cell.retriever) for cell in sheets.cells if not is_comparable(cell)}
    cut = max((cell.cut for cell in sheets.cells if (cell.setting, cell.retriever) == FULL_LABEL), default=0)
    limited = ""
    if sheets.info.get("config", {}).get("limit"):
        total = sum(sheets.info["benchmark"]["questions"].values())
        if len(sheets.types) < total:
            limited = (
                f"Only {len(sheets.types):,} of {plural(total, 'question')} were taken, drawn by the seed (--limit)."
            )
    compared = hallucination_sentence(sheets.comparisons, cut=cut, unusable=unusable)
    return " ".join(filter(None, (clauses, compared, limited)))


def _side(keys: Mapping[str, str]) -> tuple[str, str, str]:
    return keys["model"], keys["setting"], keys["retriever"]


def _where(condition: Condition, cut: int) -> str:
    """Return the words for a setting, in which the label was cut for some questions."""
    if cut and condition == FULL_LABEL:
        return f"from the label, which was cut for {cut:,} questions"
    words: str = PAGE_WORDS["settings_in_sentences"].get(condition[0], f"in the setting {setting_name(*condition)}")
    return words


def _accuracy_clause(sheets: EvaluationTables) -> str:
    """Return the share of correct answers of the best model, over all questions asked and over the graded ones."""
    conditions = [one for one in sheets.conditions if one[0] in SETTINGS and _graded(sheets, one)]
    if not conditions:
        return ""
    condition = FULL_LABEL if FULL_LABEL in conditions else conditions[-1]
    counts = {
        model: (round((one.value or 0) * one.rows), one.rows + one.unscored, one)
        for model, one in _graded(sheets, condition)
    }
    correct, asked, accuracy = max(counts.values(), key=lambda count: count[0] / count[1])
    best = [model for model, count in counts.items() if count[:2] == (correct, asked)]
    cells = [cell for cell in sheets.cells if (cell.model, cell.setting, cell.retriever) == (best[0], *condition)]
    share = f"{100 * correct / asked:.0f} %" if accuracy.unscored or len(best) > 1 else percent(accuracy)
    if len(best) > 1:
        rates = [[one for model, one in _graded(sheets, other) if model in best] for other in conditions]
        differ = sum(len({(one.value, one.rows) for one in found}) > 1 for found in rates)
        elsewhere = f", but not in {plural(differ, 'other setting')}" * bool(differ)
        elsewhere += f", the best of {len(counts)}" * (len(counts) > len(best))
        who = f"{listed(best)} are equal {_where(condition, cells[0].cut)}{elsewhere}: each answers"
    else:
        who = f"{best[0]}{f' (the best of {len(counts)})' * (len(counts) > 1)} answers"
    types = listed([QUESTION_TYPES[name].title.lower() for name in ANSWERABLE_TYPES if sheets.questions[name]])
    place = "" if len(best) > 1 else f" {_where(condition, cells[0].cut)}"
    told = f"{who} {correct:,} of {asked:,} {types} questions correctly{place} ({share})"
    if accuracy.unscored and len(best) == 1:
        told += f"; {accuracy.rows:,} of the answers have a grade, and {percent(accuracy)} of these are correct"
    return told + _rate_alone(sheets, condition)


def _rate_alone(sheets: EvaluationTables, condition: Condition) -> str:
    """Return the hallucination rate of the only model of a run on answerable questions, "" of several models."""
    rates = _graded(sheets, condition, HALLUCINATIONS)
    return f"; its hallucination rate on them is {percent(rates[0][1])}" if rates and len(sheets.models) == 1 else ""


def _graded(
    sheets: EvaluationTables, condition: Condition, metric: str = "accuracy", group: str = "answerable"
) -> list[tuple[str, Estimate]]:
    """Return the metric of each model that has it in a setting, without those that `is_comparable` leaves out."""
    cells = [cell for cell in sheets.cells if (cell.setting, cell.retriever) == condition and is_comparable(cell)]
    found = [(cell.model, sheets.figure(cell.model, condition, metric, group)) for cell in cells]
    return [(model, one) for model, one in found if one.value is not None]


def percent(estimate: Estimate) -> str:
    """Return a share in percent with its interval: "41 % [31 %, 52 %]"."""
    return " ".join(part for part in value_and_interval(estimate, lambda share: f"{100 * share:.0f} %") if part != "–")


def hallucination_sentence(
    comparisons: Sequence[Difference], group: str = "all", cut: int = 0, unusable: Collection[tuple[str, str, str]] = ()
) -> str:
    """Return which of two models hallucinates more on a group of questions, in the setting where they differ most.

    `cut` counts the questions for which the label was cut. `unusable` are the cells (model, setting, retriever) that
    are not compared.
    """
    rates = [one for one in comparisons if (one.metric, one.keys["group"]) == (HALLUCINATIONS, group)]
    found = [one for one in rates if one.first["model"] != one.second["model"]]
    found = [one for one in found if not {_side(one.first), _side(one.second)} & set(unusable)]

    def where(one: Difference) -> str:
        places = [_where((side["setting"], side["retriever"]), cut) for side in (one.first, one.second)]
        apart = f"({one.first['model']} {places[0]}, {one.second['model']} {places[1]})"
        return (places[0] if places[0] == places[1] else apart) + (f", on {group}," if group != "all" else "")

    cluster = "question" if any(one.first["setting"] in FILE_TITLES for one in found) else "drug"
    rate = "hallucination rate"
    return difference_sentence(found, lambda side: side["model"], "hallucinates more", rate, where, cluster)


def difference_sentence(
    comparisons: Sequence[Difference],
    name: Callable[[Mapping[str, str]], str],
    more: str,
    rate: str,
    where: Callable[[Difference], str] = lambda _: "",
    clusters: str = "drug",
) -> str:
    """Return the largest of the differences of one rate that are shown, or of all where none is; "" without any.

    A difference is shown if its interval excludes 0 and its p value, by Holm's correction, is below `SIGNIFICANT`.
    Where too few clusters allow no such p, one whose interval excludes 0 is told as a difference of these answers.

    Args:
        comparisons: the differences; those without a p value are judged by their intervals.
        name: returns the name of a side, which does `more`, such as "hallucinates more", where its `rate` is higher.
        more, rate: words.
        where: returns the words for the setting of a difference.
        clusters: what the results are swapped on for the p value.
    """
    if not comparisons:
        return ""
    shown = [one for one in comparisons if one.significant and (one.p_holm or 0.0) < SIGNIFICANT]
    one = max(shown or comparisons, key=lambda one: abs(one.value or 0.0))
    first, second, value, p = name(one.first), name(one.second), one.value or 0.0, one.p_holm
    same = [other for other in shown if (name(other.first), name(other.second)) == (first, second)]
    turned = sum((other.value or 0.0) * value < 0 for other in same)
    told = f"of which {len(shown) or 'none'} show{'s' * (len(shown) < 2)} a difference"
    told += f", {turned} of them with {first} and {second} the other way round" * bool(turned)
    several = f" (the largest of {len(comparisons):,} comparisons, {told})" * (len(comparisons) > 1)
    chance = "" if p is None else f", p {f'{p:.3f}' if p >= 0.001 else '< 0.001'}"
    place = f" {where(one)}".rstrip()
    # Of all ways to swap the results on each cluster, the two most extreme ones have the smallest p.
    few = one.significant and p is not None and 2.0 ** (1 - one.clusters) * len(comparisons) >= SIGNIFICANT
    if shown or few:
        low, high = sorted(abs(bound or 0.0) for bound in (one.low, one.high))
        first, second = (first, second) if value > 0 else (second, first)
        said = f"{first} {more} than {second}{place} by {abs(value):.2f} [{low:.2f}, {high:.2f}]"
        if shown:
            return f"{said}{chance}{several}."
        number = plural(one.clusters, clusters)
        few_told = f"but {number} are too few to show any difference{chance} by Holm's correction{several}"
        return f"In these answers {said}, {few_told}."
    if one.significant:
        chance += " by Holm's correction, which the interval lacks"
    needed, least = questions_needed(one), max(abs(value), LEAST_DIFFERENCE)
    enough = f"; about {needed:,} would be needed to show one of {least:.2f}" * (needed > one.rows)
    seen = " ".join(value_and_interval(one, signed))
    return (
        f"No difference in {rate} between {first} and {second} is shown with {plural(one.rows, 'question')}{place}: "
        f"{first} − {second} is {seen}{chance}{enough}{several}."
    )


def questions_needed(difference: Difference) -> int:
    """Return about how many questions would show a true difference as large as this one, with a power of 80 %.

    n' = n ((z(0.975) + z(0.8)) s ÷ d)². Here n is the number of questions now, s the standard error, which is the
    width of the 95 % interval divided by 2 z(0.975), and d the difference, at least `LEAST_DIFFERENCE`. The interval is
    by bootstrap over drugs, so n' holds for questions on proportionally more drugs.
    Source: Miller 2024, Adding Error Bars to Evals.
    """
    z = NormalDist().inv_cdf
    error = ((difference.high or 0.0) - (difference.low or 0.0)) / (2 * z(0.975))
    size = max(abs(difference.value or 0.0), LEAST_DIFFERENCE)
    return ceil(difference.rows * ((z(0.975) + z(0.8)) * error / size) ** 2)
