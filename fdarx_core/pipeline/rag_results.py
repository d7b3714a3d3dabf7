"""The figures, tables and report of a comparison of RAG strategies from the rows of its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.pipeline.rag_steps import RagParts, RagSpec
from fdarx_core.rag.figures import differences, figures, title_figures
from fdarx_core.rag.flow import POSTPROCESSORS
from fdarx_core.rag.metrics import summarize_usage
from fdarx_core.rag.strategies import ABLATIONS, STRATEGIES
from fdarx_core.rag.tables import ComparisonNames, paper_tables, usage_table
from fdarx_core.records import Difference, Figure, RagAnswer, RagScore, RagUsage, TitleRank
from fdarx_core.report.rag_page import rag_page
from fdarx_core.storage import RunDirectory, read_records, write_records


def compared(spec: RagSpec) -> ComparisonNames:
    """Return the names in tables; the main post-processing is the first in the order of the paper that was used."""
    known = STRATEGIES | ABLATIONS
    return ComparisonNames(
        strategies={name: known[name].title(spec.candidates) for name in spec.strategies},
        postprocessors={name: POSTPROCESSORS[name] for name in spec.postprocessors},
        main=next(name for name in POSTPROCESSORS if name in spec.postprocessors),
        judge=spec.roles["judge"],
    )


def publish(
    parts: RagParts, numbers: Sequence[int], spec: RagSpec, info: Mapping[str, Any], *, seed: int, resamples: int
) -> None:
    """Write figures, differences and usage as Parquet, the figures as metrics.json too, and report.html.

    `info` is the content of the finished run.json.
    """
    run, answers = parts.run, parts.read_all("answers", numbers, RagAnswer)
    scores = parts.read_all("scores", numbers, RagScore)
    questions = [one for number in numbers for one in parts.questions(number)]
    found = figures(scores, seed=seed, resamples=resamples)
    ranks = parts.read_all("title_ranks", numbers, TitleRank)
    by_retriever = title_figures(ranks, seed=seed, resamples=resamples)
    compared_pairs = differences(scores, seed=seed, resamples=resamples)
    usages = summarize_usage(answers)
    write_records(run.file("figures.parquet"), [*found, *by_retriever], Figure)
    write_records(run.file("differences.parquet"), compared_pairs, Difference)
    write_records(run.file("usage.parquet"), usages, RagUsage)
    rows = [figure.to_row() for figure in found]
    run.file("metrics.json").write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
    page = rag_page(
        info, compared(spec), questions, answers, scores,
        figures=found, by_retriever=by_retriever, differences=compared_pairs, usages=usages,
    )  # fmt: skip
    run.file("report.html").write_text(page)


def tables_of(run: RunDirectory, names: ComparisonNames) -> list[ResultTable]:
    """Return the tables of the paper, if they have a value, and the usage of the answers."""
    found: list[Figure] = list(read_records(run.file("figures.parquet"), Figure))
    by_strategy, by_retriever = ([one for one in found if bool(one.keys["postprocess"]) == given] for given in (1, 0))
    usages: list[RagUsage] = list(read_records(run.file("usage.parquet"), RagUsage))
    tables = [*paper_tables(by_strategy, by_retriever, names).values(), usage_table(usages, names)]
    return [table for table in tables if table.rows]
