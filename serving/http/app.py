"""The service as an ASGI application."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from serving.http.answering import Answering
from serving.http.answers import Answers
from serving.http.chat import Chat
from serving.http.docs import Docs
from serving.http.envelope import Envelope
from serving.http.errors import handle_errors
from serving.http.gate import Gate
from serving.http.health import Health
from serving.http.lookups import Lookups
from serving.http.meter import Meter
from serving.http.settings import ServiceSettings
from serving.http.static import Static
from serving.http.world import World

_ABOUT = (
    "Answers to questions about FDA drug labels and regulatory guidelines, with citations of the passages they rest on."
    " Not for clinical use: check every answer against its passages."
)
_KEYS = {
    "Bearer": {"type": "http", "scheme": "bearer"},
    "X-API-Key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}

_FASTAPIS_OWN = ("HTTPValidationError", "ValidationError")
"""The shape in which FastAPI would tell errors; here they come in ours, and a chat's as 400."""


def make_app(world: World, settings: ServiceSettings, meter: Meter) -> FastAPI:
    """Raises KeysError where the keys file can't be used, ValueError where the usual post-processing can't be had."""
    if settings.postprocess not in world.postprocessors:
        raise ValueError(f"postprocess is {settings.postprocess!r}; here there is {', '.join(world.postprocessors)}")
    app = _Documented(settings)
    answering = Answering(world, settings, meter)
    api = (Answers(answering), Chat(world, settings, answering), Lookups(world, settings))
    for part in (*api, Health(world), Docs(app), Static()):
        app.include_router(part.routes())
    handle_errors(app)
    app.add_middleware(Gate, settings=settings, meter=meter)
    paths = frozenset(app.openapi()["paths"])
    app.add_middleware(Envelope, meter=meter, paths=paths, log_questions=settings.log_questions)
    return app


class _Documented(FastAPI):
    """With a document that tells this server's limits, and nothing that a browser would load from elsewhere."""

    def __init__(self, settings: ServiceSettings) -> None:
        super().__init__(
            title="FDARx", version="1", description=_ABOUT, openapi_url=None, docs_url=None, redoc_url=None
        )
        self._settings = settings

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            document = super().openapi()
            schemas = document["components"]["schemas"]
            for name in _FASTAPIS_OWN:
                schemas.pop(name, None)
            document["paths"]["/v1/chat/completions"]["post"]["responses"].pop("422", None)
            for name in ("SearchRequest", "AnswerRequest"):
                schemas[name]["properties"]["question"]["maxLength"] = self._settings.longest_question
            if self._settings.keys_file:
                document["components"]["securitySchemes"] = _KEYS
                _guard(document)
        return super().openapi()


def _guard(document: dict[str, Any]) -> None:
    for path, methods in document["paths"].items():
        for route in methods.values() if path.startswith("/v1/") else ():
            route["security"] = [{name: []} for name in _KEYS]
