"""The options of `fdarx evaluate-rag`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from pydantic import Field, field_validator

from fdarx_core.llm import Baseline
from fdarx_core.pipeline.rag.what import RagSweep
from fdarx_core.rag.flow import CANDIDATES, CONTEXTS
from fdarx_core.rag.postprocess import POSTPROCESSORS
from fdarx_core.rag.searching import offered
from fdarx_core.rag.strategies import ABLATIONS, STRATEGIES
from fdarx_core.rag.tools import Role
from fdarx_core.records import RagQuestion, content_id
from fdarx_core.retrieval.index import Index
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed
from fdarx_core.storage import Location
from jobs.asking_config import load_all
from jobs.measuring_config import MeasuringConfig, at_commas
from jobs.roles_config import RolesConfig, check_roles

_HOW = {"out", "cpus", "models", "reuse", "max_requests", "max_cost", "plan"}
_TOLD_OTHERWISE = {"index", "index_version", "questions"}
_ALL = {**STRATEGIES, **ABLATIONS}


class EvaluateRagConfig(RolesConfig, MeasuringConfig):
    """Options of `fdarx evaluate-rag`."""

    index: str = Field(description="an index of `fdarx index`, on disk or s3://")
    index_version: str | None = Field(None, description="one of its versions (the current one)")
    questions: str = Field(
        description="jsonl, json or csv with a question a row, its reference answer (answer, reference, or a list "
        "ground_truths) and, if known, the title of the document that holds it"
    )
    out: str = Field(description="run directory to write, on disk or s3://; the same command again resumes it")
    judge: str = Field(
        Baseline.name, description="who judges contexts: a name of --models, or rules by overlap, no language model"
    )
    strategies: list[str] = Field(list(_ALL), description=f"any of {', '.join(_ALL)}; the last two are ablations")
    postprocess: list[str] = Field(
        default_factory=list,
        description=f"any of {', '.join(POSTPROCESSORS)} (all for which the models are at hand)",
    )
    retriever: str | None = Field(
        None, description="what searches: bm25, cosine or hybrid (cosine, as in the paper; bm25 where no vectors are)"
    )
    candidates: int = Field(CANDIDATES, ge=1, le=1000, description="chunks found for each question")
    contexts: int = Field(CONTEXTS, ge=1, le=100, description="of these, how many the post-processing leaves")
    exclude: list[str] = Field(default_factory=list, description="documents to leave out, by title, source or id")
    exclude_own: bool = Field(
        False, description="leave out the document that a question's title names, as the paper's test did"
    )
    strip_title: bool = Field(
        False, description="drop `Guideline title: …` from the questions, which gives the document away"
    )
    sample: int | None = Field(None, ge=1, description="so many questions, drawn at random (all)")

    @field_validator("strategies", "postprocess", mode="after")
    @classmethod
    def _at_commas(cls, given: list[str]) -> list[str]:
        return at_commas(given)

    @field_validator("strategies", mode="after")
    @classmethod
    def _known_strategies(cls, given: list[str]) -> list[str]:
        return _known(given, list(_ALL), "strategy")

    @field_validator("postprocess", mode="after")
    @classmethod
    def _known_postprocessors(cls, given: list[str]) -> list[str]:
        return _known(given, list(POSTPROCESSORS), "post-processing")

    def sweep(self, index: Index) -> RagSweep:
        """Raises ModelsError for a model that can't be used, ModelMissing for a directory, ValueError for the rest."""
        models = load_all(self.models)
        roles: dict[Role, str] = {**self.played, "judge": self.judge}
        check_roles(roles, models)
        self.check_bertscore()
        directories = ModelDirectories(cosine=self.cosine_model, reranker=self.reranker_model)
        retrievers = self._retrievers(index, directories)
        sweep = RagSweep(
            place=Location(self.index),
            version=index.version,
            retriever=self._retriever(retrievers, index),
            retrievers=retrievers,
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
        self.check_prices(sweep.used)
        return sweep

    def identity(self, sweep: RagSweep, questions: Sequence[RagQuestion]) -> dict[str, Any]:
        """What makes a run this run: every option that can change its results."""
        return {
            **self.model_dump(mode="json", exclude=_HOW | _TOLD_OTHERWISE),
            "asked": {name: model.answers_depend_on for name, model in sweep.used.items()},
            "retriever": sweep.retriever,
            "postprocess": list(sweep.postprocessors),
            "index_version": sweep.version,
            "questions": content_id(*(one.id for one in questions)),
        }

    def _retrievers(self, index: Index, directories: ModelDirectories) -> list[str]:
        """Those that this index and this machine offer."""
        retrievers, notice = offered(index, directories)
        if notice:
            print(notice, file=sys.stderr)
        return list(retrievers)

    def _retriever(self, retrievers: Sequence[str], index: Index) -> str:
        chosen = self.retriever or ("cosine" if "cosine" in retrievers else "bm25")
        if chosen not in retrievers:
            raise ValueError(f"--retriever {chosen}: this index offers {', '.join(retrievers)}. {index.notice}")
        return chosen

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
    """What embeds answers and references: the model of the index, if it is here."""
    try:
        check_installed("cosine")
        return directories.of("cosine")
    except ModelMissing:
        return None


def _known(given: list[str], known: Sequence[str], what: str) -> list[str]:
    if unknown := [one for one in given if one not in known]:
        raise ValueError(f"there is no {what} {unknown[0]}; known are {', '.join(known)}")
    return given
