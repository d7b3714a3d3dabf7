"""Entailment by rules: words, numbers, populations and polarity of a claim against the statements of a passage."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import TypeAlias

from fdarx_core.baseline.entailment_text import ParsedPassage, ParsedStatement, claim, passage, subject
from fdarx_core.baseline.numbers import Intervals, Quantity, extract_quantities
from fdarx_core.baseline.polarity import NOT_KNOWN, contradicting_polarity, lacks_polarity, opposed, other_group
from fdarx_core.baseline.stems import concept, concept_weight, concepts, weight_of_concept

_SPAN = re.compile(
    r"(?<![\d.])(\d+(?:\.\d+)?)[^\d.;|]{0,12}?(?:-|\bto\b|\band\b|\bthrough\b)\s*(\d+(?:\.\d+)?)(?![\d.]*\d)"
)
_ROUGHLY = re.compile(r"\b(?:about|approximately|around|nearly|almost|roughly)\b|~")
LEAST_SHARED = 0.2
"""The weight of shared neighboring words from which two numbers are about the same thing."""
TELLING = 0.8
"""Minimum difference in weight by which the words beside another number must be more similar to those of a claim."""
_YEARS = range(1900, 2100)
_CLOSE = 0.05
"""The largest relative difference to a number that is given approximately."""
_ITEM = re.compile(r"[;\n|]|[.,]\s|\b(?:and|or|but|then|while|whereas|followed by|compared (?:to|with)|versus|vs)\b")
_OF_AGE = re.compile(r"\b(?:age|ages|old|younger)\b|pediatric|geriatric|infant|neonat|adolescen")
_COMPARATORS = frozenset(map(concept, ("placebo", "vehicle", "control", "comparator")))
"""Comparators: a number that belongs to one of them is none of the drug, unless a claim names it."""
_OF_PATIENTS = ("kg", "month", "ml/h")
"""Units of age, weight and GFR: a value within a range that is given agrees with the range."""


Amounts: TypeAlias = tuple[Sequence[Quantity], Intervals, str]
"""The quantities and frequencies of a plain text, and the text."""


def compare(said: Amounts, held: Amounts) -> tuple[int, list[str], str]:
    """Compare the amounts of a claim with those of a passage's statement.

    Returns how many are there, those that are not, and what disagrees ("" for nothing).
    """
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
    return found, missing, wrong


def _equals(one: Quantity, here: Sequence[Quantity], *, roughly: bool) -> list[Quantity]:
    """Return the equal amounts; one without a unit counts only where the number has no other unit there."""
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
    """Return whether a value of a patient is within a range or bound of the passage.

    A claim that itself gives a range or a bound must give that of the passage.
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
    """Return the amount that the passage gives instead: another number in the unit, or the number in another unit."""
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
        others = [other for other in others if concept_weight(words & _beside(where, other)) >= least]
    if not one.unit and len(others) > 1:
        return ""
    return f"{one.text} instead of {', '.join(dict.fromkeys(other.text for other in others))}" if others else ""


def _repeated(one: Quantity, own: Sequence[Quantity], here: Sequence[Quantity]) -> str:
    """Return the number that the passage gives where a claim repeats another one."""
    if sum(map(one.equals, own)) <= sum(map(one.equals, here)):
        return ""
    left = [other for other in here if other.unit == one.unit and not any(map(other.equals, own))]
    return f"{one.text} twice instead of {left[0].text}" if left else ""


def _of_comparator(one: Quantity, text: str, where: str) -> bool:
    """Return whether a table gives a number only for the placebo, which the claim does not mention."""
    if " | " not in where:
        return False
    others = _COMPARATORS.difference(concepts(text))
    holding = [words for quantities, words in _items(where) if any(map(one.equals, quantities))]
    return bool(holding) and all(words & others for words in holding)


def _misplaced(one: Quantity, text: str, here: Sequence[Quantity], where: str) -> str:
    """Return the number that the passage gives with the words with which the claim gives this one, "" for the same."""
    if not one.unit or len(here) < 2 or "respectively" in where:
        return ""
    words = _beside(text, one)
    best, right, instead = 0.0, -1.0, ""
    for quantities, theirs in _items(where):
        shared = concept_weight(words & theirs) - (1 if theirs & _COMPARATORS - words else 0)
        if any(one.equals(other) for other in quantities):
            right = max(right, shared)
        elif shared >= best and (same := [other for other in quantities if other.unit == one.unit]):
            best, instead = shared, same[0].text
    nearer = instead and right < LEAST_SHARED and best >= right + TELLING
    return f"{one.text} instead of {instead}" if nearer else ""


