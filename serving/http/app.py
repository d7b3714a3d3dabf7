"""The HTTP service as an ASGI application, with its web page and API documentation."""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from jinja2 import Environment, StrictUndefined
from starlette.responses import Response

from serving.http.answering import AnswerService
from serving.http.backend import Record, ServiceBackend
from serving.http.chat import chat_routes
from serving.http.middleware import AdmissionMiddleware, RequestMiddleware
from serving.http.responses import ApiError, add_error_handlers, json_reply
from serving.http.routes import answer_routes, health_routes, lookup_routes
from serving.settings import ServiceSettings

_TEMPLATE = Path(__file__).with_name("docs.html.j2")
_DOCS_CSS = Path(__file__).with_name("docs.css")
PAGE = Path(__file__).parent.parent / "page"
_DESCRIPTION = (
    "Answers to questions about FDA drug labels and regulatory guidelines, with citations of the supporting passages."
    " Not for clinical use: check every answer against its passages."
)
_SECURITY = {
    "Bearer": {"type": "http", "scheme": "bearer"},
    "X-API-Key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def make_app(backend: ServiceBackend, settings: ServiceSettings, record: Record) -> FastAPI:
    """Build the application.

    Raises ValueError where the keys file can't be used, or the default post-processing is missing.
    """
    if settings.postprocess not in backend.postprocessors:
        available = ", ".join(backend.postprocessors)
        raise ValueError(f"postprocess is {settings.postprocess!r}; available are {available}")
    app = FastAPI(title="FDARx", version="1", description=_DESCRIPTION, openapi_url=None, docs_url=None, redoc_url=None)
    answers = AnswerService(backend, settings, record)
    for router in (
        answer_routes(answers),
        chat_routes(backend, answers),
        lookup_routes(backend, settings),
        health_routes(backend),
        _documentation_routes(app),
        _page_routes(),
    ):
        app.include_router(router)
    add_error_handlers(app)
    _complete_document(app.openapi(), settings)
    app.add_middleware(AdmissionMiddleware, settings=settings, record=record)
    paths = frozenset(app.openapi()["paths"])
    app.add_middleware(RequestMiddleware, record=record, paths=paths, log_questions=settings.log_questions)
    return app


def _complete_document(document: dict[str, Any], settings: ServiceSettings) -> None:
    """State this server's limits, keys and error format in the OpenAPI document, which FastAPI makes once."""
    schemas = document["components"]["schemas"]
    for name in ("HTTPValidationError", "ValidationError"):  # FastAPI's own errors, which this service does not use
        schemas.pop(name, None)
    document["paths"]["/v1/chat/completions"]["post"]["responses"].pop("422", None)
    for name in ("SearchRequest", "AnswerRequest"):
        schemas[name]["properties"]["question"]["maxLength"] = settings.longest_question
    if settings.keys_file:
        document["components"]["securitySchemes"] = _SECURITY
        for path, methods in document["paths"].items():
            for route in methods.values() if path.startswith("/v1/") else ():
                route["security"] = [{name: []} for name in _SECURITY]


def _documentation_routes(app: FastAPI) -> APIRouter:
    """Return the routes GET /docs and /openapi.json. The page loads nothing from other hosts."""
    router = APIRouter(include_in_schema=False)
    page = cache(lambda: _rendered(app.openapi()))

    @router.api_route("/docs", methods=["GET", "HEAD"])
    async def docs() -> Response:
        return Response(page(), headers={"Cache-Control": "no-cache"}, media_type="text/html")

    @router.api_route("/openapi.json", methods=["GET", "HEAD"])
    async def document() -> Response:
        return json_reply(app.openapi())

    return router


def _page_routes() -> APIRouter:
    """Return the routes GET / and GET /static/NAME for the web page's files, which browsers revalidate."""
    router = APIRouter(include_in_schema=False)
    paths = [*(path for path in sorted(PAGE.iterdir()) if path.is_file()), _DOCS_CSS]
    files = {path.name: (path.read_bytes(), _media_type(path)) for path in paths}
    etags = {name: f'"{hashlib.sha256(body).hexdigest()[:32]}"' for name, (body, _) in files.items()}

    @router.api_route("/static/{name}", methods=["GET", "HEAD"])
    async def file(name: str, request: Request) -> Response:
        if name not in files:
            raise ApiError(404, "There is no such file.", code="no_file")
        headers = {"ETag": etags[name], "Cache-Control": "no-cache"}
        if etags[name] in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        body, media_type = files[name]
        return Response(body, headers=headers, media_type=media_type)

    @router.api_route("/", methods=["GET", "HEAD"])
    async def home(request: Request) -> Response:
        return await file("index.html", request)

    return router


def _media_type(path: Path) -> str:
    return mimetypes.guess_type(path.name)[0] or "application/octet-stream"


def _rendered(document: Mapping[str, Any]) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    schemas = document["components"]["schemas"]
    return template.render(
        info=document["info"],
        types=[*schemas],
        routes=list(_routes(document["paths"])),
        schemas=list(_schemas(schemas)),
    )


def _routes(paths: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for path, methods in paths.items():
        for method, route in methods.items():
            body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            replies = [
                {"status": status, "about": reply["description"], "type": _replied(reply)}
                for status, reply in route["responses"].items()
            ]
            yield {
                "method": method.upper(),
                "path": path,
                "about": route.get("description") or route.get("summary", ""),
                "parameters": [_field(one["name"], one["schema"], one) for one in route.get("parameters", [])],
                "body": _type(body) if body else "",
                "replies": replies,
            }


def _replied(reply: Mapping[str, Any]) -> str:
    return _type(reply.get("content", {}).get("application/json", {}).get("schema", {}))


def _schemas(schemas: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, schema in schemas.items():
        required = schema.get("required", ())
        fields = [
            _field(field, one, {"required": field in required}) for field, one in schema.get("properties", {}).items()
        ]
        yield {"name": name, "about": schema.get("description", ""), "fields": fields}


def _field(name: str, schema: Mapping[str, Any], documented: Mapping[str, Any]) -> dict[str, Any]:
    about = documented.get("description") or schema.get("description", "")
    return {"name": name, "type": _type(schema), "about": about, "required": documented.get("required", False)}


def _type(schema: Mapping[str, Any]) -> str:
    """Return a type on one line: "integer 1 to 24 or null", "list of RetrievedPassage"."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "const" in schema or "enum" in schema:
        return " | ".join(repr(one) for one in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return " ".join(filter(None, (str(schema.get("type", "any")), _bounds(schema))))


def _bounds(schema: Mapping[str, Any]) -> str:
    if "maximum" in schema:
        return f"{schema.get('minimum', '')} to {schema['maximum']}"
    return f"of at most {schema['maxLength']} characters" if "maxLength" in schema else ""
