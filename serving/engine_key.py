"""The API key of a served model. Ray's ingress of a model accepts all requests; with `key_env`, it requires a key."""

from __future__ import annotations

import hmac
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fdarx_core.llm.access import check_key, read_variable

_MESSAGE = "This model requires its API key, as Authorization: Bearer KEY."
_ERROR = {"type": "invalid_request_error", "message": _MESSAGE, "param": None, "code": "invalid_api_key"}


class KeyMiddleware:
    """Replies 401 to requests without the key, on all paths, in OpenAI's format."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._expected = app, f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and not self._is_authorized(scope):
            reply = JSONResponse({"error": _ERROR}, 401, {"WWW-Authenticate": "Bearer"})
            await reply(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _is_authorized(self, scope: Scope) -> bool:
        given = Headers(scope=scope).get("authorization", "").encode("latin-1")
        return hmac.compare_digest(given, self._expected)


class KeyedIngress:
    """A base of a Serve ingress that requires a key, which its replicas read from their own environment."""

    app: Starlette
    """The application, which Serve sets before it asks for the one to serve."""

    def __init__(self, *arguments: Any, key_env: str, **options: Any) -> None:
        """`key_env` names the variable; the rest goes to the next base. Raises ValueError where it is not set here."""
        key = read_variable(key_env, "key_env", "the key of the model")
        self._key = check_key(key, f"environment variable {key_env}")
        super().__init__(*arguments, **options)

    async def __serve_build_asgi_app__(self) -> ASGIApp:
        self.app.add_middleware(KeyMiddleware, key=self._key)
        return self.app


def keyed_openai_ingress() -> type[Any]:
    """Return Ray's ingress of a model with a key. Imports Ray's LLM modules, and so vLLM."""
    from ray.serve.llm.ingress import OpenAiIngress

    return type("KeyedOpenAiIngress", (KeyedIngress, OpenAiIngress), {})
