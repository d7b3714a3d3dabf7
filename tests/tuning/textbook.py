"""Edit similarity by the textbook's table."""

from __future__ import annotations


def similarity(one: str, other: str) -> float:
    """1 less the Levenshtein distance over the longer text's length; 1 of two empty texts."""
    above = list(range(len(other) + 1))
    for row, letter in enumerate(one, 1):
        here = [row]
        for column, wanted in enumerate(other, 1):
            here.append(min(above[column] + 1, here[-1] + 1, above[column - 1] + (letter != wanted)))
        above = here
    longest = max(len(one), len(other))
    return 1.0 - above[-1] / longest if longest else 1.0