def _beside(text: str, one: Quantity) -> frozenset[str]:
    """Return the concepts of the items that have a quantity, or of the whole text where it is a single item."""
    found = _items(text)
    if len(found) == 1 or "respectively" in text:
        return frozenset(concepts(text))
    return frozenset().union(
        *(words for quantities, words in found if any(one.raw == other.raw for other in quantities))
    )


@lru_cache(maxsize=16384)
def _items(text: str) -> tuple[tuple[tuple[Quantity, ...], frozenset[str]], ...]:
    """Return the items of a plain text that have quantities, each with its concepts.

    Bare numbers belong to what follows, the last ones to what stands before.
    """
    found: list[tuple[tuple[Quantity, ...], frozenset[str]]] = []
    waiting: tuple[Quantity, ...] = ()
    for item in _ITEM.split(text):
        quantities, rest = extract_quantities(item)
        words = frozenset(concepts(rest))
        if words and (waiting or quantities):
            found.append((waiting + quantities, words))
        waiting = () if words else waiting + quantities
    # a table's cell of the drug itself has no word once its name is taken out, beside the placebo's
    before = found[-1][1] - _COMPARATORS if found else frozenset[str]()
    return (*found, (waiting, before)) if waiting else tuple(found)


def _often(intervals: frozenset[float]) -> str:
    return "every " + ", ".join(f"{hours:g} h" for hours in sorted(intervals))


MOST_CANDIDATES = 4
"""The number of statements that are compared in detail: those with most of the claim's words and numbers."""
NEIGHBOURS = 2
"""Maximum distance, in statements, of two statements that support a claim together."""
NUMBER = 1.5
"""The weight of a number; words weigh 1."""
ELSEWHERE = 0.35
"""The weight of a word that is elsewhere in the passage."""
LEAST_TOGETHER = 0.6
"""The share of a claim's words that two statements must have to be read as one."""
OPPOSITE = 0.5
"""The weight of a word whose opposite is there: both statements are about the same."""
APART = 0.93
"""The factor for two statements that support a claim together."""
SMOOTHING = 0.3
"""A constant in the denominator of shares, so that a claim of one common word is not fully supported."""


LEAST_LOOKED_AT = 0.4
"""The possible share of a claim below which a statement is not compared further."""
NOT_LOOKED_AT = "too little of it is there"


