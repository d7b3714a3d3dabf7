"""The paper's tables from Figures, in its layout, with intervals. Source: FDARxBench Tables 1, 2 and 8."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fdarx_core.evaluation.grid import Column, Entry, Grid
from fdarx_core.evaluation.statistics.bootstrap import FEW_LABELS
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
class Place:
    """A column of a table, and where its figures are found."""

    column: Column
    setting: str
    retriever: str
    metric: str
    group: str


def table_1(figures: Sequence[Figure], *, judge: str, equivalent: bool = False) -> Grid:
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


def table_2(figures: Sequence[Figure], *, equivalent: bool = False) -> Grid:
    """Each retriever's recall, then F1, MRR and nDCG, which the paper does not tabulate. Source: FDARxBench Table 2."""
    prefix = "eq_" if equivalent else ""
    places = [
        Place(Column(group, name), "", "", f"{prefix}{metric}", type_)
        for group, metric in (*DEPTHS, *RANKS)
        for type_, name in TYPE_NAMES.items()
    ]
    title = f"Table 2. Retrieval of the gold passages{EQUIVALENT if equivalent else ''}"
    found = {(one.retriever, one.metric, one.group): one for one in _by_type(figures) if not one.model}
    rows = [
        (retriever, [_entry(found.get((retriever, place.metric, place.group))) for place in places])
        for retriever in dict.fromkeys(retriever for retriever, _, _ in found)
    ]
    return Grid(title, "Retriever", [place.column for place in places], rows, _about_intervals(found.values()))


def table_8(figures: Sequence[Figure]) -> Grid:
    """Overlap with the gold answers, by setting and question type, of each model. Source: FDARxBench Table 8."""
    settings = [("Closed-book", "closed_book", ""), ("Oracle passages", "oracle", ""), ("Full label", "full_label", "")]
    settings += [(f"Retrieved by {retriever}", "retrieved", retriever) for retriever in _retrievers(figures)]
    places = [
        Place(Column(f"{group} {name}", short), setting, retriever, metric, type_)
        for group, setting, retriever in settings
        for type_, name in TYPE_NAMES.items()
        for short, metric in OVERLAPS
    ]
    grid = _by_model("Table 8. Overlap of answers with gold answers", figures, places)
    grid.notes += ["MET is METEOR, R-L is ROUGE-L; all from 0 to 1.", *_about_baseline(figures)]
    return grid


def _places(group: str, listed: Iterable[tuple[str, str, str]], setting: str, retriever: str = "") -> list[Place]:
    return [Place(Column(group, name), setting, retriever, metric, type_) for name, metric, type_ in listed]


def _renamed(place: Place, old: str, new: str) -> Place:
    metric = new if place.metric == old else place.metric
    return Place(place.column, place.setting, place.retriever, metric, place.group)


def _by_model(title: str, figures: Sequence[Figure], places: Sequence[Place]) -> Grid:
    found = {
        (one.model, one.setting, one.retriever, one.metric, one.group): one for one in _by_type(figures) if one.model
    }
    rows = [
        (model, [_entry(found.get((model, at.setting, at.retriever, at.metric, at.group))) for at in places])
        for model in dict.fromkeys(key[0] for key in found)
    ]
    return Grid(title, "Model", [place.column for place in places], rows, _about_intervals(found.values()))


def _by_type(figures: Iterable[Figure]) -> list[Figure]:
    return [one for one in figures if one.group_by == "type"]


def _retrievers(figures: Iterable[Figure]) -> list[str]:
    return list(dict.fromkeys(one.retriever for one in figures if one.setting == "retrieved"))


def _entry(figure: Figure | None) -> Entry | None:
    return None if figure is None or figure.value is None else Entry(figure.value, figure.low, figure.high)


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
