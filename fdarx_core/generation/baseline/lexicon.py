"""Finding the things that sentences speak of, by lists of phrases."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_WORD = re.compile(r"[^\W_]+")

Found = dict[str, dict[str, int]]
"""List -> thing -> how many other things of that list come before it."""


class Lexicon:
    """Phrases of several lists, all looked for in one pass over a text's words."""

    def __init__(self, lists: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
        self._phrases: dict[str, list[tuple[tuple[str, ...], str, str]]] = {}
        for name, things in lists.items():
            for thing, wordings in things.items():
                for wording in wordings:
                    phrase = tuple(wording.split())
                    self._phrases.setdefault(phrase[0], []).append((phrase, name, thing))
        for entries in self._phrases.values():
            entries.sort(key=lambda entry: -len(entry[0]))

    def find(self, lowered: str) -> Found:
        """The things that a lower-case text names, by list; of overlapping phrases of a list, the first and longest."""
        words = _WORD.findall(lowered)
        found: Found = {}
        ends: dict[str, int] = {}
        for position, word in enumerate(words):
            entries = self._phrases.get(word)
            if entries is None and word[-1] == "s":
                entries = self._phrases.get(word[:-1])
            if entries:
                _match(entries, words, position, found, ends)
        return found


def _match(
    entries: list[tuple[tuple[str, ...], str, str]], words: list[str], position: int, found: Found, ends: dict[str, int]
) -> None:
    """Add what begins at a position, longest first, unless a longer phrase of its list covers the position already."""
    for phrase, name, thing in entries:
        end = position + len(phrase)
        if ends.get(name, 0) <= position and _same(words[position:end], phrase):
            things = found.setdefault(name, {})
            things.setdefault(thing, len(things))
            ends[name] = end


def _same(words: list[str], phrase: tuple[str, ...]) -> bool:
    return len(words) == len(phrase) and all(
        word == wanted or word == wanted + "s" for word, wanted in zip(words, phrase, strict=True)
    )
