"""A claim held against the statements of a passage: how much of it stands there, and what disagrees."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fdarx_core.factuality.entailment.baseline.numbers import compare
from fdarx_core.factuality.entailment.baseline.opposites import opposed, other_group
from fdarx_core.factuality.entailment.baseline.polarity import NOT_KNOWN, contradicting_polarity, lacks_polarity
from fdarx_core.factuality.entailment.baseline.reading import Passage, Statement
from fdarx_core.factuality.entailment.baseline.words import weight, weight_of

MOST_CANDIDATES = 4
"""Statements of a passage that are looked at closely: those with most of the claim's words and numbers."""
NEIGHBOURS = 2
"""Statements beside each other, at most so far apart, that may hold a claim together."""
NUMBER = 1.5
"""Weight of a number that is held, beside words, which weigh 1."""
ELSEWHERE = 0.35
"""What a word counts for that stands elsewhere in the passage."""
LEAST_TOGETHER = 0.6
"""Share of a claim's words that two statements must hold together to be read as one."""
OPPOSITE = 0.5
"""What a word counts for whose opposite stands there: both speak of the same."""
APART = 0.93
"""What two statements together hold counts for, beside one that holds it alone."""
SMOOTHING = 0.3
"""Weight of what a claim says beside its words: a claim of one common word is about very little."""


LEAST_LOOKED_AT = 0.4
"""Share of a claim that a statement may hold at most, below which nothing else of it is looked at."""
NOT_LOOKED_AT = "too little of it is there"


@dataclass(frozen=True, slots=True)
class Found:
    """One statement beside a claim.

    `share` of the claim's words and numbers that it holds, 0 to 1; `disagrees` where it says otherwise and `lacks`
    what it does not say though it may share the words; both "" for nothing. `allows` is whether it allows or recommends
    what the claim does, where it does.
    """

    start: int
    end: int
    share: float
    disagrees: str = ""
    lacks: str = ""
    allows: bool = True


def compared(said: Statement, held: Passage) -> list[Found]:
    """The claim beside each of the passage's statements that have most of it, alone and with a neighbour."""
    scores = _scores(said, held)
    best = sorted(scores, key=lambda place: (-scores[place], place))[:MOST_CANDIDATES]
    found = [_beside(said, held.statements[place], held) for place in best]
    if not found or found[0].disagrees:
        return found
    disputed = {place for place, one in zip(best, found, strict=True) if one.disagrees or one.lacks == NOT_KNOWN}
    pairs = (pair for pair in _pairs(said, held, best[0]) if not disputed.intersection(pair))
    both = (_beside(said, held.window(*pair), held) for pair in pairs)
    return [*found, *(replace(one, share=round(APART * one.share, 6)) for one in both)]


def _scores(said: Statement, held: Passage) -> dict[int, float]:
    scores: dict[int, float] = {}
    for one in sorted(said.concepts):
        for place in held.places.get(one, ()):
            scores[place] = scores.get(place, 0.0) + weight_of(one)
    for quantity in said.quantities:
        for place in held.numbers.get(quantity.value, ()):
            scores[place] = scores.get(place, 0.0) + NUMBER
    return scores


def _pairs(said: Statement, held: Passage, first: int) -> Iterator[tuple[int, int]]:
    """The best statement with each near one that adds a word of the claim that it lacks, or numbers."""
    best = held.statements[first]
    lacking, words = said.concepts - best.concepts, weight(said.concepts)
    for other in range(max(0, first - NEIGHBOURS), min(len(held.statements), first + NEIGHBOURS + 1)):
        one = held.statements[other]
        apart = one.end <= best.start or one.start >= best.end
        adds = weight(lacking & one.concepts) >= 1 or (said.quantities and one.quantities)
        if apart and adds and weight(said.concepts & (best.concepts | one.concepts)) >= LEAST_TOGETHER * words:
            yield min(first, other), max(first, other)


def _beside(said: Statement, one: Statement, held: Passage) -> Found:
    lacking = said.concepts - one.concepts
    words = weight(said.concepts)
    here = words - weight(lacking) + ELSEWHERE * weight(lacking & held.places.keys())
    amounts = NUMBER * (len(said.quantities) + len(said.intervals.stated))
    at_most = (here + amounts) / max(words + amounts, SMOOTHING)
    if at_most < LEAST_LOOKED_AT:
        return Found(one.start, one.end, round(at_most, 6), lacks=NOT_LOOKED_AT)
    numbers = compare((said.quantities, said.intervals, said.plain), (one.quantities, one.intervals, one.plain))
    counted = NUMBER * numbers.held
    allows = not said.polarity.allowed or bool(said.polarity.allowed & one.polarity.allowed)
    polarity, opposite = _polarity(said, one), _opposite(said, one)
    disagrees = [reason for reason in (numbers.wrong, polarity, opposite) if reason]
    if len(disagrees) == 1 and not (numbers.missing and not numbers.wrong):
        # what disagrees is what both speak of: a number beside the words, an opposite among them
        alike = counted + (1 if numbers.wrong else 0)
        shared = min(words, here + (OPPOSITE if opposite else 0))
        share = (shared + alike) / (words + alike + SMOOTHING)
        return Found(one.start, one.end, round(share, 6), disagrees=disagrees[0], allows=allows)
    share = (here + counted) / max(words + amounts, SMOOTHING)
    lacks = "; ".join(disagrees) or _lacks(said, one, numbers.missing, lacking)
    return Found(one.start, one.end, round(share, 6), lacks=lacks, allows=allows)


def _polarity(said: Statement, one: Statement) -> str:
    words, held = weight(said.concepts), weight(said.concepts & one.concepts)
    return contradicting_polarity(said.polarity, one.polarity, words, held)


def _opposite(said: Statement, one: Statement) -> str:
    """The sides or the groups of patients that exclude each other, "" for none."""
    denied = said.polarity.denied | one.polarity.denied | said.polarity.open | one.polarity.open
    sides = opposed(said.sides, one.sides, denied) if said.sides else ""
    group = other_group(said.groups, one.groups) if said.groups else ""
    return sides or group


def _lacks(said: Statement, one: Statement, missing: tuple[str, ...], lacking: frozenset[str]) -> str:
    if missing:
        return f"{', '.join(missing)} is not there"
    if said.groups and (lost := said.groups - one.groups - {"adults"}):
        return f"{', '.join(sorted(lost))}: not named there"
    if names := [name for name in sorted(lacking) if any(map(str.isdigit, name))]:
        return f"{', '.join(names)} is not there"
    return lacks_polarity(said.polarity, one.polarity)
