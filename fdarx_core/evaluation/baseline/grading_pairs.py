"""What each number of a text belongs to: "headache (11%), dry mouth (8%)" is not "headache (8%), dry mouth (11%)"."""

from __future__ import annotations

import re
from functools import lru_cache

from fdarx_core.evaluation.baseline.grading_numbers import Quantity, take_quantities
from fdarx_core.evaluation.baseline.grading_words import stems

_ITEM = re.compile(r"[;:\n]|[.,]\s|\b(?:and|or|but|then|while|whereas|followed by)\b")


def exchanged(gold: str, said: str) -> str:
    """The quantities of a plain text that stand beside each other's words in another one, "" unless two do."""
    own, other = _beside(gold), _beside(said)
    shared = [word for word in own.keys() & other.keys() if own[word].unit == other[word].unit]
    right = {own[word].text for word in shared if own[word].equals(other[word])}
    wrong = {own[word].text for word in shared} - right
    return ", ".join(sorted(wrong)) if len(wrong) > 1 else ""


@lru_cache(maxsize=16384)
def _beside(text: str) -> dict[str, Quantity]:
    """The one quantity beside each stem, of the stems that stand beside one only."""
    found: dict[str, list[Quantity]] = {}
    for item in _ITEM.split(text):
        quantities, words = take_quantities(item)
        if len(quantities) == 1:
            for word in set(stems(words)):
                found.setdefault(word, []).append(quantities[0])
    return {word: quantities[0] for word, quantities in found.items() if len(quantities) == 1}
