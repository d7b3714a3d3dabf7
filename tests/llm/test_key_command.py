"""Keys that a command prints: one run for all requests, another one in time, and none for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.llm import TRANSIENT, EndpointStopped, HttpEndpoint, ModelConfig, Task
from fdarx_core.records import Response
from tests.llm.conftest import model, words
from tests.llm.loopback_server import Call, Fault, LoopbackServer

PREFIX = "planted-token-"
FINE = '{"text": "cba"}'
LIFE_S = 1.0
pytestmark = pytest.mark.usefixtures("quick_retries")


class Issuer:
    """A command that prints a token with the time at which it was issued, and a server's check of its age.

    Each run of the command writes a line when it begins and one when it ends. `script` comes before the token.
    """

    def __init__(self, folder: Path, script: str = "") -> None:
        self._log, self._file = folder / "runs", folder / "token.sh"
        self.refused: set[str] = set()
        self._file.write_text(
            f"echo begin >> {self._log}\n{script}\necho {PREFIX}$(date +%s%N)\necho end >> {self._log}\n"
        )

    @property
    def command(self) -> str:
        return f"sh {self._file}"

    @property
    def lines(self) -> list[str]:
        return self._log.read_text().split() if self._log.exists() else []

    @property
    def runs(self) -> int:
        return self.lines.count("begin")

    def check(self, call: Call) -> Fault | None:
        """Refuse a token that is older than its life."""
        token = call.headers["Authorization"].removeprefix("Bearer ")
        age_s = (time.time_ns() - int(token.removeprefix(PREFIX))) / 1e9
        if age_s < LIFE_S:
            return None
        self.refused.add(token)
        return Fault(status=401, error={"message": f"{token} has expired"})


@asynccontextmanager
async def endpoint_of(config: ModelConfig) -> AsyncIterator[HttpEndpoint]:
    endpoint = HttpEndpoint(config)
    try:
        yield endpoint
    finally:
        await endpoint.close()


async def ask(task: Task[Any], endpoint: HttpEndpoint, *given: object) -> list[Response]:
    return await asyncio.gather(*(endpoint.ask(request) for request in words(task, endpoint, *map(str, given))))


def ask_all(task: Task[Any], config: ModelConfig, *given: object) -> list[Response]:
    async def run() -> list[Response]:
        async with endpoint_of(config) as endpoint:
            return await ask(task, endpoint, *given)

    return asyncio.run(run())


@pytest.mark.parametrize("ttl_s", [600.0, LIFE_S / 2])
def test_many_requests_share_each_token_of_a_short_life(
    ttl_s: float, task: Task[Any], server: LoopbackServer, tmp_path: Path
) -> None:
    """600: only the server says that a token has expired. Less than its life: it is renewed before."""
    issuer = Issuer(tmp_path, "sleep 0.05")
    server.faults, server.latency = issuer.check, 0.15
    config = model(server, key_command=issuer.command, key_ttl_s=ttl_s, max_in_flight=16, max_tries=8)
    started = time.monotonic()
    responses = ask_all(task, config, *range(256))
    lifetimes = (time.monotonic() - started) / ttl_s
    assert [one.reason for one in responses] == [""] * 256
    assert all(one.text == FINE for one in responses)
    assert 3 <= issuer.runs <= 1 + lifetimes + len(issuer.refused)
    assert issuer.lines == ["begin", "end"] * issuer.runs  # never two at a time


def test_no_slot_is_held_while_a_command_runs(task: Task[Any], server: LoopbackServer, tmp_path: Path) -> None:
    issuer = Issuer(tmp_path, f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")

    async def run() -> list[Response]:
        async with endpoint_of(model(server, key_command=issuer.command, max_in_flight=1)) as endpoint:
            asking = asyncio.create_task(ask(task, endpoint, *range(8)))
            while not issuer.runs:
                await asyncio.sleep(0.01)
            assert endpoint.limits.in_flight == endpoint.counters.in_flight == 0
            (tmp_path / "go").touch()
            return await asking

    assert [one.text for one in asyncio.run(run())] == [FINE] * 8
    assert issuer.runs == 1


def test_a_cancelled_request_leaves_the_command_to_the_others(
    task: Task[Any], server: LoopbackServer, tmp_path: Path
) -> None:
    issuer = Issuer(tmp_path, f"while [ ! -e {tmp_path}/go ]; do sleep 0.01; done")

    async def run() -> Response:
        async with endpoint_of(model(server, key_command=issuer.command)) as endpoint:
            first, second = (asyncio.create_task(ask(task, endpoint, word)) for word in "ab")
            while not issuer.runs:
                await asyncio.sleep(0.01)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            (tmp_path / "go").touch()
            [response] = await second
            return response

    assert asyncio.run(run()).text == FINE
    assert issuer.runs == 1


def test_a_stream_renews_its_key_too(task: Task[Any], server: LoopbackServer, tmp_path: Path) -> None:
    issuer = Issuer(tmp_path)
    server.faults = lambda call: issuer.check(call) if call.number > 1 else Fault(status=401)

    async def run() -> Response:
        async with endpoint_of(model(server, key_command=issuer.command)) as endpoint:
            [request] = words(task, endpoint, "a")
            request.schema = {}
            *_, last = [piece async for piece in endpoint.stream(request)]
            assert isinstance(last, Response)
            return last

    response = asyncio.run(run())
    assert (response.text, response.reason, response.attempts) == (FINE, "", 2)
    assert issuer.runs == 2


def test_a_new_token_that_is_refused_too_ends_all_requests(
    task: Task[Any], server: LoopbackServer, tmp_path: Path
) -> None:
    issuer = Issuer(tmp_path)
    server.faults = lambda call: Fault(status=401, error={"message": f"unknown {call.headers['Authorization']}"})
    config = model(server, key_command=issuer.command, max_in_flight=2)
    with pytest.raises(EndpointStopped) as stopped:
        ask_all(task, config, *range(20))
    message = str(stopped.value)
    assert "model m (tiny)" in message and "no_access: HTTP 401: unknown Bearer [key]" in message
    assert message.endswith("check the key that key_command names, and what it may use")
    assert "\n" not in message and PREFIX not in message
    assert issuer.runs == 2 and server.number <= 4


FAILING = {
    "exit status": (
        "echo secret-planted; echo see secret-planted; echo Please log in >&2; exit 3",
        "status 3: Please log",
    ),
    "silent": ("exit 1", r"failed with exit status 1;"),
    "nothing printed": ("exit 0", "printed no key"),
    "two lines": ("echo secret-planted; echo more; exit 0", "printed more than a key: its output holds white space"),
}


@pytest.mark.parametrize("name", FAILING)
def test_a_command_that_fails_stops_before_anything_is_asked(
    name: str, task: Task[Any], server: LoopbackServer, tmp_path: Path
) -> None:
    script, message = FAILING[name]
    issuer = Issuer(tmp_path, script)
    with pytest.raises(EndpointStopped, match=rf"model m .*key_command: sh .*{message}") as stopped:
        ask_all(task, model(server, key_command=issuer.command), "a", "b")
    assert str(stopped.value).endswith("run the command of key_command by hand and correct it")
    assert "\n" not in str(stopped.value) and "secret-planted" not in str(stopped.value)
    assert server.number == 0 and issuer.runs == 1


def test_a_command_that_fails_later_is_tried_again(task: Task[Any], server: LoopbackServer, tmp_path: Path) -> None:
    issuer = Issuer(tmp_path, f"[ $(grep -c begin {tmp_path}/runs) = 2 ] && exit 1")
    server.faults = issuer.check

    async def run() -> Response:
        async with endpoint_of(model(server, key_command=issuer.command, max_tries=4)) as endpoint:
            await ask(task, endpoint, "a")
            await asyncio.sleep(LIFE_S)
            [response] = await ask(task, endpoint, "b")
            return response

    assert asyncio.run(run()).text == FINE
    assert issuer.runs == 3


def test_a_command_that_fails_for_good_later_stops_with_its_name(
    task: Task[Any], server: LoopbackServer, tmp_path: Path
) -> None:
    issuer = Issuer(tmp_path, f"[ $(grep -c begin {tmp_path}/runs) -ge 2 ] && exit 1")
    server.faults = issuer.check

    async def run() -> None:
        async with endpoint_of(model(server, key_command=issuer.command, key_ttl_s=LIFE_S)) as endpoint:
            assert not (await ask(task, endpoint, "a"))[0].reason.startswith(TRANSIENT)
            await asyncio.sleep(LIFE_S)
            await ask(task, endpoint, "b")

    with pytest.raises(EndpointStopped, match=r"v1: key_command: sh failed with exit status 1"):
        asyncio.run(run())
