"""Entailment by rules: a lower bound that needs no model, and says of each verdict what it saw."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from fdarx_core.factuality.entailment.baseline.comparing import Found, compared
from fdarx_core.factuality.entailment.baseline.reading import Passage, Statement, claim, passage, subject
from fdarx_core.factuality.entailment.baseline.words import weight, weight_of
from fdarx_core.factuality.entailment.inference import Inference, Pair

NAME = "baseline"
ENTAILMENT = ((0.0, 0.02), (0.4, 0.1), (0.7, 0.7), (1.0, 0.96))
"""Probability of entailment by the share of a claim that one statement holds: straight lines between these points."""
CONTRADICTION = ((0.0, 0.02), (0.35, 0.1), (0.64, 0.7), (1.0, 0.95))
"""Probability of contradiction by the share of a claim's words that a statement holds which disagrees in one point."""
AT_MOST_WITHOUT = 0.4
"""Probability of entailment, at most, by a statement that lacks a number, a denial or a population of the claim."""
LEAST_ABOUT = 0.5
"""Share of what a claim is about that must stand in a passage; without it the passage speaks of something else."""
LEAST_SAID = 2
"""Telling words and numbers that a claim must have: what "it can be painful" is about stands elsewhere."""
AT_MOST_DISPUTED = 0.6
"""Probability of contradiction, at most, where another statement holds as much and does not disagree."""
LEFT = 0.1
"""Share of what the verdict leaves that goes to its opposite; the rest is neutral."""
_BEGINS, _ENDS = re.compile(r"(?:^|[.!?\n])\s*\Z"), re.compile(r"\s*(?:\n|\Z)")


class RulesEntailment:
    """Compares words, numbers with units, populations and polarity of a claim with each statement of a passage."""

    @property
    def name(self) -> str:
        return NAME

    def judge(self, pairs: Sequence[Pair]) -> list[Inference]:
        return [_judged(pair) for pair in pairs]


def _judged(pair: Pair) -> Inference:
    if (at := _verbatim(pair)) >= 0:
        return _inference(ENTAILMENT[-1][1], 0.0, at, at + len(pair.hypothesis.strip()), "letter for letter")
    held = passage(pair.premise, pair.drug)
    said = claim(pair.hypothesis, pair.drug)
    found = compared(said, held)
    if not pair.drug and (elsewhere := _of_something_else(pair.hypothesis, said, held)):
        found = [replace(one, disagrees="", lacks=elsewhere) for one in found]
    return _verdict(found, held)


def _of_something_else(text: str, said: Statement, held: Passage) -> str:
    """Why it is not known that claim and passage speak of the same thing, "" where they do.

    To be asked where no drug is in question, of which both would speak.
    """
    if sum(weight_of(one) >= 1 for one in said.concepts) + len(said.quantities) < LEAST_SAID:
        return "it says too little by itself"
    about = subject(text)
    lacking = about - held.places.keys()
    spoken_of = weight(about - lacking) > (1 - LEAST_ABOUT) * weight(about)
    return "" if spoken_of or not lacking else f"{', '.join(sorted(lacking))}: not spoken of there"


def _verbatim(pair: Pair) -> int:
    """Where the claim stands in the passage as whole sentences, -1 for nowhere."""
    wanted, at = pair.hypothesis.strip(), -1
    while wanted and (at := pair.premise.find(wanted, at + 1)) >= 0:
        end = at + len(wanted)
        if _BEGINS.search(pair.premise, 0, at) and (wanted[-1] in ".!?" or _ENDS.match(pair.premise, end)):
            return at
    return -1


def _verdict(found: Sequence[Found], held: Passage) -> Inference:
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


def _denies(against: Found, holding: Found | None) -> float:
    reached = _at(CONTRADICTION, against.share)
    disputed = holding and holding.share >= against.share and holding.allows and not holding.lacks
    return min(reached, AT_MOST_DISPUTED) if disputed else reached


def _worth(one: Found) -> tuple[float, float, int]:
    """The better it holds a claim, and of two that do it as well the shorter."""
    return _entails(one), one.share, one.start - one.end


def _entails(one: Found) -> float:
    reached = _at(ENTAILMENT, one.share)
    return min(reached, AT_MOST_WITHOUT) if one.lacks else reached


def _at(line: Sequence[tuple[float, float]], share: float) -> float:
    for (left, low), (right, high) in pairwise(line):
        if share <= right:
            return low + (high - low) * (share - left) / (right - left)
    return line[-1][1]


def _inference(entailment: float, contradiction: float, start: int, end: int, reason: str) -> Inference:
    return Inference(entailment, 1 - entailment - contradiction, contradiction, start, end, reason)
