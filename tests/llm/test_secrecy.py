"""A key is in the requests' headers and nowhere else, whatever a server says back."""

from __future__ import annotations

import asyncio
import logging
import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from fdarx_core.llm import Asker, AskingStopped, HttpEndpoint, ModelConfig, ResponseStore, Task
from fdarx_core.storage import Location
from tests.llm.conftest import model, words
from tests.llm.loopback_server import Call, Fault, LoopbackServer

KEY = "sk-planted/0123456789abcdef"
pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture(autouse=True)
def planted(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    monkeypatch.setenv("PLANTED_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    yield
    assert KEY not in caplog.text


def told(call: Call) -> Fault | None:
    """Every way of saying the headers back: as text, in an error, escaped, cut off, in another shape."""
    said = str(call.headers)
    escaped = orjson.dumps({"choices": [{"message": {"content": said}}]}).replace(b"/", rb"\/")
    faults = {
        "text": Fault(text=said),
        "error": Fault(status=400, error={"message": said}),
        "escaped": Fault(raw=escaped),
        "page": Fault(status=502, raw=said.encode()),
        "long": Fault(status=400, error={"message": "x" * 380 + KEY}),
        "shape": Fault(reply={"error": said}),
        "garbage": Fault(raw=said.encode()),
        "cut": Fault(text=said, cut=True),
        "finish": Fault(finish_reason=said),
        "refusal": Fault(message={"content": None, "refusal": said}),
    }
    return next((fault for word, fault in faults.items() if f"Word: {word}" in str(call.body)), None)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_in_no_response_file_or_pickle(kind: str, task: Task[Any], server: LoopbackServer, tmp_path: Path) -> None:
    config = config_of(server, kind)
    server.faults = told
    seen: list[Any] = []

    async def run() -> None:
        endpoint = HttpEndpoint(config)
        asker = Asker({"m": endpoint}, ResponseStore(Location(tmp_path)))
        kinds = ["fine", "text", "error", "escaped", "page", "long", "shape", "garbage", "cut", "finish", "refusal"]
        requests = words(task, endpoint, *kinds)
        responses = await asker.ask(requests)
        seen.extend([requests, responses, config, pickle.dumps(endpoint), pickle.dumps(config), endpoint.counters])
        await asker.close()

    asyncio.run(run())
    sent = server.calls[0].headers
    assert KEY in (sent.get("Authorization") or sent.get("x-api-key") or "")
    shown = repr(seen) + "".join(str(pickle.dumps(one)) for one in seen)
    kept = b"".join(file.read_bytes() for file in tmp_path.rglob("*.parquet"))
    rows = ResponseStore(Location(tmp_path))
    for hidden in (KEY, KEY.replace("/", r"\/"), "sk-planted"):
        assert hidden not in shown
        assert hidden.encode() not in kept
        assert hidden not in repr(rows.get(rows.index()))


@pytest.mark.parametrize("status", [401, 403, 404, 307])
def test_in_no_error(status: int, task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=status, error={"message": f"no access with {call.headers}"})

    async def run() -> None:
        endpoint = HttpEndpoint(config_of(server, "openai"))
        asker = Asker({"m": endpoint})
        try:
            await asker.ask(words(task, endpoint, "a", "b"))
        finally:
            await asker.close()

    with pytest.raises(AskingStopped) as error:
        asyncio.run(run())
    lines = "".join(traceback.format_exception(error.value))
    for text in (str(error.value), repr(error.value), lines, str(pickle.dumps(error.value))):
        assert "sk-planted" not in text


def test_a_missing_key_says_which_variable(task: Task[Any], server: LoopbackServer, monkeypatch: Any) -> None:
    config = config_of(server, "openai")
    monkeypatch.delenv("PLANTED_KEY")

    async def run() -> None:
        endpoint = HttpEndpoint(config)
        await endpoint.ask(words(task, endpoint, "a")[0])

    with pytest.raises(AskingStopped, match="model m: key_env: environment variable PLANTED_KEY is not set"):
        asyncio.run(run())
    assert server.number == 0


def config_of(server: LoopbackServer, kind: str) -> ModelConfig:
    return model(server, kind=kind, key_env="PLANTED_KEY", base_url=server.openai_url)
