"""A whole RAG comparison: questions answered with each strategy and post-processing, then tables and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fdarx_core.llm import Baseline
from fdarx_core.pipeline.parted_job import PartedJob
from fdarx_core.pipeline.rag_results import publish
from fdarx_core.pipeline.rag_steps import (
    IndexSearcher,
    QuestionState,
    RagParts,
    RagSpec,
    Reranker,
    SimilarityModels,
    baseline,
    rag_steps,
)
from fdarx_core.pipeline.steps import Resource, Stage
from fdarx_core.records import RagQuestion, Reject

_GPU_SHARE = 0.33
"""Of a GPU, for each of index, reranker and similarity, which share one."""


@dataclass(slots=True, kw_only=True)
class RagEvaluation(PartedJob):
    """A RAG comparison; see `PartedJob`."""

    phase: ClassVar[str] = "answer"

    spec: RagSpec
    questions: Sequence[RagQuestion]
    rejects: Sequence[Reject]

    @property
    def parts(self) -> RagParts:
        return RagParts(self.run)

    @property
    def rules(self) -> Baseline:
        return baseline()

    def cut(self) -> range:
        return self.parts.split([*self.rejects, *self.questions])

    def stage(self, *, planned: bool) -> Stage[QuestionState]:
        steps = rag_steps(self.spec, planned=planned)
        return Stage("answer", self.parts.states, steps, self.parts.write_states)

    def resources(self, *, planned: bool) -> Mapping[str, Resource]:
        share = _GPU_SHARE if self.executor.gpus else 0.0
        found = {"index": Resource(IndexSearcher, (self.spec,), gpus=share)}
        if "rerank" in self.spec.postprocessors:
            found["reranker"] = Resource(Reranker, (self.spec,), gpus=share)
        if self.spec.measures_similarity and not planned:
            found["similarity"] = Resource(SimilarityModels, (self.spec,), gpus=share)
        return found

    def about(self, numbers: Sequence[int]) -> dict[str, Any]:
        return {
            "index": {"place": str(self.spec.place), "version": self.spec.version},
            "questions": len(self.questions),
            "rejects": len(self.rejects),
        }

    def publish(self, numbers: Sequence[int], info: Mapping[str, Any]) -> None:
        publish(self.parts, numbers, self.spec, info, seed=self.seed, resamples=self.resamples)