@dataclass(frozen=True, slots=True)
class StatementMatch:
    """The comparison of a claim with one statement.

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


def compared(said: ParsedStatement, held: ParsedPassage) -> list[StatementMatch]:
    """Compare the claim with the statements that have most of it, each alone and with a neighbor."""
    scores = _scores(said, held)
    best = sorted(scores, key=lambda place: (-scores[place], place))[:MOST_CANDIDATES]
    found = [_beside_comparing(said, held.statements[place], held) for place in best]
    if not found or found[0].disagrees:
        return found
    disputed = {place for place, one in zip(best, found, strict=True) if one.disagrees or one.lacks == NOT_KNOWN}
    pairs = (pair for pair in _pairs(said, held, best[0]) if not disputed.intersection(pair))
    both = (_beside_comparing(said, held.window(*pair), held) for pair in pairs)
    return [*found, *(replace(one, share=round(APART * one.share, 6)) for one in both)]


def _scores(said: ParsedStatement, held: ParsedPassage) -> dict[int, float]:
    scores: dict[int, float] = {}
    for one in sorted(said.concepts):
        for place in held.places.get(one, ()):
            scores[place] = scores.get(place, 0.0) + weight_of_concept(one)
    for quantity in said.quantities:
        for place in held.numbers.get(quantity.value, ()):
            scores[place] = scores.get(place, 0.0) + NUMBER
    return scores


def _pairs(said: ParsedStatement, held: ParsedPassage, first: int) -> Iterator[tuple[int, int]]:
    """Yield the best statement with each near one that adds numbers, or a word of the claim that the best one lacks."""
    best = held.statements[first]
    lacking, words = said.concepts - best.concepts, concept_weight(said.concepts)
    for other in range(max(0, first - NEIGHBOURS), min(len(held.statements), first + NEIGHBOURS + 1)):
        one = held.statements[other]
        apart = one.end <= best.start or one.start >= best.end
        adds = concept_weight(lacking & one.concepts) >= 1 or (said.quantities and one.quantities)
        if apart and adds and concept_weight(said.concepts & (best.concepts | one.concepts)) >= LEAST_TOGETHER * words:
            yield min(first, other), max(first, other)


def _beside_comparing(said: ParsedStatement, one: ParsedStatement, held: ParsedPassage) -> StatementMatch:
    lacking = said.concepts - one.concepts
    words = concept_weight(said.concepts)
    here = words - concept_weight(lacking) + ELSEWHERE * concept_weight(lacking & held.places.keys())
    amounts = NUMBER * (len(said.quantities) + len(said.intervals.stated))
    at_most = (here + amounts) / max(words + amounts, SMOOTHING)
    if at_most < LEAST_LOOKED_AT:
        return StatementMatch(one.start, one.end, round(at_most, 6), lacks=NOT_LOOKED_AT)
    count, missing, wrong = compare(
        (said.quantities, said.intervals, said.plain), (one.quantities, one.intervals, one.plain)
    )
    counted = NUMBER * count
    allows = not said.polarity.allowed or bool(said.polarity.allowed & one.polarity.allowed)
    polarity, opposite = _polarity(said, one), _opposite(said, one)
    disagrees = [reason for reason in (wrong, polarity, opposite) if reason]
    if len(disagrees) == 1 and not (missing and not wrong):
        # what disagrees is what both speak of: a number beside the words, an opposite among them
        alike = counted + (1 if wrong else 0)
        shared = min(words, here + (OPPOSITE if opposite else 0))
        share = (shared + alike) / (words + alike + SMOOTHING)
        return StatementMatch(one.start, one.end, round(share, 6), disagrees=disagrees[0], allows=allows)
    share = (here + counted) / max(words + amounts, SMOOTHING)
    lacks = "; ".join(disagrees) or _lacks(said, one, missing, lacking)
    return StatementMatch(one.start, one.end, round(share, 6), lacks=lacks, allows=allows)


def _polarity(said: ParsedStatement, one: ParsedStatement) -> str:
    words, held = concept_weight(said.concepts), concept_weight(said.concepts & one.concepts)
    return contradicting_polarity(said.polarity, one.polarity, words, held)


def _opposite(said: ParsedStatement, one: ParsedStatement) -> str:
    """Return the opposites or groups of patients that exclude each other, "" for none."""
    denied = said.polarity.denied | one.polarity.denied | said.polarity.open | one.polarity.open
    sides = opposed(said.sides, one.sides, denied) if said.sides else ""
    group = other_group(said.groups, one.groups) if said.groups else ""
    return sides or group


def _lacks(said: ParsedStatement, one: ParsedStatement, missing: Sequence[str], lacking: frozenset[str]) -> str:
    if missing:
        return f"{', '.join(missing)} is not there"
    if said.groups and (lost := said.groups - one.groups - {"adults"}):
        return f"{', '.join(sorted(lost))}: not named there"
    if names := [name for name in sorted(lacking) if any(map(str.isdigit, name))]:
        return f"{', '.join(names)} is not there"
    return lacks_polarity(said.polarity, one.polarity)


Entailment: TypeAlias = tuple[float, float, float, int, int, str]
"""Probabilities of entailment, neutral and contradiction, start and end of the part of the text, and the reason."""
ENTAILMENT = ((0.0, 0.02), (0.4, 0.1), (0.7, 0.7), (1.0, 0.96))
"""The probability of entailment by the share of a claim that one statement has, interpolated linearly."""
CONTRADICTION = ((0.0, 0.02), (0.35, 0.1), (0.64, 0.7), (1.0, 0.95))
"""The probability of contradiction by the share of a claim's words, for a statement that differs in one point."""
AT_MOST_WITHOUT = 0.4
"""The highest probability of entailment by a statement without a number, denial or population of the claim."""
LEAST_ABOUT = 0.5
"""The share of a claim's subject that must be in a passage that is about the same thing."""
LEAST_SAID = 2
"""The least number of specific words and numbers of a claim; "it can be painful" has too few."""
AT_MOST_DISPUTED = 0.6
"""The highest probability of contradiction where another statement has as much of the claim and agrees."""
LEFT = 0.1
"""The share of the remaining probability that goes to the opposite class; the rest is neutral."""
_BEGINS, _ENDS = re.compile(r"(?:^|[.!?\n])\s*\Z"), re.compile(r"\s*(?:\n|\Z)")


