"""Each part of the service killed under load: what is left is answered, the rest refused at once, and nobody waits."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import aiohttp
import orjson
import pytest
import yaml

from tests.llm.loopback_server import LoopbackServer
from tests.serving.editions import QUESTION, publish
from tests.serving.service_process import Service, running

pytestmark = pytest.mark.service
_CLIENTS = 16
_DEADLINE_S = 60
"""More than a replica takes to start: without a watch, calls would wait for the new one, and be answered by it. A call
that waited for so long would have the status 504."""
_BROKEN = 0
"""The status of a request whose connection broke."""
_PARTS = ("Retriever", "Reranker", "Ingress")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One replica of each part, so that its death leaves none; with a reranker where its libraries are installed."""
    folder: Path = tmp_path_factory.mktemp("service")
    publish(folder / "index", 1)
    options = ["--index", f"leaflets={folder / 'index'}", "--deadline-s", str(_DEADLINE_S)]
    if find_spec("sentence_transformers"):
        from tests.retrieval import tiny_models

        model = tiny_models.cross_encoder(["dose", "velocimab", "leaflet"], folder / "reranker")
        options += ["--reranker-model", model, "--postprocess", "rerank"]
    with LoopbackServer(answer=lambda body: "As the leaflet says [1].", latency=0.05) as server:
        models = folder / "models.yaml"
        models.write_text(yaml.safe_dump([{"name": "loopback", "model": "m", "base_url": server.openai_url}]))
        with running(
            folder, *options, "--models", str(models), "--answerer", "loopback", "--strategy", "question"
        ) as started:
            yield started


class Outage:
    """What clients got while a part was gone."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.degraded: Counter[str | None] = Counter()
        self.without_retry_after = 0

    async def ask(self, session: aiohttp.ClientSession, over: asyncio.Event) -> None:
        while not over.is_set():
            wait = 0.1
            try:
                async with session.post("/v1/answers", json={"question": QUESTION}) as reply:
                    status, body = reply.status, await reply.read()
                    if status == 503:
                        self.without_retry_after += "Retry-After" not in reply.headers
                        assert orjson.loads(body)["error"]["code"] in ("unavailable", "busy")
                    elif status == 200:
                        found = orjson.loads(body)
                        self.degraded[found["degraded"]] += 1
                        wait = 0.0
                        assert found["passages"]
            except aiohttp.ClientError:
                status = _BROKEN
            self.statuses[status] += 1
            await asyncio.sleep(wait)


async def kill(service: Service, part: str) -> Outage:
    """Kill the part's only replica under load; return when answers are whole again."""
    outage, over = Outage(), asyncio.Event()
    [victim] = service.replicas(part)
    async with aiohttp.ClientSession(service.url, timeout=aiohttp.ClientTimeout(total=3 * _DEADLINE_S)) as session:
        clients = [asyncio.create_task(outage.ask(session, over)) for _ in range(_CLIENTS)]
        await _until(lambda: outage.degraded[None] > 2 * _CLIENTS)
        os.kill(victim, signal.SIGKILL)
        await _until(lambda: bool({*service.replicas(part)} - {victim}))
        await asyncio.sleep(2)
        before = outage.degraded[None]
        await _until(lambda: outage.degraded[None] > before + 5 * _CLIENTS)
        over.set()
        await asyncio.gather(*clients)
    return outage


async def _until(true: Callable[[], bool]) -> None:
    """Returns once it is true; pytest's timeout ends a test in which it never is."""
    while not true():
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("part", _PARTS)
def test_killed_part(service: Service, part: str) -> None:
    if not service.replicas(part):
        pytest.skip("needs sentence-transformers: pip install 'fdarx[models]'")
    outage = asyncio.run(kill(service, part))
    assert not outage.without_retry_after
    if part == "Retriever":
        assert {*outage.statuses} == {200, 503}
    elif part == "Ingress":
        assert {*outage.statuses} <= {200, 503, _BROKEN}
    else:
        assert {*outage.statuses} == {200}
        assert any(reason for reason in outage.degraded)
