"""A whole comparison: questions, every way of answering them, then tables and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fdarx_core.pipeline.parted.evaluation import PartedEvaluation
from fdarx_core.pipeline.parted.pool import Pool
from fdarx_core.pipeline.parted.worker import PartWorker
from fdarx_core.pipeline.rag.parts import RagParts
from fdarx_core.pipeline.rag.results import publish
from fdarx_core.pipeline.rag.similarity import SimilarityHolder
from fdarx_core.pipeline.rag.talks import Talks
from fdarx_core.pipeline.rag.tools import Holders, IndexHolder, RerankerHolder
from fdarx_core.pipeline.rag.what import RagSweep
from fdarx_core.pipeline.sweep.windows import cluster_has
from fdarx_core.records import RagQuestion, Reject


@dataclass(slots=True, kw_only=True)
class RagEvaluation(PartedEvaluation):
    """A comparison of ways to answer; see `PartedEvaluation`."""

    phase: ClassVar[str] = "answer"
    worker: ClassVar[type[PartWorker[Any]]] = Talks

    what: RagSweep
    questions: Sequence[RagQuestion]
    rejects: Sequence[Reject]

    @property
    def parts(self) -> RagParts:
        return RagParts(self.run)

    def cut(self) -> range:
        return self.parts.split([*self.rejects, *self.questions])

    def holders(self, *, planned: bool) -> Holders:
        sweep = self.what
        return Holders(
            self._held(IndexHolder),
            self._held(RerankerHolder) if "rerank" in sweep.postprocessors else Pool(),
            self._held(SimilarityHolder) if (sweep.bertscore or sweep.encoder) and not planned else Pool(),
        )

    def about(self, numbers: Sequence[int]) -> dict[str, Any]:
        return {
            "index": {"place": str(self.what.place), "version": self.what.version},
            "questions": len(self.questions),
            "rejects": len(self.rejects),
        }

    def publish(self, numbers: Sequence[int], info: Mapping[str, Any]) -> None:
        publish(self.parts, numbers, self.what, info, seed=self.seed, resamples=self.resamples)

    def _held(self, holder: type) -> Pool:
        """An actor that shares a GPU with the other holders, where there is one."""
        return self.hired.pool(holder, (self.what,), gpus=0.33 if cluster_has("GPU") else 0)
