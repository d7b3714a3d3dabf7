"""The tables of the FDARxBench paper from the figures of an evaluation. Source: FDARxBench Tables 1, 2 and 8."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from fdarx_core.evaluation.metrics import RETRIEVAL_METRICS, SCORE_METRICS, added_metrics
from fdarx_core.evaluation.tables import ResultTable, build_table, unscored_notes
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
RANKING = (
    ("recall@1", "recall_1"),
    ("recall@5", "recall_5"),
    ("recall@10", "recall_10"),
    ("recall@|gold|", "recall_gold"),
    ("F1@|gold|", "f1_gold"),
    ("MRR", "mrr"),
    ("nDCG@10", "ndcg_10"),
)
EQUIVALENT = " (equivalent passages count as gold)"

Columns = list[tuple[str, str, Hashable]]
"""Upper header, header, and the key: setting, retriever, metric and group of the figures of a column."""


def table_1(figures: Sequence[Figure], *, judge: str, equivalent: bool = False) -> ResultTable:
    """Return accuracy by setting, citation F1 and refusal F1 of each model. Source: FDARxBench Table 1.

    Args:
        figures: the figures of one or more evaluations.
        judge: the endpoint that graded the answers, "" for none.
        equivalent: show citation F1 under equivalence.
    """
    settings = [
        ("Full label (+ cites)", "full_label", "", CITING),
        ("Closed-book Acc", "closed_book", "", ANSWERING),
        ("Oracle Acc", "oracle", "", ANSWERING),
        *((f"Retrieved by {name} (+ cites)", "retrieved", name, CITING) for name in _retrievers(figures)),
    ]
    names = {"citation_f1": "citation_f1_eq"} if equivalent else {}
    columns: Columns = [
        (upper, name, (setting, retriever, names.get(metric, metric), group))
        for upper, setting, retriever, listed in settings
        for name, metric, group in listed
    ]
    table = _by_model(
        f"Table 1. Accuracy, citations and refusals by setting{EQUIVALENT * equivalent}", figures, columns
    )
    counted = [one for one in _by_type(figures) if (one.metric, one.keys["group"]) == ("accuracy", "answerable")]
    unscored = unscored_notes(counted, "answerable questions asked", "accuracy")
    table.notes += [_judge_note(judge), *_baseline_notes(figures), *unscored]
    return table


def table_2(figures: Sequence[Figure], *, equivalent: bool = False) -> ResultTable:
    """Return recall, F1, MRR and nDCG of each retriever. Source: FDARxBench Table 2, which has recall alone."""
    prefix = "eq_" if equivalent else ""
    columns: Columns = [
        (upper, name, (f"{prefix}{metric}", group)) for upper, metric in RANKING for group, name in TYPE_NAMES.items()
    ]
    cells = [
        (one.keys["retriever"], (one.metric, one.keys["group"]), one)
        for one in _by_type(figures)
        if not one.keys["model"]
    ]
    title = f"Table 2. Retrieval of the gold passages{EQUIVALENT * equivalent}"
    return build_table(title, "Retriever", columns, cells, "labels")


def table_8(figures: Sequence[Figure]) -> ResultTable:
    """Return the overlap with the gold answers, by setting and question type. Source: FDARxBench Table 8."""
    settings = [("Closed-book", "closed_book", ""), ("Oracle passages", "oracle", ""), ("Full label", "full_label", "")]
    settings += [(f"Retrieved by {retriever}", "retrieved", retriever) for retriever in _retrievers(figures)]
    columns: Columns = [
        (f"{upper} {name}", short, (setting, retriever, metric, group))
        for upper, setting, retriever in settings
        for group, name in TYPE_NAMES.items()
        for short, metric in OVERLAPS
    ]
    table = _by_model("Table 8. Overlap of answers with gold answers", figures, columns)
    table.notes += ["MET is METEOR, R-L is ROUGE-L; all from 0 to 1.", *_baseline_notes(figures)]
    return table


def added_metrics_table(figures: Sequence[Figure]) -> ResultTable:
    """Return the metrics that other packages add, by setting and group of questions; empty without such metrics."""
    known = SCORE_METRICS.keys() | RETRIEVAL_METRICS.keys()
    titles = {name: metric.title or name for name, metric in added_metrics().items()}
    keys = dict.fromkeys(_key(one) for one in _by_type(figures) if one.keys["model"] and one.metric not in known)
    order = {metric: at for at, metric in enumerate(dict.fromkeys(metric for *_, metric, _ in keys))}
    columns: Columns = [
        (f"{titles.get(metric, metric)}, {setting}{f' ({retriever})' if retriever else ''}", group, key)
        for key in sorted(keys, key=lambda key: order[key[2]])
        for setting, retriever, metric, group in [key]
    ]
    return _by_model("Metrics of other packages", figures, columns)


def _by_model(title: str, figures: Sequence[Figure], columns: Columns) -> ResultTable:
    cells = [(one.keys["model"], _key(one), one) for one in _by_type(figures) if one.keys["model"]]
    return build_table(title, "Model", columns, cells, "labels")


def _key(one: Figure) -> tuple[str, str, str, str]:
    return one.keys["setting"], one.keys["retriever"], one.metric, one.keys["group"]


def _by_type(figures: Iterable[Figure]) -> list[Figure]:
    return [one for one in figures if one.keys["group_by"] == "type"]


def _retrievers(figures: Iterable[Figure]) -> list[str]:
    return list(dict.fromkeys(one.keys["retriever"] for one in figures if one.keys["setting"] == "retrieved"))


def _judge_note(judge: str) -> str:
    if judge == BASELINE:
        return "Graded by baseline: rules on numbers, units, populations and overlap, no LLM."
    return f"Graded by {judge}." if judge else "Not graded."


def _baseline_notes(figures: Iterable[Figure]) -> list[str]:
    answered = any(one.keys["model"] == BASELINE for one in figures)
    return ["baseline answers by rules, no LLM: a lower bound."] if answered else []
