"""The replies of tasks: their base class, the limits of texts and lists, and the form of one as people write it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, TypeAlias

from annotated_types import GroupedMetadata, MaxLen
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_UPPER_LIMITS = frozenset(("maxLength", "maxItems"))
_LENGTH_LIMITS = _UPPER_LIMITS | {"minLength", "minItems"}
_DEEPEST = 8


class Reply(BaseModel):
    """Base class of the replies of tasks: no undeclared fields, and no white space around text.

    Give every text and every list a limit: a model that repeats itself is stopped by it where the server applies the
    schema, and otherwise fills its token limit with a reply that cannot be read. `CutTo` is a limit to which a longer
    value is cut, `Field(max_length=…)` one that a longer value breaks.
    """

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True)


@dataclass(frozen=True, slots=True)
class CutTo(GroupedMetadata):
    """The limit of a text (characters) or a list (items) of a reply; what is longer is cut, a text after a word.

    It is for what can be cut without a change of meaning: a reason, a quotation, a list of items of which each stands
    alone. An answer without its end may be wrong: it gets `Field(max_length=…)`, and a longer one is `wrong_shape`.
    """

    limit: int

    def __iter__(self) -> Iterator[object]:
        yield MaxLen(self.limit)
        yield BeforeValidator(partial(_cut, self.limit))


def _cut(limit: int, value: Any) -> Any:
    if isinstance(value, list):
        return value[:limit]
    if not isinstance(value, str) or len(value) <= limit:
        return value
    text = value.strip()
    if len(text) <= limit:
        return text
    cut = text[:limit]
    return cut if text[limit].isspace() else cut.rpartition(" ")[0] or cut


Note: TypeAlias = Annotated[str, CutTo(1000)]
"""What explains a verdict to people."""
Quote: TypeAlias = Annotated[str, CutTo(3000)]
"""What is copied from a text; the beginning of a quotation is a quotation too."""
Name: TypeAlias = Annotated[str, Field(max_length=200)]
"""A name or an id."""


def without_length_limits(schema: Any, *, upper_only: bool = False) -> Any:
    """Return a JSON schema without the limits of texts and lists, or without the upper ones."""
    if isinstance(schema, list):
        return [without_length_limits(part, upper_only=upper_only) for part in schema]
    if not isinstance(schema, Mapping):
        return schema
    limits = _UPPER_LIMITS if upper_only else _LENGTH_LIMITS
    return {
        name: without_length_limits(part, upper_only=upper_only)
        for name, part in schema.items()
        if not (name in limits and isinstance(part, int))
    }


def reply_form(schema: Mapping[str, Any]) -> str:
    """Return the form of a reply as prompts write it: {"evidence": "...", "supported": true | false}.

    It is shown in place of the JSON schema, which small models copy. A choice stands as `true | false` or `"a" | "b"`,
    so that a copy of the form is no reply.
    """
    return _form(schema, schema.get("$defs", {}), 0)


def _form(part: Mapping[str, Any], defs: Mapping[str, Any], depth: int) -> str:
    if depth > _DEEPEST:
        return "..."
    if "$ref" in part:
        return _form(defs.get(str(part["$ref"]).rpartition("/")[2], {}), defs, depth + 1)
    if "const" in part:
        return f'"{part["const"]}"'
    if "enum" in part:
        return " | ".join(f'"{one}"' for one in part["enum"])
    if choices := part.get("anyOf"):
        return " | ".join("null" if one.get("type") == "null" else _form(one, defs, depth + 1) for one in choices)
    kind = part.get("type")
    if kind == "object" or "properties" in part:
        fields = part.get("properties", {})
        return "{" + ", ".join(f'"{name}": {_form(one, defs, depth + 1)}' for name, one in fields.items()) + "}"
    if kind == "array":
        return f"[{_form(part.get('items', {}), defs, depth + 1)}]"
    if kind == "integer" and "minimum" in part and "maximum" in part:
        return f"{part['minimum']} | ... | {part['maximum']}"
    return {"string": '"..."', "boolean": "true | false", "integer": "1", "number": "1.5"}.get(str(kind), "...")
