"""The key of a served model: which requests its ingress lets through, and where the key comes from."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.types import Message

from fdarx_core.llm import ModelsError
from jobs.evaluate import load_deployed
from serving.models import KeyedIngress, build
from serving.served_model import ServedModel, load_served
from tests.conftest import REPOSITORY

KEY, VARIABLE = "a-key", "FDARX_ENGINE_KEY"
LLAMA = REPOSITORY / "serving" / "models" / "llama-3.1-8b-a100.yaml"


class Ingress(KeyedIngress):
    """An ingress as Serve makes it, of an application of our own: Ray's needs vLLM (see tests/engine)."""

    def __init__(self, key_env: str) -> None:
        super().__init__(key_env=key_env)
        self.app = Starlette(routes=[Route("/v1/models", lambda request: PlainTextResponse("models"))])


@pytest.fixture(autouse=True)
def variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


def replied(path: str, authorization: str | None) -> tuple[int, bytes]:
    """The status and the body of a reply."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    async def ask() -> None:
        app = await Ingress(VARIABLE).__serve_build_asgi_app__()
        headers = [] if authorization is None else [(b"authorization", authorization.encode("latin-1"))]
        scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b""}
        await app(scope, receive, send)

    asyncio.run(ask())
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def test_the_key_lets_a_request_through() -> None:
    assert replied("/v1/models", f"Bearer {KEY}") == (200, b"models")
    assert replied("/other", f"Bearer {KEY}")[0] == 404


@pytest.mark.parametrize("given", [None, "", KEY, "Bearer ", f"Bearer {KEY}x", f"Basic {KEY}", "Bearer \xe9"])
@pytest.mark.parametrize("path", ["/v1/models", "/other"])
def test_no_other_request_is_let_through(given: str | None, path: str) -> None:
    status, body = replied(path, given)
    assert status == 401
    assert orjson.loads(body)["error"]["code"] == "invalid_api_key"
    assert KEY.encode() not in body


def test_clients_read_the_key_from_the_same_variable() -> None:
    model = load_served(LLAMA)
    assert model.key_env == VARIABLE
    assert model.client_config("http://head:8000").key() == KEY


def test_a_missing_key_is_said_before_a_model_is_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    fault = f"key_env: environment variable {VARIABLE} is not set"
    with pytest.raises(ModelsError, match=f"{LLAMA}: {fault}"):
        load_deployed([str(LLAMA)], to_ask=True)
    assert list(load_deployed([str(LLAMA)], to_ask=False)) == ["llama-3.1-8b"]
    with pytest.raises(ValueError, match=VARIABLE):
        Ingress(VARIABLE)
    with pytest.raises(ModelsError, match=f"model x: {fault}"):
        build(ServedModel(name="x", model="org/x", context_length=9, key_env=VARIABLE))
