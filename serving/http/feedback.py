"""Judgments of readers on answers, appended to a file that `fdarx review import` reads."""

from __future__ import annotations

import asyncio
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from serving.http.error_schemas import error_responses
from serving.http.logs import request_log
from serving.http.responses import json_reply
from serving.http.schemas import AnswerReply, PlainText


class FeedbackRequest(BaseModel):
    """A reader's judgment of an answer."""

    model_config = ConfigDict(extra="forbid")

    verdict: Literal["good", "bad"] = Field(description="good: the answer is right, and its passages support it.")
    remark: Annotated[PlainText, Field(max_length=4000)] = ""
    reply: AnswerReply = Field(description="The reply that is judged, as it was received.")


def feedback_routes(file: Path) -> APIRouter:
    """Return the route POST /v1/feedback. Raises ValueError where the file can't be written."""
    try:
        _append(file, b"")
    except OSError as error:
        raise ValueError(f"{file}: feedback can't be written ({type(error).__name__}): check feedback") from None
    router = APIRouter(prefix="/v1", tags=["Questions"])

    responses: dict[int | str, dict[str, Any]] = {200: {"model": dict[str, bool]}}

    @router.post("/feedback", responses=responses | error_responses(), response_class=Response)
    async def feedback(body: FeedbackRequest, request: Request) -> Response:
        """Store a judgment, with the name of the API key and the time."""
        at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        row = {"at": at, "key": request_log(request.scope).key, **body.model_dump(mode="json")}
        await asyncio.to_thread(_append, file, orjson.dumps(row) + b"\n")
        return json_reply({"stored": True})

    return router


def _append(file: Path, line: bytes) -> None:
    """Append a line by one write, since several replicas may write to the file."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
