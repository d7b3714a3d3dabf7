"""Which numbers of a claim a passage holds, and which it gives otherwise."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from fdarx_core.evaluation.baseline.grading_numbers import Intervals, Quantity, take_quantities
from fdarx_core.factuality.entailment.baseline.words import concept, concepts, weight

_SPAN = re.compile(
    r"(?<![\d.])(\d+(?:\.\d+)?)[^\d.;|]{0,12}?(?:-|\bto\b|\band\b|\bthrough\b)\s*(\d+(?:\.\d+)?)(?![\d.]*\d)"
)
_ROUGHLY = re.compile(r"\b(?:about|approximately|around|nearly|almost|roughly)\b|~")
LEAST_SHARED = 0.2
"""Weight of the words that two numbers must have beside them in common to be about the same thing."""
TELLING = 0.8
"""Weight by which the words beside another number must be nearer to a claim's than those beside its own."""
_YEARS = range(1900, 2100)
_CLOSE = 0.05
"""Largest relative difference to a number that is given roughly."""
_ITEM = re.compile(r"[;\n|]|[.,]\s|\b(?:and|or|but|then|while|whereas|followed by|compared (?:to|with)|versus|vs)\b")
_OF_AGE = re.compile(r"\b(?:age|ages|old|younger)\b|pediatric|geriatric|infant|neonat|adolescen")
_COMPARATORS = frozenset(map(concept, ("placebo", "vehicle", "control", "comparator")))
"""What a number belongs to that is none of the drug's, unless a claim names it."""
_OF_PATIENTS = ("kg", "month", "ml/h")
"""Units of what patients are like, of which any value within a range that is given is meant too: age, weight, GFR."""


@dataclass(frozen=True, slots=True)
class Compared:
    """How many numbers of a claim stand in a passage, those that do not, and what disagrees ("" for nothing)."""

    held: int
    missing: tuple[str, ...]
    wrong: str


Amounts: TypeAlias = tuple[Sequence[Quantity], Intervals, str]
"""The quantities and frequencies of a plain text, and the text."""


def compare(said: Amounts, held: Amounts) -> Compared:
    """The amounts of a claim against those of a passage's statement."""
    quantities, intervals, text = said
    here, often, where = held
    late = intervals.stated - often.meant
    wrong = f"{_often(late)} instead of {_often(often.stated)}" if late and often.stated - intervals.stated else ""
    found, missing = len(intervals.stated) - len(late), [_often(frozenset({one})) for one in late]
    roughly = bool(quantities) and _ROUGHLY.search(text) is not None
    for one in quantities:
        equal = _equals(one, here, roughly=roughly)
        if not equal and _in_range(one, text, here, where):
            found += 1
        elif not equal:
            missing.append(one.text)
            wrong = wrong or _disagrees(one, quantities, here, text, where)
        elif turned := _bounded_otherwise(one, equal):
            wrong = wrong or turned
        elif elsewhere := _repeated(one, quantities, here) or _misplaced(one, text, here, where):
            wrong = wrong or elsewhere
        elif _of_comparator(one, text, where):
            missing.append(one.text)
        else:
            found += 1
    return Compared(found, tuple(missing), wrong)


def _equals(one: Quantity, here: Sequence[Quantity], *, roughly: bool) -> list[Quantity]:
    """Those that are the same amount; one without a unit only if the number stands in no other unit."""
    equal = [other for other in here if _same(one, other, roughly=roughly)]
    otherwise = any(other.raw == one.raw and other.unit not in ("", one.unit) for other in here)
    return [other for other in equal if other.unit == one.unit or not (one.unit and otherwise)]


def _same(one: Quantity, other: Quantity, *, roughly: bool) -> bool:
    if one.equals(other):
        return True
    return roughly and one.unit == other.unit and abs(one.value - other.value) <= _CLOSE * abs(other.value)


def _bounded_otherwise(one: Quantity, equal: Sequence[Quantity]) -> str:
    if one.bound and all(other.bound not in ("", one.bound) for other in equal):
        return f"{one.text} as {'an upper' if one.bound == '<' else 'a lower'} bound"
    return ""


