"""Models of kind litellm: the same limits, retries, replies and secrecy as those that are asked directly."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from fdarx_core.llm import EndpointStopped, HttpEndpoint, Model, ModelConfig, ModelsError, Prices, Task, load_models
from fdarx_core.records import Response
from tests.in_thread import InThread, listening
from tests.llm.conftest import ask_all, model, words
from tests.llm.loopback_server import Call, Fault, LoopbackServer

FINE = '{"text": "cba"}'
KEY, TEAM = "sk-planted-0123456789", "team-planted-77"
AWS = {"PLANTED_ID": "AKIAPLANTED123", "PLANTED_SECRET": "secret-planted-123", "PLANTED_SESSION": "session-planted-1"}
pytestmark = [
    pytest.mark.usefixtures("quick_retries"),
    pytest.mark.skipif(find_spec("litellm") is None, reason="litellm is not installed"),
]


@pytest.fixture(autouse=True)
def environment(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> Iterator[None]:
    for name, value in {"PLANTED_KEY": KEY, "PLANTED_TEAM": TEAM, **AWS}.items():
        monkeypatch.setenv(name, value)
    caplog.set_level(logging.INFO)
    yield
    out, errors = capfd.readouterr()
    assert not any(secret in caplog.text + out + errors for secret in (KEY, TEAM, *AWS.values()))
    assert "LiteLLM" not in caplog.text + out + errors and "litellm.ai" not in out


def openai_model(server: LoopbackServer, **fields: Any) -> ModelConfig:
    return model(server, **{"kind": "litellm", "model": "openai/tiny", "key_env": "PLANTED_KEY"} | fields)


def test_an_openai_server(task: Task[Any], server: LoopbackServer) -> None:
    config = openai_model(
        server, sampling={"temperature": 0, "seed": 7}, max_tokens=99, headers={"X-Team": "Team ${PLANTED_TEAM}"}
    )
    [response] = ask_all(task, config, "abc")
    assert (response.text, response.reason, response.attempts, response.finish_reason) == (FINE, "", 1, "stop")
    assert response.prompt_tokens > response.cached_tokens > 0 < response.completion_tokens
    call = server.calls[0]
    headers = {name.lower(): value for name, value in call.headers.items()}
    assert headers["authorization"] == f"Bearer {KEY}" and headers["x-team"] == f"Team {TEAM}"
    assert call.body["response_format"]["json_schema"]["schema"] == task.reply.model_json_schema()
    sent = {name: call.body[name] for name in ("model", "temperature", "seed", "max_tokens")}
    assert sent == {"model": "tiny", "temperature": 0, "seed": 7, "max_tokens": 99}


def test_cost_is_counted_by_the_prices_of_the_model(task: Task[Any], server: LoopbackServer) -> None:
    async def run() -> tuple[Response, float]:
        endpoint = HttpEndpoint(openai_model(server, prices=Prices(input=10, output=20)))
        [request] = words(task, endpoint, "a")
        return await endpoint.ask(request), endpoint.counters.cost

    response, cost = asyncio.run(run())
    assert cost == pytest.approx((response.prompt_tokens * 10 + response.completion_tokens * 20) / 1e6)


def test_many_at_once_keep_to_the_limit(task: Task[Any], server: LoopbackServer) -> None:
    server.latency = 0.05
    responses = ask_all(task, openai_model(server, max_in_flight=4), *map(str, range(20)))
    assert [one.text for one in responses] == [FINE] * 20
    assert server.most_in_flight <= 4


TRANSIENT_FAULTS = {
    "429": (Fault(status=429, retry_after="0"), "transient_rate_limited"),
    "500": (Fault(status=500), "transient_server_error"),
    "503": (Fault(status=503), "transient_server_error"),
    "529": (Fault(status=529), "transient_overloaded"),
    "dropped": (Fault(drop=True), "transient_connection"),
    "silent": (Fault(latency=30), "transient_timeout"),
    "no JSON": (Fault(raw=b"Internal hiccup"), "transient_"),
}


def bad_alone(fault: Fault, first: bool = False) -> Any:
    """Faults the calls on the word bad, or the first of them."""
    return lambda call: fault if "Word: bad" in str(call.body) and (call.attempt == 1 or not first) else None


@pytest.mark.parametrize("name", TRANSIENT_FAULTS)
def test_a_fault_that_stays_is_tried_as_often_as_the_model_says(
    name: str, task: Task[Any], server: LoopbackServer
) -> None:
    fault, reason = TRANSIENT_FAULTS[name]
    server.faults = bad_alone(fault)
    good, bad = ask_all(task, openai_model(server, timeout_s=2, max_tries=2, max_wait_s=0.2), "good", "bad")
    assert (good.text, good.reason) == (FINE, "")
    assert bad.reason.startswith(reason)
    assert server.number == 1 + bad.attempts  # litellm itself repeats nothing


def test_a_fault_that_passes_costs_nothing(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = bad_alone(Fault(status=503), first=True)
    [response] = ask_all(task, openai_model(server), "bad")
    assert (response.text, response.reason, response.attempts) == (FINE, "", 2)


FATAL_FAULTS = {
    "wrong key": (Fault(status=401, error={"message": "Incorrect key"}), "no_access: HTTP 401.*Incorrect key.*key_env"),
    "forbidden": (Fault(status=403), "forbidden: HTTP 403"),
    "unknown model": (Fault(status=404, error={"message": "no model tiny"}), "not_found: HTTP 404.*no model tiny"),
}


@pytest.mark.parametrize("name", FATAL_FAULTS)
def test_asking_stops_at_once(name: str, task: Task[Any], server: LoopbackServer) -> None:
    fault, message = FATAL_FAULTS[name]
    server.faults = lambda call: fault
    with pytest.raises(EndpointStopped, match=message) as stopped:
        ask_all(task, openai_model(server, max_in_flight=2), *"abcdefgh")
    assert "\n" not in str(stopped.value)
    assert server.number <= 2


def test_a_context_that_is_too_long_is_final(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = bad_alone(Fault(status=400, error={"message": "This model's maximum context length is 10 tokens."}))
    _, bad = ask_all(task, openai_model(server), "good", "bad")
    assert (bad.reason, bad.attempts) == ("context_too_long", 1)


def test_a_form_of_output_that_is_refused_is_asked_for_once(task: Task[Any], server: LoopbackServer) -> None:
    refusal = Fault(status=400, error={"message": "response_format of this type is not supported"})
    server.faults = lambda call: refusal if "json_schema" in str(call.body.get("response_format")) else None
    responses = ask_all(task, openai_model(server, max_in_flight=1), "a", "b")
    assert [(one.text, one.attempts) for one in responses] == [(FINE, 2), (FINE, 1)]


def test_what_a_server_says_back_is_hidden(task: Task[Any], server: LoopbackServer) -> None:
    def told(call: Call) -> Fault:
        said = str(call.headers)
        return (
            Fault(status=400, error={"message": "x" * 340 + said})
            if "Word: bad" in str(call.body)
            else Fault(text=said)
        )

    server.faults = told
    config = openai_model(server, structured="text", headers={"X-Team": "${PLANTED_TEAM}"})
    good, bad = ask_all(task, config, "good", "bad")
    assert "Bearer [key]" in good.text and bad.reason == "refused_request"
    assert not any(secret[:14] in good.text + bad.text for secret in (KEY, TEAM))


def test_a_streamed_reply(task: Task[Any], server: LoopbackServer) -> None:
    async def run() -> list[str | Response]:
        endpoint = HttpEndpoint(openai_model(server))
        [request] = words(task, endpoint, "a")
        request.schema = {}
        return [piece async for piece in endpoint.stream(request)]

    *pieces, last = asyncio.run(run())
    assert isinstance(last, Response)
    assert "".join(map(str, pieces)) == last.text == FINE and len(pieces) > 1
    assert last.prompt_tokens > 0 < last.completion_tokens and last.finish_reason == "stop"


def test_a_key_of_a_command_is_renewed(task: Task[Any], server: LoopbackServer, tmp_path: Path) -> None:
    (tmp_path / "token.sh").write_text(f"echo run >> {tmp_path}/runs; echo token-$(grep -c run {tmp_path}/runs)")
    server.faults = lambda call: None if call.headers["Authorization"] == "Bearer token-2" else Fault(status=401)
    config = openai_model(server, key_env=None, key_command=f"sh {tmp_path}/token.sh")
    responses = ask_all(task, config, *"abcd")
    assert [one.text for one in responses] == [FINE] * 4
    assert (tmp_path / "runs").read_text().count("run") == 2


class ConverseServer(InThread):
    """Amazon Bedrock's Converse API: text, or the arguments of the tool that a request forces."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, Mapping[str, str], dict[str, Any]]] = []
        self.statuses: list[int] = []
        self.port = 0
        super().__init__()

    async def start(self) -> web.AppRunner:
        app = web.Application()
        app.router.add_post("/model/{model}/converse", self._serve)
        runner = await listening(app)
        self.port = runner.addresses[0][1]
        return runner

    async def _serve(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.calls.append((request.path, dict(request.headers), body))
        if self.statuses and (status := self.statuses.pop(0)) != 200:
            return web.json_response({"message": f"Status {status}"}, status=status)
        content: dict[str, Any] = {"text": "cba"}
        if tools := body.get("toolConfig", {}).get("tools"):
            name = tools[0]["toolSpec"]["name"]
            content = {"toolUse": {"toolUseId": "1", "name": name, "input": {"text": "cba"}}}
        return web.json_response(
            {
                "output": {"message": {"role": "assistant", "content": [content]}},
                "stopReason": "tool_use" if "toolUse" in content else "end_turn",
                "usage": {"inputTokens": 40, "outputTokens": 5, "totalTokens": 45},
                "metrics": {"latencyMs": 3},
            }
        )


def bedrock_model(server: ConverseServer, **fields: Any) -> ModelConfig:
    options = {
        "aws_region_name": "us-east-1",
        "aws_access_key_id": "${PLANTED_ID}",
        "aws_secret_access_key": "${PLANTED_SECRET}",
        "aws_session_token": "${PLANTED_SESSION}",
    }
    given = {"name": "m", "kind": "litellm", "model": "bedrock/anthropic.claude-3-sonnet-20240229-v1:0", "max_tries": 3}
    return ModelConfig(**given | {"base_url": f"http://127.0.0.1:{server.port}", "litellm": options} | fields)


def test_bedrock(task: Task[Any]) -> None:
    with ConverseServer() as server:
        server.statuses = [429, 200, 500]
        responses = ask_all(task, bedrock_model(server, max_in_flight=1), "a", "b")
    assert [(json.loads(one.text), one.reason) for one in responses] == [({"text": "cba"}, "")] * 2
    assert sum(one.attempts for one in responses) == len(server.calls) == 4
    assert [(one.prompt_tokens, one.completion_tokens, one.finish_reason) for one in responses] == [(40, 5, "stop")] * 2
    path, headers, body = server.calls[0]
    assert path == "/model/anthropic.claude-3-sonnet-20240229-v1:0/converse"
    assert f"Credential={AWS['PLANTED_ID']}/" in headers["Authorization"]
    [tool] = body["toolConfig"]["tools"]
    assert tool["toolSpec"]["inputSchema"]["json"]["required"] == ["text"]
    assert body["inferenceConfig"]["maxTokens"] == 1024


def test_a_parameter_that_the_provider_lacks(task: Task[Any]) -> None:
    with ConverseServer() as server:
        [response] = ask_all(task, bedrock_model(server, sampling={"seed": 1}), "a")
        assert response.reason == "refused_request" and "does not support parameters: ['seed']" in response.text
        options = bedrock_model(server).litellm | {"drop_params": True}
        [response] = ask_all(task, bedrock_model(server, sampling={"seed": 1}, litellm=options), "a")
        assert response.reason == ""


def test_a_model_of_no_provider(task: Task[Any], server: LoopbackServer) -> None:
    with pytest.raises(
        EndpointStopped, match=r"model m: model: litellm knows no provider of tiny; write PROVIDER/MODEL"
    ):
        ask_all(task, openai_model(server, model="tiny"), "a", "b")
    assert server.number == 0


def test_a_model_from_python_needs_no_address() -> None:
    assert Model("bedrock/anthropic.claude-v2", kind="litellm").config == ModelConfig(
        name="bedrock-anthropic.claude-v2", kind="litellm", model="bedrock/anthropic.claude-v2"
    )


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "litellm", None)
    (tmp_path / "models.yaml").write_text("- {name: m, kind: litellm, model: bedrock/x}\n")
    with pytest.raises(ModelsError, match=r"model m: kind: litellm needs the extra: pip install 'fdarx\[gateways\]'"):
        load_models(tmp_path / "models.yaml")


def test_nothing_imports_litellm_before_it_is_asked() -> None:
    line = "import sys, fdarx_core.llm.http_endpoint, jobs.cli; sys.exit('litellm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", line], check=False).returncode == 0
