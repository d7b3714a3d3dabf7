"""What a request may hold and what a reply does, as the OpenAPI document says it."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from serving.config import MAX_CANDIDATES, MAX_CONTEXTS

_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]|[\ud800-\udfff]")


def check_plain_text(text: str) -> str:
    """Raises ValueError for what no text holds: control characters but tabs and line ends, half surrogate pairs."""
    if found := _CONTROL.search(text):
        raise ValueError(f"it holds the control character U+{ord(found[0]):04X} at position {found.start()}")
    return text


PlainText = Annotated[str, AfterValidator(check_plain_text)]
ShortText = Annotated[str, Field(max_length=500), AfterValidator(check_plain_text)]


class SearchFilter(BaseModel):
    """Keeps the search to one drug, label or document. Each field that is set narrows it; letters' case is ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)

    drug: ShortText = Field("", description="A drug's name, whole, as GET /v1/names gives it.")
    set_id: ShortText = Field("", description="The set id of a label.")
    title: ShortText = Field("", description="A document's title, whole.")
    any_drug: bool = Field(
        False,
        description="Search all labels also where the question names a drug; otherwise only those of the drugs named.",
    )


class SearchOptions(BaseModel):
    """How to search and answer; whatever is left out is as GET /v1/corpora says under `defaults`."""

    model_config = ConfigDict(extra="forbid", strict=True)

    filter: SearchFilter | None = None
    exclude: list[ShortText] = Field(
        default_factory=list, max_length=100, description="Documents left out, by id, title or source."
    )
    strategy: ShortText | None = Field(None, description="What is searched with.")
    postprocess: ShortText | None = Field(None, description="How candidates are narrowed down to k passages.")
    retriever: ShortText | None = Field(None, description="How texts are compared.")
    k: int | None = Field(None, ge=1, le=MAX_CONTEXTS, description="Passages to return, and to answer from.")
    candidates: int | None = Field(
        None, ge=1, le=MAX_CANDIDATES, description="Passages found before post-processing; no fewer than k."
    )


class SearchRequest(SearchOptions):
    """A question to search a corpus with."""

    question: PlainText = Field(min_length=1, description="In plain words. Blank questions are refused.")
    corpus: ShortText | None = Field(None, description="One of GET /v1/corpora; by default the first.")


class AnswerRequest(SearchRequest):
    """A question to be answered from a corpus."""

    stream: bool = Field(
        False,
        description="Answer as text/event-stream: `passages` (the reply so far), `delta` {text} for each piece of the "
        "answer, `done` (the whole reply), or `error` where it breaks off.",
    )


class RetrievedPassage(BaseModel):
    """A passage, numbered from 1 as citations do. `score` is the retriever's, `rerank` the post-processing's."""

    n: int
    chunk_id: str
    document_id: str
    title: str
    section: str
    text: str
    set_id: str
    drug: str
    score: float
    rerank: float | None
    cited: bool


class Timings(BaseModel):
    """Milliseconds."""

    rewrite: float
    search: float
    postprocess: float
    answer: float
    total: float


class IndexVersion(BaseModel):
    """Which index served a request."""

    corpus: str
    version: str


class TokenUsage(BaseModel):
    """Tokens of all models asked."""

    prompt_tokens: int
    completion_tokens: int


class SearchReply(BaseModel):
    """What was found. `searches` are the texts searched with."""

    id: str
    question: str
    degraded: str | None = Field(description="What had to be done without, and why; null where nothing.")
    passages: list[RetrievedPassage]
    strategy: str
    retriever: str
    postprocess: str
    searches: list[str]
    timings_ms: Timings
    index: IndexVersion
    usage: TokenUsage


class AnswerReply(SearchReply):
    """An answer that cites passages by [n]."""

    answer: str = Field(description="Empty where the model could not be asked: `degraded` then says why.")
    refused: bool = Field(description="True where the passages hold no answer, as the model says.")
    citations: list[int] = Field(description="The passages cited, each once, in the order of their naming.")
    model: str


class CorpusReply(BaseModel):
    """An index that can be asked."""

    name: str
    version: str
    kind: Literal["labels", "documents"]
    chunks: int
    documents: int
    retrievers: list[str]


class StrategyReply(BaseModel):
    """A strategy, with the name that tables give it."""

    name: str
    title: str


class CorporaReply(BaseModel):
    """All that a request may name."""

    corpora: list[CorpusReply]
    strategies: list[StrategyReply]
    postprocessors: list[str]
    defaults: dict[str, Any]


class NamesReply(BaseModel):
    """Names for a filter."""

    names: list[str]


class ChunkReply(BaseModel):
    """A passage as the index holds it; `start` is its first character in its document, -1 in a label."""

    id: str
    document_id: str
    title: str
    source: str
    section: str
    text: str
    position: int
    start: int
    set_id: str
    drug: str


class NeighbourChunk(BaseModel):
    """A passage of the same section. `here`: the one that was asked for."""

    chunk_id: str
    title: str
    section: str
    text: str
    here: bool


class PassageReply(BaseModel):
    """A passage and what stands around it, in order."""

    chunk: ChunkReply
    around: list[NeighbourChunk]


class ErrorDetail(BaseModel):
    """What was wrong, and what to do."""

    type: str
    message: str
    param: str | None = Field(description="The field that was wrong, if one was.")
    code: str | None = Field(description="A fixed name for it.")


class ErrorReply(BaseModel):
    """How every route tells what went wrong; OpenAI's shape."""

    error: ErrorDetail


_WHY = {
    401: "No key, or none that is known.",
    404: "Nothing matches.",
    408: "The request's body came too slowly.",
    413: "The body is too long.",
    422: "The request is wrong.",
    429: "Too many requests for this key; Retry-After says when to try again.",
    500: "A fault in the server.",
    503: "Overloaded, or a part is down; Retry-After says when to try again.",
    504: "The deadline passed.",
}


def error_responses(*more: int, without: tuple[int, ...] = ()) -> dict[int | str, dict[str, Any]]:
    """The error replies of a route under /v1, for the OpenAPI document; 404 where `more` says so."""
    always = {status for status in _WHY if status != 404}
    statuses = sorted((always | set(more)) - set(without))
    return {
        status: {"model": ErrorReply, "description": _WHY.get(status, "The request is wrong.")} for status in statuses
    }
