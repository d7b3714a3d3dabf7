"""Asking through Ray Data: the window of the asking operator against the ideal one, on a server of fixed latency.

    python -m benchmarks.asking_ray [--requests 7680] [--in-flight 128] [--latency 0.5]

The window runs from the first request that the server sees to its last reply; ideal is requests x latency / in flight.
Ray's start and the flow's are given apart. `benchmarks.asking` measures the same path without Ray.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from functools import partial

from benchmarks import run
from fdarx_core.generation.tasks import GENERATE_FACTUAL
from fdarx_core.llm import ResponseStore
from fdarx_core.llm.model_config import ModelConfig
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.build_steps import baseline
from fdarx_core.pipeline.executor import Work
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
        "passages": [{"section": "", "text": text}],
        "about": "",
        "absent": [],
        "k": 3,
        "difficulty": "direct",
        "written": [],
    }
    return address.request(GENERATE_FACTUAL, slots)


def check_all_answered(set_id: str, exchanges: Sequence[Exchange]) -> None:
    """Fail where a response is missing."""
    assert len(exchanges) == A_LABEL


def main(*, requests: int = 7680, in_flight: int = 128, latency: float = 0.5) -> int:
    """Print the ratio; exit 1 when the window is more than 1.05 times the ideal or an answer is missing."""
    labels = [f"{i:06d}" for i in range(requests // A_LABEL)]
    parts = [Part(start, labels[start : start + 8]) for start in range(0, len(labels), 8)]
    with (
        tempfile.TemporaryDirectory() as folder,
        LoopbackServer(lambda body: '{"items": []}', latency, keep_calls=False) as server,
    ):
        model = ModelConfig(name="loopback", model="m", base_url=server.openai_url, max_in_flight=in_flight)
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
        window = server.last_at - server.first_at
    ideal = len(labels) * A_LABEL * latency / in_flight
    print(
        f"{answered} of {len(labels) * A_LABEL} answered; Ray {ready - start:.1f} s, whole flow {ended - ready:.1f} s"
    )
    print(f"window {window:.2f} s, ideal {ideal:.2f} s, most in flight {server.most_in_flight}")
    print(f"ratio window / ideal: {window / ideal:.3f}")
    return int(window > TOLERANCE * ideal or answered != len(labels) * A_LABEL)


if __name__ == "__main__":
    run(main)
