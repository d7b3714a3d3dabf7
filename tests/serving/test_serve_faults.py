"""New versions of an index and killed replicas while questions come in; a model that goes and comes back."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from tests.llm.loopback_server import LoopbackServer
from tests.serving.editions import QUESTION, publish
from tests.serving.service_process import Service, post, running

pytestmark = pytest.mark.service
_CLIENTS = 8


@dataclass
class Load:
    """What many clients were told, in the order in which it came."""

    replies: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    @property
    def statuses(self) -> Counter[int]:
        return Counter(status for status, _ in self.replies)

    def versions(self) -> list[str]:
        return [reply["index"]["version"] for status, reply in self.replies if status == 200]


class ModelServer:
    """One that can go, and come back at the same address."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self.start("As the leaflet says [1].")

    def start(self, answer: str, port: int = 0) -> None:
        self.server = LoopbackServer(answer=lambda body: answer, latency=0.05, port=port)
        self._stack.enter_context(self.server)

    def stop(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    server = ModelServer()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    publish(folder, 1)
    return folder


@pytest.fixture(scope="module")
def service(index: Path, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("service")
    models = folder / "models.yaml"
    models.write_text(yaml.safe_dump([{"name": "loopback", "model": "m", "base_url": model.server.openai_url}]))
    options = (
        "--index",
        f"leaflets={index}",
        "--models",
        str(models),
        "--answerer",
        "loopback",
        "--strategy",
        "question",
    )
    with running(folder, *options, "--replicas", "2", "--poll-s", "0.3") as started:
        yield started


def under_load(service: Service, happening: Callable[[Load], Awaitable[None]]) -> Load:
    """What clients that ask all the time are told until what happens has happened, and a little after."""
    load = Load()

    async def ask(session: aiohttp.ClientSession, over: asyncio.Event) -> None:
        while not over.is_set():
            load.replies.append(await post(session, "/v1/answers", {"question": QUESTION}))

    async def run() -> None:
        over = asyncio.Event()
        async with aiohttp.ClientSession(service.url) as session:
            clients = [asyncio.create_task(ask(session, over)) for _ in range(_CLIENTS)]
            await answered(load, _CLIENTS)
            await happening(load)
            await answered(load, 10 * _CLIENTS)
            over.set()
            await asyncio.gather(*clients)

    asyncio.run(run())
    return load


async def answered(load: Load, more: int) -> None:
    """Returns when so many more have been answered."""
    enough = load.statuses[200] + more
    await until(lambda: load.statuses[200] >= enough)


async def until(true: Callable[[], bool]) -> None:
    """Returns once it is true; pytest's timeout ends a test in which it never is."""
    while not true():
        await asyncio.sleep(0.05)


def edition(reply: dict[str, Any]) -> set[str]:
    """The editions of the passages."""
    return {found for passage in reply["passages"] for found in re.findall(r"edition (\d+)", passage["text"])}


def test_new_versions_land_under_load(service: Service, index: Path) -> None:
    """Every answer rests on the passages of the version that it names, and none is lost."""
    number = {}

    async def land(load: Load) -> None:
        for edition in (2, 3, 4):
            version = publish(index, edition)
            number[version] = str(edition)
            await until(lambda: version in load.versions()[-_CLIENTS:])  # noqa: B023

    load = under_load(service, land)
    assert set(load.statuses) == {200}
    assert set(load.versions()) >= set(number)
    for _, reply in load.replies:
        assert edition(reply) == {number.get(reply["index"]["version"], "1")}
        assert len(reply["passages"]) == 6


@pytest.mark.nightly
def test_damaged_version_is_refused(service: Service, index: Path) -> None:
    """The old one goes on to be served; a sound one after it is taken up."""
    before = publish(index, 10)

    async def land(load: Load) -> None:
        await until(lambda: load.versions()[-1] == before)
        damaged = publish(index, 11, damaged=True)
        await asyncio.sleep(2)
        assert damaged not in load.versions()
        sound = publish(index, 12)
        await until(lambda: load.versions()[-1] == sound)

    load = under_load(service, land)
    assert set(load.statuses) == {200}


@pytest.mark.parametrize("deployment", ["Retriever", pytest.param("Ingress", marks=pytest.mark.nightly)])
def test_killed_replica(service: Service, deployment: str) -> None:
    """Those in flight on it are asked again elsewhere, or get a clean 503; a new replica takes its place."""
    asyncio.run(until(lambda: len(service.replicas(deployment)) == 2))
    [victim, other] = service.replicas(deployment)

    async def kill(load: Load) -> None:
        os.kill(victim, signal.SIGKILL)
        await until(lambda: len({*service.replicas(deployment)} - {victim}) == 2)

    load = under_load(service, kill)
    failed = [(status, reply) for status, reply in load.replies if status != 200]
    assert {status for status, _ in failed} <= {503}, failed
    assert len(failed) <= _CLIENTS
    assert not any(reply["degraded"] for status, reply in load.replies if status == 200)
    assert other in service.replicas(deployment)


def test_deadline_cancels_what_the_model_does(service: Service, model: ModelServer) -> None:
    """504, and the model's server sees its client go."""
    server = model.server
    server.latency, abandoned, asked = 600.0, server.abandoned, server.number

    async def ask() -> None:
        """Once more where the deadline passes before the model is asked, as it may on a loaded machine."""
        async with aiohttp.ClientSession(service.url) as session:
            while server.number == asked:
                body, deadline = {"question": QUESTION}, {"X-Deadline-Ms": "500"}
                status, reply = await post(session, "/v1/answers", body, **deadline)
                assert (status, reply["error"]["type"]) == (504, "timeout_error")
        await until(lambda: server.abandoned - abandoned == server.number - asked)

    async def leave() -> None:
        async with aiohttp.ClientSession(service.url) as session:
            before = server.number
            client = asyncio.create_task(post(session, "/v1/answers", {"question": QUESTION}))
            await until(lambda: server.number > before)
            client.cancel()
        await until(lambda: server.abandoned - abandoned == server.number - asked)

    asyncio.run(ask())
    asyncio.run(leave())
    server.latency = 0.05


def test_model_goes_and_comes_back(service: Service, model: ModelServer) -> None:
    """While it is gone the passages come, marked degraded; once it is back it is asked again."""

    async def ask() -> tuple[int, dict[str, Any]]:
        async with aiohttp.ClientSession(service.url) as session:
            return await post(session, "/v1/answers", {"question": QUESTION})

    model.stop()
    for _ in range(6):
        status, reply = asyncio.run(ask())
        assert status == 200
        assert reply["degraded"]
        assert len(reply["passages"]) == 6
        assert not reply["answer"]
    model.start("It is the dose of velocimab [2].", model.server.port)
    while (reply := asyncio.run(ask())[1])["degraded"]:
        time.sleep(0.3)
    assert reply["answer"] == "It is the dose of velocimab [2]."
    assert {one["n"] for one in reply["citations"]} == {2}
