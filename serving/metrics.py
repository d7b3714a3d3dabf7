"""Metrics of the service for Prometheus, exported by Ray with the prefix `ray_`."""

from __future__ import annotations

from ray.serve.metrics import Counter, Gauge, Histogram

from fdarx_core.retrieval.index.manifest import version_number
from serving.http.backend import Rejection, ServedCorpus

_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]


class RayRequestMetrics:
    """Requests of the HTTP service."""

    def __init__(self) -> None:
        self._requests = _counter("fdarx_requests", "Finished requests.", "path", "status")
        self._seconds = Histogram("fdarx_request_seconds", "Duration of requests.", _SECONDS, ("path",))
        self._phases = Histogram("fdarx_phase_seconds", "Duration of phases of a request.", _SECONDS, ("phase",))
        self._in_flight = Gauge("fdarx_in_flight", "Requests being processed.")
        self._degraded = _counter("fdarx_degraded", "Answers given without a part of the service.", "reason")
        self._rejected = _counter("fdarx_rejected", "Requests rejected before processing.", "why")

    def request(self, route: str, status: int, seconds: float) -> None:
        self._requests.inc(tags={"path": route, "status": str(status)})
        self._seconds.observe(seconds, tags={"path": route})

    def phase(self, phase: str, seconds: float) -> None:
        self._phases.observe(seconds, tags={"phase": phase})

    def in_flight(self, requests: int) -> None:
        self._in_flight.set(requests)

    def degraded(self, reason: str) -> None:
        self._degraded.inc(tags={"reason": reason})

    def rejected(self, why: Rejection) -> None:
        self._rejected.inc(tags={"why": why})


class IndexMetrics:
    """The version of each corpus that a replica serves; versions count from 1."""

    def __init__(self) -> None:
        self._version = Gauge("fdarx_index_version", "Number of the index version in use.", ("corpus",))
        self._chunks = Gauge("fdarx_index_chunks", "Chunks in the index.", ("corpus",))
        self._reloads = _counter("fdarx_index_reloads", "Newer versions loaded or refused.", "corpus", "outcome")

    def serves(self, corpus: ServedCorpus) -> None:
        self._version.set(version_number(corpus.version), tags={"corpus": corpus.name})
        self._chunks.set(corpus.chunks, tags={"corpus": corpus.name})

    def reloaded(self, corpus: ServedCorpus, *, refused: bool) -> None:
        self._reloads.inc(tags={"corpus": corpus.name, "outcome": "refused" if refused else "loaded"})
        self.serves(corpus)


class RerankMetrics:
    """Batch sizes of the reranker. They are counters because Ray's histograms only estimate sums."""

    def __init__(self) -> None:
        self._calls = _counter("fdarx_rerank_calls", "Calls of the reranker's model.")
        self._requests = _counter("fdarx_rerank_requests", "Requests scored in these calls.")
        self._pairs = _counter("fdarx_rerank_pairs", "Pairs of question and text scored in these calls.")

    def batch(self, requests: int, pairs: int) -> None:
        self._calls.inc()
        self._requests.inc(requests)
        self._pairs.inc(pairs)


def _counter(name: str, description: str, *tags: str) -> Counter:
    return Counter(name, description, tags)  # type: ignore[arg-type]  # declared as one string, but takes a tuple
