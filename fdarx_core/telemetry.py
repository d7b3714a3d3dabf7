"""Traces by OpenTelemetry, sent over OTLP/HTTP where OTEL_EXPORTER_OTLP_ENDPOINT or …_TRACES_ENDPOINT is set.

Where neither is set, spans are those of OpenTelemetry's API, which record nothing. Spans have no content of
prompts, replies, questions or messages of errors. The other variables of OpenTelemetry's SDK hold as well, such as
OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and OTEL_EXPORTER_OTLP_HEADERS.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Literal, TypeAlias

from opentelemetry import context, trace
from opentelemetry.trace import Span as Span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
PARENT_VARIABLE = "TRACEPARENT"
"""The environment variable with the span, in the form of W3C's header, below which a process has its first spans."""

Kind: TypeAlias = Literal["internal", "client", "server"]
Attributes: TypeAlias = Mapping[str, "str | int | float | bool | Sequence[str]"]

_LOG = logging.getLogger(__name__)
_FLUSH_S = 3.0
"""Seconds that a process waits for the collector when it sends the last spans."""
_SECRET_ENDINGS = ("HEADERS", "CLIENT_KEY", "CLIENT_CERTIFICATE")


def is_enabled() -> bool:
    """Return whether spans are sent."""
    traces, general = ENDPOINT_VARIABLES
    return bool(os.environ.get(traces) or os.environ.get(general)) and _provider() is not None


def start_span(name: str, attributes: Attributes | None = None, *, kind: Kind = "internal", parent: str = "") -> Span:
    """Return a span, with the arguments of `span`; the caller ends it. No other span will be below it."""
    above = parent
    if not above and not trace.get_current_span().get_span_context().is_valid:
        above = os.environ.get(PARENT_VARIABLE, "")
    tracer = _provider().get_tracer("fdarx") if is_enabled() else trace.NoOpTracer()
    kinds = trace.SpanKind[kind.upper()]
    return tracer.start_span(name, _context_of(above) if above else None, kinds, attributes, record_exception=False)


def fail(failed: Span, error_type: str) -> None:
    """Note that what the span is of has failed. `error_type` is a name to count by, not a message."""
    failed.set_attribute("error.type", error_type)
    failed.set_status(trace.StatusCode.ERROR)


@contextmanager
def span(
    name: str, attributes: Attributes | None = None, *, kind: Kind = "internal", parent: str = ""
) -> Iterator[Span]:
    """Have a span for the block. It is the current one, below which other spans of the task or thread are.

    Args:
        name: its name, of which there are few different ones.
        attributes: they have names of the semantic conventions of OpenTelemetry, or begin with `fdarx.`.
        kind: its kind.
        parent: the span above it, as `trace_parent` returns it; "" for the current one, or that of TRACEPARENT.
    """
    started = start_span(name, attributes, kind=kind, parent=parent)
    try:
        with trace.use_span(started, record_exception=False, set_status_on_exception=False):
            yield started
    except BaseException as error:
        fail(started, type(error).__name__)
        raise
    finally:
        started.end()


def trace_parent() -> str:
    """Return the current span in the form of W3C's header, for another process; "" where there is none."""
    carrier: dict[str, str] = {}
    if is_enabled():
        TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent", "")


@contextmanager
def child_spans_of(parent: str) -> Iterator[None]:
    """Have the spans of the block below the span of another process, as `trace_parent` returned it there."""
    if not (parent and is_enabled()):
        yield
        return
    token = context.attach(_context_of(parent))
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def process_span(name: str, attributes: Attributes | None = None) -> Iterator[Span]:
    """Have a span for the block that is above all spans of this process's other threads, and of workers that it starts.

    All spans of this process are sent when the block ends.
    """
    with span(name, attributes) as started:
        before, parent = os.environ.get(PARENT_VARIABLE), trace_parent()
        if parent:
            os.environ[PARENT_VARIABLE] = parent
        try:
            yield started
        finally:
            if before is not None:
                os.environ[PARENT_VARIABLE] = before
            elif parent:
                del os.environ[PARENT_VARIABLE]
    flush()


def worker_variables() -> dict[str, str]:
    """Return the environment variables with which workers on other machines send spans too.

    Those that may hold keys are left out: a worker reads them from its own environment.
    """
    if not is_enabled():
        return {}
    names = (name for name in os.environ if name.startswith("OTEL_") and not name.endswith(_SECRET_ENDINGS))
    return {name: os.environ[name] for name in (*names, PARENT_VARIABLE) if name in os.environ}


def flush() -> None:
    """Send the spans that have ended. Waits some seconds; a collector that takes longer is not waited for again."""
    if not is_enabled() or _UNRESPONSIVE.is_set():
        return
    sending = threading.Thread(target=_provider().force_flush, daemon=True)
    sending.start()
    sending.join(_FLUSH_S)
    if sending.is_alive():
        _UNRESPONSIVE.set()


_UNRESPONSIVE = threading.Event()


def _context_of(parent: str) -> Any:
    return TraceContextTextMapPropagator().extract({"traceparent": parent})


@cache
def _provider() -> Any:
    """Return what makes and sends spans: the program's own, if it has set one up, else one for this process.

    None where the libraries are missing.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        _LOG.warning("no spans are sent: %s; install what is missing with: pip install 'fdarx[telemetry]'", error)
        return None
    present = trace.get_tracer_provider()
    if isinstance(present, TracerProvider):
        return present
    logging.getLogger("opentelemetry").setLevel(logging.ERROR)  # it warns of each attempt that fails
    resource = Resource.create()
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "fdarx"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    # in this thread: at its exit, a process starts no others
    atexit.register(lambda: _UNRESPONSIVE.is_set() or provider.force_flush())
    return provider
