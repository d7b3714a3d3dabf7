"""Doses in answers: one that was asked for and is missing, one that no passage of the label gives."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from fdarx_core.baseline.grading import original_words
from fdarx_core.baseline.numbers import Quantity, extract_intervals, extract_quantities
from fdarx_core.baseline.polarity import prohibits
from fdarx_core.baseline.sentences import sentence_spans, split_sentences
from fdarx_core.baseline.tokens import normalize
from fdarx_core.records import Passage

DOSAGE = "34068-7"
OVERDOSAGE = "34088-5"
_DOSE_UNITS = frozenset(
    f"{amount}{per}"
    for amount in ("mg", "unit", "meq")
    for per in ("", "/kg", "/m2", "/h", "/kg/h", "/dose", "/tablet")
)
_GIVEN_UNITS = _DOSE_UNITS | {"tablet", "capsule", "drop", "puff", "patch", "ml", "kg", "%"}
_RANGE = re.compile(
    r"\d[\d.]*\s*(?:[a-z%]+(?:/\w+)*\s*)?(?:-|to)\s*\d[\d.]*\s*-?\s*[a-z%]+(?:\s*(?:/|per)\s*[a-z\d]+)*"
)
_HEADED = re.compile(r"[(,]\s*(?:in )?(?:mg|mcg|units?|meq)\b")
_DIVIDED = re.compile(r"\bdivided|\bin (?:\d|two|three|four)(?: (?:to|or) \d)?(?: equal(?:ly)?)?(?: divided)? doses")
_MANY = range(2, 13)
_A_DAY = 24.0
_LONGEST = 300


def is_dose(one: Quantity) -> bool:
    """Return whether a quantity has a unit of drug doses: mass, units or milliequivalents."""
    return one.unit in _DOSE_UNITS


def tells_amount(text: str) -> bool:
    """Return whether a text gives an amount of a drug, in any unit in which drugs are given."""
    return any(one.unit in _GIVEN_UNITS for one in extract_quantities(extract_intervals(normalize(text))[1])[0])


def tells_how_often(text: str) -> bool:
    return bool(extract_intervals(normalize(text))[0].meant)


class LabelAmounts:
    """All amounts of a label, which are extracted at the first use. `passages` are all of its passages.

    What its section on overdosage gives is no dose to take: `of_overdose` has it alone.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._all = passages
        self._passages = [passage for passage in passages if passage.core_code != OVERDOSAGE]

    @cached_property
    def of_overdose(self) -> LabelAmounts:
        taken = [replace(passage, core_code="") for passage in self._all if passage.core_code == OVERDOSAGE]
        return LabelAmounts(taken)

    @cached_property
    def dosing(self) -> tuple[str, str]:
        """A sentence of Dosage and Administration that gives a dose, and its passage's marker; "" without one."""
        for passage in self._passages:
            if passage.core_code == DOSAGE:
                for line in passage.text.split("\n"):
                    if found := next(filter(_tells_dose, split_sentences(line, "label")), ""):
                        return found[:_LONGEST], passage.marker
        return "", ""

    @cached_property
    def has_any(self) -> bool:
        return any(unit in _DOSE_UNITS for _, unit in self._given)

    def give(self, one: Quantity, times: Iterable[int] = ()) -> bool:
        """Return whether the label gives this amount, a range that includes it, its daily total or a share of it.

        With `times`, the amount may also be so many times an amount of the label ("two 500 mg tablets").
        """
        if (one.value, one.unit) in self._given or one.raw in self._bare:
            return True
        if any(low <= one.value <= high for low, high in self._ranges.get(one.unit, ())):
            return True
        return any((_rounded(one.value / count), one.unit) in self._given for count in times if count in _MANY)

    @cached_property
    def _lines(self) -> list[str]:
        return [normalize(line) for passage in self._passages for line in passage.text.split("\n") if _has_digit(line)]

    @cached_property
    def _given(self) -> frozenset[tuple[float, str]]:
        return frozenset(pair for line in self._lines for pair in _pairs(line))

    @cached_property
    def _bare(self) -> frozenset[float]:
        """Numbers without a unit under a table's column that is headed by one of doses: "Dose (mg): 40"."""
        cells = (cell for line in self._lines if " | " in line for cell in line.split(" | "))
        dosed = (value for head, _, value in (cell.rpartition(": ") for cell in cells) if _HEADED.search(head))
        return frozenset(one.raw for value in dosed for one in extract_quantities(value)[0] if not one.unit)

    @cached_property
    def _ranges(self) -> dict[str, list[tuple[float, float]]]:
        found: dict[str, list[tuple[float, float]]] = {}
        for line in self._lines:
            for range_ in _RANGE.finditer(line):
                quantities = extract_quantities(range_[0])[0]
                for low, high in pairwise(quantities):
                    if low.unit == high.unit and low.value < high.value and is_dose(high):
                        found.setdefault(high.unit, []).append((low.value, high.value))
        return found