def entail(text: str, statement: str, drug: str = "") -> Entailment:
    """Compare words, numbers with units, populations and polarity of a statement with each statement of a text.

    `drug` is the name of the drug that both speak of, "" where they may speak of different things.
    """
    if (at := _verbatim(text, statement)) >= 0:
        return _inference(ENTAILMENT[-1][1], 0.0, at, at + len(statement.strip()), "letter for letter")
    held = passage(text, drug)
    said = claim(statement, drug)
    found = compared(said, held)
    if not drug and (elsewhere := _of_something_else(statement, said, held)):
        found = [replace(one, disagrees="", lacks=elsewhere) for one in found]
    return _verdict(found, held)


def _of_something_else(text: str, said: ParsedStatement, held: ParsedPassage) -> str:
    """Return why claim and passage may speak of different things, "" where they speak of the same.

    This is only needed where no drug is given of which both speak.
    """
    if sum(weight_of_concept(one) >= 1 for one in said.concepts) + len(said.quantities) < LEAST_SAID:
        return "it says too little by itself"
    about = subject(text)
    lacking = about - held.places.keys()
    spoken_of = concept_weight(about - lacking) > (1 - LEAST_ABOUT) * concept_weight(about)
    return "" if spoken_of or not lacking else f"{', '.join(sorted(lacking))}: not spoken of there"


def _verbatim(text: str, statement: str) -> int:
    """Return where the statement stands in the text as whole sentences, -1 for nowhere."""
    wanted, at = statement.strip(), -1
    while wanted and (at := text.find(wanted, at + 1)) >= 0:
        end = at + len(wanted)
        if _BEGINS.search(text, 0, at) and (wanted[-1] in ".!?" or _ENDS.match(text, end)):
            return at
    return -1


def _verdict(found: Sequence[StatementMatch], held: ParsedPassage) -> Entailment:
    if not found:
        return _inference(ENTAILMENT[0][1], CONTRADICTION[0][1], 0, len(held.text), "none of its words is there")
    holding = max((one for one in found if not one.disagrees), key=_worth, default=None)
    against = max((one for one in found if one.disagrees), key=lambda one: one.share, default=None)
    denies = _denies(against, holding) if against else 0.0
    supports = _entails(holding) if holding else 0.0
    if against and holding and not holding.allows:
        supports = min(supports, AT_MOST_WITHOUT)
    if holding and supports >= denies:
        reason = holding.lacks or f"{holding.share:.0%} of it is there"
        return _inference(supports, LEFT * (1 - supports), holding.start, holding.end, reason)
    decides = against or found[0]
    return _inference(LEFT * (1 - denies), denies, decides.start, decides.end, decides.disagrees)


def _denies(against: StatementMatch, holding: StatementMatch | None) -> float:
    reached = _at(CONTRADICTION, against.share)
    disputed = holding and holding.share >= against.share and holding.allows and not holding.lacks
    return min(reached, AT_MOST_DISPUTED) if disputed else reached


def _worth(one: StatementMatch) -> tuple[float, float, int]:
    """Return a key that orders statements by how well they hold a claim, and then by their shortness."""
    return _entails(one), one.share, one.start - one.end


def _entails(one: StatementMatch) -> float:
    reached = _at(ENTAILMENT, one.share)
    return min(reached, AT_MOST_WITHOUT) if one.lacks else reached


def _at(line: Sequence[tuple[float, float]], share: float) -> float:
    for (left, low), (right, high) in pairwise(line):
        if share <= right:
            return low + (high - low) * (share - left) / (right - left)
    return line[-1][1]


def _inference(entailment: float, contradiction: float, start: int, end: int, reason: str) -> Entailment:
    return entailment, 1 - entailment - contradiction, contradiction, start, end, reason
