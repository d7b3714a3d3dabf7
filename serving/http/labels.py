"""Sections of labels, looked up by exact names, and the same section of two labels compared."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
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

LABEL = "The name of a drug, of which the newest label with the section is taken, or the set id of a label."
SECTION = "The LOINC code (34070-3), number (5.1) or title (Contraindications) of a section or subsection."
LABEL_CORPUS = "A corpus of labels; by default the first."

_Label = Annotated[ShortText, Query(min_length=1, description=LABEL)]
_Section = Annotated[ShortText, Query(min_length=1, description=SECTION)]
_Corpus = Annotated[ShortText | None, Query(description=LABEL_CORPUS)]
_Whole = Annotated[bool, Query(description="Return under `differences` the sentences that are the same as well.")]


def label_routes(backend: RayServeBackend) -> APIRouter:
    """Return the routes GET /v1/sections and GET /v1/sections/compared."""
    router = APIRouter(prefix="/v1/sections", tags=["Labels"], responses=error_responses() | error_responses(404))

    @router.get("", response_model=SectionReply)
    async def section(request: Request, label: _Label, section: _Section, corpus: _Corpus = None) -> Response:
        """Return a section of a label."""
        return json_reply(await section_reply(backend, label, section, corpus, request_log(request.scope)))

    @router.get("/compared", response_model=ComparisonReply)
    async def compared(
        request: Request,
        first: _Label,
        second: _Label,
        section: _Section,
        corpus: _Corpus = None,
        whole: _Whole = False,
    ) -> Response:
        """Return the same section of two labels, with the sentences in which they differ."""
        log = request_log(request.scope)
        return json_reply(await comparison_reply(backend, first, second, section, corpus, log, whole=whole))

    return router


async def section_reply(
    backend: RayServeBackend, label: str, section: str, corpus: str | None, log: RequestLog
) -> dict[str, Any]:
    """Return a SectionReply. Raises ApiError, Unavailable."""
    return _reply(*await _find(backend, label, section, corpus, log))


async def comparison_reply(
    backend: RayServeBackend,
    first: str,
    second: str,
    section: str,
    corpus: str | None,
    log: RequestLog,
    *,
    whole: bool = False,
) -> dict[str, Any]:
    """Return a ComparisonReply. Raises ApiError, Unavailable."""
    found = await asyncio.gather(*(_find(backend, label, section, corpus, log) for label in (first, second)))
    texts = ["\n".join(chunk.text for chunk in chunks) for chunks, _ in found]
    names = [{chunks[0].drug, *names_of_label(SearchHit(chunks[0], 0.0).label)} - {""} for chunks, _ in found]
    differences = await asyncio.to_thread(section_differences, texts[0], texts[1], names[0], names[1], whole=whole)
    replies = [_reply(chunks, labels) for chunks, labels in found]
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
