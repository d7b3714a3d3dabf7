"""The paper's tables from Figures, in its layout, with intervals. Source: FDARxBench Tables 1, 2 and 8."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fdarx_core.evaluation.bootstrap import FEW_LABELS
from fdarx_core.evaluation.metrics import RETRIEVAL_METRICS, SCORE_METRICS, added_metrics
from fdarx_core.evaluation.tables import IntervalValue, ResultTable, TableColumn
from fdarx_core.records import Figure

BASELINE = "baseline"
TYPE_NAMES = {"factual": "Fact", "multihop": "MH"}
CITING = (
    ("Fact", "accuracy", "factual"),
    ("MH", "accuracy", "multihop"),
    ("Cite F1 Fact", "citation_f1", "factual"),
    ("Cite F1 MH", "citation_f1", "multihop"),
    ("Ref F1", "refusal_f1", "all"),
)
ANSWERING = CITING[:2]
OVERLAPS = (("BLEU", "bleu"), ("MET", "meteor"), ("R-L", "rouge_l"))
DEPTHS = (
    ("recall@1", "recall_1"),
    ("recall@5", "recall_5"),
    ("recall@10", "recall_10"),
    ("recall@|gold|", "recall_gold"),
)
RANKS = (("F1@|gold|", "f1_gold"), ("MRR", "mrr"), ("nDCG@10", "ndcg_10"))
EQUIVALENT = " (equivalent passages count as gold)"


@dataclass(frozen=True, slots=True)
class FigureColumn:
    """A column of a table, and where its figures are found."""

    column: TableColumn
    setting: str
    retriever: str
    metric: str
    group: str


def table_1(figures: Sequence[Figure], *, judge: str, equivalent: bool = False) -> ResultTable:
    """Accuracy by setting, citation F1 and refusal F1 of each model; retrieved settings follow the paper's columns.

    `judge` is the endpoint that graded, "" for none. `equivalent` takes citation F1 under equivalence.
    Source: FDARxBench Table 1.
    """
    places = [
        *_places("Full label (+ cites)", CITING, "full_label"),
        *_places("Closed-book Acc", ANSWERING, "closed_book"),
        *_places("Oracle Acc", ANSWERING, "oracle"),
    ]
    for retriever in _retrievers(figures):
        places += _places(f"Retrieved by {retriever} (+ cites)", CITING, "retrieved", retriever)
    if equivalent:
        places = [_renamed(place, "citation_f1", "citation_f1_eq") for place in places]
    title = f"Table 1. Accuracy, citations and refusals by setting{EQUIVALENT if equivalent else ''}"
    grid = _by_model(title, figures, places)
    grid.notes += [_about_judge(judge), *_about_baseline(figures), *_about_unscored(figures, "accuracy")]
    return grid


def table_2(figures: Sequence[Figure], *, equivalent: bool = False) -> ResultTable:
    """Each retriever's recall, then F1, MRR and nDCG, which the paper does not tabulate. Source: FDARxBench Table 2."""
    prefix = "eq_" if equivalent else ""
    places = [
        FigureColumn(TableColumn(group, name), "", "", f"{prefix}{metric}", type_)
        for group, metric in (*DEPTHS, *RANKS)
        for type_, name in TYPE_NAMES.items()
    ]
    title = f"Table 2. Retrieval of the gold passages{EQUIVALENT if equivalent else ''}"
    found = {(one.retriever, one.metric, one.group): one for one in _by_type(figures) if not one.model}
    rows = [
        (retriever, [_entry(found.get((retriever, place.metric, place.group))) for place in places])
        for retriever in dict.fromkeys(retriever for retriever, _, _ in found)
    ]
    return ResultTable(title, "Retriever", [place.column for place in places], rows, _about_intervals(found.values()))


def table_8(figures: Sequence[Figure]) -> ResultTable:
    """Overlap with the gold answers, by setting and question type, of each model. Source: FDARxBench Table 8."""
    settings = [("Closed-book", "closed_book", ""), ("Oracle passages", "oracle", ""), ("Full label", "full_label", "")]
    settings += [(f"Retrieved by {retriever}", "retrieved", retriever) for retriever in _retrievers(figures)]
    places = [
        FigureColumn(TableColumn(f"{group} {name}", short), setting, retriever, metric, type_)
        for group, setting, retriever in settings
        for type_, name in TYPE_NAMES.items()
        for short, metric in OVERLAPS
    ]
    grid = _by_model("Table 8. Overlap of answers with gold answers", figures, places)
    grid.notes += ["MET is METEOR, R-L is ROUGE-L; all from 0 to 1.", *_about_baseline(figures)]
    return grid


