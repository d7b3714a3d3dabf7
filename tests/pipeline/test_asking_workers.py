"""Several actors that ask on Ray: each has a share of the limits, and the results are those of one actor."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from fdarx_core.llm import ModelConfig, ResponseStore
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.build_steps import baseline
from fdarx_core.pipeline.executor import Demand, PartResult, Work
from fdarx_core.pipeline.ray_executor import RayExecutor, workers_needed
from fdarx_core.pipeline.steps import Address, Part, Stage
from fdarx_core.records import content_id
from fdarx_core.storage import Location
from jobs.ray_session import ray_session
from tests.llm.loopback_server import LoopbackServer, text_of
from tests.pipeline.label_replies import ask_of, read, replies_of
from tests.pipeline.scripted import process_of

WORKERS, LABELS, IN_FLIGHT = 3, 32, 24
LOST_WITH_A_PROCESS = 2 * IN_FLIGHT
"""Requests in flight, and what was answered in the moments before a segment of responses was written."""


@pytest.fixture(scope="module")
def ray_here(own_ray_environment: None) -> Iterator[None]:
    with ray_session(2):
        yield


def answer(body: Mapping[str, Any]) -> str:
    """Return to every prompt another reply, so that a mix-up shows."""
    return orjson.dumps({"items": [], "id": content_id(text_of(body["messages"][-1]))}).decode()


def ask(folder: Path, server: LoopbackServer, workers: int, **limits: Any) -> list[PartResult]:
    """Ask about labels in parts of two."""
    names = [f"{number:03d}" for number in range(LABELS)]
    budget = {name: limits.pop(name) for name in ("max_requests",) if name in limits}
    model = ModelConfig(name="m", model="m", base_url=server.openai_url, max_in_flight=IN_FLIGHT, **limits)
    step = Address("m", model.request_parameters).step("ask", partial(ask_of, Address("m", model.request_parameters)))
    stage = Stage("answers", read, [step], replies_of, window=12)
    parts = [Part(start // 2, names[start : start + 2]) for start in range(0, LABELS, 2)]
    clients = replace(ClientPool(baseline(), {"m": model}), **budget)
    work = Work([(stage, parts)], clients, ResponseStore(Location(folder) / "responses"))
    return sorted(RayExecutor(Demand(asking_workers=workers)).run(work), key=lambda one: one.part or 0)


@pytest.mark.parametrize(("models", "cpus", "expected"), [((64, 64), 64, 1), ((512,) * 9, 64, 3), ((9999,), 4, 2)])
def test_workers_follow_from_the_limits_of_models(models: tuple[int, ...], cpus: int, expected: int) -> None:
    configured = [ModelConfig(name="m", model="m", base_url="http://h", max_in_flight=one) for one in models]
    assert workers_needed(configured, cpus) == expected
    slow = [one.model_copy(update={"requests_per_minute": 600.0}) for one in configured]
    assert workers_needed(slow, cpus) == 1


@pytest.mark.slow
def test_workers_keep_the_limits_and_send_each_request_once(ray_here: None, tmp_path: Path) -> None:
    with LoopbackServer(answer=answer, latency=0.1) as server:
        alone = ask(tmp_path / "one", server, 1)
    with LoopbackServer(answer=answer, latency=0.1) as server:
        together = ask(tmp_path / "three", server, WORKERS, requests_per_minute=3600)
    assert together == alone
    assert (server.number, max(server.by_prompt.values())) == (LABELS * 16, 1)
    assert server.most_in_flight <= IN_FLIGHT
    assert (server.number - WORKERS) / (server.calls[-1].at - server.calls[0].at) <= 60 * 1.02
    assert len({call.port for call in server.calls}) > 1


@pytest.mark.slow
def test_a_killed_worker_is_replaced_and_little_is_asked_twice(ray_here: None, tmp_path: Path) -> None:
    with LoopbackServer(answer=answer, latency=0.1) as server:
        alone = ask(tmp_path / "one", server, 1)
    with LoopbackServer(answer=answer, latency=0.1) as server:
        killing = threading.Thread(target=kill_a_worker, args=(server, 200), daemon=True)
        killing.start()
        together = ask(tmp_path / "three", server, WORKERS, requests_per_minute=3600)
        killing.join(1)
    assert not killing.is_alive(), "no worker was killed"
    assert together == alone
    assert sum(server.answered.values()) - len(server.answered) <= LOST_WITH_A_PROCESS
    assert server.most_in_flight <= IN_FLIGHT
    assert len(ResponseStore(Location(tmp_path / "three") / "responses").index()) == LABELS * 16


@pytest.mark.slow
def test_a_run_with_a_budget_sends_all_of_it_and_no_more(ray_here: None, tmp_path: Path) -> None:
    with LoopbackServer(answer=answer, latency=0.02) as server:
        results = ask(tmp_path / "run", server, WORKERS, max_requests=250)
    assert server.number == 250
    assert any("250 requests were sent" in result.ended for result in results)


def kill_a_worker(server: LoopbackServer, after: int) -> None:
    """Kill one of the processes that ask once the server has seen so many requests."""
    while server.number < after:
        time.sleep(0.01)
    os.kill(process_of(os.getpid(), "ray::MapWorker"), signal.SIGKILL)
