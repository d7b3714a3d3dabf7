"""What PubMed is asked to find for a claim."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fdarx_core.evaluation.baseline.answering_words import asked_terms
from fdarx_core.evaluation.baseline.grading_words import is_little
from fdarx_core.factuality.evidence.source import Query
from fdarx_core.filters.baseline.terms import terms

_WORD = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_CONTRACTED = re.compile(r"['’](?:s|re|ve|ll|d|m|t)\b", re.IGNORECASE)
_ACRONYM = re.compile(r"[A-Z].*[A-Z]")
_MEASURES = "mg mcg µg μg kg ml dl mm cm mmol nmol iu meq kcal mmhg hr hrs min sec percent"
_UNITS = frozenset(_MEASURES.split())
_NARROW, _OF_QUESTION = 6, 2
"""Words that one abstract must have all of: with more, hardly any has. So many of the question's, where the claim
shares none of them."""
_AS_LONG = 12
_KEPT = "hasabstract NOT retracted publication[pt]"


def queries_of(query: Query) -> list[str]:
    """Searches for the claim's evidence, the narrowest first; none where neither claim nor question has a word to use.

    The first wants the drug and six key words of the claim, those that the question has too before the longest; where
    the two share none, the longest of the question's as well: a claim by itself often leaves open what it is about.
    PubMed maps them to its headings, as phrases too. The second wants the drug, or else a word that claim and question
    share, and any other key word; the third any key word at all. Numbers and units are left out, as are articles
    without abstract and retracted ones.
    """
    drug, asked = _words(query.drug, 0), _words(query.question, 1)
    claimed = [word for word in _words(query.claim, 1) or asked if word not in drug]
    shared = [word for word in claimed if terms(word) & terms(query.question)]
    about = drug or shared or asked
    others = [word for word in claimed if word not in about]
    wanted = about if drug else _longest(about, _NARROW if shared else _OF_QUESTION)
    rungs = [
        " ".join([*wanted, *_longest(others, max(1, _NARROW - len(wanted)))]),
        f"({' '.join(drug) or _any_of(about)}) AND ({_any_of(others)})" if about and others else "",
        _any_of([*about, *others]),
    ]
    return [f"({rung}) AND {_KEPT}" for rung in dict.fromkeys(rungs) if rung]


def _words(text: str, telling: int) -> list[str]:
    """The words that carry meaning (0), or only those that tell what a text is about (1), each once, in order.

    In lower case but for acronyms; AND, OR and NOT, which Entrez takes for operators, carry none. A letter stays with
    its word: "hepatitis c".
    """
    text = _CONTRACTED.sub("", text)
    wanted = asked_terms(text, "")[telling]
    found: list[str] = []
    end = -2
    for place in _WORD.finditer(text):
        word = place[0] if _ACRONYM.match(place[0]) else place[0].lower()
        if len(word) == 1 and place[0].isupper() and place.start() == end + 1:
            found[-1] += f" {word}"
        elif word[0].isalpha() and not is_little(word.lower()) and word not in _UNITS and terms(word) & wanted:
            found.append(word)
            end = place.end()
    return list(dict.fromkeys(found))


def _longest(words: Sequence[str], most: int) -> list[str]:
    """In their order. An acronym stands for long words; an adverb tells little, however long."""
    chosen = sorted(words, key=lambda word: -_length(word))[:most]
    return [word for word in words if word in chosen]


def _length(word: str) -> int:
    if _ACRONYM.match(word):
        return _AS_LONG
    return 0 if word.endswith("ly") else len(word)


def _any_of(words: Sequence[str]) -> str:
    return " OR ".join(f"({word})" if " " in word else word for word in words)
