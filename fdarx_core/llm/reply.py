"""The replies of tasks: their base class, limits of texts and lists, their form in prompts, and the JSON in a text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeAlias

from annotated_types import GroupedMetadata, MaxLen
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_UPPER_LIMITS = frozenset(("maxLength", "maxItems"))
_LENGTH_LIMITS = _UPPER_LIMITS | {"minLength", "minItems"}
_DEEPEST = 8

_TAG = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning|reflection|analysis|rationale|plan|planning|scratch_?pad)"
_MARKS = {
    rf"<\s*(?P<tag>{_TAG})(?:\s[^>]*)?>": r"<\s*/\s*(?P=tag)\s*>",
    r"\[THINK\]": r"\[/THINK\]",
    "\N{WHITE LEFT-POINTING TRIANGLE}think\N{WHITE RIGHT-POINTING TRIANGLE}": (
        "\N{WHITE LEFT-POINTING TRIANGLE}/think\N{WHITE RIGHT-POINTING TRIANGLE}"
    ),
    r"<\|START_THINKING\|>": r"<\|END_THINKING\|>",
    r"<\|channel\|>analysis<\|message\|>": r"<\|end\|>",
}
"""What opens and closes a thought: tags of many models, and the marks of Mistral, Kimi, Cohere and gpt-oss."""
_THOUGHT = re.compile("|".join(f"{opens}.*?{closes}" for opens, closes in _MARKS.items()), re.DOTALL | re.IGNORECASE)
_THOUGHT_OPENS = re.compile("|".join(_MARKS), re.IGNORECASE)
_THOUGHT_CLOSES = re.compile(rf"<\s*/\s*{_TAG}\s*>|{'|'.join([*_MARKS.values()][1:-1])}", re.IGNORECASE)
_FENCE = re.compile(r"```[a-z]*[ ]*\n?(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)
_MOST_OBJECTS = 50
"""Braces of a text at which an object is looked for: a text of braces alone would take quadratic time."""
_DECODER = json.JSONDecoder(strict=False)  # engines with a grammar let control characters pass in strings


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
        yield BeforeValidator(self._cut)

    def _cut(self, value: Any) -> Any:
        if isinstance(value, list):
            return value[: self.limit]
        if not isinstance(value, str) or len(value) <= self.limit:
            return value
        text = value.strip()
        if len(text) <= self.limit:
            return text
        cut = text[: self.limit]
        return cut if text[self.limit].isspace() else cut.rpartition(" ")[0] or cut


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
        return " | ".join(f'"{value}"' for value in part["enum"])
    if choices := part.get("anyOf"):
        return " | ".join("null" if kind.get("type") == "null" else _form(kind, defs, depth + 1) for kind in choices)
    kind = part.get("type")
    if kind == "object" or "properties" in part:
        fields = part.get("properties", {})
        return "{" + ", ".join(f'"{name}": {_form(field, defs, depth + 1)}' for name, field in fields.items()) + "}"
    if kind == "array":
        return f"[{_form(part.get('items', {}), defs, depth + 1)}]"
    if kind == "integer" and "minimum" in part and "maximum" in part:
        return f"{part['minimum']} | ... | {part['maximum']}"
    return {"string": '"..."', "boolean": "true | false", "integer": "1", "number": "1.5"}.get(str(kind), "...")


def without_thoughts(reply: str) -> str | None:
    """Return a reply without thoughts in tags and surrounding white space; None if a thought does not end."""
    text = _THOUGHT.sub("", reply)
    if _THOUGHT_OPENS.search(text):
        return None
    return _THOUGHT_CLOSES.split(text)[-1].strip()  # the prompt's template may have opened it


def without_fences(text: str) -> str:
    """Return a text without the marks of Markdown's code fences, and with what stands in them."""
    return _FENCE.sub(r"\1", text).strip() if "```" in text else text


def json_values(reply: str) -> Iterator[Any]:
    """Yield what may be the JSON of a reply, the likeliest first.

    These are the whole reply, then, outside of thoughts, the contents of fences and the outermost objects, of each the
    last one first: a model that corrects itself gives its reply at the end.
    """
    yield from _decoded(reply)
    text = without_thoughts(reply)
    if text is None:
        return
    if text != reply:
        yield from _decoded(text)
    for fenced in reversed(list(_FENCE.finditer(text))):
        yield from _decoded(fenced[1])
    objects, start = [], text.find("{")
    for _ in range(_MOST_OBJECTS):
        if start < 0:
            break
        try:
            value, end = _DECODER.raw_decode(text, start)
            objects.append(value)
        except (ValueError, RecursionError):
            end = start + 1
        start = text.find("{", end)
    yield from reversed(objects)


def _decoded(text: str) -> Iterator[Any]:
    try:
        yield _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return
