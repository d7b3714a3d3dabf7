"""Which of the index's drugs a text names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from fdarx_core.retrieval.postings import tokenize

_LEAST_LETTERS = 4
"""Shorter names ("Ice") are words of other meanings more often than names."""


class Mentions:
    """Drugs' names, to be found in texts as whole words, whatever their case and the signs between them."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
        for name in names:
            words = tuple(tokenize(name))
            if sum(map(len, words)) >= _LEAST_LETTERS:
                self._names[words].append(name)
        self._longest = max(map(len, self._names), default=0)

    def of(self, text: str) -> tuple[str, ...]:
        """Each name once, in the order of their first mention; of names within one another the longest."""
        words = tokenize(text)
        return tuple(dict.fromkeys(name for found in self._found(words) for name in self._names[found]))

    def _found(self, words: list[str]) -> Iterator[tuple[str, ...]]:
        at = 0
        while at < len(words):
            longest = range(min(self._longest, len(words) - at), 0, -1)
            found = next((one for n in longest if (one := tuple(words[at : at + n])) in self._names), ())
            if found:
                yield found
            at += len(found) or 1
