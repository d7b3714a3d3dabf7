"""The tables of the QA-RAG paper from the figures of a comparison, with intervals. Source: QA-RAG Tables 2–5."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from fdarx_core.evaluation.tables import ResultTable, build_table, unscored_notes
from fdarx_core.llm.model import BASELINE
from fdarx_core.rag.strategies import ABLATIONS
from fdarx_core.records import Estimate, Figure, RagUsage

CLUSTERS = "documents"
CONTEXT_METRICS = (("Context precision", "context_precision"), ("Context recall", "context_recall"))
SIMILARITY_METRICS = (
    ("BERTScore", "precision", "bert_precision"),
    ("BERTScore", "recall", "bert_recall"),
    ("BERTScore", "F1", "bert_f1"),
    ("Embedding", "similarity", "embedding_similarity"),
    ("Words", "F1", "token_f1"),
)
DOCUMENT_METRICS = (
    ("Recall", "@1", "document_recall_1"),
    ("Recall", "@6", "document_recall_6"),
    ("Recall", "@24", "document_recall_24"),
    ("Rank", "MRR", "document_mrr"),
)
METRIC_NAMES = {
    **{metric: name for name, metric in CONTEXT_METRICS},
    **{metric: f"{group} {name}" for group, name, metric in SIMILARITY_METRICS},
    **{metric: f"Right document, {name}" for _, name, metric in DOCUMENT_METRICS},
}
_PHASES = {"rewrite": "Rewrite, s", "search": "Search, s", "postprocess": "Rank, s", "answer": "Answer, s",
           "total": "Total, s"}  # fmt: skip

Columns = Sequence[tuple[str, str, str]]
"""Upper header, header and metric of each column of a table."""
_CONTEXT_COLUMNS: Columns = [("Context", name.split()[1], metric) for name, metric in CONTEXT_METRICS]


@dataclass(frozen=True, slots=True)
class ComparisonNames:
    """The strategies and post-processors of a comparison, with their titles in the order of the tables.

    `main` is the post-processor in the tables that show only one. `judge` is the endpoint that judged contexts, "" for
    none.
    """

    strategies: Mapping[str, str]
    postprocessors: Mapping[str, str]
    main: str
    judge: str

    def title(self, strategy: str) -> str:
        """Return the title of a strategy."""
        return self.strategies.get(strategy, strategy)

    def postprocess_title(self, postprocess: str = "") -> str:
        """Return the title of a post-processor, by default of the main one."""
        return self.postprocessors.get(postprocess or self.main, postprocess or self.main)


def paper_tables(
    figures: Sequence[Figure], by_retriever: Sequence[Figure], names: ComparisonNames
) -> dict[str, ResultTable]:
    """Return those tables of the paper that have a value, by name. Source: QA-RAG Tables 2 to 5.

    The tables show context precision and recall by strategy and post-processor; the same for the main post-processor;
    the similarity of answers and references (the paper has only BERTScore); QA-RAG and each half of it without the
    other (Table 5 alone has these ablations); and how often the right document is among the candidates, by strategy and
    by retriever.

    Args:
        figures: the figures of a comparison.
        by_retriever: the figures of `title_figures`, for each retriever with the question as the query.
        names: the strategies and post-processors.
    """
    compared = [figure for figure in figures if figure.keys["strategy"] not in ABLATIONS]
    ablated = [figure for figure in figures if figure.keys["strategy"] in ("qa_rag", *ABLATIONS)]
    used = _ordered(names.postprocessors, (figure.keys["postprocess"] for figure in compared))
    columns = [
        (group, names.postprocess_title(name), (name, metric)) for group, metric in CONTEXT_METRICS for name in used
    ]
    similarity = _main_table("Table 4. Answers and reference answers", compared, names, SIMILARITY_METRICS)
    if not any(figure.metric == "bert_f1" for figure in figures):
        similarity.notes.append("No BERTScore: no weights for it were given.")
    cells = [(figure.keys["strategy"], figure.metric, figure) for figure in by_retriever]
    title = "The right document among the candidates"
    found = {
        "contexts-by-postprocessing-table": _table("Table 2. Contexts by post-processing", compared, names, columns),
        "contexts-table": _main_table("Table 3. Contexts", compared, names, _CONTEXT_COLUMNS),
        "similarity-table": similarity,
        "ablations-table": _main_table("Table 5. Ablations", ablated, names, _CONTEXT_COLUMNS),
        "documents": _main_table(title, compared, names, DOCUMENT_METRICS),
        "retrievers": build_table(f"{title}, by retriever", "Retriever", DOCUMENT_METRICS, cells, CLUSTERS),
    }
    return {name: table for name, table in found.items() if table.rows}


def usage_table(usages: Sequence[RagUsage], names: ComparisonNames) -> ResultTable:
    """Return the table of the seconds, requests, tokens and cost of an answer with the main post-processor."""
    kept = [usage for usage in usages if usage.postprocess == names.main]
    columns = [
        *((title, header, f"{phase}_{percentile}") for phase, title in _PHASES.items()
          for header, percentile in (("median", "p50"), ("p95", "p95"))),
        *(("A question", name, name) for name in ("requests", "1,000 tokens in", "1,000 tokens out")),
        *([("1,000 questions", "USD", "USD")] if any(usage.cost for usage in usages) else []),
    ]  # fmt: skip
    rows = row_names(((usage.strategy, usage.model) for usage in kept), names)
    by_row = {(usage.strategy, usage.model): usage for usage in kept}
    cells = list[tuple[str, Hashable, Estimate]]()
    for row, title in rows.items():
        usage = by_row[row]
        answers = usage.answered + usage.refused + usage.failed
        used: dict[str, float | None] = {
            **{name: getattr(usage, name) for phase in _PHASES for name in (f"{phase}_p50", f"{phase}_p95")},
            "requests": usage.requests / answers,
            "1,000 tokens in": usage.prompt_tokens / 1000 / answers,
            "1,000 tokens out": usage.completion_tokens / 1000 / answers,
            "USD": 1000 * usage.cost / answers,
        }
        cells += ((title, key, Estimate(value)) for key, value in used.items())
    table = build_table(_with_main("Time and cost of an answer", names), "Strategy", columns, cells)
    if failed := sum(usage.failed for usage in kept):
        table.notes.append(f"Of {failed:,} answers that failed no times are counted.")
    return table


def row_names(keys: Iterable[tuple[str, str]], names: ComparisonNames) -> dict[tuple[str, str], str]:
    """Return the title of each (strategy, model) in the order of the rows; it names the model if there are several."""
    known = dict.fromkeys(keys)
    models = list(dict.fromkeys(model for _, model in known))
    return {
        (strategy, model): f"{names.title(strategy)} · {model}" if len(models) > 1 else names.title(strategy)
        for strategy in _ordered(names.strategies, (strategy for strategy, _ in known))
        for model in models
        if (strategy, model) in known
    }


def judge_note(judge: str) -> str:
    """Return a note on who judged the contexts."""
    if judge == BASELINE:
        return "Contexts judged by baseline: overlap of words with the reference, no language model."
    return f"Contexts judged by {judge}." if judge else "Contexts not judged."


def _main_table(title: str, figures: Sequence[Figure], names: ComparisonNames, columns: Columns) -> ResultTable:
    keyed = [(group, name, (names.main, metric)) for group, name, metric in columns]
    return _table(_with_main(title, names), figures, names, keyed)


def _table(
    title: str, figures: Sequence[Figure], names: ComparisonNames, columns: Sequence[tuple[str, str, tuple[str, str]]]
) -> ResultTable:
    """Return a table with a row for each strategy. Tables of context metrics have notes on the judge."""
    keys = {key for *_, key in columns}
    kept = [figure for figure in figures if (figure.keys["postprocess"], figure.metric) in keys]
    rows = row_names(((figure.keys["strategy"], figure.keys["model"]) for figure in kept), names)
    order = {title: at for at, title in enumerate(rows.values())}
    cells: list[tuple[str, Hashable, Estimate]] = [
        (rows[figure.keys["strategy"], figure.keys["model"]], (figure.keys["postprocess"], figure.metric), figure)
        for figure in kept
    ]
    table = build_table(title, "Strategy", columns, sorted(cells, key=lambda cell: order[cell[0]]), CLUSTERS)
    table.notes.insert(0, f"{max((figure.rows for figure in kept), default=0):,} questions.")
    if {metric for _, metric in keys} == {metric for _, metric in CONTEXT_METRICS}:
        table.notes += [judge_note(names.judge), *unscored_notes(kept, "values", "mean")]
    return table


def _ordered(known: Mapping[str, str], used: Iterable[str]) -> list[str]:
    """Return the used names: the known ones in their order, then the others."""
    found = dict.fromkeys(used)
    return [name for name in dict.fromkeys((*known, *found)) if name in found]


def _with_main(title: str, names: ComparisonNames) -> str:
    return f"{title}, post-processing: {names.postprocess_title().lower()}"
