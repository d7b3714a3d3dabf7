"""What the baseline's judges compare: the telling words and numbers of a text, and the sentences that hold them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from fdarx_core.filters.text import content_words, numbers, sentences

MOST_SENTENCES = 4
"""Sentences of the longest evidence."""

_ENDING = re.compile(r"(?<=\w{3})(?:ations?|ions?|ings?|ages?|ed|es|e|s|ly|al|y|ies)$")


@lru_cache(maxsize=4096)
def terms(text: str) -> frozenset[str]:
    """Stems of the words that carry meaning, and the numbers."""
    words = (word for word in content_words(text) if not word[0].isdigit())
    return frozenset(map(_stem, words)) | numbers(text)


@lru_cache(maxsize=1 << 16)
def _stem(word: str) -> str:
    return _ENDING.sub("", word)


def weight(found: Collection[str]) -> int:
    """How much terms say together: a number counts as two words."""
    return sum(2 if term[0].isdigit() else 1 for term in found)


@lru_cache(maxsize=64)
def statements(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """The sentences of a text, letter for letter, each with its terms."""
    return tuple((sentence, terms(sentence)) for sentence in sentences(text))


def best_sentences(wanted: Collection[str], text: str) -> list[str]:
    """The fewest sentences, in their order, that hold most of the terms: at most `MOST_SENTENCES`, none for no term.

    Greedy: the sentence that adds most, then the next, while one adds two words or a number.
    """
    pool = statements(text)
    missing, taken = set(wanted), list[int]()
    while missing and len(taken) < MOST_SENTENCES:
        gains = [weight(held & missing) for _, held in pool]
        best = max(range(len(pool)), key=lambda place: (gains[place], -place), default=-1)
        if best < 0 or gains[best] < (2 if taken else 1):
            break
        taken.append(best)
        missing -= pool[best][1]
    return [pool[place][0] for place in sorted(taken)]


def quoted(found: Sequence[str]) -> str:
    """Sentences as a judge quotes them."""
    return " … ".join(found)


def shown_text(slots: Mapping[str, Any]) -> str:
    """The text of the passages in the slot `passages`."""
    return "\n".join(str(passage["text"]) for passage in slots["passages"])


def headings(slots: Mapping[str, Any]) -> str:
    """The titles above the passages in the slot `passages`."""
    return "\n".join(str(passage["section"]) for passage in slots["passages"])
