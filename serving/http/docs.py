"""GET /docs: the API in one page made from the OpenAPI document, with nothing loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI
from jinja2 import Environment, StrictUndefined
from starlette.responses import Response

from serving.http.replies import json_reply

_TEMPLATE = Path(__file__).parent / "docs.html.j2"


class Docs:
    """Rendered when first asked for."""

    def __init__(self, app: FastAPI) -> None:
        self._app = app
        self._page = ""

    def routes(self) -> APIRouter:
        router = APIRouter(include_in_schema=False)
        for path, handler in (("/docs", self.docs), ("/openapi.json", self.document)):
            router.add_api_route(path, handler, methods=["GET", "HEAD"], response_class=Response)
        return router

    async def docs(self) -> Response:
        self._page = self._page or _rendered(self._app.openapi())
        return Response(self._page, headers={"Cache-Control": "no-cache"}, media_type="text/html")

    async def document(self) -> Response:
        return json_reply(self._app.openapi())


def _rendered(document: Mapping[str, Any]) -> str:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    schemas = document["components"]["schemas"]
    return template.render(
        info=document["info"], routes=list(_routes(document["paths"])), schemas=list(_schemas(schemas))
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


def _field(name: str, schema: Mapping[str, Any], told: Mapping[str, Any]) -> dict[str, Any]:
    about = told.get("description") or schema.get("description", "")
    return {"name": name, "type": _type(schema), "about": about, "required": told.get("required", False)}


def _type(schema: Mapping[str, Any]) -> str:
    """A type in a line: "integer 1 to 24 or null", "list of PassageFound"."""
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
