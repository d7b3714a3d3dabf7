"""The text of a reply: without thoughts, and the JSON in it, which models put into fences and between sentences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_TAGS = "think|thinking|thought|reasoning|reflection"
_THOUGHT = re.compile(rf"<({_TAGS})>.*?</\1>|\[THINK\].*?\[/THINK\]", re.DOTALL | re.IGNORECASE)
_THOUGHT_OPENS = re.compile(rf"<(?:{_TAGS})>|\[THINK\]", re.IGNORECASE)
_THOUGHT_CLOSES = re.compile(rf"</(?:{_TAGS})>|\[/THINK\]", re.IGNORECASE)
_FENCE = re.compile(r"```[a-z]*[ ]*\n?(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)
_MOST_OBJECTS = 50
"""Braces of a text at which an object is looked for: a text of braces alone would take quadratic time."""
_DECODER = json.JSONDecoder(strict=False)  # engines with a grammar let control characters pass in strings


def without_thoughts(reply: str) -> str | None:
    """Return a reply without thoughts in tags and surrounding white space; None if a thought does not end."""
    text = _THOUGHT.sub("", reply) if "</" in reply or "[/" in reply else reply
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
    yield from reversed(list(_objects(text)))


def _decoded(text: str) -> Iterator[Any]:
    try:
        yield _DECODER.decode(text.strip())
    except (ValueError, RecursionError):
        return


def _objects(text: str) -> Iterator[Any]:
    """Yield the outermost JSON objects of a text, in its order."""
    start = text.find("{")
    for _ in range(_MOST_OBJECTS):
        if start < 0:
            return
        try:
            value, end = _DECODER.raw_decode(text, start)
            yield value
        except (ValueError, RecursionError):
            end = start + 1
        start = text.find("{", end)
