"""The paper's tables from a comparison's figures, in its layout, with intervals. Source: QA-RAG Tables 2–5."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fdarx_core.evaluation.bootstrap import FEW_LABELS
from fdarx_core.evaluation.tables import IntervalValue, ResultTable, TableColumn
from fdarx_core.records import RagFigure, RagUsage

BASELINE = "baseline"
CONTEXT = (("Context precision", "context_precision"), ("Context recall", "context_recall"))
SIMILARITY = (
    ("BERTScore", "precision", "bert_precision"),
    ("BERTScore", "recall", "bert_recall"),
    ("BERTScore", "F1", "bert_f1"),
    ("Embedding", "similarity", "embedding_similarity"),
    ("Words", "F1", "token_f1"),
)
DOCUMENT = (
    ("Recall", "@1", "document_recall_1"),
    ("Recall", "@6", "document_recall_6"),
    ("Recall", "@24", "document_recall_24"),
    ("Rank", "MRR", "document_mrr"),
)


@dataclass(frozen=True, slots=True)
class ComparisonNames:
    """What is compared: names and titles in the order in which tables show them; others follow as they are named.

    `main` is the post-processing of the tables that show one; `ablations` are of Table 5 alone, beside `whole`, the
    strategy that they are parts of. `judge` is the endpoint that judged contexts, "" for none.
    """

    strategies: Mapping[str, str]
    postprocessors: Mapping[str, str]
    main: str
    judge: str
    whole: str = "qa_rag"
    ablations: Sequence[str] = ("question_half", "hypothetical_answer_half")

    def title(self, strategy: str) -> str:
        return self.strategies.get(strategy, strategy)


@dataclass(frozen=True, slots=True)
class RagColumn:
    """A column, and the figures that stand in it."""

    column: TableColumn
    postprocess: str
    metric: str


def table_2(figures: Sequence[RagFigure], what: ComparisonNames) -> ResultTable:
    """Context precision and recall of each strategy under each post-processing. Source: QA-RAG Table 2."""
    used = _ordered(what.postprocessors, (one.postprocess for one in figures))
    places = [
        RagColumn(TableColumn(group, what.postprocessors.get(name, name)), name, metric)
        for group, metric in CONTEXT
        for name in used
    ]
    return _by_strategy("Table 2. Contexts by post-processing", figures, what, places, judged=True)


def table_3(figures: Sequence[RagFigure], what: ComparisonNames) -> ResultTable:
    """Context precision and recall under the main post-processing. Source: QA-RAG Table 3."""
    places = [RagColumn(TableColumn("Context", group.split()[1]), what.main, metric) for group, metric in CONTEXT]
    return _by_strategy(f"Table 3. Contexts, {_main(what)}", figures, what, places, judged=True)


def table_4(figures: Sequence[RagFigure], what: ComparisonNames) -> ResultTable:
    """How near the answers are to the reference answers. Source: QA-RAG Table 4, which has BERTScore alone."""
    places = [RagColumn(TableColumn(group, name), what.main, metric) for group, name, metric in SIMILARITY]
    grid = _by_strategy(f"Table 4. Answers and reference answers, {_main(what)}", figures, what, places)
    if not any(one.metric == "bert_f1" for one in figures):
        grid.notes.append("No BERTScore: no weights for it were given.")
    return grid


def table_5(figures: Sequence[RagFigure], what: ComparisonNames) -> ResultTable:
    """The parts of QA-RAG alone, with half of the candidates. Source: QA-RAG Table 5."""
    kept = [one for one in figures if one.strategy in (what.whole, *what.ablations)]
    places = [RagColumn(TableColumn("Context", group.split()[1]), what.main, metric) for group, metric in CONTEXT]
    grid = _grid(f"Table 5. Ablations, {_main(what)}", kept, what, places)
    grid.notes += _about_judging(kept, places, what.judge)
    return grid


def documents_table(figures: Sequence[RagFigure], what: ComparisonNames) -> ResultTable:
    """Whether the right document is among the candidates, by strategy. No judge is needed."""
    places = [RagColumn(TableColumn(group, name), what.main, metric) for group, name, metric in DOCUMENT]
    return _by_strategy(f"The right document among the candidates, {_main(what)}", figures, what, places)


def retrievers_table(figures: Sequence[RagFigure]) -> ResultTable:
    """The same for each retriever, asked the question as it stands; `figures` are those of `title_figures`."""
    places = [RagColumn(TableColumn(group, name), "", metric) for group, name, metric in DOCUMENT]
    grid = _grid(
        "The right document among the candidates, by retriever", figures, ComparisonNames({}, {}, "", ""), places
    )
    grid.stub = "Retriever"
    return grid


def usage_table(usages: Sequence[RagUsage], what: ComparisonNames) -> ResultTable:
    """Seconds, requests, tokens and cost of an answer, under the main post-processing; no cost without prices."""
    priced = any(one.cost for one in usages)
    columns = [
        *(TableColumn(name, share) for name in ("Rewrite, s", "Search, s", "Rank, s", "Answer, s", "Total, s")
          for share in ("median", "p95")),
        *(TableColumn("A question", name) for name in ("requests", "1,000 tokens in", "1,000 tokens out")),
        *([TableColumn("1,000 questions", "USD")] if priced else []),
    ]  # fmt: skip
    kept = [one for one in usages if one.postprocess == what.main]
    names = _row_names([(one.strategy, one.model) for one in kept], what)
    rows = [(names[one.strategy, one.model], _used(one)[: len(columns)]) for one in kept]
    order = {name: at for at, name in enumerate(names.values())}
    rows.sort(key=lambda row: order[row[0]])
    notes = [f"Of {failed:,} answers that failed no times are counted."] if (failed := _failed(kept)) else []
    return ResultTable(f"What an answer takes, {_main(what)}", "Strategy", columns, rows, notes)


def row_names(figures: Iterable[RagFigure], what: ComparisonNames) -> dict[tuple[str, str], str]:
    """What tables call each (strategy, model), in the order of the rows; models are named where there are several."""
    return _row_names([(one.strategy, one.model) for one in figures], what)


def judge_note(judge: str) -> str:
    """Who judged the contexts."""
    if judge == BASELINE:
        return "Contexts judged by baseline: overlap of words with the reference, no language model."
    return f"Contexts judged by {judge}." if judge else "Contexts not judged."


def _by_strategy(
    title: str,
    figures: Sequence[RagFigure],
    what: ComparisonNames,
    places: Sequence[RagColumn],
    *,
    judged: bool = False,
) -> ResultTable:
    kept = [one for one in figures if one.strategy not in what.ablations]
    grid = _grid(title, kept, what, places)
    if judged:
        grid.notes += _about_judging(kept, places, what.judge)
    return grid


def _grid(title: str, figures: Sequence[RagFigure], what: ComparisonNames, places: Sequence[RagColumn]) -> ResultTable:
    """Columns without any value are left out."""
    found = {(one.strategy, one.model, one.postprocess, one.metric): one for one in figures if one.value is not None}
    filled = [at for at in places if any((at.postprocess, at.metric) == key[2:] for key in found)]
    kept = {(at.postprocess, at.metric) for at in filled}
    names = row_names((one for one in figures if (one.postprocess, one.metric) in kept), what)
    rows = [
        (name, [_entry(found.get((*key, at.postprocess, at.metric))) for at in filled]) for key, name in names.items()
    ]
    shown = [one for key, one in found.items() if key[2:] in kept]
    return ResultTable(title, "Strategy", [at.column for at in filled], rows, _about_intervals(shown))


def _entry(figure: RagFigure | None) -> IntervalValue | None:
    return None if figure is None or figure.value is None else IntervalValue(figure.value, figure.low, figure.high)


def _row_names(keys: Sequence[tuple[str, str]], what: ComparisonNames) -> dict[tuple[str, str], str]:
    models = list(dict.fromkeys(model for _, model in keys))
    strategies = _ordered(what.strategies, (strategy for strategy, _ in keys))
    return {
        (strategy, model): f"{what.title(strategy)} · {model}" if len(models) > 1 else what.title(strategy)
        for strategy in strategies
        for model in models
        if (strategy, model) in keys
    }


def _ordered(known: Mapping[str, str], used: Iterable[str]) -> list[str]:
    """The used ones of the known in their order, then the others."""
    found = dict.fromkeys(used)
    return [name for name in dict.fromkeys((*known, *found)) if name in found]


def _main(what: ComparisonNames) -> str:
    return f"post-processing: {what.postprocessors.get(what.main, what.main).lower()}"


def _about_intervals(figures: Sequence[RagFigure]) -> list[str]:
    questions, clusters = (max((getattr(one, name) for one in figures), default=0) for name in ("rows", "clusters"))
    if clusters < 2:
        return ["No intervals: they need questions on two documents at least."]
    few = " So few make them too narrow." if clusters < FEW_LABELS else ""
    return [f"{questions:,} questions. Intervals: 95 %, bootstrap over {clusters:,} groups of questions on one "
            f"document.{few}"]  # fmt: skip


def _about_judging(figures: Sequence[RagFigure], places: Sequence[RagColumn], judge: str) -> list[str]:
    shown = {(at.postprocess, at.metric) for at in places}
    counted = [one for one in figures if (one.postprocess, one.metric) in shown]
    unscored = sum(one.unscored for one in counted)
    total = unscored + sum(one.rows for one in counted)
    lacking = f"{unscored:,} of {total:,} values have no verdict and are in no mean."
    return [judge_note(judge), *([lacking] if unscored else [])]


def _used(one: RagUsage) -> list[IntervalValue | None]:
    answers = one.answered + one.refused + one.failed
    times = [
        getattr(one, f"{phase}_p{share}")
        for phase in ("rewrite", "search", "postprocess", "answer", "total")
        for share in (50, 95)
    ]
    each = [one.requests / answers, one.prompt_tokens / 1000 / answers, one.completion_tokens / 1000 / answers]
    return [None if value is None else IntervalValue(value) for value in (*times, *each, 1000 * one.cost / answers)]


def _failed(usages: Sequence[RagUsage]) -> int:
    return sum(one.failed for one in usages)
