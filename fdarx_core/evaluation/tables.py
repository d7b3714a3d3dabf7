"""Tables of figures: built from figures by their keys, and printed as text; those of the FDARxBench paper.

Source: FDARxBench Tables 1, 2 and 8.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from textwrap import wrap

from fdarx_core.evaluation.bootstrap import FEW_CLUSTERS
from fdarx_core.evaluation.figures import MIN_QUESTIONS, FigureT
from fdarx_core.evaluation.metrics import HALLUCINATIONS, RETRIEVAL_METRICS, SCORE_METRICS, SUPPORTED, added_metrics
from fdarx_core.evaluation.settings import GIVEN_CONTEXT, REFERENCE, SETTINGS
from fdarx_core.labels.loinc import TOPICS
from fdarx_core.records import Estimate, Figure
from fdarx_core.records.question_types import ANSWERABLE_TYPES, QUESTION_TYPES

MISSING = "–"
CLUSTERS = "drugs"
"""What the bootstrap draws, for the notes of tables."""


@dataclass(slots=True)
class ResultTable:
    """A table: `rows` have a name and an entry for each column, None where there is no value.

    `stub` is the header of the rows' names. A column has an upper header, which neighboring columns share, and its own.
    """

    title: str
    stub: str
    columns: list[tuple[str, str]]
    rows: list[tuple[str, list[Estimate | None]]]
    notes: list[str] = field(default_factory=list)

    def header_groups(self) -> list[tuple[str, int]]:
        """Return each upper header and the number of columns under it, from the left."""
        return [(group, len(list(columns))) for group, columns in groupby(self.columns, itemgetter(0))]


def build_table(
    title: str,
    stub: str,
    columns: Sequence[tuple[str, str, Hashable]],
    cells: Iterable[tuple[str, Hashable, Estimate]],
    clusters: str = "",
) -> ResultTable:
    """Arrange estimates in a table. Columns without any value are left out.

    Args:
        title: the title of the table.
        stub: the header of the rows' names.
        columns: upper header, header and key of each column.
        cells: name of the row, key of the column, and the estimate; rows are in the order of their first cells.
        clusters: what the bootstrap drew, in the plural, for a note on the intervals; "" for no note.
    """
    keys = {key for *_, key in columns}
    found = [(row, key, entry) for row, key, entry in cells if key in keys]
    filled = {(row, key): entry for row, key, entry in found if entry.value is not None}
    used = {key for _, key in filled}
    kept = [column for column in columns if column[2] in used]
    names = dict.fromkeys(row for row, *_ in found) if kept else {}
    return ResultTable(
        title,
        stub,
        [(group, name) for group, name, _ in kept],
        [(row, [filled.get((row, key)) for *_, key in kept]) for row in names],
        [interval_note(filled.values(), clusters)] if clusters else [],
    )


def select(figures: Iterable[FigureT], metric: str = "", **keys: str) -> list[FigureT]:
    """Return the figures of a metric, by default of any, whose keys have these values."""
    return [figure for figure in figures if metric in ("", figure.metric) and keys.items() <= figure.keys.items()]


def interval_note(estimates: Iterable[Estimate], clusters: str) -> str:
    """Return the note on how the intervals were made, or why there are none; `clusters` names clusters in plural."""
    found = list(estimates)
    number = max((estimate.clusters for estimate in found), default=0)
    if number < 2 and all(estimate.low is None for estimate in found):
        return f"No intervals: they need two {clusters} at least."
    if number < 2:  # the interval of a value with one cluster covers only what missing values could be
        return f"Intervals: 95 %, bootstrap over {clusters}, with each missing verdict counted as wrong and as right."
    few = f". Only {number:,} {clusters}: these intervals are too narrow" if number < FEW_CLUSTERS else ""
    return f"Intervals: 95 %, bootstrap over {clusters}{few or f' (up to {number:,})'}."


def unscored_notes(estimates: Sequence[Estimate], what: str, where: str) -> list[str]:
    """Return the note on how many of the values have no verdict, empty where all have one."""
    unscored = sum(estimate.unscored for estimate in estimates)
    total = unscored + sum(estimate.rows for estimate in estimates)
    return [f"{unscored:,} of {total:,} {what} have no verdict and are in no {where}."] if unscored else []


def with_bounds(entry: Estimate | None) -> str:
    """Return a value with its interval, `0.53 [0.50, 0.56]`, or only the value without an interval."""
    if entry is None or entry.value is None:
        return MISSING
    return f"{_decimal(entry.value)} {interval(entry, _decimal)}".rstrip()


def interval(entry: Estimate, written: Callable[[float], str]) -> str:
    """Return the interval as `[low, high]`, "" without one; `written` makes the text of a bound."""
    return "" if entry.low is None or entry.high is None else f"[{written(entry.low)}, {written(entry.high)}]"


def _decimal(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # no -0.00


def table_text(grid: ResultTable, width: int = 100) -> str:
    """Return the table in lines of at most `width` characters, if a single column fits into that.

    Columns that do not fit beside each other follow below, with the rows' names again.
    """
    import pandas as pd  # takes longer to import than most commands without a table

    cells = [[with_bounds(entry) for entry in entries] for _, entries in grid.rows]
    header = pd.MultiIndex.from_tuples(grid.columns, names=["", grid.stub])
    frame = pd.DataFrame(cells, [name for name, _ in grid.rows], header)
    texts: list[str] = []
    first = 0
    for last in range(1, len(grid.columns) + 1 if grid.rows else 0):
        beside = frame.iloc[:, first:last].to_string()
        if texts and max(map(len, beside.splitlines())) <= width:
            texts[-1] = beside
        else:
            first = last - 1
            texts.append(frame.iloc[:, first:last].to_string())
    notes = [line for note in grid.notes for line in wrap(note, width)]
    return "\n".join([*wrap(grid.title, width), "", "\n\n".join(texts), *([""] if notes else []), *notes])


BASELINE = "baseline"
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
FILE_TITLES = {REFERENCE: "Against the reference", GIVEN_CONTEXT: "By the given context"}
"""The settings of a graded file, which has no question types."""

Columns = list[tuple[str, str, Hashable]]
"""Upper header, header, and the key: setting, retriever, metric and group of the figures of a column."""


def _type_abbreviations() -> dict[str, str]:
    return {name: QUESTION_TYPES[name].abbreviation for name in ANSWERABLE_TYPES}


def settings_table(figures: Sequence[Figure], *, judge: str, equivalent: bool = False) -> ResultTable:
    """Return accuracy by setting, citation F1 and refusal F1 of each model. Source: FDARxBench Table 1.

    Args:
        figures: the figures of one or more evaluations.
        judge: the endpoint that graded the answers, "" for none.
        equivalent: show citation F1 under equivalence.
    """
    answered = dict.fromkeys(_column(figure)[:2] for figure in figures if figure.keys["model"])
    imported = [cell for cell in answered if cell[0] not in SETTINGS]  # of other programs, in settings of their own
    types = _type_abbreviations()
    answering = [(short, "accuracy", name) for name, short in types.items()]
    cited = [(f"Cite F1 {short}", "citation_f1", name) for name, short in types.items()]
    citing = [
        *((f"Acc {short}", metric, name) for short, metric, name in answering),
        *cited,
        ("Ref F1", "refusal_f1", "all"),
    ]
    of_file = [("Acc", "accuracy", "answerable"), ("Supported", SUPPORTED, "all")]
    settings = [
        ("Full label (+ cites)", "full_label", "", citing),
        ("Closed-book Acc", "closed_book", "", answering),
        ("Oracle Acc", "oracle", "", answering),
        *((f"Retrieved by {name} (+ cites)", "retrieved", name, citing) for name in _retrievers(figures)),
        *((FILE_TITLES[one], one, by, of_file) for one, by in imported if one in FILE_TITLES),
        *((" · ".join(filter(None, cell)), *cell, citing) for cell in imported if cell[0] not in FILE_TITLES),
    ]
    names = {"citation_f1": "citation_f1_eq"} if equivalent else {}
    columns: Columns = [
        (upper, name, (setting, retriever, names.get(metric, metric), group))
        for upper, setting, retriever, listed in settings
        for name, metric, group in listed
    ]
    table = _by_model("", figures, columns)
    shown = " ".join(name for _, name in table.columns)
    parts = {"Cite": "citations", "Ref": "refusals", "Supported": "supported answers"}
    *most, last = ["Accuracy", *(part for short, part in parts.items() if short in shown)]
    what = f"{', '.join(most)} and {last}" if most else last
    table.title = f"Table 1. {what} by setting{EQUIVALENT * equivalent}"
    counted = select(figures, "accuracy", group_by="type", group="answerable")
    unscored = unscored_notes(counted, "answerable questions asked", "accuracy")
    table.notes += [*_judge_notes(figures, judge), *_baseline_notes(figures), *unscored, *coverage_notes(figures)]
    return table


def retrieval_table(figures: Sequence[Figure], *, equivalent: bool = False) -> ResultTable:
    """Return recall, F1, MRR and nDCG of each retriever. Source: FDARxBench Table 2, which has recall alone."""
    prefix = "eq_" if equivalent else ""
    columns: Columns = [
        (upper, name, (f"{prefix}{metric}", group))
        for upper, metric in RANKING
        for group, name in _type_abbreviations().items()
    ]
    cells = [
        (figure.keys["retriever"], (figure.metric, figure.keys["group"]), figure)
        for figure in select(figures, group_by="type")
        if not figure.keys["model"]
    ]
    title = f"Table 2. Retrieval of the gold passages{EQUIVALENT * equivalent}"
    return build_table(title, "Retriever", columns, cells, CLUSTERS)


def overlap_table(figures: Sequence[Figure], note: str = "") -> ResultTable:
    """Return the overlap with the gold answers by setting and type, with a note. Source: FDARxBench Table 8."""
    settings = [(SETTING_TITLES[setting], setting, "") for setting in ("closed_book", "oracle", "full_label")]
    settings += [(f"Retrieved by {retriever}", "retrieved", retriever) for retriever in _retrievers(figures)]
    columns: Columns = [
        (f"{upper} {name}", short, (setting, retriever, metric, group))
        for upper, setting, retriever in settings
        for group, name in _type_abbreviations().items()
        for short, metric in OVERLAPS
    ]
    table = _by_model("Table 8. Overlap of answers with gold answers", figures, columns)
    table.notes += [
        "MET is METEOR, R-L is ROUGE-L; all from 0 to 1.",
        *([note] if note else []),
        *_baseline_notes(figures),
    ]
    return table


def hallucination_table(figures: Sequence[Figure]) -> ResultTable:
    """Return the hallucination rate of each model by topic, with a row for each topic and one for all questions.

    A topic has its numbers of questions, from the fewest to the most of a setting. Topics without one are in a note.
    """
    found = [figure for figure in select(figures, HALLUCINATIONS) if figure.keys["model"]]
    of_file = all(figure.keys["setting"] in FILE_TITLES for figure in found)
    by_topic = [] if of_file else select(found, group_by="category")
    whole = select(found, group_by="type", group="all")
    asked: dict[str, set[int]] = defaultdict(set)  # numbers of questions, by topic
    for figure in by_topic:
        asked[figure.keys["group"]].add(figure.rows + figure.unscored)
    order = [name for name in (*TOPICS, *sorted(asked.keys() - {*TOPICS})) if name in asked]
    by_topic.sort(key=lambda figure: order.index(figure.keys["group"]))
    names = {topic: f"{topic} ({min(n):,}{f' to {max(n):,}' * (len(n) > 1)})" for topic, n in asked.items()}
    cells = [(names[figure.keys["group"]], _column(figure), figure) for figure in by_topic]
    cells += [("All questions", _column(figure), figure) for figure in whole] if by_topic or of_file else []
    keys = sorted(dict.fromkeys(map(_column, whole)), key=lambda key: ([*SETTING_TITLES, key[0]].index(key[0]), key[1]))
    titles = SETTING_TITLES | FILE_TITLES
    columns: Columns = [(f"{titles.get(key[0], key[0])} {key[1]}".strip(), key[2], key) for key in keys]
    by, number = ("", "") if of_file else (" by topic", " (questions)")
    title = f"Hallucination rate{by}: wrong answers ÷ graded answers{number}"
    table = build_table(title, "Questions" if of_file else "Topic", columns, cells, _clusters(found))
    few = [topic for topic in asked if min(asked[topic]) < MIN_QUESTIONS]
    none = [topic for topic in TOPICS if topic not in asked]
    unanswerable = "" if of_file else ", or any answer to a question that the label does not answer"
    notes = [
        f"Share of wrong answers among the graded ones: graded incorrect{unanswerable}. Refusals count as graded, and "
        "are not wrong: read the rate beside the accuracy.",
        *unscored_notes(whole, "answers", "rate"),
        *[f"Fewer than {MIN_QUESTIONS} questions in a setting, so the rate says little: {', '.join(few)}."] * bool(few),
        *["A rate without an interval is on a single drug."]
        * any(one.value is not None and one.low is None for one in by_topic),
        *([f"No questions in this benchmark: {', '.join(none)}."] if 0 < len(none) < len(TOPICS) else []),
    ]
    table.notes += notes if table.rows else []
    return table


SETTING_TITLES = {
    "closed_book": "Closed-book",
    "full_label": "Full label",
    "oracle": "Oracle passages",
    "retrieved": "Retrieved by",
}
"""In the order of the tables; the name of the retriever follows the last one."""


def _column(figure: Figure) -> tuple[str, str, str]:
    return figure.keys["setting"], figure.keys["retriever"], figure.keys["model"]


def added_metrics_table(figures: Sequence[Figure]) -> ResultTable:
    """Return the metrics of other packages and callers, by setting and group of questions; empty without any."""
    known = SCORE_METRICS.keys() | RETRIEVAL_METRICS.keys()
    titles = {name: metric.title or name for name, metric in added_metrics().items()}
    keys = dict.fromkeys(
        _key(figure)
        for figure in select(figures, group_by="type")
        if figure.keys["model"] and figure.metric not in known
    )
    order = {metric: at for at, metric in enumerate(dict.fromkeys(metric for *_, metric, _ in keys))}
    columns: Columns = [
        (f"{titles.get(metric, metric)}, {setting}{f' ({retriever})' if retriever else ''}", group, key)
        for key in sorted(keys, key=lambda key: order[key[2]])
        for setting, retriever, metric, group in [key]
    ]
    return _by_model("Added metrics", figures, columns)


def _by_model(title: str, figures: Sequence[Figure], columns: Columns) -> ResultTable:
    cells = [
        (figure.keys["model"], _key(figure), figure)
        for figure in select(figures, group_by="type")
        if figure.keys["model"]
    ]
    return build_table(title, "Model", columns, cells, _clusters(figure for *_, figure in cells))


def _clusters(figures: Iterable[Figure]) -> str:
    of_file = all(figure.keys["setting"] in (REFERENCE, GIVEN_CONTEXT) for figure in figures)
    return "questions or drugs" if of_file else CLUSTERS


def _key(figure: Figure) -> tuple[str, str, str, str]:
    return figure.keys["setting"], figure.keys["retriever"], figure.metric, figure.keys["group"]


def _retrievers(figures: Iterable[Figure]) -> list[str]:
    return list(dict.fromkeys(figure.keys["retriever"] for figure in select(figures, setting="retrieved")))


def _judge_notes(figures: Iterable[Figure], judge: str) -> list[str]:
    """Return who graded, each once, and the prompts of answers and grades where the figures say them."""
    listed = list(figures)
    prompts = sorted({name for figure in listed if figure.prompts for name in figure.prompts.split(", ")})
    prompt = re.compile(rf", ({'|'.join(map(re.escape, prompts))})\)$")  # which is named apart
    judges = dict.fromkeys(prompt.sub(")", figure.judge) for figure in listed if figure.judge) or [judge] * bool(judge)
    notes = [f"Graded by {', '.join(judges)}." if judges else "Not graded."]
    if judge == BASELINE:
        notes.append(
            "baseline, no LLM, grades by quotation, numbers and common words, and gives other answers no verdict."
        )
    return [*notes, f"Prompts: {', '.join(prompts)}."] if prompts else notes


def coverage_notes(figures: Iterable[Figure]) -> list[str]:
    """Return a note on each cell in which some questions that are due have no answer."""
    cells = {
        (figure.keys["model"], figure.keys["setting"], figure.keys["retriever"]): (figure.answered, figure.due)
        for figure in figures
        if figure.answered < figure.due
    }
    return [
        f"{' · '.join(filter(None, cell))}: {answered:,} of {due:,} questions answered, the others are in no figure."
        for cell, (answered, due) in cells.items()
    ]


def _baseline_notes(figures: Iterable[Figure]) -> list[str]:
    answered = any(figure.keys["model"] == BASELINE for figure in figures)
    return ["baseline answers by rules, no LLM: a lower bound."] if answered else []
