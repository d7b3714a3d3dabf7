"""On which side of an opposition a statement stands: rise or fall, before or after a meal, women or men."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from fdarx_core.evaluation.baseline.grading_words import stem
from fdarx_core.factuality.entailment.baseline.words import concept, root, weight

_AXES = (
    ("increase raise higher greater", "decrease reduce fall decline"),
    ("high", "low"),
    ("before prior", "after"),
    ("inducer", "inhibitor inhibit inhibition"),
    ("agonist", "antagonist blocker"),
    ("mild", "moderate", "severe"),
    ("positive", "negative"),
    ("major", "minor"),
    ("rapid", "slow"),
    ("long", "short"),
    ("acute", "chronic"),
    ("superior better", "inferior worse"),
    ("morning", "evening bedtime night"),
    ("left", "right"),
    ("systolic", "diastolic"),
    ("common frequent", "rare uncommon infrequent"),
    ("early", "late"),
    ("weak", "strong potent"),
    ("oral", "intravenous", "intramuscular", "subcutaneous", "topical", "rectal"),
    ("type1", "type2"),
    ("safe", "unsafe"),
    ("effective", "ineffective"),
    ("reversible", "irreversible"),
    ("soluble", "insoluble"),
    ("normal", "abnormal"),
    ("symptomatic", "asymptomatic"),
    ("controlled", "uncontrolled"),
    ("stable", "unstable"),
    ("changed", "unchanged"),
    ("active", "inactive"),
    ("complete", "incomplete"),
    ("adequate", "inadequate"),
)
_SIDE_OF = {
    root(stem(word)): (number, side)
    for number, sides in enumerate(_AXES)
    for side, words in enumerate(sides)
    for word in words.split()
}
_FOOD = -1
_EITHER = re.compile(
    r"\bwith(?: or |/)without (?:food|meals?|regard)"
    r"|\b(?:without regard|regardless|irrespective) (?:to|of) (?:food|meals?)"
)
_FED = re.compile(r"\b(?:with|after|during) (?:\w+ )?(?:food|meals?|breakfast|dinner)\b")
_FASTED = re.compile(r"\b(?:without food|on an empty stomach|fasting|fasted|before (?:a |the )?(?:food|meals?))\b")
_OPPOSED_GROUPS = (
    frozenset({"children", "adults"}),
    frozenset({"children", "older adults"}),
    frozenset({"women", "men"}),
    frozenset({"renal impairment", "hepatic impairment"}),
    frozenset({"pregnancy", "lactation"}),
)
LEAST_SHARED = 1
"""Weight of the words near both that show that they are said of the same thing."""
_NEAR = 4
"""Words on either side of one that takes a side, among which is what it is said of."""
Sides = Mapping[int, Mapping[int, tuple[str, frozenset[str]]]]
"""By axis, each side taken with the concept that says so and the concepts near it."""


@lru_cache(maxsize=65536)
def _side(one: str) -> tuple[int, int] | None:
    return _SIDE_OF.get(root(one))


def sides(found: Sequence[str], text: str) -> Sides:
    """The sides on which the stems, and what the plain text says of food, stand."""
    taken: dict[int, dict[int, tuple[str, frozenset[str]]]] = {}
    for number, one in enumerate(found):
        if place := _side(one):
            near = (*found[max(0, number - _NEAR) : number], *found[number + 1 : number + 1 + _NEAR])
            before = taken.setdefault(place[0], {}).get(place[1], ("", frozenset()))[1]
            taken[place[0]][place[1]] = (one, before.union(map(concept, near)))
    if "food" in text or "meal" in text or "fast" in text or "stomach" in text:
        _add_food(found, text, taken)
    return taken


def _add_food(found: Sequence[str], text: str, taken: dict[int, dict[int, tuple[str, frozenset[str]]]]) -> None:
    rest, near = _EITHER.sub(" ", text), frozenset(map(concept, found))
    told = {side: how.search(rest) for side, how in enumerate((_FED, _FASTED))}
    ways = {side: (how[0], near) for side, how in told.items() if how}
    either = {2: ("with or without food", near)} if rest != text or len(ways) == 2 else {}
    if either or ways:
        taken[_FOOD] = either | (ways if len(ways) < 2 else {})


def opposed(said: Sides, passage: Sides, denied: frozenset[str]) -> str:
    """The words by which one stands on the other side of the same thing, "" for none; what is `denied` takes none."""
    for axis in said.keys() & passage.keys():
        own, other = said[axis], passage[axis]
        if own.keys() & other.keys() or denied.intersection(
            concept(one) for one, _ in (*own.values(), *other.values())
        ):
            continue
        if any(weight(near & theirs) >= LEAST_SHARED for _, near in own.values() for _, theirs in other.values()):
            return f"{_named(own)} against {_named(other)}"
    return ""


def _named(taken: Mapping[int, tuple[str, frozenset[str]]]) -> str:
    return ", ".join(one for one, _ in taken.values())


def other_group(said: frozenset[str], passage: frozenset[str]) -> str:
    """Groups of patients of which a claim names one and the passage another that excludes it, "" for none."""
    for family in _OPPOSED_GROUPS:
        own, other = said & family, passage & family
        if own and other and not own & other:
            return f"{', '.join(sorted(own))} against {', '.join(sorted(other))}"
    return ""
