"""Sentences as tokens that exact matching compares: words without inflection, quantities, bounds, negations."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Literal

from fdarx_core.baseline.numbers import find_intervals, find_quantities
from fdarx_core.baseline.tokens import normalize, vocabulary

Kind = Literal["word", "drug", "quantity", "interval", "bound", "negation", "mark"]

DRUG = "<drug>"
"""The token of the drug's name, under which all its names are equal."""

_WORD = re.compile(r"[^\W_]+(?:'[a-z]+)?|[^\w\s]")
_SLASH = re.compile(r"(?<=[a-z]{3})/(?=[a-z]{3})")
_VOWEL = re.compile(r"[aeiouy]")
_PLURALS = [
    (re.compile(ending), base)
    for ending, base in ((r"ies$", "y"), (r"(?<=ss|sh|ch|zz)es$|(?<=x)es$", ""), (r"(?<![aisu])s$", ""))
]
_PARTICIPLE = re.compile(r"(?<=\w\w)(?:ing|(?<!e)ed)$")
_DOUBLED = re.compile(r"([bdgmnprt])\1$")


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a sentence.

    Attributes:
        key: what is compared: equal keys are equal tokens.
        kind: what a difference of two tokens of this kind means. A mark is punctuation, which is not compared.
        value: the number of a quantity as printed, the hours of a dosing interval; else 0.
        unit: the base unit of a quantity, "" for none.
    """

    key: str
    kind: Kind
    value: float = 0.0
    unit: str = ""


lexicon = partial(vocabulary, __package__, "lexicon.yaml")
"""Returns the words that exact matching knows."""


@cache
def words(name: str) -> frozenset[str]:
    """Return the entries of a list of `lexicon.yaml`, each without inflection."""
    return frozenset(map(uninflected, lexicon()[name].split()))


@cache
def _plain(name: str) -> frozenset[str]:
    return frozenset(lexicon()[name].split())


@cache
def _phrases(name: str) -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return patterns of phrases, each with what replaces them."""
    return tuple((re.compile(rf"\b(?:{phrases})\b"), key) for key, phrases in lexicon()[name].items())


def tokenize_sentence(sentence: str, drug: str = "") -> list[Token]:
    """Return the tokens of a sentence in order.

    Articles and auxiliary verbs are left out, as are dosage forms after the drug's name ("ibuprofen tablets").

    Args:
        sentence: text as printed.
        drug: a name of the drug; it becomes the token `DRUG`.
    """
    return list(_tokens(sentence, drug.lower().strip()))


@lru_cache(maxsize=1 << 14)
def _tokens(sentence: str, drug: str) -> tuple[Token, ...]:
    text = _SLASH.sub(" or ", normalize(sentence, literal=True).replace("and/or", "or"))
    for pattern, name in _phrases("synonyms"):
        text = pattern.sub(name, text)
    for pattern, sign in _phrases("bounds"):
        text = pattern.sub(f" {sign} ", text)
    names = re.compile(rf"(?<!\w){re.escape(drug)}(?:'s)?(?!\w)") if drug else None
    found: dict[int, tuple[int, Token]] = {}
    for start, end, hours in find_intervals(text):
        found[start] = end, Token(f"every {' '.join(f'{one:g}' for one in hours)} h", "interval", hours[0])
    for start, end, one in find_quantities(text):
        if not any(begin <= start < until for begin, (until, _) in found.items()):
            found[start] = end, Token(f"{one.value:g} {one.unit}", "quantity", one.raw, one.unit)
    if names is not None:
        for place in names.finditer(text):
            found.setdefault(place.start(), (place.end(), Token(DRUG, "drug")))
    tokens: list[Token] = []
    at = 0
    for start in sorted(found):
        if start >= at:
            tokens += _word_tokens(text[at:start], tokens)
            end, token = found[start]
            tokens.append(token)
            at = end
    tokens += _word_tokens(text[at:], tokens)
    return tuple(tokens)


def _word_tokens(text: str, before: list[Token]) -> Iterator[Token]:
    """Yield the tokens of a text without quantities; `before` are those in front of it."""
    follows_drug = bool(before) and before[-1].kind == "drug"
    for word in _WORD.findall(text):
        if word in "≤≥<>":
            yield Token(word, "bound")
        elif word in _plain("negations") or word.endswith("n't"):
            yield Token("not", "negation")
        elif not word[0].isalnum():
            yield Token(word, "mark")
        elif word not in _plain("unmarked") and not (follows_drug and word in _plain("dosage_forms")):
            yield Token(uninflected(word), "word")
        else:
            continue
        follows_drug = False


@lru_cache(maxsize=1 << 16)
def uninflected(word: str) -> str:
    """Return a lower-case word without the endings of plurals and of verbs: doses and dosed become "dos".

    A word with a digit stays whole.
    """
    if len(word) < 3 or not word.isalpha():
        return word
    for ending, base in _PLURALS:
        if ending.search(word):
            word = ending.sub(base, word)
            break
    bare = _PARTICIPLE.sub("", word)
    if bare != word and _VOWEL.search(bare):
        word = _DOUBLED.sub(r"\1", bare)
    return word.removesuffix("e")
