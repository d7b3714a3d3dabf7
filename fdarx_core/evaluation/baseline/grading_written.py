"""How the grader names what it misses: in the words of the text that it read, not in the stems that it compares."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fdarx_core.evaluation.baseline.grading_words import is_little, spelt_stems, weight

MOST_NAMED = 12
"""Phrases that a grade names; the others are counted."""

_TOKEN = re.compile(r"\w+|[%°]")
_STOP = re.compile(r"[^\w\s-]")


def written(original: str, spelled: str, wanted: frozenset[str], drug: str) -> str:
    """The phrases of a text in which the wanted stems stand, first ones only, letter for letter, with commas between.

    `spelled` is the plain form of `original`, `drug` the plain name of the drug, which may stand within a phrase.
    Neighbours are one phrase. Words that say little by themselves are left out where there are others.
    """
    phrases = list(_phrases(spelled, wanted, drug))
    telling = [phrase for phrase, says in phrases if says >= 1] or [phrase for phrase, _ in phrases]
    named = ", ".join(original_words(original, phrase) for phrase in telling[:MOST_NAMED])
    return f"{named} and {len(telling) - MOST_NAMED} more" if len(telling) > MOST_NAMED else named


def original_words(original: str, phrase: str) -> str:
    """A phrase of a plain text as the original writes it; as it is where the original writes it in no such way."""
    if (at := original.lower().find(phrase)) >= 0:
        return original[at : at + len(phrase)]
    parts = (",?".join(part) if part.isdigit() else re.escape(part) for part in _TOKEN.findall(phrase))
    found = re.search(r"(?<!\w)" + r"[\W_]*".join(parts), original, re.IGNORECASE)
    return " ".join(found[0].split()) if found else phrase


def _phrases(spelled: str, wanted: frozenset[str], drug: str) -> Iterator[tuple[str, float]]:
    """Phrases with what they say in weight: runs of pieces that each hold a wanted stem, of which one is new."""
    left, start, end, held = set(wanted), -1, -1, frozenset[str]()
    for first, last, found in spelt_stems(spelled):
        goes_on = start >= 0 and _joins(spelled[end:first].replace(drug or " ", " "))
        if not goes_on and start >= 0:
            if held & left:
                yield spelled[start:end], weight(held & left)
            left, start, held = left - held, -1, frozenset()
        if found & wanted:
            start, end, held = (first if start < 0 else start), last, held | (found & wanted)
    if start >= 0 and held & left:
        yield spelled[start:end], weight(held & left)


def _joins(between: str) -> bool:
    """Whether nothing but little words stands between two pieces."""
    return all(is_little(word) for word in between.replace("-", " ").split()) and not _STOP.search(between)
