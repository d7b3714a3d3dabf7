"""What a page keeps of a passage: all of a short one, of a long one what lies around the windows that were judged."""

from __future__ import annotations

from collections.abc import Iterable

WHOLE = 1_800
"""Characters up to which a passage is kept whole."""
AROUND = 250
"""Characters before and after a window; the cut falls between words."""
MOST = 1_200
"""Characters of one window: a window may be the whole passage, and then its beginning says what it is on."""

Excerpt = tuple[int, str]
"""Where it starts in the passage, in characters, and its text."""


def excerpts_of(text: str, windows: Iterable[tuple[int, int]]) -> list[Excerpt]:
    """In order and apart from each other; `text[start:start + len(excerpt)]` is each, letter for letter."""
    if len(text) <= WHOLE:
        return [(0, text)]
    ranges: list[tuple[int, int]] = []
    for start, end in sorted(_around(text, *window) for window in windows):
        if ranges and start <= ranges[-1][1]:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
        else:
            ranges.append((start, end))
    return [(start, text[start:end]) for start, end in ranges]


def _around(text: str, start: int, end: int) -> tuple[int, int]:
    low, high = max(start - AROUND, 0), min(min(end, start + MOST) + AROUND, len(text))
    after = text.find(" ", high)
    return text.rfind(" ", 0, low + 1) + 1, len(text) if after < 0 else after
