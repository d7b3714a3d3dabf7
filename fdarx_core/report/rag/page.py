"""A comparison of retrieval strategies as one HTML page that opens from disk and loads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fdarx_core.evaluation.grid import Grid
from fdarx_core.rag import tables
from fdarx_core.rag.tables import Comparison
from fdarx_core.records import RagAnswer, RagDifference, RagFigure, RagQuestion, RagScore, RagUsage
from fdarx_core.report.environment import duration, environment
from fdarx_core.report.evaluation.grids import PaperTable, paper_table
from fdarx_core.report.rag.exhibits import DIFFERENCE_HEADER, USAGE_HEADER, contexts, difference_rows, usage_rows
from fdarx_core.report.rag.samples import pick_samples


@dataclass(frozen=True, slots=True)
class RagResults:
    """What a comparison gave. `by_retriever` are figures of `title_figures`; `info` is the run's run.json."""

    info: Mapping[str, Any]
    what: Comparison
    questions: Sequence[RagQuestion]
    figures: Sequence[RagFigure]
    differences: Sequence[RagDifference]
    usages: Sequence[RagUsage]
    by_retriever: Sequence[RagFigure] = ()


def rag_page(results: RagResults, answers: Iterable[RagAnswer], scores: Iterable[RagScore]) -> str:
    """The page. Answers and scores are gone through once; those of a few sample questions are kept."""
    samples = pick_samples(results.questions, answers, scores, results.what, _seed(results))
    return environment().get_template("rag.html.j2").render(_content(results), samples=samples)


def _content(results: RagResults) -> dict[str, Any]:
    info, what = results.info, results.what
    main, others = difference_rows(results.differences, what)
    return {
        "info": info,
        "took": duration(info),
        "questions": len(results.questions),
        "strategies": list(dict.fromkeys(what.title(one.strategy) for one in results.figures)),
        "models": list(dict.fromkeys(one.model for one in results.figures)),
        "judge": what.judge,
        "judged_by": tables.judge_note(what.judge),
        "failed": sum(one.failed for one in results.usages),
        "tables": [one for one in map(_shown, _grids(results)) if one.strict.grid.columns],
        "figure": contexts(results.figures, what),
        "difference_header": DIFFERENCE_HEADER,
        "differences": main,
        "other_differences": others,
        "usage_header": USAGE_HEADER,
        "usage": usage_rows(results.usages, what),
    }


def _grids(results: RagResults) -> list[tuple[str, Grid]]:
    figures, what = results.figures, results.what
    return [
        ("table-2", tables.table_2(figures, what)),
        ("table-3", tables.table_3(figures, what)),
        ("table-4", tables.table_4(figures, what)),
        ("table-5", tables.table_5(figures, what)),
        ("documents", tables.documents_table(figures, what)),
        ("retrievers", tables.retrievers_table(results.by_retriever)),
    ]


def _shown(named: tuple[str, Grid]) -> PaperTable:
    return paper_table(*named)


def _seed(results: RagResults) -> int:
    return int(results.info["config"].get("seed", 0))
