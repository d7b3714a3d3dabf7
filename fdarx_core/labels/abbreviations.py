"""What an abbreviation stands for in texts that introduce it: "nonsteroidal anti-inflammatory drugs (NSAIDs)".

Source: Schwartz and Hearst 2003, with the plural of an abbreviation read as its singular.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

LEAST_SHARE = 0.2
"""The least share of the introductions of an abbreviation that a long form must have."""
_LONGEST_WORD = 2
"""A long form has at most this many words for each letter of its abbreviation."""


def long_forms(abbreviation: str, texts: Iterable[str]) -> list[str]:
    """Return what an abbreviation stands for in texts, most frequent first, in lower case.

    Args:
        abbreviation: the abbreviation, in any case.
        texts: texts that may introduce it in brackets, behind its long form.

    Returns:
        The long forms that make up at least `LEAST_SHARE` of the introductions; empty where no text introduces it.
    """
    singular = re.sub(r"(?<=\w{3})s$", "", abbreviation, flags=re.IGNORECASE)
    if len(singular) < 2 or not singular[0].isalnum():
        return []
    introduced = re.compile(rf"\b([^()\[\].;:\n]+?)\s*\(\s*{re.escape(singular)}s?\s*[),;]", re.IGNORECASE)
    found = Counter[str]()
    for text in texts:
        for one in introduced.finditer(text):
            if form := _long_form(singular, one[1]):
                found[form] += 1
    total = sum(found.values())
    return [form for form, count in found.most_common() if count >= LEAST_SHARE * total]


def _long_form(abbreviation: str, before: str) -> str:
    """Return the end of a text that has the letters of an abbreviation in order, the first at the start of a word."""
    words = before.split()[-(len(abbreviation) * _LONGEST_WORD) :]
    text = " ".join(words)
    at = len(text)
    letters = [letter for letter in abbreviation.lower() if letter.isalnum()]
    for place in reversed(range(len(letters))):
        at -= 1
        while at >= 0 and (text[at].lower() != letters[place] or (place == 0 and at > 0 and text[at - 1].isalnum())):
            at -= 1
        if at < 0:
            return ""
    form = text[at:].lower()
    return form if len(form) > len(abbreviation) and len(form.split()) > 1 else ""