def _pairs(line: str) -> Iterator[tuple[float, str]]:
    """Yield the amounts of a line, their daily totals, and the shares of divided doses."""
    intervals, rest = extract_intervals(line)
    doses = [one for one in extract_quantities(rest)[0] if one.unit]
    yield from ((one.value, one.unit) for one in doses)
    for one in filter(is_dose, doses):
        for hours in intervals.stated:
            if 0 < hours < _A_DAY:
                yield _rounded(one.value * _A_DAY / hours), one.unit
                if _DIVIDED.search(line):
                    yield _rounded(one.value * hours / _A_DAY), one.unit
        if _DIVIDED.search(line):
            yield from ((_rounded(one.value / count), one.unit) for count in (2, 3, 4))


def _tells_dose(sentence: str) -> bool:
    said = normalize(sentence)
    return any(is_dose(one) for one in extract_quantities(said)[0]) and bool(
        re.search(r"dos|daily|day|maximum|mg", said)
    )


def _has_digit(line: str) -> bool:
    return any(map(str.isdigit, line))


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")


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
_A_DAY_DOSES = 24
_NOT_GIVEN = re.compile(
    r"\b(?:level|levels|concentration|concentrations|creatinine|glucose|cholesterol|clearance|serum|blood|"
    r"plasma|urine|protein|intake|diet)\b"
)


def asks_for_dose(question: str) -> tuple[bool, bool]:
    """Return whether a question asks how much of a drug to take, and how often."""
    said = normalize(question).strip()
    if _NOT_ASKED.search(said):
        return False, False
    return bool(_HOW_MUCH.search(said)), bool(_HOW_OFTEN.search(said))


def lacks_dose(question: str, answer: str) -> bool:
    """Return whether a question asks for a dose and the answer neither gives one nor says that there is none."""
    much, often = asks_for_dose(question)
    if not (much or often) or prohibits(normalize(answer)) or _SETTLED.search(normalize(answer)):
        return False
    return not (tells_amount(answer) or tells_how_often(answer))


class AnswerDose(NamedTuple):
    """A dose of an answer: where it stands, the counts beside it, and whether its sentence is of what was too much."""

    start: int
    end: int
    dose: Quantity
    counts: list[int]
    overdose: bool


def doses_in(answer: str, question: str, own: re.Pattern[str]) -> Iterator[AnswerDose]:
    """Yield each dose of the drug in an answer.

    Doses of other drugs, measured values, and amounts in the question are left out. `own` finds the drug's names.
    """
    asked = {(one.value, one.unit) for one in extract_quantities(normalize(question))[0]}
    for start, end in sentence_spans(answer):
        sentence = answer[start:end]
        said = normalize(sentence)
        intervals, rest = extract_intervals(said)
        quantities = extract_quantities(rest)[0]
        counts = [int(one.raw) for one in quantities if one.raw == int(one.raw) and one.unit in _COUNTED]
        counts += [round(_A_DAY_DOSES / hours) for hours in intervals.meant if 0 < hours < _A_DAY_DOSES]
        overdose = bool(_OVERDOSE.search(said) or _OVERDOSE.search(normalize(question)))
        for one, first, last in _placed(sentence, quantities):
            if (one.value, one.unit) not in asked and not _is_of_another(sentence, first, last, own):
                yield AnswerDose(start + first, start + last, one, counts, overdose)


def _placed(sentence: str, quantities: Sequence[Quantity]) -> Iterator[tuple[Quantity, int, int]]:
    """Yield the doses of a sentence with their positions; a number without a unit counts only within a range."""
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
