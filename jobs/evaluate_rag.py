"""Ways of retrieving and answering compared on one index: strategies × post-processing, on a file of questions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import Field

from fdarx_core.evaluation.tables import table_text
from fdarx_core.llm import Baseline
from fdarx_core.pipeline.rag import RagEvaluation, compared, tables_of
from fdarx_core.pipeline.rag_steps import CODE_VERSION, RagSpec
from fdarx_core.rag.flow import CANDIDATES, CONTEXTS, POSTPROCESSORS
from fdarx_core.rag.questions import keep_indexed_titles, read_questions
from fdarx_core.rag.search import Role, available_retrievers
from fdarx_core.rag.strategies import ABLATIONS, STRATEGIES
from fdarx_core.records import RagQuestion, RagUsage, content_id
from fdarx_core.retrieval.index import IndexReader
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed
from fdarx_core.storage import Location, RunDirectory, read_records
from jobs.cli import run_as
from jobs.options import (
    HOW,
    PRESENTATION,
    MeasuringConfig,
    Names,
    RolesConfig,
    TrackingConfig,
    check_roles,
    load_all,
    one_of,
)
from jobs.output import print_json
from jobs.progress import busy
from jobs.session import carried_out, end_code, is_done, run_folder, run_result, session, versions
from jobs.track import tracked

_IDENTIFIED_BY_CONTENT = {"index", "index_version", "questions"}
_ALL = {**STRATEGIES, **ABLATIONS}


_COMPARED = ("bm25", "cosine", "hybrid")
"""Retrievers whose document ranks every run compares, beside the one of --retriever."""


class EvaluateRagConfig(RolesConfig, TrackingConfig, MeasuringConfig):
    """Options of `fdarx evaluate-rag`."""

    index: str
    """an index of `fdarx index`, on disk or s3://"""
    index_version: str | None = None
    """version of the index (the current one)"""
    questions: str
    """jsonl, json or csv with a question in each row, its reference answer (answer, reference, or a list ground_truths)
    and, if known, the title of the document with the answer"""
    out: str
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    judge: str = Baseline.name
    """model that judges contexts: a name of --models, or baseline (exact matching, no language model)"""
    strategies: Annotated[Names, one_of(_ALL, "strategy")] = Field(
        list(_ALL), description=f"any of {', '.join(_ALL)}; the last two are ablations"
    )
    postprocess: Annotated[Names, one_of(POSTPROCESSORS, "post-processing")] = Field(
        default_factory=list, description=f"any of {', '.join(POSTPROCESSORS)} (all whose models are available)"
    )
    retriever: str | None = None
    """retriever: bm25, cosine or hybrid (cosine, as in the paper; bm25 without vectors)"""
    candidates: int = Field(CANDIDATES, ge=1, le=1000)
    """chunks found for each question"""
    contexts: int = Field(CONTEXTS, ge=1, le=100)
    """chunks that remain after post-processing"""
    exclude: list[str] = Field(default_factory=list)
    """documents to leave out, by title, source or id"""
    exclude_own: bool = False
    """leave out the document that a question's title names, as in the paper's test"""
    strip_title: bool = False
    """remove `Guideline title: …`, which names the document, from the questions"""
    sample: int | None = Field(None, ge=1)
    """number of questions, drawn at random (all)"""

    def spec(self, index: IndexReader) -> RagSpec:
        """Return the specification of the comparison.

        Raises ModelsError for a model that can't be used, ModelMissing for a directory, and ValueError for other
        options.
        """
        models = load_all(self.models)
        roles: dict[Role, str] = {**self.roles, "judge": self.judge}
        check_roles(roles, models)
        self.check_bertscore()
        directories = ModelDirectories(cosine=self.cosine_model, reranker=self.reranker_model)
        retriever, compared = self._retrievers(index, directories)
        spec = RagSpec(
            place=Location(self.index),
            version=index.version,
            retriever=retriever,
            retrievers=compared,
            strategies=self.strategies,
            postprocessors=self._postprocessors(directories),
            roles=roles,
            models=models,
            candidates=self.candidates,
            contexts=self.contexts,
            exclude=self.exclude,
            exclude_own=self.exclude_own,
            directories=directories,
            encoder=_encoder(directories),
            bertscore=self.bertscore_model,
            bertscore_layers=self.bertscore_layers,
            max_requests=self.max_requests,
            max_cost=self.max_cost,
        )
        self.check_prices(spec.used)
        return spec

    def identity(self, spec: RagSpec, questions: Sequence[RagQuestion]) -> dict[str, Any]:
        """Return the options that can change the results of a run; they identify it."""
        return {
            **self.model_dump(mode="json", exclude=HOW | _IDENTIFIED_BY_CONTENT | PRESENTATION),
            "asked": {name: model.request_parameters for name, model in spec.used.items()},
            "retriever": spec.retriever,
            "postprocess": list(spec.postprocessors),
            "index_version": spec.version,
            "questions": content_id(*(one.id for one in questions)),
        }

    def _retrievers(self, index: IndexReader, directories: ModelDirectories) -> tuple[str, list[str]]:
        """Return the retriever of all strategies, and those whose document ranks are compared."""
        available, notice = available_retrievers(index, directories)
        if notice:
            print(notice, file=sys.stderr)
        chosen = self.retriever or ("cosine" if "cosine" in available else "bm25")
        if chosen not in available:
            raise ValueError(f"--retriever {chosen}: this index offers {', '.join(available)}. {index.notice}")
        return chosen, [name for name in available if name in {*_COMPARED, chosen}]

    def _postprocessors(self, directories: ModelDirectories) -> list[str]:
        if self.postprocess and "rerank" not in self.postprocess:
            return self.postprocess
        try:
            directories.of("reranker")
            check_installed("reranker")
        except ModelMissing as error:
            if self.postprocess:
                raise
            print(f"no reranker: {error}", file=sys.stderr)
            return [name for name in POSTPROCESSORS if name != "rerank"]
        return self.postprocess or list(POSTPROCESSORS)


