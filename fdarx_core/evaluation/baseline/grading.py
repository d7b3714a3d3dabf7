"""The baseline's grades: an answer is correct where it holds the reference's numbers, patients and terms, and no more.

It compares words, so it takes an uncommon paraphrase for an omission: a floor, not a judge to trust with a verdict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from fdarx_core.evaluation.baseline.grading_numbers import DOSE_UNITS, Quantity
from fdarx_core.evaluation.baseline.grading_pairs import exchanged
from fdarx_core.evaluation.baseline.grading_plain import plain
from fdarx_core.evaluation.baseline.grading_polarity import (
    Sides,
    may_forbid,
    opposite,
    prohibits,
    reversed_stems,
    sides,
)
from fdarx_core.evaluation.baseline.grading_read import Said, read
from fdarx_core.evaluation.baseline.grading_words import stems, weight

Outcome = Literal["CORRECT", "INCORRECT", "NOT_ATTEMPTED"]

LEAST_HELD = 0.6
"""Share of the reference's terms that an answer must hold, by weight, of those that the question lacks."""
LEAST_HELD_OF_ALL, ENOUGH_OWN = 0.3, 2
"""Share of all its terms, where those that the question lacks weigh less than `ENOUGH_OWN` and say too little."""
LEAST_OWN = 1
"""Weight of the terms that the question lacks below which they say nothing ("use" for "give"): all terms count then."""
LEAST_HELD_OF_STATEMENT = 0.4
"""Share of each of the reference's sentences, of its terms that the question lacks where they weigh `ENOUGH_OWN`."""
LEAST_TOUCHED, ENOUGH_TO_TOUCH = 0.25, 3
"""Share of these terms of the whole reference below which an answer speaks of something else, where they weigh 3."""
LEAST_TURNED = 0.4
"""Share of a sentence's terms that must be denied where it affirms, or the reverse, for it to be contradicted."""
NUMBER_WEIGHT = 2
"""Weight of a number beside terms, which weigh 1; all numbers must be there before terms are looked at."""
LEAST_HELD_OF_ITEM = 0.5
"""Share of the terms of each listed contraindication."""
MOST_ADDED = 5
"""Terms that an answer may add, as a multiple of the reference's, and never fewer than `ALWAYS_ALLOWED`."""
ALWAYS_ALLOWED = 40
MOST_EXCUSED, MOST_CLAIMED = 10, 3
"""Terms of its own that an answer without the requested information may have and still be no attempt: in all, and
beside the clauses in which it says so."""

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
_CLAUSES = re.compile(r"[.;!?](?:\s|$)|\b(?:but|however|although|though)\b")
_ITEMS = re.compile(r"[;:\n•]|\.\s|,\s|\b(?:and|or)\b")
_WHO_OR_HOW_MUCH = re.compile(r"\bindicated\b|\bdos(?:e|es|age)\b|\bwho\b|\bwhom\b|\bpatients\b|\bpopulations?\b")
_CONDITION = re.compile(
    r"\w{3}(?:itis|a?emia|osis|pathy|uria|penia|tension|cardia|oma|cytosis)\b|renal|hepatic|hypersensitiv|ulcer|asthma|"
    r"hemorrhage|stroke|infarction|diabetes|\bheart|pregnan|infection|glaucoma|seizure|porphyria|obstruction|block\b"
)


@lru_cache(maxsize=16384)
def _sides(text: str, asked_what_is_forbidden: bool) -> Sides:
    return sides(text, asked_what_is_forbidden=asked_what_is_forbidden)


def grade(slots: Mapping[str, Any]) -> tuple[Outcome, str, str]:
    """The grade with its fixed name ("" for correct) and what is missing or wrong."""
    drug = plain(str(slots["drug"])).strip()
    question, gold, said = (read(str(slots[name]), drug) for name in ("question", "gold", "predicted"))
    for name, check in _CHECKS:
        if detail := check(question, gold, said):
            attempt = _abstention(question, gold, said)
            return ("NOT_ATTEMPTED", attempt, detail) if attempt else ("INCORRECT", name, detail)
    return "CORRECT", "", "the reference's numbers, patients and terms are there"


