"""A collector on this machine that keeps the spans it is sent over OTLP/HTTP."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from fdarx_core import telemetry
from tests.in_thread import InThread, listening


@dataclass(frozen=True)
class ReceivedSpan:
    """A span with its attributes, and those of the process that sent it."""

    name: str
    kind: str
    trace_id: str
    id: str
    parent: str
    failed: bool
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any] = field(repr=False, default_factory=dict)
    raw: str = field(repr=False, default="")


class OtlpReceiver(InThread):
    """Give `url` as OTEL_EXPORTER_OTLP_ENDPOINT."""

    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []
        self.url = ""
        super().__init__()

    async def start(self) -> web.AppRunner:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_post("/v1/traces", self._receive)
        runner = await listening(app)
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return runner

    def named(self, name: str) -> list[ReceivedSpan]:
        return [one for one in self.spans if one.name == name]

    def await_one(self, name: str, within_s: float = 20.0) -> ReceivedSpan:
        """The only span of a name, once this process, or another one by itself, has sent it."""
        until = time.monotonic() + within_s
        while not self.named(name) and time.monotonic() < until:
            telemetry.flush()
            time.sleep(0.02)
        [one] = self.named(name)
        return one

    def above(self, one: ReceivedSpan) -> list[str]:
        """The names of the spans above a span, from its parent to the root."""
        by_id = {span.id: span for span in self.spans}
        names = []
        while (parent := by_id.get(one.parent)) is not None:
            names.append(parent.name)
            one = parent
        return names

    async def _receive(self, request: web.Request) -> web.Response:
        assert request.content_type == "application/x-protobuf"
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for group in sent.resource_spans:
            resource = _attributes(group.resource.attributes)
            for scope in group.scope_spans:
                self.spans += [_span(one, resource) for one in scope.spans]
        return web.Response(content_type="application/x-protobuf")


def _span(one: Any, resource: Mapping[str, Any]) -> ReceivedSpan:
    assert one.end_time_unix_nano >= one.start_time_unix_nano > 0
    kind = type(one).SpanKind.Name(one.kind).removeprefix("SPAN_KIND_").lower()
    ids = one.trace_id.hex(), one.span_id.hex(), one.parent_span_id.hex()
    failed = one.status.code == 2
    return ReceivedSpan(one.name, kind, *ids, failed, _attributes(one.attributes), resource, str(one))


def _attributes(pairs: Sequence[Any]) -> dict[str, Any]:
    return {pair.key: _value(pair.value) for pair in pairs}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return [_value(one) for one in value.array_value.values] if kind == "array_value" else getattr(value, kind)
