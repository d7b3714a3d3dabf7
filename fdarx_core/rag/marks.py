"""Marks of unverified statements in plain text, where there are no elements to show verdicts with.

A statement without a mark is supported. A model cannot write a mark itself: in its answers, brackets that speak of
verification become parentheses, and invisible characters are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from unicodedata import category

from fdarx_core.records import AnswerStatement

UNVERIFIED = "[unverified]"
"""Stands before each statement that is not supported: text of the statement can't take it in, as behind "none is"."""
_FORGED = re.compile(
    r"[\[【［]([^\[\]【】［］]{0,40}(?<![^\W_])(?:un)?(?:verified|supported)(?![^\W_])[^\[\]【】［］]{0,40})[\]】］]",
    re.IGNORECASE,
)
_INVISIBLE = frozenset(["Cf", "Co", "Cn", "Cs"])
"""Unicode categories of characters that nobody sees: they split words, turn the direction of text, or carry text."""


def without_marks(text: str) -> str:
    """Return the text of a model without invisible characters, and with parentheses for brackets that say that it is
    verified, supported, or is not."""
    visible = text if text.isascii() else "".join(one for one in text if category(one) not in _INVISIBLE)
    return _FORGED.sub(r"(\1)", visible)


def marked_text(text: str, statements: Iterable[AnswerStatement], start: int = 0) -> str:
    """Return an answer, or a piece of it, with `UNVERIFIED` before each statement that is not supported.

    In a row of a table the mark is in the first cell, because a page that shows the table may leave out the last one.

    Args:
        text: the text.
        statements: its statements, in order, with their places in the answer.
        start: the number of the answer's characters before the text.
    """
    parts, at = list[str](), 0
    for one in statements:
        if one.verdict == "supported":
            continue
        place = one.start - start
        in_row = text.startswith("|", place)
        place += in_row
        parts += (text[at:place], " " * in_row, UNVERIFIED, " ")
        at = place
    return "".join(parts) + text[at:]
