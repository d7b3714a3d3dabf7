"""Asking on Ray: the window of the asking operator against the ideal one, and what several workers add.

    python -m benchmarks.asking_ray [--requests 7680] [--in-flight 128] [--latency 0.5] [--workers 1 2 3]

The window runs from the first request that a server of fixed latency sees to its last reply; ideal is requests x
latency / in flight. Ray's start and the flow's are given apart. `benchmarks.asking` measures the same path without Ray.

Then workers send as many requests as they can to two servers without latency, in processes of their own, of which each
is a model of its own. Workers and servers share the cores of this machine: on two cores the servers take half, so that
a second worker adds little. The ratio of two workers to one tells what is left of it.
"""

from __future__ import annotations

import json
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from functools import partial

from benchmarks import run
from benchmarks.asking import server
from fdarx_core.generation.tasks import GENERATE_FACTUAL
from fdarx_core.llm import ResponseStore
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.build_steps import baseline
from fdarx_core.pipeline.executor import Demand, Work
from fdarx_core.pipeline.ray_executor import RayExecutor
from fdarx_core.pipeline.steps import Address, AskStep, Exchange, Part, Stage
from fdarx_core.records import Request
from fdarx_core.storage import Location
from jobs.ray_session import ray_session
from tests.llm.loopback_server import LoopbackServer

A_LABEL = 16
TOLERANCE = 1.05


def label_requests(address: Address, set_id: str) -> list[Request]:
    """Return sixteen requests about a label, each different."""
    return [_request(address, f"{set_id}-{number}") for number in range(A_LABEL)]


def _request(address: Address, name: str) -> Request:
    text = f"{name}: the recommended starting dose is 40 mg once daily, taken with food. " * 12
    slots = {
        "drug": name,
        "ingredients": "",
        "forms": "",
        "outline": "",
        "passages": [{"section": "", "table": "", "text": text}],
        "about": "",
        "absent": [],
        "twin": "near_miss",
        "k": 3,
        "prefer": "",
        "written": [],
    }
    return address.request(GENERATE_FACTUAL, slots)


def check_all_answered(set_id: str, exchanges: Sequence[Exchange]) -> None:
    """Fail where a response is missing."""
    assert len(exchanges) == A_LABEL


def requests_of_all(addresses: Sequence[Address], set_id: str) -> list[Request]:
    """Return sixteen requests about a label, which go to the models in turn."""
    return [_request(addresses[number % len(addresses)], f"{set_id}-{number}") for number in range(A_LABEL)]


def several(requests: int, counts: Sequence[int]) -> None:
    """Print the requests a second with each number of workers, and the ratio to the first."""
    with ray_session(2):
        rates = {count: rate(requests, count) for count in counts}
    first = rates[counts[0]]
    for count, one in rates.items():
        print(f"{count} asking workers: {one:,.0f} requests/s, ratio to {counts[0]}: {one / first:.2f}")


def rate(requests: int, workers: int) -> float:
    """Return the requests a second that workers send to two servers without latency."""
    labels = [f"{i:06d}" for i in range(requests // A_LABEL)]
    parts = [Part(start, labels[start : start + 8]) for start in range(0, len(labels), 8)]
    with tempfile.TemporaryDirectory() as folder, server(0.0) as one, server(0.0) as other:
        limits = {"model": "m", "max_in_flight": 128}
        models = [ModelConfig(name=f"m{n}", base_url=f"{url}/v1", **limits) for n, url in enumerate((one, other))]
        addresses = [Address(model.name, model.request_parameters) for model in models]
        step = AskStep("ask", frozenset(("m0", "m1")), partial(requests_of_all, addresses), check_all_answered)
        stage = Stage("benchmark", lambda part: part.inputs, [step], lambda number, states: None, window=48)
        clients = ClientPool(baseline(), {model.name: model for model in models})
        work = Work([(stage, parts)], clients, ResponseStore(Location(folder) / "responses"))
        assert not any(result.ended for result in RayExecutor(Demand(asking_workers=workers)).run(work))
        seen = [json.loads(urllib.request.urlopen(f"{url}/seen").read()) for url in (one, other)]
    assert sum(one["answered"] for one in seen) == len(labels) * A_LABEL
    return requests / max(float(one["window_s"]) for one in seen)


def main(
    *, requests: int = 7680, in_flight: int = 128, latency: float = 0.5, workers: Sequence[int] = (1, 2, 3)
) -> int:
    """Print the ratios; exit 1 when the window is more than 1.05 times the ideal or an answer is missing."""
    missed = window(requests, in_flight, latency)
    several(requests, workers)
    return int(missed)


def window(requests: int, in_flight: int, latency: float) -> bool:
    """Print the ratio of window and ideal; return whether it is too high or an answer is missing."""
    labels = [f"{i:06d}" for i in range(requests // A_LABEL)]
    parts = [Part(start, labels[start : start + 8]) for start in range(0, len(labels), 8)]
    with (
        tempfile.TemporaryDirectory() as folder,
        LoopbackServer(lambda body: '{"items": []}', latency, keep_calls=False) as loopback,
    ):
        model = ModelConfig(name="loopback", model="m", base_url=loopback.openai_url, max_in_flight=in_flight)
        address = Address(model.name, model.request_parameters)
        step = AskStep("ask", frozenset((model.name,)), partial(label_requests, address), check_all_answered)
        stage = Stage("benchmark", lambda part: part.inputs, [step], lambda number, states: A_LABEL * len(states))
        store = ResponseStore(Location(folder) / "responses")
        work = Work([(stage, parts)], ClientPool(baseline(), {model.name: model}), store)
        start = time.monotonic()
        with ray_session(2):
            ready = time.monotonic()
            answered = sum(result.account for result in RayExecutor().run(work))
            ended = time.monotonic()
        took = loopback.last_at - loopback.first_at
    ideal = len(labels) * A_LABEL * latency / in_flight
    print(
        f"{answered} of {len(labels) * A_LABEL} answered; Ray {ready - start:.1f} s, whole flow {ended - ready:.1f} s"
    )
    print(f"window {took:.2f} s, ideal {ideal:.2f} s, most in flight {loopback.most_in_flight}")
    print(f"ratio window / ideal: {took / ideal:.3f}")
    return bool(took > TOLERANCE * ideal or answered != len(labels) * A_LABEL)


if __name__ == "__main__":
    run(main)
