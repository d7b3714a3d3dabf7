"""A server at whose address nothing listens: an error within seconds, unless the job has reached it before."""

from __future__ import annotations

import asyncio
import time

import pytest

from fdarx_core.llm import ModelConfig
from fdarx_core.llm.failures import EndpointStopped
from fdarx_core.llm.http_endpoint import HttpEndpoint
from fdarx_core.records import Request
from tests.llm.loopback_server import LoopbackServer
from tests.serving.service_process import free_port


def request(number: int = 0) -> Request:
    messages = [{"role": "user", "content": f"question {number}"}]
    return Request(f"key {number}", "task", 1, "m", {}, messages, {}, {"model": "m", "max_tokens": 5})


def retries_until_stopped(endpoint: HttpEndpoint, requests: int = 1) -> int:
    async def ask() -> None:
        try:
            with pytest.raises(EndpointStopped, match=r"check base_url in the models file and that the server is up"):
                await asyncio.gather(*(endpoint.ask(request(number)) for number in range(requests)))
        finally:
            await endpoint.close()

    asyncio.run(ask())
    return endpoint.counters.retries


@pytest.mark.parametrize(("host", "in_flight"), [("127.0.0.1", 8), ("127.0.0.1", 1), ("localhost", 8), ("[::1]", 8)])
def test_a_server_that_was_never_reached_is_given_up_within_seconds(host: str, in_flight: int) -> None:
    address = f"http://{host}:{free_port()}/v1"
    began = time.monotonic()
    retries_until_stopped(HttpEndpoint(ModelConfig(name="m", model="m", base_url=address, max_in_flight=in_flight)), 20)
    assert time.monotonic() - began < 5


def test_a_server_that_the_job_has_reached_keeps_its_retries() -> None:
    address = f"http://127.0.0.1:{free_port()}/v1"
    config = ModelConfig(name="m", model="m", base_url=address, max_tries=5)
    assert retries_until_stopped(HttpEndpoint(config)) == 3
    assert retries_until_stopped(HttpEndpoint(config, known=True)) == 4


def test_a_server_that_answered_and_died_keeps_its_retries() -> None:
    async def ask() -> int:
        with LoopbackServer(answer=lambda body: "yes") as server:
            endpoint = HttpEndpoint(ModelConfig(name="m", model="m", base_url=server.openai_url, max_tries=5))
            assert (await endpoint.ask(request())).text == "yes"
        with pytest.raises(EndpointStopped):
            await endpoint.ask(request(1))
        await endpoint.close()
        return endpoint.counters.retries

    assert asyncio.run(ask()) == 4
