"""A chat server on this machine that also has the batch APIs of OpenAI and Anthropic.

    with BatchServer(answer=my_function, batch_s=0.5) as server:
        server.faults = lambda call: Fault(status=500) if call.attempt == 1 else None
        server.expires = lambda custom_id: custom_id.startswith("0")
        ... ask server.openai_url or server.url in batches ...
        assert max(server.submitted.values()) == 1

The faults of single requests are those of `LoopbackServer`: a status that is not 200 fails a request of a batch.
`call_faults` gives the status of a call of the batch API itself, or "drop": it is carried out, and its reply is lost.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import orjson
import pytest
from aiohttp import web

from fdarx_core.llm import batch_client, batch_endpoint
from tests.llm.loopback_server import Answer, Fault, LoopbackServer, echo


def quicken(patch: pytest.MonkeyPatch) -> None:
    """Let clients in this process submit batches, and look at them, within a tenth of a second."""
    patch.setattr(batch_endpoint, "_STEP_S", 0.01)
    patch.setattr(batch_client, "_FIRST_WAIT_S", 0.05)


_PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}


@dataclass
class Batch:
    """One batch. `items` are its requests by custom id; `fault` is an error with which it fails as a whole."""

    id: str
    kind: str
    items: dict[str, dict[str, Any]]
    name: str = ""
    file: str = ""
    fault: dict[str, Any] | None = None
    created_at: float = field(default_factory=time.time)
    results: list[bytes] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)


class BatchServer(LoopbackServer):
    """Every batch ends `batch_s` seconds after its creation; until then, its requests are done one after another.

    `submitted` counts each request by custom id and content, `batches` are all batches, `calls_made` counts the calls
    of the batch API. With a `key`, calls without it are refused. Batches that it `holds` do not end.
    """

    def __init__(self, answer: Answer = echo, batch_s: float = 0.2, key: str = "", **options: Any) -> None:
        super().__init__(answer, **options)
        self.batch_s, self.key = batch_s, key
        self.expires: Callable[[str], bool] = lambda custom_id: False
        self.refuses: Callable[[Batch], dict[str, Any] | None] = lambda batch: None
        self.call_faults: Callable[[str, int], int | str | None] = lambda call, number: None
        self.has_batches = True
        self.holds: Callable[[Batch], bool] = lambda batch: False
        self.batches: dict[str, Batch] = {}
        self.submitted: Counter[tuple[str, bytes]] = Counter()
        self.expired: Counter[tuple[str, bytes]] = Counter()
        self.calls_made: Counter[str] = Counter()
        self._files: dict[str, bytes] = {}

    def application(self) -> web.Application:
        app = super().application()
        routes = {
            ("POST", "/v1/files"): self._upload,
            ("GET", "/v1/files/{id}/content"): self._content,
            ("POST", "/v1/batches"): self._create_openai,
            ("GET", "/v1/batches"): self._list,
            ("GET", "/v1/batches/{id}"): self._get,
            ("POST", "/v1/messages/batches"): self._create_anthropic,
            ("GET", "/v1/messages/batches"): self._list,
            ("GET", "/v1/messages/batches/{id}"): self._get,
            ("GET", "/v1/messages/batches/{id}/results"): self._results,
        }
        for (method, path), handler in routes.items():
            app.router.add_route(method, path, self._guarded(f"{method} {path}", handler))
        return app

    def _guarded(self, name: str, handler: Callable[[web.Request], Any]) -> Callable[[web.Request], Any]:
        async def guarded(request: web.Request) -> web.StreamResponse:
            self.calls_made[name] += 1
            if not self.has_batches:
                return _error(404, "there is no such address")
            given = request.headers.get("x-api-key") or request.headers.get("Authorization", "").removeprefix("Bearer ")
            if self.key and given != self.key:
                return _error(401, "wrong key")
            fault = self.call_faults(name, self.calls_made[name])
            if isinstance(fault, int):
                return _error(fault, f"told to fail with {fault}")
            reply: web.StreamResponse = await handler(request)
            if fault == "drop":
                assert request.transport is not None
                request.transport.abort()
            return reply

        return guarded

    async def _upload(self, request: web.Request) -> web.Response:
        fields = await request.post()
        assert fields["purpose"] == "batch"
        file = fields["file"]
        assert isinstance(file, web.FileField) and file.filename.endswith(".jsonl")
        name = f"file-{len(self._files)}"
        self._files[name] = file.file.read()
        return web.json_response({"id": name, "object": "file", "purpose": "batch"})

    async def _create_openai(self, request: web.Request) -> web.Response:
        asked = await request.json()
        assert asked["endpoint"] == "/v1/chat/completions" and asked["completion_window"] == "24h"
        items = {}
        for line in self._files[asked["input_file_id"]].splitlines():
            item = orjson.loads(line)
            assert item["method"] == "POST" and item["url"] == asked["endpoint"]
            items[item["custom_id"]] = item["body"]
        return self._create("openai", items, asked["metadata"]["fdarx_batch"], asked["input_file_id"])

    async def _create_anthropic(self, request: web.Request) -> web.Response:
        asked = orjson.loads(await request.read())
        assert request.content_type == "application/json" and request.headers["anthropic-version"]
        return self._create("anthropic", {item["custom_id"]: item["params"] for item in asked["requests"]})

    def _create(self, kind: str, items: dict[str, dict[str, Any]], name: str = "", file: str = "") -> web.Response:
        batch = Batch(f"batch_{len(self.batches)}", kind, items, name, file)
        batch.fault = self.refuses(batch)
        self.batches[batch.id] = batch
        if batch.fault is None:
            for custom_id, body in items.items():
                assert custom_id and len(custom_id) <= 64
                self.submitted[custom_id, orjson.dumps(body)] += 1
        return web.json_response(self._described(batch))

    async def _get(self, request: web.Request) -> web.Response:
        batch = self.batches.get(request.match_info["id"])
        return _error(404, "no such batch") if batch is None else web.json_response(self._described(batch))

    async def _list(self, request: web.Request) -> web.Response:
        """The last one first, ten a page."""
        kind = "anthropic" if "messages" in request.path else "openai"
        known = [one for one in reversed(self.batches.values()) if one.kind == kind]
        after = request.query.get("after") or request.query.get("after_id")
        start = next((at + 1 for at, one in enumerate(known) if one.id == after), 0)
        page = known[start : start + min(10, int(request.query["limit"]))]
        more = start + len(page) < len(known)
        return web.json_response({"data": [self._described(one) for one in page], "has_more": more})

    async def _content(self, request: web.Request) -> web.StreamResponse:
        _, batch, which = request.match_info["id"].split("-")
        return await _send_lines(request, getattr(self.batches[batch], which))

    async def _results(self, request: web.Request) -> web.StreamResponse:
        return await _send_lines(request, self.batches[request.match_info["id"]].results)

    def _done(self, batch: Batch) -> int:
        if self.holds(batch):
            return 0
        share = (time.time() - batch.created_at) / self.batch_s if self.batch_s else 1.0
        return min(len(batch.items), int(share * len(batch.items)))

    def _described(self, batch: Batch) -> dict[str, Any]:
        done, total = self._done(batch), len(batch.items)
        ended = done == total
        if ended and batch.fault is None and not batch.results and not batch.errors:
            for custom_id, body in batch.items.items():
                self._work(batch, custom_id, body)
        if batch.kind == "anthropic":
            counts = {"processing": total - done, "succeeded": done, "errored": 0, "canceled": 0, "expired": 0}
            created = datetime.fromtimestamp(batch.created_at, timezone.utc).isoformat()
            state = "ended" if ended else "in_progress"
            return {"id": batch.id, "processing_status": state, "request_counts": counts, "created_at": created}
        state = "failed" if batch.fault else "completed" if ended else "in_progress" if done else "validating"
        described = {
            "id": batch.id,
            "object": "batch",
            "status": state,
            "created_at": int(batch.created_at),
            "input_file_id": batch.file,
            "metadata": {"fdarx_batch": batch.name},
            "request_counts": {"total": total, "completed": done, "failed": 0},
            "errors": {"object": "list", "data": [batch.fault]} if batch.fault else None,
        }
        if ended and batch.results:
            described["output_file_id"] = f"result-{batch.id}-results"
        if ended and batch.errors:
            described["error_file_id"] = f"result-{batch.id}-errors"
        return described

    def _work(self, batch: Batch, custom_id: str, body: dict[str, Any]) -> None:
        """Answer one request of a batch, or let it expire."""
        if self.expires(custom_id):
            self.expired[custom_id, orjson.dumps(body)] += 1
            result: dict[str, Any] = {"custom_id": custom_id, "result": {"type": "expired"}}
            if batch.kind == "openai":
                error = {"code": "batch_expired", "message": "not done before the completion window expired"}
                result = {"id": f"r-{custom_id}", "custom_id": custom_id, "response": None, "error": error}
            (batch.errors if batch.kind == "openai" else batch.results).append(orjson.dumps(result))
            return
        call = self.seen(_PATHS[batch.kind], body, {})
        fault = self.faults(call) or Fault()
        reply = orjson.loads(self.reply_body(call, fault))
        if fault.status == 200:
            self.answered[call.prompt] += 1
        if batch.kind == "openai":
            response = {"status_code": fault.status, "request_id": "q", "body": reply}
            line = orjson.dumps({"id": f"r-{custom_id}", "custom_id": custom_id, "response": response, "error": None})
            (batch.results if fault.status == 200 else batch.errors).append(line)
        elif fault.status == 200:
            result = {"type": "succeeded", "message": reply}
            batch.results.append(orjson.dumps({"custom_id": custom_id, "result": result}))
        else:
            kind = "invalid_request_error" if fault.status == 400 else "api_error"
            failed = {"type": "error", "error": {"type": kind, **reply["error"]}}
            result = {"type": "errored", "error": failed}
            batch.results.append(orjson.dumps({"custom_id": custom_id, "result": result}))


async def _send_lines(request: web.Request, lines: list[bytes]) -> web.StreamResponse:
    """Send lines in pieces that end within lines."""
    stream = web.StreamResponse(headers={"Content-Type": "application/x-jsonl"})
    await stream.prepare(request)
    data = b"\n".join(lines)
    for start in range(0, len(data), 10_001):
        await stream.write(data[start : start + 10_001])
        await asyncio.sleep(0)
    return stream


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message}}, status=status)