def _abstention(question: Said, gold: Said, said: Said) -> str:
    """The name of an answer that claims nothing, "" for one that does."""
    if _foreign(said.quantities, (question, gold)) or len(said.terms - question.terms - gold.terms) > MOST_EXCUSED:
        return ""
    if not said.terms and not said.quantities:
        return "abstained"
    if _ABSTAINS.search(said.text):
        claims = "\n".join(clause for clause in _CLAUSES.split(said.words) if not _ABSTAINS.search(clause))
        return "abstained" if weight(frozenset(stems(claims)) - question.terms) <= MOST_CLAIMED else ""
    return "vague" if _VAGUE.search(said.text) else ""


def _contradicted(question: Said, gold: Said, said: Said) -> str:
    missing, added = _missing(question, gold, said), _foreign(said.quantities, (question, gold))
    units = {one.unit for one in missing if one.unit}
    if wrong := [one for one in added if one.unit in units]:
        expected = [one for one in missing if one.unit in {other.unit for other in wrong}]
        return f"{said.figures(wrong)} instead of {gold.figures(expected)}"
    for one in gold.quantities:
        same = [other for other in said.quantities if one.equals(other)]
        if one.bound and same and all(other.bound not in ("", one.bound) for other in same):
            bounds = ("a lower", "an upper") if one.bound == "<" else ("an upper", "a lower")
            return f"{gold.figures([one])} as {bounds[0]} bound instead of {bounds[1]} one"
    if gold.intervals.stated and (other := said.intervals.stated - _known_intervals(question, gold)):
        return f"{_often(other)} instead of {_often(gold.intervals.stated)}"
    return ""


def _beside_the_question(question: Said, gold: Said, said: Said) -> str:
    own = gold.terms - question.terms
    if weight(own) < ENOUGH_TO_TOUCH or weight(own & said.terms) >= LEAST_TOUCHED * weight(own):
        return ""
    words, figures = gold.wording(own - said.terms), gold.figures(_missing(question, gold, said))
    return f"{words}, {figures}" if figures else words


def _number_missing(question: Said, gold: Said, said: Said) -> str:
    late = gold.intervals.stated - question.intervals.meant - said.intervals.meant
    return gold.figures(_missing(question, gold, said)) or _often(late)


def _numbers_exchanged(question: Said, gold: Said, said: Said) -> str:
    return exchanged(gold.text, said.text) if len(gold.quantities) > 1 else ""


def _number_unsupported(question: Said, gold: Said, said: Said) -> str:
    often = said.intervals.stated - _known_intervals(question, gold)
    units = (*DOSE_UNITS, *(one.unit for one in (*gold.quantities, *question.quantities) if one.unit))
    added = [one for one in _foreign(said.quantities, (question, gold)) if one.unit.startswith(units)]
    return said.figures(added) or _often(often)


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


def _yes_for_no(question: Said, gold: Said, said: Said) -> str:
    answers = [text.text.split(None, 1)[0].strip(",.;:") for text in (gold, said) if text.text.strip()]
    return f"{answers[1]} instead of {answers[0]}" if sorted(answers) == ["no", "yes"] else ""


def _reversed(question: Said, gold: Said, said: Said) -> str:
    for one in gold.statements:
        turned = reversed_stems(_sides(one.words, question.forbids), _sides(said.words, question.forbids))
        if weight(frozenset(turned)) > LEAST_TURNED * weight(one.terms):
            return f"“{one.original}”"
    return ""


def _opposite(question: Said, gold: Said, said: Said) -> str:
    return opposite(gold.text, said.text)


def _content_missing(question: Said, gold: Said, said: Said) -> str:
    own = gold.terms - question.terms
    if not gold.terms and not gold.quantities:
        return "" if gold.text.split() == said.text.split() else gold.text.strip()
    if names := {term for term in own - said.terms if any(map(str.isdigit, term))}:
        return gold.wording(frozenset(names))
    figures = _figures(question, gold)
    if weight(own) < LEAST_OWN and not figures:
        return gold.wording(_lacking(gold.terms, said.terms, LEAST_HELD, 0))
    if weight(own) + figures < ENOUGH_OWN:
        lacking = _lacking(gold.terms, said.terms, LEAST_HELD_OF_ALL, figures)
        return gold.wording(lacking or _lacking(own, said.terms, LEAST_HELD, 0))
    return gold.wording(_lacking(own, said.terms, LEAST_HELD, figures))