def added_metrics_table(figures: Sequence[Figure]) -> ResultTable:
    """Metrics that other packages add, by setting and group of questions, of each model; empty without any."""
    known = SCORE_METRICS.keys() | RETRIEVAL_METRICS.keys()
    added = [one for one in _by_type(figures) if one.model and one.metric not in known]
    titles = {name: metric.title or name for name, metric in added_metrics().items()}
    columns = [
        FigureColumn(
            TableColumn(f"{titles.get(metric, metric)}, {_condition(*condition)}", group), *condition, metric, group
        )
        for metric in dict.fromkeys(one.metric for one in added)
        for condition in dict.fromkeys((one.setting, one.retriever) for one in added if one.metric == metric)
        for group in dict.fromkeys(
            one.group for one in added if (one.metric, one.setting, one.retriever) == (metric, *condition)
        )
    ]
    return _by_model("Metrics of other packages", added, columns)


def _condition(setting: str, retriever: str) -> str:
    return f"{setting} ({retriever})" if retriever else setting


def _places(
    group: str, listed: Iterable[tuple[str, str, str]], setting: str, retriever: str = ""
) -> list[FigureColumn]:
    return [FigureColumn(TableColumn(group, name), setting, retriever, metric, type_) for name, metric, type_ in listed]


def _renamed(place: FigureColumn, old: str, new: str) -> FigureColumn:
    metric = new if place.metric == old else place.metric
    return FigureColumn(place.column, place.setting, place.retriever, metric, place.group)


def _by_model(title: str, figures: Sequence[Figure], places: Sequence[FigureColumn]) -> ResultTable:
    found = {
        (one.model, one.setting, one.retriever, one.metric, one.group): one for one in _by_type(figures) if one.model
    }
    rows = [
        (model, [_entry(found.get((model, at.setting, at.retriever, at.metric, at.group))) for at in places])
        for model in dict.fromkeys(key[0] for key in found)
    ]
    return ResultTable(title, "Model", [place.column for place in places], rows, _about_intervals(found.values()))


def _by_type(figures: Iterable[Figure]) -> list[Figure]:
    return [one for one in figures if one.group_by == "type"]


def _retrievers(figures: Iterable[Figure]) -> list[str]:
    return list(dict.fromkeys(one.retriever for one in figures if one.setting == "retrieved"))


def _entry(figure: Figure | None) -> IntervalValue | None:
    return None if figure is None or figure.value is None else IntervalValue(figure.value, figure.low, figure.high)


def _about_intervals(figures: Iterable[Figure]) -> list[str]:
    labels = max((one.labels for one in figures), default=0)
    if labels < 2:
        return ["No intervals: they need questions on two labels at least."]
    few = " So few labels make them too narrow." if labels < FEW_LABELS else ""
    return [f"Intervals: 95 %, bootstrap over labels (up to {labels:,}).{few}"]


def _about_judge(judge: str) -> str:
    if judge == BASELINE:
        return "Graded by baseline: rules on numbers, units, populations and overlap, no LLM."
    return f"Graded by {judge}." if judge else "Not graded."


def _about_baseline(figures: Iterable[Figure]) -> list[str]:
    answered = any(one.model == BASELINE for one in figures)
    return ["baseline answers by rules, no LLM: a lower bound."] if answered else []


def _about_unscored(figures: Iterable[Figure], metric: str) -> list[str]:
    """What is in no value of the table for want of a verdict."""
    counted = [one for one in _by_type(figures) if one.metric == metric and one.group == "answerable"]
    unscored = sum(one.unscored for one in counted)
    total = unscored + sum(one.rows for one in counted)
    return (
        [f"{unscored:,} of {total:,} answerable questions asked have no verdict and are in no accuracy."]
        if unscored
        else []
    )
