"""The baseline's grades: an answer is correct where it holds the reference's numbers, patients and terms, and no more.

It compares words, so it takes an uncommon paraphrase for an omission: a floor, not a judge to trust with a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

from fdarx_core.evaluation.baseline.grading_numbers import (
    DOSE_UNITS,
    Intervals,
    Quantity,
    take_intervals,
    take_quantities,
)
from fdarx_core.evaluation.baseline.grading_pairs import exchanged
from fdarx_core.evaluation.baseline.grading_plain import plain
from fdarx_core.evaluation.baseline.grading_polarity import Sides, forbids, opposite, reversed_stems, sides
from fdarx_core.evaluation.baseline.grading_words import groups, one_name, stems, weight

Outcome = Literal["CORRECT", "INCORRECT", "NOT_ATTEMPTED"]

LEAST_HELD = 0.6
"""Share of the reference's terms that an answer must hold, by weight, of those that the question lacks."""
LEAST_HELD_OF_ALL, ENOUGH_OWN = 0.3, 2
"""Share of all its terms, where those that the question lacks weigh less than `ENOUGH_OWN` and say too little."""
NUMBER_WEIGHT = 2
"""Weight of a number beside terms, which weigh 1; all numbers must be there before terms are looked at."""
LEAST_HELD_OF_ITEM = 0.5
"""Share of the terms of each listed contraindication."""
MOST_ADDED = 5
"""Terms that an answer may add, as a multiple of the reference's, and never fewer than `ALWAYS_ALLOWED`."""
ALWAYS_ALLOWED = 40
MOST_EXCUSED = 10
"""Terms of its own that an answer without the requested information may have and still be no attempt."""

_ABSTAINS = re.compile(
    r"\b(?:do not|don't|cannot|can't|could not|unable to|not able to) (?:know|answer|determine|say|find|tell|provide)\b"
    r"|\b(?:i am|i'm) (?:not sure|unsure|uncertain)\b|\bno (?:information|data|mention)\b|\binformation not found\b"
    r"|\bnot (?:clearly |explicitly )?(?:specif\w+|stated?|mention\w*|provided?|given|found|available|answerable)\b"
    r"|\b(?:does|do) not (?:clearly |explicitly )?(?:specify|state|mention|provide|say|give|address|contain)\b"
)
_VAGUE = re.compile(
    r"\bas (?:directed|prescribed|instructed|recommended)\b|\b(?:consult|ask|see|refer to|check|follow|read) "
    r"(?:with )?(?:a |an |the |your )?(?:full )?(?:label|physician|pharmacist|prescribing information|package)\b"
)
_ITEMS = re.compile(r"[;:\n•]|\.\s|,\s|\b(?:and|or)\b")
_WHO_OR_HOW_MUCH = re.compile(r"\bindicated\b|\bdos(?:e|es|age)\b|\bwho\b|\bwhom\b|\bpatients\b|\bpopulations?\b")
_CONDITION = re.compile(
    r"\w{3}(?:itis|a?emia|osis|pathy|uria|penia|tension|cardia|oma|cytosis)\b|renal|hepatic|hypersensitiv|ulcer|asthma|"
    r"hemorrhage|stroke|infarction|diabetes|\bheart|pregnan|infection|glaucoma|seizure|porphyria|obstruction|block\b"
)


@dataclass(frozen=True)
class Said:
    """A text as the grader compares it."""

    text: str
    words: str
    quantities: tuple[Quantity, ...]
    intervals: Intervals
    terms: frozenset[str]

    @cached_property
    def groups(self) -> frozenset[str]:
        return groups(self.text)

    @cached_property
    def forbids(self) -> bool:
        return forbids(self.text)


@lru_cache(maxsize=16384)
def _read(text: str, drug: str) -> Said:
    named = one_name(_without(plain(text), drug))
    intervals, rest = take_intervals(named)
    quantities, words = take_quantities(rest)
    return Said(named, words, quantities, intervals, frozenset(stems(words)))


