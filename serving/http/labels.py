"""Sections of labels, looked up by exact names, and the same section of two labels compared."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from fdarx_core.rag.section_differences import section_differences
from fdarx_core.records import Chunk, SearchHit
from fdarx_core.retrieval.index import find_section
from fdarx_core.retrieval.index.label_drugs import names_of_label
from serving.backend import RayServeBackend
from serving.http.answering import select_corpus, similar_names
from serving.http.logs import RequestLog, request_log
from serving.http.responses import ApiError, error_responses, json_reply
from serving.http.schemas import ComparisonReply, SectionPassage, SectionReply, ShortText, reply_fields

_LABEL = "The name of a drug, of which the newest label with the section is taken, or the set id of a label."
_SECTION = "The LOINC code (34070-3), number (5.1) or title (Contraindications) of a section or subsection."
_CORPUS = "A corpus of labels; by default the first."


class SectionQuery(BaseModel):
    """A section of a label."""

    label: ShortText = Field(min_length=1, description=_LABEL)
    section: ShortText = Field(min_length=1, description=_SECTION)
    corpus: ShortText | None = Field(None, description=_CORPUS)


class ComparisonQuery(BaseModel):
    """A section of two labels."""

    first: ShortText = Field(min_length=1, description=_LABEL)
    second: ShortText = Field(min_length=1, description="The other label, in the same way.")
    section: ShortText = Field(min_length=1, description=_SECTION)
    corpus: ShortText | None = Field(None, description=_CORPUS)
    whole: bool = Field(False, description="Return under `differences` the sentences that are the same as well.")


def label_routes(backend: RayServeBackend) -> APIRouter:
    """Return the routes GET /v1/sections and GET /v1/sections/compared."""
    router = APIRouter(prefix="/v1/sections", tags=["Labels"], responses=error_responses() | error_responses(404))

    @router.get("", response_model=SectionReply)
    async def section(request: Request, asked: Annotated[SectionQuery, Query()]) -> Response:
        """Return a section of a label."""
        return json_reply(await section_reply(backend, asked, request_log(request.scope)))

    @router.get("/compared", response_model=ComparisonReply)
    async def compared(request: Request, asked: Annotated[ComparisonQuery, Query()]) -> Response:
        """Return the same section of two labels, with the sentences in which they differ."""
        return json_reply(await comparison_reply(backend, asked, request_log(request.scope)))

    return router


async def section_reply(backend: RayServeBackend, asked: SectionQuery, log: RequestLog) -> dict[str, Any]:
    """Return a SectionReply. Raises ApiError, Unavailable."""
    return _reply(*await _find(backend, asked.label, asked.section, asked.corpus, log))


async def comparison_reply(backend: RayServeBackend, asked: ComparisonQuery, log: RequestLog) -> dict[str, Any]:
    """Return a ComparisonReply. Raises ApiError, Unavailable."""
    labels = asked.first, asked.second
    found = await asyncio.gather(*(_find(backend, label, asked.section, asked.corpus, log) for label in labels))
    texts = ["\n".join(chunk.text for chunk in chunks) for chunks, _ in found]
    names = [{chunks[0].drug, *names_of_label(SearchHit(chunks[0], 0.0).label)} - {""} for chunks, _ in found]
    differences = await asyncio.to_thread(
        section_differences, texts[0], texts[1], names[0], names[1], whole=asked.whole
    )
    replies = [_reply(chunks, count) for chunks, count in found]
    return {"first": replies[0], "second": replies[1], "differences": differences}


async def _find(
    backend: RayServeBackend, label: str, section: str, corpus: str | None, log: RequestLog
) -> tuple[list[Chunk], int]:
    """Return the chunks of a section, and the number of labels of the drug. Raises ApiError 404, 422."""
    of_labels = next((candidate.name for candidate in backend.corpora().values() if candidate.kind == "labels"), None)
    served = select_corpus(corpus or of_labels, backend)
    if served.kind != "labels":
        raise ApiError(422, f"{served.name!r} is not a corpus of labels.", param="corpus", code="invalid")
    log.corpus = served.name
    found = await backend.run_on_index(served.name, find_section, label.strip(), section)
    if found.chunks:
        log.passages = len(found.chunks)
        return found.chunks, found.labels
    if found.labels:
        message = f"No label of {label[:60]!r} has a section {section[:60]!r}; the newest has: "
        raise ApiError(404, message + "; ".join(found.sections), param="section", code="no_section")
    message = f"There is no label of {label[:60]!r} in {served.name!r}."
    message += await similar_names(backend, served.name, label)
    raise ApiError(404, message, param="label", code="no_label")


def _reply(chunks: list[Chunk], labels: int) -> dict[str, Any]:
    hit = SearchHit(chunks[0], 0.0)
    passages = [{**reply_fields(SectionPassage, chunk), "chunk_id": chunk.id} for chunk in chunks]
    return {**reply_fields(SectionReply, hit, hit.label), "labels": labels, "passages": passages}