def _encoder(directories: ModelDirectories) -> str | None:
    """Return the encoder for answers and references: the model of the index, if it is available."""
    try:
        check_installed("cosine")
        return directories.of("cosine")
    except ModelMissing:
        return None


_PHASES = {"answer": "parts answered and judged"}


def evaluate_rag(*, config: Annotated[EvaluateRagConfig, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 something is incomplete, 130 interrupted."""
    questions, rejects = read_questions(config.questions, strip_title=config.strip_title)
    chosen = sorted(questions, key=lambda one: content_id(str(config.seed), one.id))[: config.sample]
    with busy("reading the index", quiet=config.quiet):
        index = IndexReader.open(config.index, version=config.index_version)
    spec = config.spec(index)
    lost = sum(bool(one.title) for one in chosen)
    chosen = keep_indexed_titles(chosen, index)
    if lost := lost - sum(bool(one.title) for one in chosen):
        print(f"{lost} questions are on documents that the index lacks; no rank is counted for them", file=sys.stderr)
    identity = config.identity(spec, chosen)
    with run_folder(config.out, plan=config.plan) as out:
        run = RunDirectory.begin(out, job="evaluate_rag", config=identity, versions=versions())
        if is_done(run, CODE_VERSION):
            return tracked(run, config.track, _tell(run, spec, config))
        if rejects:
            where = "" if config.plan else f", see {run.part('rejects', 0)}"
            print(f"{len(rejects)} rows of {config.questions} are no questions{where}", file=sys.stderr)
        read = (config.index, config.cosine_model, config.reranker_model)
        working = session(
            config, _PHASES, executor=config.executor, asking="answer", read=read, size=len(chosen), run=run
        )
        with working as (progress, executor):
            evaluation = RagEvaluation(
                run=run,
                executor=executor,
                spec=spec,
                questions=chosen,
                rejects=rejects,
                progress=progress,
                seed=config.seed,
                resamples=config.resamples,
                reuse=[RunDirectory.open(other) for other in config.reuse],
            )
            if not carried_out(evaluation, progress, plan=config.plan):
                return 0
        return tracked(run, config.track, _tell(run, spec, config))


def _tell(run: RunDirectory, spec: RagSpec, config: EvaluateRagConfig) -> int:
    if config.as_json:
        print_json(run_result(run, usage=list(read_records(run.file("usage.parquet"), RagUsage))))
        return end_code(run.info())
    for grid in tables_of(run, compared(spec)):
        print(f"\n{table_text(grid)}")
    print(f"\nanswers  {run.root}/answers\nreport   {run.file('report.html')}")
    return end_code(run.info())


if __name__ == "__main__":
    run_as("evaluate-rag")
