"""POST /v1/documents: adding documents to a corpus, by clients that may."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from fdarx_core.documents.chunks import READ_ENDINGS
from fdarx_core.pipeline.uploading import upload_name
from fdarx_core.records import ANONYMOUS
from serving.backend import RayServeBackend
from serving.http.answering import select_corpus
from serving.http.logs import request_log
from serving.http.responses import ApiError, error_responses, json_reply
from serving.http.schemas import ShortText

PATH = "/v1/documents"
_TYPE = "application/octet-stream"

_REFUSED = (
    "The index of {!r} takes no documents from this service; the service's log says why. Add them with `fdarx index`."
)


_Name = Annotated[ShortText, Query(description=f"The file's name, ending in one of {', '.join(READ_ENDINGS)}.")]
_Corpus = Annotated[ShortText | None, Query(description="One of GET /v1/corpora; by default the first.")]


class RejectedDocument(BaseModel):
    """A document, or a part of a file, that was not added."""

    name: str = Field(description="The name of the file, and of the member of an archive; the id of a label.")
    reason: str = Field(description="A fixed name of the reason.")
    detail: str


class UploadReply(BaseModel):
    """What became of a file."""

    added: int = Field(description="The documents of the file that the corpus now has.")
    chunks: int = Field(description="Their passages that the corpus did not have before.")
    rejected: list[RejectedDocument]
    corpus: str
    version: str = Field(description="The version of the index that has them; answers are made from it from now on.")


def upload_routes(backend: RayServeBackend) -> APIRouter:
    """Return the route POST /v1/documents. The middleware checks who may use it before it reads the body."""
    router = APIRouter(prefix="/v1", tags=["Corpora"], responses=error_responses() | error_responses(409, 415))
    body = {"requestBody": {"required": True, "content": {_TYPE: {"schema": {"type": "string", "format": "binary"}}}}}

    @router.post("/documents", response_model=UploadReply, openapi_extra=body)
    async def documents(request: Request, name: _Name, corpus: _Corpus = None) -> Response:
        """Add the documents of a file, which is the body, to a corpus; they are found as soon as this replies.

        They are marked as uploads of the client's key wherever they are cited. A file takes the place of the earlier
        file of this name of the same key, and a label that of its older version; other documents are never replaced. A
        file that can't be read changes nothing.
        """
        log, data = request_log(request.scope), await request.body()
        # pages of other sites can't send this type: browsers ask the server first, and this one permits none
        if request.headers.get("content-type", "").split(";")[0].strip().lower() != _TYPE:
            raise ApiError(415, f"Send the bytes of the file with Content-Type: {_TYPE}.", code="wrong_type")
        served = log.corpus = select_corpus(corpus, backend).name
        try:
            kept = upload_name(name)
        except ValueError as error:
            raise ApiError(422, f"{error}.", param="name", code="unknown_kind") from None
        if not data:
            raise ApiError(422, "The body is empty: send the bytes of the file.", code="empty")
        done = await backend.add_documents(served, log.key or ANONYMOUS, kept, data)
        if done.refused:
            log.detail = done.refused
            raise ApiError(409, _REFUSED.format(served), code="refused")
        rejected = [{"name": reject.id, "reason": reject.reason, "detail": reject.detail} for reject in done.rejected]
        counts = {"added": done.added, "chunks": done.chunks}
        return json_reply({**counts, "rejected": rejected, "corpus": served, "version": done.version})

    return router
