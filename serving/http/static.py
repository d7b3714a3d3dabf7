"""The page and its files, read once; browsers ask each time whether theirs is still good."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.responses import Response

from serving.http.errors import Problem

PAGE = Path(__file__).parent.parent / "page"
_OWN = Path(__file__).parent / "docs.css"
_HOME = "index.html"


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    media_type: str
    etag: str

    def response(self, request: Request) -> Response:
        headers = {"ETag": self.etag, "Cache-Control": "no-cache"}
        if self.etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(self.body, headers=headers, media_type=self.media_type)


class Static:
    """GET / and GET /static/NAME. Nothing outside the page's folder can be named."""

    def __init__(self) -> None:
        self._files = {file.name: _read(file) for file in _files()}

    def routes(self) -> APIRouter:
        router = APIRouter(include_in_schema=False)
        for path, handler in (("/", self.home), ("/static/{name}", self.file)):
            router.add_api_route(path, handler, methods=["GET", "HEAD"], response_class=Response)
        return router

    async def home(self, request: Request) -> Response:
        return self._file(_HOME, request)

    async def file(self, name: str, request: Request) -> Response:
        return self._file(name, request)

    def _file(self, name: str, request: Request) -> Response:
        file = self._files.get(name)
        if file is None:
            raise Problem(404, "There is no such file.", code="no_file")
        return file.response(request)


def _files() -> Iterable[Path]:
    return [*(file for file in sorted(PAGE.iterdir()) if file.is_file()), _OWN]


def _read(file: Path) -> _File:
    body = file.read_bytes()
    kind = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
    return _File(body, kind, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
