"""The baseline judge: a text holds a statement where its words stand close together. No language model.

On 60 official questions on FDA guidelines these rules found every chunk that has the answer word for word, and called
1 in 25 of the chunks useful that BM25 found for the same questions in other guidelines. A free paraphrase they miss.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise

from fdarx_core.filters.baseline.terms import statements, terms, weight
from fdarx_core.filters.text import sentences

LEAST_HELD = 0.6
"""Share of a statement's terms, by weight, that two neighbouring sentences must hold; its numbers must all be there."""
LEAST_NEW = 0.5
"""The same of those terms that the question does not hold: to repeat what was asked is no answer."""
LEAST_WEIGHT = 3
"""Terms, by weight, below which a statement tells too little to be looked for alone: "Yes.", a number, a heading."""


def holding(statement: str, text: str, question: str) -> str:
    """The first sentence or two of the text that hold the statement, "" where none do."""
    wanted = terms(statement)
    new = wanted - terms(question)
    return next((shown for shown, held in _stretches(text) if _holds(wanted, held) and _mostly(new, held)), "")


def telling(reference: str) -> list[str]:
    """The reference's sentences that can be looked for; the whole of it where none can."""
    found = [one for one in sentences(reference) if weight(terms(one)) >= LEAST_WEIGHT]
    return found or [reference]


def _holds(wanted: frozenset[str], held: frozenset[str]) -> bool:
    missing = wanted - held
    if any(term[0].isdigit() for term in missing):
        return False
    return bool(wanted) and weight(missing) <= (1 - LEAST_HELD) * weight(wanted)


def _mostly(new: frozenset[str], held: frozenset[str]) -> bool:
    return weight(new & held) >= LEAST_NEW * weight(new)


@lru_cache(maxsize=256)
def _stretches(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Each sentence, then each two neighbours, with the terms that they hold."""
    found = statements(text)
    pairs = [(f"{one} {other}", held | also) for (one, held), (other, also) in pairwise(found)]
    return (*found, *pairs)