@lru_cache(maxsize=16384)
def _sides(text: str, asked_what_is_forbidden: bool) -> Sides:
    return sides(text, asked_what_is_forbidden=asked_what_is_forbidden)


def grade(slots: Mapping[str, Any]) -> tuple[Outcome, str, str]:
    """The grade with its fixed name ("" for correct) and what is missing or wrong."""
    drug = plain(str(slots["drug"])).strip()
    question, gold, said = (_read(str(slots[name]), drug) for name in ("question", "gold", "predicted"))
    for name, check in _CHECKS:
        if detail := check(question, gold, said):
            attempt = _abstention(question, gold, said)
            return ("NOT_ATTEMPTED", attempt, detail) if attempt else ("INCORRECT", name, detail)
    return "CORRECT", "", "the reference's numbers, patients and terms are there"


def _abstention(question: Said, gold: Said, said: Said) -> str:
    """The name of an answer that claims nothing, "" for one that does."""
    if _foreign(said.quantities, (question, gold)) or len(said.terms - question.terms - gold.terms) > MOST_EXCUSED:
        return ""
    if (not said.terms and not said.quantities) or _ABSTAINS.search(said.text):
        return "abstained"
    return "vague" if _VAGUE.search(said.text) else ""


def _contradicted(question: Said, gold: Said, said: Said) -> str:
    missing, added = _missing(question, gold, said), _foreign(said.quantities, (question, gold))
    units = {one.unit for one in (*gold.quantities, *question.quantities)}
    if wrong := [one for one in added if one.unit in units]:
        expected = [one.text for one in missing if one.unit in {other.unit for other in wrong}]
        return f"{_listed(wrong)} instead of {', '.join(expected)}" if expected else f"{_listed(wrong)}"
    for one in gold.quantities:
        same = [other for other in said.quantities if one.equals(other)]
        if one.bound and same and all(other.bound not in ("", one.bound) for other in same):
            return f"{one.bound} {one.text} is {same[0].bound} {same[0].text}"
    if gold.intervals.stated and (other := said.intervals.stated - _known_intervals(question, gold)):
        return f"every {_hours(other)} hours instead of every {_hours(gold.intervals.stated)}"
    return ""


def _number_missing(question: Said, gold: Said, said: Said) -> str:
    late = gold.intervals.stated - question.intervals.meant - said.intervals.meant
    return _listed(_missing(question, gold, said)) or (f"every {_hours(late)} hours" if late else "")


def _numbers_exchanged(question: Said, gold: Said, said: Said) -> str:
    return exchanged(gold.text, said.text) if len(gold.quantities) > 1 else ""


def _number_unsupported(question: Said, gold: Said, said: Said) -> str:
    often = said.intervals.stated - _known_intervals(question, gold)
    added = [one for one in _foreign(said.quantities, (question, gold)) if one.unit.startswith(DOSE_UNITS)]
    return _listed(added) or (f"every {_hours(often)} hours" if often else "")


def _missing(question: Said, gold: Said, said: Said) -> list[Quantity]:
    return [one for one in _foreign(gold.quantities, (question,)) if not any(map(one.equals, said.quantities))]


def _foreign(quantities: Sequence[Quantity], known: Sequence[Said]) -> list[Quantity]:
    """Those that stand in none of the texts."""
    return [one for one in quantities if not any(one.equals(other) for text in known for other in text.quantities)]


def _known_intervals(question: Said, gold: Said) -> frozenset[float]:
    return question.intervals.meant | gold.intervals.meant


def _group_missing(question: Said, gold: Said, said: Said) -> str:
    return ", ".join(sorted(gold.groups - question.groups - said.groups))


