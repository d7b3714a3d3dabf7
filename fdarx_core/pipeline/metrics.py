"""Metrics of a run for Prometheus, through Ray: what is asked, and what comes of it.

Counters count what this start of a run does; what an earlier start asked or wrote is not included. They are for
monitoring: the totals of a run are in its `run.json`. A process hands its counts to Ray every ten seconds and at its
end, so those of the last seconds of a killed process are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from ray.util.metrics import Counter, Gauge

from fdarx_core.llm import Counters


def ask_metrics(run: str) -> Callable[[Mapping[str, Counters]], None]:
    """Return a function that reports how far the counters of each model have come since it was called last.

    It belongs to the process that asks. `run` is the name of the run.
    """
    reported: dict[str, Counters] = {}

    def report(counters: Mapping[str, Counters]) -> None:
        for model, now in counters.items():
            before = reported.get(model, Counters())
            reported[model] = replace(now)
            tags = {"run": run, "model": model}
            add("fdarx_run_requests", now.done - before.done, tags)
            add("fdarx_run_failed", now.failed - before.failed, tags)
            add("fdarx_run_retries", now.retries - before.retries, tags)
            add("fdarx_run_cost_usd", now.cost - before.cost, tags)
            known = _tokens(before)
            for kind, tokens in _tokens(now).items():
                add("fdarx_run_tokens", tokens - known[kind], {**tags, "kind": kind})
            waiting = now.asked - now.done - now.abandoned - now.in_flight
            for name, value in (("fdarx_run_in_flight", now.in_flight), ("fdarx_run_waiting", waiting)):
                _gauge(name).set(value, tags=_ascii(tags))

    return report


COUNTERS = {
    "fdarx_run_requests": ("Requests to models that ended, failed ones included.", ("run", "model")),
    "fdarx_run_failed": ("Of those, requests that gave no answer.", ("run", "model")),
    "fdarx_run_retries": ("Attempts after one that failed or that the server asked to repeat later.", ("run", "model")),
    "fdarx_run_tokens": ("Tokens as the server counted them, by kind; the kinds add up.", ("run", "model", "kind")),
    "fdarx_run_cost_usd": ("US dollars by the models' prices.", ("run", "model")),
    "fdarx_run_labels": ("Labels built, or answered by a model, and written.", ("run", "model")),
    "fdarx_run_rejects": ("Rows that a build rejected.", ("run", "stage")),
    "fdarx_run_grades": ("Answers graded, by outcome; unscored is no verdict.", ("run", "cell", "outcome")),
}
"""The description and the tags of each counter. Prometheus shows it as ray_NAME_total."""
GAUGES = {
    "fdarx_run_in_flight": "Requests at the server.",
    "fdarx_run_waiting": "Requests that wait for a slot, a limit or their next try.",
}
"""Gauges by run and model. Prometheus shows each as ray_NAME."""


def _tokens(counters: Counters) -> dict[str, int]:
    return {
        "prompt_computed": counters.prompt_tokens - counters.cached_tokens,
        "prompt_cached": counters.cached_tokens,
        "completion": counters.completion_tokens,
    }


def add(name: str, by: float, tags: Mapping[str, str]) -> None:
    """Add to a counter of COUNTERS."""
    if by > 0:
        _counter(name).inc(by, tags=_ascii(tags))


def _ascii(tags: Mapping[str, str]) -> dict[str, str]:
    """Return tags in ASCII. Ray accepts no other characters, but the name of a run may contain them."""
    return {tag: value.encode("ascii", "backslashreplace").decode() for tag, value in tags.items()}


@cache
def _counter(name: str) -> Counter:
    return Counter(name, *COUNTERS[name])


@cache
def _gauge(name: str) -> Gauge:
    return Gauge(name, GAUGES[name], ("run", "model"))
