"""What Prometheus is told, through Ray's metrics."""

from __future__ import annotations

from ray.serve.metrics import Counter, Gauge, Histogram

from fdarx_core.retrieval.index.manifest import number
from serving.corpora import Held
from serving.http.meter import Rejection

_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]


class RequestMeter:
    """What the HTTP side counts."""

    def __init__(self) -> None:
        self._requests = _counter("fdarx_requests", "Requests that ended.", "path", "status")
        self._seconds = Histogram("fdarx_request_seconds", "From a request to its whole reply.", _SECONDS, ("path",))
        self._phases = Histogram("fdarx_phase_seconds", "Rewrite, search, postprocess, answer.", _SECONDS, ("phase",))
        self._in_flight = Gauge("fdarx_in_flight", "Requests being worked on.")
        self._degraded = _counter("fdarx_degraded", "Answers that did without a part.", "reason")
        self._rejected = _counter("fdarx_rejected", "Requests refused before any work.", "why")

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


class IndexMeter:
    """Which version of each corpus a replica serves; versions are counted from 1."""

    def __init__(self) -> None:
        self._version = Gauge("fdarx_index_version", "Number of the index version served.", ("corpus",))
        self._chunks = Gauge("fdarx_index_chunks", "Chunks in it.", ("corpus",))
        self._reloads = _counter("fdarx_index_reloads", "Newer versions opened, or refused.", "corpus", "outcome")

    def serves(self, held: Held) -> None:
        self._version.set(number(held.index.version), tags={"corpus": held.corpus.name})
        self._chunks.set(len(held.index), tags={"corpus": held.corpus.name})

    def reloaded(self, held: Held) -> None:
        self._reloads.inc(tags={"corpus": held.corpus.name, "outcome": "refused" if held.refused else "loaded"})
        self.serves(held)


class BatchMeter:
    """How much the reranker scores at once. Counters, as Ray's histograms only estimate their sums."""

    def __init__(self) -> None:
        self._calls = _counter("fdarx_rerank_calls", "Calls of the reranker's model.")
        self._requests = _counter("fdarx_rerank_requests", "Requests that were scored in them.")
        self._pairs = _counter("fdarx_rerank_pairs", "Pairs of question and text that were scored in them.")

    def batch(self, requests: int, pairs: int) -> None:
        self._calls.inc()
        self._requests.inc(requests)
        self._pairs.inc(pairs)


def _counter(name: str, about: str, *tags: str) -> Counter:
    return Counter(name, about, tags)  # type: ignore[arg-type]  # Ray says one tag, and takes any number
