"""What Prometheus is told of a run while it goes on, through Ray's metrics: what is asked, and what comes of it.

Counters count what this start of a run does: what an earlier one asked or wrote is not among it. They are for watching;
what a run took and lost in all stands in its `run.json`. A process hands its counts to Ray every ten seconds and at its
end; one that is killed takes those of its last seconds with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

from ray.util.metrics import Counter, Gauge

from fdarx_core.llm import Counters
from fdarx_core.pipeline.sweep.sitting import Sitting
from fdarx_core.records import StageCount


class AskingMeter:
    """What is asked of each model. Belongs to the process that asks."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._told: dict[str, Counters] = {}

    def __call__(self, counters: Mapping[str, Counters]) -> None:
        """Tell how far the counters have come since the last call."""
        for model, now in counters.items():
            before = self._told.get(model, Counters())
            self._told[model] = replace(now)
            tags = {"run": self._run, "model": model}
            _add("fdarx_run_requests", now.done - before.done, tags)
            _add("fdarx_run_failed", now.failed - before.failed, tags)
            _add("fdarx_run_retries", now.retries - before.retries, tags)
            _add("fdarx_run_cost_usd", now.cost - before.cost, tags)
            known = _tokens(before)
            for kind, tokens in _tokens(now).items():
                _add("fdarx_run_tokens", tokens - known[kind], {**tags, "kind": kind})
            _set("fdarx_run_in_flight", now.in_flight, tags)
            _set("fdarx_run_waiting", now.asked - now.done - now.abandoned - now.in_flight, tags)


def tell_stages(run: str, counts: Sequence[StageCount]) -> None:
    """A part of a build is written, with these accounts."""
    for count in counts:
        if count.stage == "passages":
            _add("fdarx_run_labels", count.rows_in, {"run": run, "model": ""})
        _add("fdarx_run_rejects", count.rejected, {"run": run, "stage": count.stage})


def tell_sittings(run: str, model: str, sittings: Sequence[Sitting]) -> None:
    """A model's sittings of a part of an evaluation are written."""
    _add("fdarx_run_labels", len(sittings), {"run": run, "model": model})
    for sitting in sittings:
        cells = {row.id: "/".join(filter(None, (row.model, row.setting, row.retriever))) for row in sitting.predictions}
        for grade in sitting.grades:
            _add("fdarx_run_grades", 1, {"run": run, "cell": cells[grade.prediction_id], "outcome": grade.outcome})


COUNTERS = {
    "fdarx_run_requests": ("Requests to models that ended, failed ones included.", ("run", "model")),
    "fdarx_run_failed": ("Of those, requests that gave no answer.", ("run", "model")),
    "fdarx_run_retries": ("Tries after one that failed or was told to wait.", ("run", "model")),
    "fdarx_run_tokens": ("Tokens as the server counted them, by kind; the kinds add up.", ("run", "model", "kind")),
    "fdarx_run_cost_usd": ("US dollars by the models' prices.", ("run", "model")),
    "fdarx_run_labels": ("Labels built, or sat by a model, and written.", ("run", "model")),
    "fdarx_run_rejects": ("Rows that a build rejected.", ("run", "stage")),
    "fdarx_run_grades": ("Answers graded, by outcome; unscored is no verdict.", ("run", "cell", "outcome")),
}
"""What each counts, and its tags. Prometheus sees ray_NAME_total."""
GAUGES = {
    "fdarx_run_in_flight": "Requests at the server.",
    "fdarx_run_waiting": "Requests that wait for a slot, a limit or their next try.",
}
"""By run and model. Prometheus sees ray_NAME."""


def _tokens(counters: Counters) -> dict[str, int]:
    """By kind."""
    return {
        "prompt_computed": counters.prompt_tokens - counters.cached_tokens,
        "prompt_cached": counters.cached_tokens,
        "completion": counters.completion_tokens,
    }


def _add(name: str, by: float, tags: dict[str, str]) -> None:
    if by > 0:
        _counter(name).inc(by, tags=_ascii(tags))


def _set(name: str, to: float, tags: dict[str, str]) -> None:
    _gauge(name).set(to, tags=_ascii(tags))


def _ascii(tags: dict[str, str]) -> dict[str, str]:
    """Ray raises an error for any other character, and a run may be named in any language."""
    return {tag: value.encode("ascii", "backslashreplace").decode() for tag, value in tags.items()}


@cache
def _counter(name: str) -> Counter:
    return Counter(name, *COUNTERS[name])


@cache
def _gauge(name: str) -> Gauge:
    return Gauge(name, GAUGES[name], ("run", "model"))
