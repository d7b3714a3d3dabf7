"""What people fill in on a spreadsheet."""

from __future__ import annotations

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def inert(text: str) -> str:
    """A cell that a spreadsheet does not take for a formula, and would run. Source: OWASP, CSV injection."""
    return f"'{text}" if text.startswith(_FORMULA) else text