def _group_unsupported(question: Said, gold: Said, said: Said) -> str:
    decides = question.forbids or gold.forbids or bool(_WHO_OR_HOW_MUCH.search(question.text))
    return ", ".join(sorted(said.groups - gold.groups - question.groups)) if decides else ""


def _reversed(question: Said, gold: Said, said: Said) -> str:
    answers = [text.text.split(None, 1)[0].strip(",.;:") for text in (gold, said) if text.text.strip()]
    if sorted(answers) == ["no", "yes"]:
        return "yes for no, or no for yes"
    turned = reversed_stems(_sides(gold.words, question.forbids), _sides(said.words, question.forbids))
    return ", ".join(turned) or opposite(gold.text, said.text)


def _content_missing(question: Said, gold: Said, said: Said) -> str:
    own = gold.terms - question.terms
    if not gold.terms and not gold.quantities:
        return "" if gold.text.split() == said.text.split() else gold.text.strip()
    if names := {term for term in own - said.terms if any(map(str.isdigit, term))}:
        return ", ".join(sorted(names))
    figures = NUMBER_WEIGHT * (len(_foreign(gold.quantities, (question,))) + len(gold.intervals.stated))
    if weight(own) + figures < ENOUGH_OWN:
        return _lacking(gold.terms, said.terms, LEAST_HELD_OF_ALL, figures) or _lacking(own, said.terms, LEAST_HELD, 0)
    return _lacking(own, said.terms, LEAST_HELD, figures)


def _lacking(wanted: frozenset[str], said: frozenset[str], least: float, figures: float) -> str:
    """What is wanted and not said, "" where enough is; `figures` is the weight of numbers, known to be all there."""
    missing = wanted - said
    enough = weight(missing) <= (1 - least) * (weight(wanted) + figures)
    return "" if enough else ", ".join(sorted(missing))


def _warning_missing(question: Said, gold: Said, said: Said) -> str:
    if not question.forbids and "warning" not in question.text:
        return ""
    for item in _items(gold.words):
        own = item - question.terms
        if weight(own) >= 1 and weight(own & said.terms) < LEAST_HELD_OF_ITEM * weight(own):
            return ", ".join(sorted(own - said.terms))
    return ""


def _warning_unsupported(question: Said, gold: Said, said: Said) -> str:
    known = gold.terms | question.terms
    for part in _ITEMS.split(said.words) if question.forbids else ():
        named = frozenset(stems(part))
        if _CONDITION.search(part) and not named & known:
            return ", ".join(sorted(named))
    return ""


def _content_unsupported(question: Said, gold: Said, said: Said) -> str:
    added = said.terms - gold.terms - question.terms
    most = max(ALWAYS_ALLOWED, MOST_ADDED * weight(gold.terms))
    return f"{len(added)} terms beside the reference's {len(gold.terms)}" if weight(added) > most else ""


def _items(text: str) -> list[frozenset[str]]:
    return [frozenset(stems(item)) for item in _ITEMS.split(text)]


def _listed(quantities: Sequence[Quantity]) -> str:
    return ", ".join(dict.fromkeys(one.text for one in quantities))


def _hours(intervals: Iterable[float]) -> str:
    return ", ".join(f"{hours:g}" for hours in sorted(intervals))


def _without(text: str, drug: str) -> str:
    """The text without the drug's name, which says nothing in an answer about its label."""
    return text.replace(drug, " ") if drug else text


_CHECKS: tuple[tuple[str, Callable[[Said, Said, Said], str]], ...] = (
    ("number_contradicted", _contradicted),
    ("number_missing", _number_missing),
    ("number_contradicted", _numbers_exchanged),
    ("unsupported_number", _number_unsupported),
    ("polarity", _reversed),
    ("warning_missing", _warning_missing),
    ("population_missing", _group_missing),
    ("key_content_missing", _content_missing),
    ("unsupported_population", _group_unsupported),
    ("unsupported_warning", _warning_unsupported),
    ("unsupported_content", _content_unsupported),
)
