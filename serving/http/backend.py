"""Types that the HTTP service and the deployments behind it share: corpora, parts of streamed answers, errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias, TypeVar

from fdarx_core.rag.flow import RetrievalResult
from fdarx_core.rag.gated_reply import AnswerPiece, CitedAnswer

FoundT = TypeVar("FoundT")

Record = Callable[..., None]
"""Records a value of a metric, as `serving.metrics.record` does: record(name, value, **labels). It is called in the
event loop, several times per request, and must not block."""

AnswerEvent: TypeAlias = RetrievalResult | AnswerPiece | CitedAnswer | None
"""A part of a streamed answer."""


class Unavailable(Exception):
    """A part of the service is down. `part` is its name in messages (the index, the reranker …), `why` is logged."""

    def __init__(self, part: str, why: str = "") -> None:
        super().__init__(part, why)
        self.part, self.why = part, why


class Overloaded(Unavailable):
    """A part of the service rejects requests because its queue is full; the request may be repeated."""


@dataclass(frozen=True, slots=True)
class ServedCorpus:
    """An index in use, and the retrievers that can search it."""

    name: str  # without "/", since chat clients name a model as CORPUS/STRATEGY
    version: str
    kind: Literal["labels", "documents"]
    chunks: int
    documents: int
    retrievers: tuple[str, ...]
