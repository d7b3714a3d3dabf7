"""One bad row must not cost its batch: what was made of it, or why nothing could be."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from fdarx_core.llm import Unparsable

Given = ParamSpec("Given")
Made = TypeVar("Made")


def by_rules(rules: Callable[Given, Made], *given: Given.args, **named: Given.kwargs) -> Made | str:
    """What the rules make of it, or how they failed."""
    try:
        return rules(*given, **named)
    except Exception as error:
        return f"rules_error: {type(error).__name__}: {error}"


def as_read(read: Callable[Given, Made], *given: Given.args, **named: Given.kwargs) -> Made | str:
    """What is read from a response, or why it can't be."""
    try:
        return read(*given, **named)
    except Unparsable as error:
        return f"{error.reason}: {error.detail}"
