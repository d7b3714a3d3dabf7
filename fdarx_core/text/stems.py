"""Stems of words, the terms of texts that judges and searches compare, and the sentences that hold terms."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Literal

from fdarx_core.text.numbers import number_strings
from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.tokens import content_words, word_set

_SUFFIXES = {
    "term": re.compile(r"(?<=\w{3})(?:ations?|ions?|ings?|ages?|ed|es|e|s|ly|al|y|ies)$"),
    "conjunction": re.compile(r"(?<=\w{3})(?:ages?|ations?|ings?|ed|es|e)$"),
}
MOST_SENTENCES = 4
"""The most sentences that `best_sentences` returns."""
_STEM_STOP = word_set("stem_stop_words")


@lru_cache(maxsize=1 << 17)
def stem(word: str, suffixes: Literal["term", "conjunction"]) -> str:
    """Return a word without its suffix: of the terms of texts, or of the filter of joined questions."""
    return _SUFFIXES[suffixes].sub("", word)


@lru_cache(maxsize=4096)
def terms(text: str) -> frozenset[str]:
    """Return the stems of the content words of a text, and its numbers."""
    words = (word for word in content_words(text) if not word[0].isdigit())
    return frozenset(stem(word, "term") for word in words) | number_strings(text)


@lru_cache(maxsize=64)
def sentence_terms(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the sentences of a text, each with its terms."""
    return tuple((sentence, terms(sentence)) for sentence in split_sentences(text))


def best_sentences(wanted: Collection[str], text: str) -> list[str]:
    """Return the sentences, in order, that hold most of the wanted terms, as `cover` chooses them."""
    pool = sentence_terms(text)
    chosen = cover(wanted, [held for _, held in pool], MOST_SENTENCES, least=1)
    return [pool[place][0] for place in sorted(chosen)]


def cover(wanted: Collection[str], pool: Sequence[frozenset[str]], most: int, *, least: int = 2) -> dict[int, int]:
    """Return the places of the sets that together hold most of the wanted terms, with the weight that each adds.

    Greedy: the set that adds most, at least `least`, then the next, while one adds two words or a number.
    """
    missing, gains = set(wanted), dict[int, int]()
    while missing and len(gains) < most:
        # A number counts as two words.
        weights = [sum(2 if term[:1].isdigit() else 1 for term in held & missing) for held in pool]
        gain = max(weights, default=0)
        if gain < (2 if gains else least):
            break
        place = weights.index(gain)
        gains[place] = gain
        missing -= pool[place]
    return gains


def is_stop_word(word: str) -> bool:
    """Return whether a lower-case word carries no meaning of its own."""
    return word in _STEM_STOP or len(word) < 2
