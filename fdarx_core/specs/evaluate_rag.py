"""The specification of a comparison of ways of retrieving and answering on one index."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

from cyclopts import Parameter
from pydantic import Field

from fdarx_core.llm import Baseline
from fdarx_core.pipeline.rag import RagEvaluation
from fdarx_core.pipeline.rag_steps import CODE_VERSION, RAG_RULES, RagSetup
from fdarx_core.rag.query import CANDIDATES, CONTEXTS, POSTPROCESSORS
from fdarx_core.rag.questions import keep_indexed_titles, read_questions
from fdarx_core.rag.search import Role, available_retrievers
from fdarx_core.rag.strategies import ALL_STRATEGIES
from fdarx_core.rag.tasks import RAG_TASKS
from fdarx_core.records import RagQuestion, content_id
from fdarx_core.retrieval.index import IndexReader
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed
from fdarx_core.specs.options import (
    HOW,
    PRESENTATION,
    BatchFilesConfig,
    Common,
    Names,
    RolesConfig,
    check_roles,
    one_of,
)
from fdarx_core.specs.running import MeasuringSpec, OpenedJob
from fdarx_core.storage import Location
from fdarx_core.storage.tables import unusable_rows

_IDENTIFIED_BY_CONTENT = {"index", "index_version", "questions"}
_TAKEN_OVER = {"strategies", "candidates", "contexts", "exclude", "exclude_own", "bertscore_layers"}
_COMPARED = ("bm25", "cosine", "hybrid")
"""Retrievers whose document ranks every run compares, beside the one of --retriever."""


class EvaluateRagSpec(RolesConfig, BatchFilesConfig, MeasuringSpec):
    """A comparison of strategies and post-processing on an index: the options of `fdarx evaluate-rag`, and of
    `fdarx_core.evaluate_rag`."""

    job: ClassVar[str] = "evaluate_rag"

    index: str
    """an index of `fdarx index`, on disk or s3://"""
    index_version: str | None = None
    """version of the index (the current one)"""
    questions: str = Field(min_length=1)
    """jsonl, json or csv with a question in each row, its reference answer (answer, reference, or a list ground_truths)
    and, if known, the title of the document with the answer"""
    out: str = Field(min_length=1)
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    judge: Common[str] = Baseline.name
    """model that judges contexts: a name of --models, or baseline (exact matching, no language model)"""
    strategies: Common[Annotated[Names, one_of(ALL_STRATEGIES, "strategy")]] = Field(
        list(ALL_STRATEGIES), description=f"any of {', '.join(ALL_STRATEGIES)}; the last two are ablations"
    )
    postprocess: Annotated[Names, one_of(POSTPROCESSORS, "post-processing")] = Field(
        default_factory=list, description=f"any of {', '.join(POSTPROCESSORS)} (all whose models are available)"
    )
    retriever: Common[str | None] = None
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
    sample: Annotated[Common[int | None], Parameter(alias="--limit")] = Field(None, ge=1)
    """number of questions, the first in an order that the seed decides (all)"""

    def open(self) -> OpenedJob:
        """Load the models, and read the questions and the index. Raises ValueError as `setup`, and StorageError."""
        questions, rejects = read_questions(self.questions, strip_title=self.strip_title)
        chosen = sorted(questions, key=lambda question: content_id(str(self.seed), question.id))[: self.sample]
        index = IndexReader.open(self.index, version=self.index_version)
        setup = self.setup(index)
        clients = self.client_pool(RAG_RULES, setup.used, shared_fate=False)
        titled = sum(bool(question.title) for question in chosen)
        chosen = keep_indexed_titles(chosen, index)
        lost = titled - sum(bool(question.title) for question in chosen)

        def lines(place: str) -> list[str]:
            unranked = f"{lost} questions are on documents that the index lacks; no rank is counted for them"
            return [*unusable_rows(len(rejects), rejects, place), *([unranked] if lost else [])]

        return OpenedJob(
            config=self.identity(setup, chosen),
            make=partial(
                RagEvaluation,
                clients=clients,
                spec=setup,
                questions=chosen,
                rejects=rejects,
                seed=self.seed,
                resamples=self.resamples,
            ),
            used=setup.used,
            size=len(chosen),
            read=(self.index, self.cosine_model, self.reranker_model),
            code_version=CODE_VERSION,
            lines=lines,
            prompts=[task.prompt for task in RAG_TASKS.values()],
        )

    def setup(self, index: IndexReader) -> RagSetup:
        """Return the specification of the comparison.

        Raises ModelsError for a model that can't be used, ModelMissing for a directory, and ValueError for other
        options.
        """
        models = self.loaded_models()
        roles: dict[Role, str] = {**self.roles, "judge": self.judge}
        check_roles(roles, models)
        self.check_bertscore()
        directories = ModelDirectories(cosine=self.cosine_model, reranker=self.reranker_model)
        retriever, compared = self._retrievers(index, directories)
        return RagSetup(
            place=Location(self.index),
            version=index.version,
            retriever=retriever,
            retrievers=compared,
            **self.model_dump(include=_TAKEN_OVER),
            postprocessors=self._postprocessors(directories),
            roles=roles,
            models=models,
            directories=directories,
            encoder=_encoder(directories),
            bertscore=self.bertscore_model,
        )

    def identity(self, setup: RagSetup, questions: Sequence[RagQuestion]) -> dict[str, Any]:
        """Return the options that can change the results of a run; they identify it."""
        return {
            **self.model_dump(mode="json", exclude=HOW | _IDENTIFIED_BY_CONTENT | PRESENTATION),
            "asked": {name: model.request_parameters for name, model in setup.used.items()},
            "retriever": setup.retriever,
            "postprocess": list(setup.postprocessors),
            "index_version": setup.version,
            "questions": content_id(*(question.id for question in questions)),
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
