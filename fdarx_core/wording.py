"""What error messages say of misspelt names, and of values that pydantic refuses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "; did you mean X?" with the known name that is most alike; "" where none is, or the name is known."""
    names = [*known]
    close = get_close_matches(name, names, n=1, cutoff=cutoff) if name not in names else []
    return f"; did you mean {close[0]}?" if close else ""


def fault_text(fault: Mapping[str, Any]) -> str:
    """Return what one of pydantic's errors says of a value."""
    return str(fault["msg"]).removeprefix("Value error, ")
