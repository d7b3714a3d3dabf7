"""What error messages say of misspelt names, and of values that pydantic refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

_PLAIN = dict.fromkeys(("int_parsing", "int_type", "int_from_float"), "it must be a whole number")
_PLAIN |= {"float_parsing": "it must be a number", "string_too_short": "it is empty"}


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "; did you mean X?" with the known name that is most alike; "" where none is, or the name is known."""
    names = [*known]
    close = get_close_matches(name, names, n=1, cutoff=cutoff) if name not in names else []
    return f"; did you mean {close[0]}?" if close else ""


def fault_text(fault: Mapping[str, Any]) -> str:
    """Return what one of pydantic's errors says of a value."""
    return _PLAIN.get(fault["type"], str(fault["msg"]).removeprefix("Value error, "))


def options_fault(fault: Mapping[str, Any], known: Iterable[str], spelt: Callable[[str], str] = str) -> str:
    """Return what one of pydantic's errors says of an option; `spelt` returns its name as users write it."""
    if not fault["loc"]:  # of several options, which the message names
        return fault_text(fault)
    name, value = spelt(str(fault["loc"][0])), fault["input"]
    if fault["type"] == "extra_forbidden":
        return f"there is no option {name}{did_you_mean(name, known)}"
    if fault["type"] == "missing":
        return f"{name} is required"
    message = fault_text(fault)
    if any(one and message.startswith(f"{one} ") for one in (value if isinstance(value, list) else [value])):
        return f"{name}: {message}"
    wanted = ", no fdarx.Model" * isinstance(value, Mapping)
    simple = value is None or isinstance(value, (str, int, float, list))
    given = repr(value) if simple else f"a {type(value).__name__}{wanted}"
    given = re.sub(r"(?<=://)[^/\s]+(?=@)", "***", given)  # no user and password of an address
    return f"{name}: {message} (given: {given})"