def _statement_missing(question: Said, gold: Said, said: Said) -> str:
    for one in gold.statements if len(gold.statements) > 1 else ():
        own = one.terms - question.terms
        if weight(own) >= ENOUGH_OWN and _lacking(own, said.terms, LEAST_HELD_OF_STATEMENT, _figures(question, one)):
            return f"“{one.original}”"
    return ""


def _figures(question: Said, gold: Said) -> float:
    """What the numbers of the reference weigh that the question lacks."""
    return NUMBER_WEIGHT * (len(_foreign(gold.quantities, (question,))) + len(gold.intervals.stated))


def _lacking(wanted: frozenset[str], said: frozenset[str], least: float, figures: float) -> frozenset[str]:
    """What is wanted and not said, nothing where enough is; `figures` is the weight of numbers, known to be there."""
    missing = wanted - said
    enough = weight(missing) <= (1 - least) * (weight(wanted) + figures)
    return frozenset() if enough else missing


def _warning_missing(question: Said, gold: Said, said: Said) -> str:
    return _item_missing(question, gold, said) if question.forbids or "warning" in question.text else ""


def _ingredient_missing(question: Said, gold: Said, said: Said) -> str:
    return _item_missing(question, gold, said) if "ingredient" in question.text else ""


def _item_missing(question: Said, gold: Said, said: Said) -> str:
    lost = frozenset[str]()
    for item in _items(gold.words):
        own = item - question.terms
        if weight(own) >= 1 and weight(own & said.terms) < LEAST_HELD_OF_ITEM * weight(own):
            lost |= own - said.terms
    return gold.wording(lost)


def _prohibition_missing(question: Said, gold: Said, said: Said) -> str:
    if question.forbids or may_forbid(said.text):
        return ""
    return next((f"“{one.original}”" for one in gold.statements if prohibits(one.text)), "")


def _warning_unsupported(question: Said, gold: Said, said: Said) -> str:
    known = gold.terms | question.terms
    for part in _ITEMS.split(said.words) if question.forbids else ():
        named = frozenset(stems(part))
        if _CONDITION.search(part) and not named & known:
            return said.wording(named)
    return ""


def _content_unsupported(question: Said, gold: Said, said: Said) -> str:
    added = said.terms - gold.terms - question.terms
    most = max(ALWAYS_ALLOWED, MOST_ADDED * weight(gold.terms))
    return f"{len(added)} words beside the {len(gold.terms)} of the reference" if weight(added) > most else ""


def _items(text: str) -> list[frozenset[str]]:
    return [frozenset(stems(item)) for item in _ITEMS.split(text)]


def _often(intervals: Iterable[float]) -> str:
    """Intervals in hours as words, "" for none."""
    return ", ".join(_every(hours) for hours in sorted(intervals))


def _every(hours: float) -> str:
    for unit, length in (("months", 730.0), ("weeks", 168.0), ("days", 24.0)):
        if hours > length and hours % length == 0:
            return f"every {hours / length:g} {unit}"
    daily = {24.0: " (once daily)", 12.0: " (twice daily)", 8.0: " (3 times daily)", 6.0: " (4 times daily)"}
    return f"every {hours:g} hours{daily.get(hours, '')}"


_CHECKS: tuple[tuple[str, Callable[[Said, Said, Said], str]], ...] = (
    ("number_contradicted", _contradicted),
    ("polarity", _yes_for_no),
    ("warning_missing", _warning_missing),
    ("key_content_missing", _beside_the_question),
    ("number_missing", _number_missing),
    ("number_contradicted", _numbers_exchanged),
    ("unsupported_number", _number_unsupported),
    ("population_missing", _group_missing),
    ("key_content_missing", _content_missing),
    ("key_content_missing", _statement_missing),
    ("key_content_missing", _ingredient_missing),
    ("polarity", _reversed),
    ("polarity", _opposite),
    ("warning_missing", _prohibition_missing),
    ("unsupported_population", _group_unsupported),
    ("unsupported_warning", _warning_unsupported),
    ("unsupported_content", _content_unsupported),
)
