"""What Ray's ingress of a model lacks: an API key, and an answer of /v1/models that tells whether an engine runs.

Ray's ingress accepts all requests, and lists the model while its engine still loads the weights.
"""

from __future__ import annotations

import asyncio
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
        header = Headers(scope=scope).get("authorization", "").encode("latin-1") if scope["type"] != "lifespan" else b""
        if scope["type"] != "lifespan" and not hmac.compare_digest(header, self._expected):
            reply = JSONResponse({"error": _ERROR}, 401, {"WWW-Authenticate": "Bearer"})
            await reply(scope, receive, send)
            return
        await self._app(scope, receive, send)


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


class ReadyIngress:
    """A base of Ray's ingress whose /v1/models replies 503 until all other deployments of its application run."""

    async def models(self) -> Any:
        """Return the list of models of the next base, or a reply of status 503 in OpenAI's format."""
        from ray import serve

        starting = await asyncio.to_thread(_deployments_that_start, serve.get_replica_context().app_name)
        if starting:
            message = f"The model is not ready: {', '.join(starting)} has no running replica yet. Try again later."
            error = {"type": "service_unavailable", "message": message, "param": None, "code": "model_not_ready"}
            return JSONResponse({"error": error}, 503, {"Retry-After": "5"})
        return await super().models()  # type: ignore[misc]  # the next base is Ray's ingress


def _deployments_that_start(application: str) -> list[str]:
    from ray import serve

    deployments = serve.status().applications[application].deployments
    running = {
        name: sum(count for state, count in deployment.replica_states.items() if state == "RUNNING")
        for name, deployment in deployments.items()
    }
    return [name for name, count in running.items() if not count]


def openai_ingress(*, keyed: bool) -> type[Any]:
    """Return Ray's ingress of a model, with a key or without one. Imports Ray's LLM modules, and so vLLM."""
    from ray.serve.llm.ingress import OpenAiIngress

    bases = (KeyedIngress, ReadyIngress, OpenAiIngress) if keyed else (ReadyIngress, OpenAiIngress)
    return type("ModelIngress", bases, {})
