"""Doses in answers: one that was asked for and is not there, one that no passage of the label gives."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fdarx_core.evaluation.baseline.grading_numbers import Quantity, take_intervals, take_quantities
from fdarx_core.evaluation.baseline.grading_plain import plain
from fdarx_core.evaluation.baseline.grading_polarity import prohibits
from fdarx_core.evaluation.baseline.grading_written import original_words
from fdarx_core.factuality.safety.advice import spans
from fdarx_core.factuality.safety.amounts import is_dose, tells_amount, tells_how_often

_KINDS = (
    r"(?:(?:recommended|usual|normal|typical|maximum|minimum|max|starting|initial|daily|adult|pediatric|total|loading|"
    r"maintenance|target|correct|right|standard|oral|intravenous|effective|safe|highest|lowest|single|"
    r"approved|label\w*)\s+)*"
)
_DOSE = (
    r"(?:dose|doses|dosage|dosages|dosing(?: (?:regimen|schedule))?)\b"
    r"(?! (?:(?:or|and) administration|measures?|instructions?|information|forms?|adjust|modif|chang|reduc|strengths?))"
)
_HOW_MUCH = re.compile(
    rf"\b(?:what|which)(?: is| are| was|'s| should be| would be)?(?: the| my)? {_KINDS}{_DOSE}(?! \w+ed\b)"
    rf"|\b(?:at )?(?:what|which) {_KINDS}{_DOSE}"
    r"|\bhow much\b(?! (?:weight|longer|more likely|time|risk|worse|better))[^?]{0,60}\b"
    r"(?:take|taken|give|given|use|used|administer(?:ed)?|prescribed?|receive|need|needed|dose|dosed|safe)\b"
    r"|\bhow many (?:mg|milligrams?|grams?|tablets?|capsules?|pills?|units?|drops?|puffs?|ml|milliliters?)\b"
    rf"|^(?:the )?{_KINDS}{_DOSE} (?:of|for) [^?]{{2,60}}\?*$"
)
_HOW_OFTEN = re.compile(
    r"\bhow (?:often|frequently|many times)\b[^?]{0,60}\b(?:take|taken|give|given|use|used|"
    r"administer(?:ed)?|dosed|apply|"
    r"applied|inject(?:ed)?|receive)\b"
)
_NOT_ASKED = re.compile(
    r"\b(?:miss(?:ed)?|skip(?:ped)?|forg[eo]t\w*|overdos\w*|too much|after (?:a|the|each|last) dose|dose adjustments?|"
    r"dosage adjustments?|why|cost|half-life|store[ds]?|effects? of|difference)\b"
)
_SETTLED = re.compile(
    r"\b(?:not (?:been )?(?:established|recommended|indicated|approved|known)|no (?:specific |recommended |"
    r"standard )?dos\w+|"
    r"no (?:dos\w+ )?adjust\w+|individuali[sz]ed?|same dos\w+|not necessary|no change)\b"
)
_OF_ANOTHER = re.compile(
    r"\s*(?:/\s*day|daily|per day|a day)?\s*(?:(?:oral |intravenous )?doses? )?of\s+"
    r"(?:oral |elemental |dietary )?(?P<what>[a-z][\w-]+)"
)
_ITS_OWN_WORDS = "the this that your a an it each oral drug medication medicine active dose body total"
_ITS_OWN = frozenset(_ITS_OWN_WORDS.split())
_DRUG_BEFORE = re.compile(
    r"\b(?P<what>[a-z]{3,}(?:in|ine|ol|ide|ate|one|pam|lam|pril|tan|azole|mab|nib|vir|phen|acid|calcium|sodium|iron|"
    r"potassium|magnesium|zinc))\W{0,3}(?:at |doses? of |dose \()?\W{0,2}$"
)
_OVERDOSE = re.compile(
    r"\b(?:overdos\w*|lethal|fatal\w*|death|ingest\w*|toxic\w*|subjects|volunteers|stud(?:y|ies)|swallow\w*|poison\w*)\b"
)
_RANGED = r"(?<![\w.,]){}\s*(?:-|–|—|to|or)\s*\d[\d.,]*\s*[A-Za-z]+"
_COUNTED = ("", "tablet", "capsule", "x", "dose")
_A_DAY = 24
_NOT_GIVEN = re.compile(
    r"\b(?:level|levels|concentration|concentrations|creatinine|glucose|cholesterol|clearance|serum|blood|"
    r"plasma|urine|protein|intake|diet)\b"
)


def asks_for_dose(question: str) -> tuple[bool, bool]:
    """Whether a question asks how much of a drug, and how often."""
    said = plain(question).strip()
    if _NOT_ASKED.search(said):
        return False, False
    return bool(_HOW_MUCH.search(said)), bool(_HOW_OFTEN.search(said))


def lacks_dose(question: str, answer: str) -> bool:
    """Whether a dose was asked for and the answer neither gives one nor says that there is none."""
    much, often = asks_for_dose(question)
    if not (much or often) or prohibits(plain(answer)) or _SETTLED.search(plain(answer)):
        return False
    return not (tells_amount(answer) or tells_how_often(answer))


class Given(NamedTuple):
    """A dose of an answer: where it stands, the counts beside it, and whether its sentence is of what was too much."""

    start: int
    end: int
    dose: Quantity
    counts: list[int]
    overdose: bool


def doses_in(answer: str, question: str, own: re.Pattern[str]) -> Iterator[Given]:
    """Each dose that an answer gives of the drug.

    Doses of other drugs, measured values, and what the question itself says are none. `own` finds the drug's names.
    """
    asked = {(one.value, one.unit) for one in take_quantities(plain(question))[0]}
    for start, end in spans(answer):
        sentence = answer[start:end]
        said = plain(sentence)
        intervals, rest = take_intervals(said)
        quantities = take_quantities(rest)[0]
        counts = [int(one.raw) for one in quantities if one.raw == int(one.raw) and one.unit in _COUNTED]
        counts += [round(_A_DAY / hours) for hours in intervals.meant if 0 < hours < _A_DAY]
        overdose = bool(_OVERDOSE.search(said) or _OVERDOSE.search(plain(question)))
        for one, first, last in _placed(sentence, quantities):
            if (one.value, one.unit) not in asked and not _is_of_another(sentence, first, last, own):
                yield Given(start + first, start + last, one, counts, overdose)


def _placed(sentence: str, quantities: Sequence[Quantity]) -> Iterator[tuple[Quantity, int, int]]:
    """The doses of a sentence and where they are written; a number that no unit follows is none but in a range."""
    at = 0
    for one in filter(is_dose, quantities):
        words = original_words(sentence[at:], one.text)
        first = sentence.find(words, at)
        last = first + len(words)
        if first < 0:
            if not (ranged := re.compile(_RANGED.format(f"{one.raw:g}")).search(sentence, at)):
                continue
            first, last = ranged.span()
            at = first
        else:
            at = last
        yield one, first, last


def _is_of_another(sentence: str, first: int, last: int, own: re.Pattern[str]) -> bool:
    before, after = sentence[:first].lower(), sentence[last:].lower()
    if _NOT_GIVEN.search(before[-40:]) or _NOT_GIVEN.match(after.strip()[:30]):
        return True
    for found in (_OF_ANOTHER.match(after), _DRUG_BEFORE.search(before)):
        if found and found["what"] not in _ITS_OWN and not own.search(found["what"]):
            return True
    return False
