"""Metrics of the service for Prometheus, exported by Ray with the prefix `ray_`."""

from __future__ import annotations

from functools import cache
from typing import Any

from ray.serve.metrics import Counter, Gauge, Histogram

_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0]

METRICS: dict[str, tuple[type[Counter | Gauge | Histogram], str, tuple[str, ...]]] = {
    "fdarx_requests": (Counter, "Finished requests.", ("path", "status")),
    "fdarx_request_seconds": (Histogram, "Duration of requests.", ("path",)),
    "fdarx_phase_seconds": (Histogram, "Duration of phases of a request.", ("phase",)),
    "fdarx_in_flight": (Gauge, "Requests being processed.", ()),
    "fdarx_degraded": (Counter, "Answers given without a part of the service.", ("reason",)),
    "fdarx_gate_statements": (
        Counter,
        "Statements of answers, by verdict or reason to drop them; kept_uncited stay, uncited are dropped.",
        ("outcome",),
    ),
    "fdarx_rejected": (Counter, "Requests rejected before processing.", ("why",)),
    "fdarx_index_version": (Gauge, "Number of the index version in use; versions count from 1.", ("corpus",)),
    "fdarx_index_chunks": (Gauge, "Chunks in the index.", ("corpus",)),
    "fdarx_index_reloads": (Counter, "Newer versions loaded or refused.", ("corpus", "outcome")),
    # Counters instead of a histogram of batch sizes, because Ray's histograms only estimate sums.
    "fdarx_rerank_calls": (Counter, "Calls of the reranker's model.", ()),
    "fdarx_rerank_requests": (Counter, "Requests scored in these calls.", ()),
    "fdarx_rerank_pairs": (Counter, "Pairs of question and text scored in these calls.", ()),
}
"""Kind, description and labels of each metric, by name. Ray Serve adds labels for application and replica."""


def record(name: str, value: float = 1, **labels: str) -> None:
    """Record a value of a metric in this replica: add to a counter, set a gauge, or observe a duration in seconds."""
    metric = metric_of(name)
    if isinstance(metric, Counter):
        metric.inc(value, labels)
    elif isinstance(metric, Gauge):
        metric.set(value, labels)
    else:
        metric.observe(value, labels)


@cache
def metric_of(name: str) -> Counter | Gauge | Histogram:
    """Return the metric of that name, created at its first use, since Ray reads the replica's name at that moment."""
    kind, description, labels = METRICS[name]
    tag_keys: Any = labels  # which Ray declares as a tuple of one
    return Histogram(name, description, _SECONDS, tag_keys) if kind is Histogram else kind(name, description, tag_keys)
