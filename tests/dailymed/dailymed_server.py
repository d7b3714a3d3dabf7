"""A server on this machine that answers as DailyMed does, and fails as it is told.

    with DailyMedServer(labels=[…XML documents…], files={"dm_spl_release_human_rx_part1.zip": data}) as server:
        server.faults = lambda call: Fault(status=503) if call.attempt == 1 else None
        ... fetch from server.url ...
        assert server.paths == [...]

It serves /dailymed/services/v2/spls.json and spls/SETID.xml, the page of bulk releases, and the files on that page,
by Range, with ETag and Last-Modified.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from aiohttp import web

from fdarx_core.labels.metadata import read_header
from fdarx_core.labels.xml import parse_xml
from tests.in_thread import InThread, listening

PAGE = "spl-resources-all-drug-labels.cfm"


@dataclass
class Call:
    """One request as the server saw it. `attempt` counts requests of one path and query, from 1."""

    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    attempt: int
    at: float

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass
class Fault:
    """What goes wrong with one reply. `cut` ends the body after so many bytes, or `stalls` there; `drip` sends it
    byte by byte."""

    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    drip: bool = False
    endless: bool = False
    silent: bool = False
    stalls: bool = False


class DailyMedServer(InThread):
    """`calls` are the requests in order; `etags` and `md5` may be set to what the server says of its files."""

    def __init__(self, labels: Iterable[bytes] = (), files: Mapping[str, bytes] | None = None) -> None:
        self.labels: dict[str, bytes] = {listed(data)["setid"]: data for data in labels}
        self.files = dict(files or {})
        self.md5 = {name: hashlib.md5(data).hexdigest() for name, data in self.files.items()}
        self.tagged = True
        self.in_flight = self.most_in_flight = 0
        self.faults: Callable[[Call], Fault | None] = lambda call: None
        self.calls: list[Call] = []
        self._seen: Counter[str] = Counter()
        super().__init__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/dailymed"

    @property
    def names(self) -> list[str]:
        """The last parts of the paths asked for."""
        return [call.name for call in self.calls]

    def forget(self) -> None:
        self.calls.clear()
        self._seen.clear()

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_get("/{path:.*}", self._serve)
        runner = await listening(app)
        self.port = runner.addresses[0][1]
        return runner

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0.005)
            return await self._reply(request)
        finally:
            self.in_flight -= 1

    async def _reply(self, request: web.Request) -> web.StreamResponse:
        self._seen[request.path_qs] += 1
        call = Call(request.path, dict(request.query), request.headers, self._seen[request.path_qs], time.monotonic())
        self.calls.append(call)
        fault = self.faults(call)
        if fault is None:
            return self._answer(call)
        if fault.silent:
            await asyncio.sleep(60)
        reply = self._answer(call) if fault.body is None and fault.status == 200 else None
        body = fault.body if fault.body is not None else reply.body if reply else b""
        headers = {**(dict(reply.headers) if reply else {}), **fault.headers}
        assert isinstance(body, bytes)
        status = reply.status if reply else fault.status
        if fault.cut is None and not fault.drip and not fault.endless:
            headers.pop("Content-Length", None)
            return web.Response(body=body, status=status, headers=headers)
        return await self._badly(request, status, headers, body, fault)

    async def _badly(
        self, request: web.Request, status: int, headers: dict[str, str], body: bytes, fault: Fault
    ) -> web.StreamResponse:
        if not fault.endless:
            headers["Content-Length"] = str(len(body))
        stream = web.StreamResponse(status=status, headers=headers)
        await stream.prepare(request)
        if fault.endless:
            while True:
                await stream.write(b" " * 65536)
        for byte in body if fault.drip else b"":
            await stream.write(bytes([byte]))
            await asyncio.sleep(0.02)
        await stream.write(body[: fault.cut])
        await asyncio.sleep(60 if fault.stalls else 0.05)  # so that the client reads what came before it sees the end
        assert request.transport is not None
        request.transport.close()
        return stream

    def _answer(self, call: Call) -> web.Response:
        if call.name == "spls.json":
            return web.json_response(self._listing(call.query))
        if call.name == PAGE:
            return web.Response(text=self._page(), content_type="text/html")
        if call.name in self.files:
            return self._file(call)
        data = self.labels.get(call.name.removesuffix(".xml"))
        if data is None:
            return web.Response(status=404, text="<html>Not found</html>", content_type="text/html")
        return web.Response(body=data, content_type="text/xml")

    def _listing(self, query: Mapping[str, str]) -> dict[str, Any]:
        """Labels whose title has the drug's name; numbers come as texts, and what is not there as "null"."""
        rows = [row for row in map(listed, self.labels.values()) if _matches(row, query)]
        size, page = int(query["pagesize"]), int(query["page"])
        pages = -(-len(rows) // size)
        metadata = {"total_elements": str(len(rows)), "total_pages": str(pages), "current_page": str(page)}
        following = metadata | {"next_page": str(page + 1) if page < pages else "null", "elements_per_page": str(size)}
        return {"data": rows[(page - 1) * size : page * size], "metadata": following}

    def _page(self) -> str:
        items = "".join(
            f'<li data-ddfilter="x">{name} [<a href="http://127.0.0.1:{self.port}/public-release-files/{name}">HTTPS'
            f'</a>] [<a href="ftp://public.nlm.nih.gov/nlmdata/.dailymed/{name}">FTP</a>]<ul><li>Number of labels: 3'
            f"</li>{self._checksum(name)}<li>Last Modified: Oct 31, 2025</li></ul></li>"
            for name in self.files
        )
        return f'<html><body><ul class="download heading">{items}</ul></body></html>'

    def _checksum(self, name: str) -> str:
        return f"<li>MD5 checksum: {self.md5[name]}</li>" if self.md5.get(name) else ""

    def _file(self, call: Call) -> web.Response:
        data = self.files[call.name]
        etag = f'"{hashlib.md5(data).hexdigest()[:12]}"'
        headers = {"ETag": etag, "Last-Modified": "Fri, 31 Oct 2025 10:00:00 GMT"} if self.tagged else {}
        if call.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers=headers)
        span = call.headers.get("Range", "")
        if not span or call.headers.get("If-Range") != etag:
            return web.Response(body=data, headers=headers)
        start = int(span.removeprefix("bytes=").removesuffix("-"))
        if start >= len(data):
            return web.Response(status=416, headers={"Content-Range": f"bytes */{len(data)}"})
        headers |= {"Content-Range": f"bytes {start}-{len(data) - 1}/{len(data)}"}
        return web.Response(status=206, body=data[start:], headers=headers)


@cache
def listed(document: bytes) -> dict[str, Any]:
    """A label's row in a listing."""
    root, _ = parse_xml(document)
    header = read_header(root)
    return {
        "setid": header.set_id,
        "spl_version": header.version,
        "published_date": "May 21, 2026",
        "title": header.title,
    }


def _matches(row: Mapping[str, Any], query: Mapping[str, str]) -> bool:
    named = query.get("drug_name", "").lower() in row["title"].lower()
    return named and query.get("setid", row["setid"]) == row["setid"]
