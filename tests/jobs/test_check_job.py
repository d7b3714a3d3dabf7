"""`fdarx check`: what models can do on servers that lack json_schema, system messages, access, or that are down."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from fdarx_core.llm import attempts
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import Call, Fault, LoopbackServer, text_of

REPLY = '{"larger_mg": 50}'
PRICES = {"input": 1, "output": 2}


class ListingServer(LoopbackServer):
    """A server that obeys the system message, replies as a form is applied, and lists its model as vLLM does."""

    listed: Mapping[str, Any] = {"id": "tiny", "object": "model", "max_model_len": 4096}
    others: Sequence[str] = ()

    def application(self) -> web.Application:
        app = super().application()
        app.router.add_get("/v1/models", self._models)
        return app

    async def _models(self, request: web.Request) -> web.Response:
        others = [{"id": name, "object": "model"} for name in self.others]
        return web.json_response({"object": "list", "data": [self.listed, *others]})


def follow(body: Mapping[str, Any]) -> str:
    """The reply of a model that follows its instructions, on a server that applies a schema."""
    asked = text_of(body["messages"][-1])
    if "response_format" in body or "output_config" in body or "JSON" in asked:
        return REPLY
    everything = " ".join(text_of(message) for message in body["messages"]) + str(body.get("system"))
    return "50 mg is larger. heron" if "heron" in everything else "50 mg is larger."


def refuse(message: str, holds: Callable[[Mapping[str, Any]], bool]) -> Callable[[Call], Fault | None]:
    return lambda call: Fault(status=400, error={"message": message}) if holds(call.body) else None


def mode(body: Mapping[str, Any]) -> str:
    return str(body.get("response_format", {}).get("type", ""))


NO_SCHEMA = refuse("response_format json_schema is not supported", lambda body: mode(body) == "json_schema")
NO_SYSTEM = refuse("System role not supported", lambda body: body["messages"][0]["role"] == "system")


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "_FIRST_WAIT_S", 0.01)


@pytest.fixture
def server() -> Iterator[ListingServer]:
    with ListingServer(answer=follow) as running:
        yield running


def entry(server: LoopbackServer, name: str = "m", **fields: Any) -> dict[str, Any]:
    return {"name": name, "model": "tiny", "base_url": server.openai_url} | fields


def checked(folder: Path, *entries: dict[str, Any], code: int = 0, options: tuple[str, ...] = ()) -> list[Any]:
    """What `fdarx check --json` says of the models of a file; also see that it is in the text for people."""
    file = folder / "models.yaml"
    file.write_text(yaml.safe_dump(list(entries)))
    done = run_job("check", file, *options, "--json")
    assert done.returncode == code, done.stderr
    models: list[Any] = json.loads(done.stdout)["models"]
    text = run_job("check", file, *options).stdout
    for one in models:
        assert one["name"] in text and one["error"] in text
        assert all(f"write  {field}: {value}" in text for field, value in one["write"].items())
        assert all(note in text for note in one["notes"])
    return models


def test_a_model_that_can_do_everything(server: LoopbackServer, tmp_path: Path) -> None:
    [one] = checked(tmp_path, entry(server, prices=PRICES, context_length=8192))
    assert (one["error"], set(one["modes"].values()), one["system_role"]) == ("", {""}, "obeyed")
    assert one["context_length"] == one["write"].pop("context_length") == 4096
    assert (one["token_limit"], one["write"], one["notes"]) == ("max_tokens", {}, [])
    assert one["seconds"] > 0 and one["tokens_per_second"] > 0 and one["cost"] > 0
    assert server.number == 8, "four requests each time"


def test_a_server_without_json_schema(server: LoopbackServer, tmp_path: Path) -> None:
    server.faults = NO_SCHEMA
    [one] = checked(tmp_path, entry(server))
    assert "HTTP 400: response_format json_schema is not supported" in one["modes"]["json_schema"]
    assert (one["modes"]["json_object"], one["modes"]["text"]) == ("", "")
    assert one["write"] == {"structured": "json_object", "context_length": 4096}


@pytest.mark.parametrize("fault", [Fault(status=503, error={"message": "busy"}), Fault(latency=5)])
def test_a_mode_without_a_reply_is_not_called_unsupported(fault: Fault, server: LoopbackServer, tmp_path: Path) -> None:
    server.faults = lambda call: fault if mode(call.body) == "json_schema" else None
    [one] = checked(tmp_path, entry(server, prices=PRICES, context_length=4096, timeout_s=0.5))
    assert (one["error"], one["unanswered"], one["write"]) == ("", ["json_schema"], {})
    late = ["timeout_s: a reply took longer than 0.5 s; write more in the models file"] if fault.latency else []
    assert one["notes"] == [*late, "structured: no reply with json_schema; check again"]


def test_a_server_that_ignores_the_schema(server: LoopbackServer, tmp_path: Path) -> None:
    server.answer = lambda body: REPLY if "JSON" in text_of(body["messages"][-1]) else "50 mg. heron"
    [one] = checked(tmp_path, entry(server))
    assert "the reply has another form: it is no JSON; it begins '50 mg. heron'" in str(one["modes"])
    assert one["write"]["structured"] == "json_object"
    assert checked(tmp_path, entry(server, structured="text"))[0]["write"]["structured"] == "json_object"


def test_a_model_that_never_gives_the_form(server: LoopbackServer, tmp_path: Path) -> None:
    server.answer = lambda body: "I am not sure."
    [one] = checked(tmp_path, entry(server))
    assert all(one["modes"].values()) and one["system_role"] == "not obeyed" and "structured" not in one["write"]
    assert any(note.startswith("structured: no way works") for note in one["notes"])


def test_a_server_that_refuses_the_system_role(server: LoopbackServer, tmp_path: Path) -> None:
    server.faults = NO_SYSTEM
    [one] = checked(tmp_path, entry(server, context_length=2048))
    assert (one["error"], one["system_role"], set(one["modes"].values())) == ("", "refused", {""})
    assert (one["context_length"], one["write"]) == (4096, {})


def test_another_parameter_for_the_limit(server: LoopbackServer, tmp_path: Path) -> None:
    server.faults = refuse("use max_completion_tokens", lambda body: "max_tokens" in body)
    assert checked(tmp_path, entry(server))[0]["token_limit"] == "max_completion_tokens"


def test_a_reply_that_is_cut(server: LoopbackServer, tmp_path: Path) -> None:
    server.faults = lambda call: Fault(finish_reason="length")
    [one] = checked(tmp_path, entry(server, max_tokens=3), code=1)
    assert one["error"].startswith("truncated_reply") and "max_tokens: write more than 3" in str(one["notes"])


def test_a_long_list_of_models_is_cut_visibly(server: ListingServer, tmp_path: Path) -> None:
    server.others = ("a", "b")
    [one] = checked(tmp_path, entry(server, model="zeta"))
    assert "model: the server does not list zeta; it lists tiny, a, b" in one["notes"]
    server.others = ("a", "b", "c")
    [one] = checked(tmp_path, entry(server, model="zeta"))
    assert "model: the server does not list zeta; it lists tiny, a, b, …" in one["notes"]


def test_the_models_that_cannot_be_used_do_not_stop_the_others(
    server: LoopbackServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHECKED_KEY", "sk-planted-0123456789")
    monkeypatch.delenv("ABSENT_KEY", raising=False)
    with socket.socket() as unused, LoopbackServer(answer=follow) as closed, ListingServer(answer=follow) as other:
        unused.bind(("127.0.0.1", 0))
        down = f"http://127.0.0.1:{unused.getsockname()[1]}/v1"
        closed.faults = lambda call: Fault(status=401, error={"message": "invalid key"})
        other.faults = lambda call: Fault(status=404, error={"message": "The model does not exist"})
        entries = [
            entry(server, "down", base_url=down),
            entry(closed, "closed", key_env="CHECKED_KEY"),
            entry(closed, "unkeyed"),
            entry(server, "keyless", key_env="ABSENT_KEY"),
            entry(other, "misnamed", model="tini"),
            entry(server, "fine"),
        ]
        found = {one["name"]: one for one in checked(tmp_path, *entries, code=1)}
        assert list(found) == [one["name"] for one in entries]
        assert "check base_url in the models file and that the server is up" in found["down"]["error"]
        assert "HTTP 401: invalid key; check the key that key_env names" in found["closed"]["error"]
        assert "set key_env: NAME_OF_A_VARIABLE in the entry of unkeyed" in found["unkeyed"]["error"]
        assert "ABSENT_KEY" in found["keyless"]["error"]
        assert found["misnamed"]["notes"] == ["model: the server does not list tini; it lists tiny"]
        assert found["fine"]["error"] == "" and found["fine"]["seconds"] > 0
        assert [one["name"] for one in checked(tmp_path, *entries, options=("--model", "fine"))] == ["fine"]
    wrong = run_job("check", tmp_path / "models.yaml", "--model", "fin")
    assert wrong.returncode == 2 and "there is no model fin; known are down, closed" in wrong.stderr


def test_servers_that_cannot_be_reached_are_told_once_in_plain_words(tmp_path: Path) -> None:
    with socket.socket() as taken, LoopbackServer(answer=lambda body: REPLY) as plain:
        taken.bind(("127.0.0.1", 0))
        closed = f"127.0.0.1:{taken.getsockname()[1]}"
        addresses = {
            "first": (f"http://{closed}/v1", "connection: connection refused"),
            "second": (f"http://{closed}/v1", "connection: connection refused"),
            "by_name": (f"http://localhost:{closed.rpartition(':')[2]}/v1", "connection: connection refused"),
            "tls": (plain.openai_url.replace("http", "https"), "tls: "),
            "unknown": ("http://nowhere.invalid/v1", "dns: "),
        }
        models = [{"name": name, "model": "tiny", "base_url": url} for name, (url, _) in addresses.items()]
        (tmp_path / "models.yaml").write_text(yaml.safe_dump(models))
        done = run_job("check", tmp_path / "models.yaml")
        answers = tmp_path / "answers.csv"
        answers.write_text("question,answer,reference\nWhat is the dose?,5 mg,5 mg\n")
        asking = ("--models", tmp_path / "models.yaml", "--judge", "first", "--out", tmp_path / "run")
        stopped = run_job("grade", answers, *asking)
    assert done.returncode == 1 and "first, second\n" in done.stdout and "to resume" not in done.stdout
    assert done.stdout.count("it cannot be used: ") == 4
    for url, fault in addresses.values():
        assert f"it cannot be used: at {url}: {fault}" in done.stdout
    assert "Cannot connect" not in done.stdout and "ssl:" not in done.stdout
    assert stopped.returncode == 3 and "1 of 1" not in stopped.stderr and "to resume" in stopped.stderr
