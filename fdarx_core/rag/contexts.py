"""The chunks that a model is shown, as the slots of a task hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fdarx_core.llm import ModelConfig
from fdarx_core.records import Found

_CHARACTERS_A_TOKEN = 4
_PROMPT_TOKENS = 2_000
"""What instructions, examples and the question take at most."""
_LEAST = 1_000


def numbered(found: Sequence[Found]) -> list[dict[str, Any]]:
    """Each chunk with the number that citations give it, from 1: {n, title, section, text}."""
    return [
        {"n": number, "title": one.chunk.title, "section": one.chunk.section, "text": one.chunk.text}
        for number, one in enumerate(found, 1)
    ]


def fitting(contexts: Sequence[Mapping[str, Any]], budget_chars: int) -> list[dict[str, Any]]:
    """The first contexts whose titles, sections and texts together have at most `budget_chars` characters.

    Whole ones are left out from the end; the first stays in any case, its text cut before a word where need be.
    """
    kept = list[dict[str, Any]]()
    for context in contexts:
        budget_chars -= _size(context)
        if budget_chars < 0 and kept:
            break
        kept.append(dict(context))
        if budget_chars < 0:
            kept[0]["text"] = _cut(context["text"], max(0, len(context["text"]) + budget_chars))
            break
    return kept


def budget_of(model: ModelConfig | None) -> int | None:
    """The characters of contexts that fit beside prompt and reply; None where the model's context is not known."""
    if model is None or model.context_length is None:
        return None
    return max(_LEAST, _CHARACTERS_A_TOKEN * (model.context_length - model.max_tokens - _PROMPT_TOKENS))


def _size(context: Mapping[str, Any]) -> int:
    return len(context["title"]) + len(context["section"]) + len(context["text"])


def _cut(text: str, length: int) -> str:
    """At most so many characters, no word of them broken unless there is but one."""
    if length >= len(text) or text[length].isspace():
        return text[:length].rstrip()
    whole = text[:length].rsplit(None, 1)[0] if " " in text[:length].strip() else text[:length]
    return whole.rstrip()
