"""A RAG evaluation: it answers questions with each strategy and post-processing, then writes tables and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import orjson

from fdarx_core.evaluation.similarity import AnswerSimilarity
from fdarx_core.evaluation.tables import ResultTable
from fdarx_core.extras import require
from fdarx_core.pipeline.executor import Stages
from fdarx_core.pipeline.job import PipelineJob
from fdarx_core.pipeline.rag_steps import (
    CODE_VERSION,
    IndexSearcher,
    RagSetup,
    Reranker,
    rag_steps,
    read_states,
    write_states,
)
from fdarx_core.pipeline.steps import Part, Resource, Stage
from fdarx_core.rag.metrics import differences, figures, summarize_usage, title_figures
from fdarx_core.rag.query import POSTPROCESSORS
from fdarx_core.rag.strategies import ALL_STRATEGIES
from fdarx_core.rag.tables import ComparisonNames, paper_tables, usage_table
from fdarx_core.records import Difference, Figure, RagAnswer, RagQuestion, RagScore, RagUsage, Reject, TitleRank
from fdarx_core.report.rag_page import rag_page, rag_sentence
from fdarx_core.storage import RunDirectory, read_records, write_records

QUESTIONS_PER_PART = 8


@dataclass(slots=True, kw_only=True)
class RagEvaluation(PipelineJob):
    """A RAG evaluation; see `PipelineJob`."""

    phase: ClassVar[str] = "answer"
    code_version: ClassVar[str] = CODE_VERSION

    spec: RagSetup
    questions: Sequence[RagQuestion]
    rejects: Sequence[Reject]

    def prepare(self, *, planned: bool) -> None:
        require("eval")
        rows = [*self.rejects, *self.questions]
        self.numbers = self.parts.write_parts("questions", rows, RagQuestion, QUESTIONS_PER_PART)

    def stages(self, *, planned: bool) -> Stages:
        steps = rag_steps(self.spec, planned=planned)
        stage = Stage("answer", partial(read_states, self.parts), steps, partial(write_states, self.parts))
        return [(stage, [Part(number) for number in self.numbers])]

    def resources(self, *, planned: bool) -> Mapping[str, Resource]:
        spec = self.spec
        factories: dict[str, tuple[Any, ...]] = {"index": (IndexSearcher, spec)}
        if "rerank" in spec.postprocessors:
            factories["reranker"] = (Reranker, spec)
        if spec.measures_similarity and not planned:
            factories["similarity"] = (AnswerSimilarity, spec.bertscore, spec.bertscore_layers, spec.encoder)
        shared_resource = partial(self.executor.models_resource, kinds=len(factories))
        return {name: shared_resource(*arguments) for name, arguments in factories.items()}

    def publish(self, ended: Mapping[str, str]) -> dict[str, Any]:
        about = {
            "index": {"place": str(self.spec.place), "version": self.spec.version},
            "questions": len(self.questions),
            "rejects": len(self.rejects),
        }
        return self.publish_parts(ended, about, self._write)

    def _write(self, info: Mapping[str, Any]) -> str:
        """Write figures, differences, usage, metrics.json and report.html; return the result in words."""
        run, parts, numbers = self.run, self.parts, self.numbers
        bootstrap = {"seed": self.seed, "resamples": self.resamples}
        answers = parts.read_all("answers", numbers, RagAnswer)
        scores = parts.read_all("scores", numbers, RagScore)
        questions = parts.read_all("questions", numbers, RagQuestion)
        strategy_figures, compared_pairs = figures(scores, **bootstrap), differences(scores, **bootstrap)
        by_retriever = title_figures(parts.read_all("title_ranks", numbers, TitleRank), **bootstrap)
        usages = summarize_usage(answers)
        write_records(run.file("figures.parquet"), [*strategy_figures, *by_retriever], Figure)
        write_records(run.file("differences.parquet"), compared_pairs, Difference)
        write_records(run.file("usage.parquet"), usages, RagUsage)
        rows = [figure.to_row() for figure in strategy_figures]
        run.file("metrics.json").write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
        names = comparison_names(info["config"])
        page = rag_page(
            info, names, questions, answers, scores,
            figures=strategy_figures, by_retriever=by_retriever, differences=compared_pairs, usages=usages,
        )  # fmt: skip
        run.file("report.html").write_text(page)
        return rag_sentence(compared_pairs, names)


def comparison_names(config: Mapping[str, Any]) -> ComparisonNames:
    """Return the names in tables, by the configuration of a run; `main` is the used post-processing that comes first in
    the paper."""
    return ComparisonNames(
        strategies={name: ALL_STRATEGIES[name].title(config["candidates"]) for name in config["strategies"]},
        postprocessors={name: POSTPROCESSORS[name] for name in config["postprocess"]},
        main=next(name for name in POSTPROCESSORS if name in config["postprocess"]),
        judge=config["judge"],
    )


def comparison_tables(run: RunDirectory) -> list[ResultTable]:
    """Return the tables of the paper and the usage of the answers, without empty ones."""
    names = comparison_names(run.info()["config"])
    found: list[Figure] = list(read_records(run.file("figures.parquet"), Figure))
    by_strategy = [figure for figure in found if figure.keys["postprocess"]]
    by_retriever = [figure for figure in found if not figure.keys["postprocess"]]
    usages: list[RagUsage] = list(read_records(run.file("usage.parquet"), RagUsage))
    tables = [*paper_tables(by_strategy, by_retriever, names).values(), usage_table(usages, names)]
    return [table for table in tables if table.rows]
