"""Judgments of readers on answers, appended to a file that `fdarx review import` reads."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from serving.http.logs import request_log
from serving.http.responses import ApiError, error_responses, json_reply
from serving.http.schemas import AnswerReply, PlainText

PATH = "/v1/feedback"
FEEDBACK_BYTES = 512 << 10
"""Maximum size of a judgment: a reply has at most 24 passages of 10,000 characters."""

_FULL = (
    "The file of judgments has reached its limit of {} bytes. The operator moves it, or gives a higher feedback_bytes "
    "(`fdarx serve --feedback-bytes`)."
)


class FeedbackRequest(BaseModel):
    """A reader's judgment of an answer."""

    model_config = ConfigDict(extra="forbid")

    verdict: Literal["good", "bad"] = Field(description="good: the answer is right, and its passages support it.")
    remark: Annotated[PlainText, Field(max_length=4000)] = ""
    reply: AnswerReply = Field(description="The reply that is judged, as it was received.")


class FeedbackFile:
    """The file of judgments. It signs the replies of the service, to know them again when they are judged.

    The secret is in a file beside it, for all replicas. Raises ValueError where one of the two can't be written.
    """

    def __init__(self, file: Path, limit: int) -> None:
        """`limit` is the size in bytes that the file may have."""
        self.limit, self._file = limit, file
        try:
            _append(file, b"", limit)
            secret, new = (file.with_name(f"{file.name}.{end}") for end in ("secret", secrets.token_hex(8)))
            new.touch(0o600)
            new.write_bytes(secrets.token_bytes(32))
            with suppress(FileExistsError):
                secret.hardlink_to(new)  # whole at once, since other replicas may read it
            new.unlink()
            self._secret = secret.read_bytes()
        except OSError as error:
            raise ValueError(f"{file}: feedback can't be written ({type(error).__name__}): check feedback") from None

    def sign(self, reply: Mapping[str, Any]) -> str:
        """Return what is to be the `signature` of an AnswerReply, which is given as plain values."""
        return self._signature(AnswerReply.model_validate_json(orjson.dumps(reply)))

    def knows(self, reply: AnswerReply) -> bool:
        """Return whether the service made the reply, and no one has changed it since."""
        return hmac.compare_digest(self._signature(reply).encode(), reply.signature.encode())

    async def append(self, row: Mapping[str, Any]) -> bool:
        """Append a judgment; return whether there was room."""
        return await asyncio.to_thread(_append, self._file, orjson.dumps(row) + b"\n", self.limit)

    def _signature(self, reply: AnswerReply) -> str:
        fields = reply.model_dump(mode="json", exclude={"signature"})
        data = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS)
        return hmac.new(self._secret, data, hashlib.sha256).hexdigest()


def feedback_routes(file: FeedbackFile) -> APIRouter:
    """Return the route POST /v1/feedback."""
    router = APIRouter(tags=["Questions"], responses=error_responses())

    @router.post(PATH, response_model=dict[str, bool], responses=error_responses(507))
    async def feedback(body: FeedbackRequest, request: Request) -> Response:
        """Store a judgment, with the name of the API key, the time, and whether this service made the reply."""
        at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        key, known = request_log(request.scope).key, file.knows(body.reply)
        if not await file.append({"at": at, "key": key, "known": known, **body.model_dump(mode="json")}):
            raise ApiError(507, _FULL.format(file.limit), code="full")
        return json_reply({"stored": True})

    return router


def _append(file: Path, line: bytes, limit: int) -> bool:
    """Append a line by one write, since several replicas may write to the file; return whether there was room."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "ab", buffering=0) as lines:
        has_room = lines.tell() + len(line) <= limit
        if has_room:
            lines.write(line)
    return has_room