def _in_range(one: Quantity, text: str, here: Sequence[Quantity], where: str) -> bool:
    """Whether a value of a patient lies between two, or on the right side of one, that the passage gives.

    A claim that gives a range or a bound itself must give the passage's.
    """
    alike = [other for other in here if other.unit == one.unit]
    if one.unit not in _OF_PATIENTS or one.bound or not alike or any(one.raw in ends for ends in _spans(text)):
        return False
    if one.unit == "month" and not _OF_AGE.search(where):
        return False
    spans = [ends for ends in _spans(where) if any(other.raw in ends for other in alike)]
    single = [other for other in alike if not other.bound and not any(other.raw in ends for ends in spans)]
    within = any(low <= one.raw <= high for low, high in spans)
    beyond = any(other.bound and (other.bound == "<") == (one.value < other.value) for other in alike)
    return not single and (within or beyond)


def _spans(text: str) -> list[tuple[float, float]]:
    return [(float(found[1]), float(found[2])) for found in _SPAN.finditer(text)]


def _disagrees(one: Quantity, own: Sequence[Quantity], here: Sequence[Quantity], text: str, where: str) -> str:
    """What the passage gives in its place: another number in the same unit, or the same one in another."""
    if not one.unit and one.raw in _YEARS:
        return ""
    others = [
        other
        for other in here
        if (other.unit == one.unit or (one.unit and other.unit and other.raw == one.raw))
        and not any(mine.equals(other) for mine in own)
    ]
    if len(others) > 1 or len(own) > 1 or not one.unit:
        words, least = _beside(text, one), LEAST_SHARED if one.unit else 1
        others = [other for other in others if weight(words & _beside(where, other)) >= least]
    if not one.unit and len(others) > 1:
        return ""
    return f"{one.text} instead of {', '.join(dict.fromkeys(other.text for other in others))}" if others else ""


def _repeated(one: Quantity, own: Sequence[Quantity], here: Sequence[Quantity]) -> str:
    """The number that the passage gives where a claim gives one a second time."""
    if sum(map(one.equals, own)) <= sum(map(one.equals, here)):
        return ""
    left = [other for other in here if other.unit == one.unit and not any(map(other.equals, own))]
    return f"{one.text} twice instead of {left[0].text}" if left else ""


def _of_comparator(one: Quantity, text: str, where: str) -> bool:
    """Whether a table gives a number for the placebo alone, of which the claim does not speak."""
    if " | " not in where:
        return False
    others = _COMPARATORS.difference(concepts(text))
    holding = [words for quantities, words in _items(where) if any(map(one.equals, quantities))]
    return bool(holding) and all(words & others for words in holding)


def _misplaced(one: Quantity, text: str, here: Sequence[Quantity], where: str) -> str:
    """The number that stands beside the words with which the claim gives this one, where the two are not together."""
    if not one.unit or len(here) < 2 or "respectively" in where:
        return ""
    words = _beside(text, one)
    best, right, instead = 0.0, -1.0, ""
    for quantities, theirs in _items(where):
        shared = weight(words & theirs) - (1 if theirs & _COMPARATORS - words else 0)
        if any(one.equals(other) for other in quantities):
            right = max(right, shared)
        elif shared >= best and (same := [other for other in quantities if other.unit == one.unit]):
            best, instead = shared, same[0].text
    nearer = instead and right < LEAST_SHARED and best >= right + TELLING
    return f"{one.text} instead of {instead}" if nearer else ""


def _beside(text: str, one: Quantity) -> frozenset[str]:
    """The concepts of the items in which a quantity stands, of all where the text has no other."""
    found = _items(text)
    if len(found) == 1 or "respectively" in text:
        return frozenset(concepts(text))
    return frozenset().union(
        *(words for quantities, words in found if any(one.raw == other.raw for other in quantities))
    )


@lru_cache(maxsize=16384)
def _items(text: str) -> tuple[tuple[tuple[Quantity, ...], frozenset[str]], ...]:
    """The items of a plain text that have quantities, each with its concepts.

    Bare numbers belong to what follows, the last ones to what stands before.
    """
    found: list[tuple[tuple[Quantity, ...], frozenset[str]]] = []
    waiting: tuple[Quantity, ...] = ()
    for item in _ITEM.split(text):
        quantities, rest = take_quantities(item)
        words = frozenset(concepts(rest))
        if words and (waiting or quantities):
            found.append((waiting + quantities, words))
        waiting = () if words else waiting + quantities
    # a table's cell of the drug itself has no word once its name is taken out, beside the placebo's
    before = found[-1][1] - _COMPARATORS if found else frozenset[str]()
    return (*found, (waiting, before)) if waiting else tuple(found)


def _often(intervals: frozenset[float]) -> str:
    return "every " + ", ".join(f"{hours:g} h" for hours in sorted(intervals))
