"""Fixtures of these tests: a small task, the baseline that answers it, and a server on this machine."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fdarx_core.llm import Baseline, HttpEndpoint, ModelConfig, Prompt, Task, attempts
from fdarx_core.records import Request, Response
from tests.llm.batch_server import quicken
from tests.llm.helpers import SPELLING, SpellReply, spell
from tests.llm.loopback_server import LoopbackServer


@pytest.fixture(scope="session")
def spelling() -> str:
    return SPELLING


@pytest.fixture(scope="session")
def task() -> Task[SpellReply]:
    task = Task(Prompt.from_yaml(SPELLING, "prompts/spell_backwards.yaml"), SpellReply, spell)
    task.check()
    return task


@pytest.fixture(scope="session")
def baseline(task: Task[SpellReply]) -> Baseline:
    return Baseline({task.name: task}, rules="r1")


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attempts follow each other within milliseconds, not seconds."""
    monkeypatch.setattr(attempts, "_FIRST_WAIT_S", 0.01)


@pytest.fixture
def quick_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches are submitted and looked at within a tenth of a second."""
    quicken(monkeypatch)


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    """A server that answers the small task with "cba"."""
    with LoopbackServer(answer=lambda body: '{"text": "cba"}') as running:
        yield running


def model(server: LoopbackServer, **fields: Any) -> ModelConfig:
    """Return the server as a model named m with few attempts."""
    return ModelConfig(**{"name": "m", "model": "tiny", "base_url": server.openai_url, "max_tries": 2} | fields)


def words(task: Task[Any], endpoint: HttpEndpoint, *given: str) -> list[Request]:
    """Return one request a word."""
    return [
        task.request({"word": word, "times": 1}, endpoint=endpoint.name, sampling=endpoint.sampling) for word in given
    ]


def ask_all(task: Task[Any], config: ModelConfig, *given: str) -> list[Response]:
    """Return the responses to one request a word, sent at once, in order."""
    return answer_all(words(task, HttpEndpoint(config), *given), config)


def answer_all(requests: Sequence[Request], config: ModelConfig) -> list[Response]:
    """Return the responses to requests that are sent at once, in order."""

    async def run() -> list[Response]:
        endpoint = HttpEndpoint(config)
        sampled = [replace(request, sampling=dict(endpoint.sampling)) for request in requests]
        try:
            return await asyncio.gather(*map(endpoint.ask, sampled))
        finally:
            await endpoint.close()

    return asyncio.run(run())
