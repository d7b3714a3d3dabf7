"""Doses in answers that the numbers of a label rule out: amounts, frequencies, the most a day, the duration."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

from fdarx_core.baseline.numbers import Quantity, extract_intervals, find_intervals, find_quantities
from fdarx_core.baseline.sentences import sentence_spans, split_sentences
from fdarx_core.baseline.tokens import normalize
from fdarx_core.factuality.safety_terms import safety_pattern
from fdarx_core.labels.loinc import DOSAGE_SECTION
from fdarx_core.records import CheckedAnswer, Passage

_TO_TAKE = frozenset(
    (DOSAGE_SECTION, "43678-2", "34069-5", "34067-9", "34066-1", "34073-7", "43684-0", "34081-0", "34082-8", "34089-3")
)
"""Sections that give doses to take, or what the drug contains; pharmacology, studies and overdosage give others."""
_MASSES = ("mg", "unit", "meq")
_COUNTED = ("tablet", "capsule", "puff", "drop", "patch")
_UNITLESS = ("", "x", "dose", *_COUNTED)
_DAY = 24.0
_OFTENER = 3.0
"""How many times as often as the label gives an amount it must be given to be wrong below the most a day."""
_AMOUNT = re.compile(
    r"(?:\d[\d.,]*\s?(?:-|to|or|and)\s?)*\d[\d.,]*\s?(?:mg|mcg|micrograms?|g|grams?|units?|mEq)\b(?:(?:/| per )\w+)*",
    re.I,
)
_MAXIMUM = safety_pattern("maximum")
_IN_A_DAY = safety_pattern("in_a_day")
_RANGE = re.compile(r"\s*(?:[a-z/]+\s*)?(?:-|to|and|or)\s*")
_IS_TOTAL = re.compile(r"\s*(?:/ ?d(?:ay)?\b|daily\b|(?:a|per|each) day\b)")
_HAS_TOTAL = re.compile(r"(?:/|per|a)\s*d(?:ays?)?$")
_MORNING, _EVENING = re.compile(r"\bmorning\b"), re.compile(r"\b(?:evening|night|bedtime)\b")
_UNITS_IN_BRACKETS = re.compile(r"\((?:ng|mcg|mg|g)\)(?=/)")
_FOR_LONG = safety_pattern("for_long")
_OF_ANOTHER = safety_pattern("of_another")
_ASKED = safety_pattern("dose_asked")
_NOT_ASKED = safety_pattern("dose_not_asked")
_SETTLED = safety_pattern("settled")


_Found = tuple[int, int, Quantity]
"""Where an amount begins and ends in its text, and what it is."""


class _Doses:
    """The amounts of a sentence, `found`, and how often they are taken.

    `text` has blanks in place of frequencies; `stated` and `meant` are the dosing intervals as in `extract_intervals`.
    """

    def __init__(self, sentence: str) -> None:
        text = _UNITS_IN_BRACKETS.sub("", _IN_A_DAY.sub("a day", normalize(sentence)))
        self.said, self._intervals = text, find_intervals(text)
        self.stated, self.meant = extract_intervals(text)[0]
        twice = {24.0} == self.meant and _MORNING.search(text) and _EVENING.search(text)
        self.loose = (_DAY / 2,) if twice else tuple(self.meant)
        for start, end, _ in self._intervals:
            text = text[:start] + " " * (end - start) + text[end:]
        self.text, self.found = text, find_quantities(text)

    def taken(self) -> list[tuple[Quantity, float, tuple[float, ...]]]:
        """Return the amounts to take, how often a day, and the hours between two of them.

        The frequency is the first one after an amount, up to the next amount, or the only one of the sentence. An
        amount a day, and one without a frequency, count once a day; the former has no hours.
        """
        doses = [one for one in self.found if _is_taken(one[2])]
        limits = [*(start for start, _, _ in doses[1:]), len(self.text)]
        found = []
        for (_, end, one), limit in zip(doses, limits, strict=False):
            near = [hours for start, _, hours in self._intervals if end <= start < limit]
            if len(self._intervals) == 1 and not near:
                near = [self._intervals[0][2]] if len(doses) == 1 else []
            hours = tuple(near[0]) if near else () if self.stated else self.loose
            if _IS_TOTAL.match(self.text, end) or _HAS_TOTAL.search(one.text):
                near, hours = [], ()
            least = min(near[0]) if near else 0.0
            found.append((one, _DAY / least if 0 < least < _DAY else 1.0, hours))
        return found


@dataclass(frozen=True, slots=True)
class LabelDoses:
    """The numbers of one label on doses.

    Attributes:
        amounts: (value, unit) of all amounts outside of pharmacology, studies and overdosage.
        ranges: (unit, least, most).
        most: the largest amount a day by unit: the stated maximum or the largest single amount; without a stated
            maximum, the largest amount times its frequency.
        every: the hours between two doses of each amount of Dosage and Administration, by (value, unit).
        longest: hours of the longest treatment where the label bounds it; 0 where it does not.
        told: a sentence with a dose, and the marker of its passage; "" without one.
        elsewhere: (value, unit) of the amounts of the other sections.
    """

    amounts: frozenset[tuple[float, str]]
    ranges: frozenset[tuple[str, float, float]]
    most: dict[str, float]
    every: dict[tuple[float, str], frozenset[float]]
    longest: float
    told: tuple[str, str]
    elsewhere: frozenset[tuple[float, str]]

    @classmethod
    def of(cls, passages: Sequence[Passage], shared: dict[Hashable, Hashable]) -> LabelDoses:
        """Read the doses of a label; equal sets of amounts are kept once, in `shared`."""
        amounts: set[tuple[float, str]] = set()
        ranges: set[tuple[str, float, float]] = set()
        most: dict[str, float] = {}
        stated: dict[str, float] = {}
        every: dict[tuple[float, str], frozenset[float]] = {}
        durations, told = list[Quantity](), ("", "")
        elsewhere: set[tuple[float, str]] = set()
        for passage in passages:
            if passage.core_code not in _TO_TAKE:
                said = normalize(" ; ".join(_AMOUNT.findall(passage.text)))
                elsewhere |= {(one.value, one.unit) for _, _, one in find_quantities(said)}
                continue
            for sentence in (one for line in passage.text.split("\n") for one in split_sentences(line, "label")):
                if not any(map(str.isdigit, sentence)) and passage.core_code != DOSAGE_SECTION:
                    continue
                doses = _Doses(sentence)
                amounts |= {(one.value, one.unit) for _, _, one in doses.found if _is_taken(one)}
                ranges |= set(_ranges(doses))
                if passage.core_code != DOSAGE_SECTION:
                    continue
                for one, times, hours in doses.taken():
                    key, total = (one.value, one.unit), one.value * times
                    totals = [total, *(one.value / by for by in (2, 3, 4) if "divided" in doses.said)]
                    amounts |= {(float(f"{value:.9g}"), one.unit) for value in totals}
                    every[key] = every.get(key, frozenset()).union(hours or (*doses.stated, *doses.loose))
                    maximum = stated if _MAXIMUM.search(doses.said) else most
                    maximum[one.unit] = max(total, maximum.get(one.unit, 0.0))
                    if not told[0]:
                        told = sentence[:300], passage.marker
                durations += [one for _, _, one in doses.found if one.unit == "h" and one.value >= _DAY]
        single = {unit: max(value for value, other in every if other == unit) for unit in stated}
        bounded = any(one.bound == "<" for one in durations)
        return cls(
            amounts=shared.setdefault(frozenset(amounts), frozenset(amounts)),  # type: ignore[arg-type]
            ranges=frozenset(ranges),
            most=most | {unit: max(total, single[unit]) for unit, total in stated.items()},
            every=every,
            longest=max(one.value for one in durations) if bounded else 0.0,
            told=told,
            elsewhere=shared.setdefault(frozenset(elsewhere), frozenset(elsewhere)),  # type: ignore[arg-type]
        )

    def give(self, one: Quantity, times: Sequence[float], weights: Sequence[float]) -> bool:
        """Return whether the label gives an amount, in a range, as a multiple of one, or by a weight in kg.

        A power of ten of an amount that the label gives is no amount of a range.
        """
        powers = ((float(f"{one.value * by:.9g}"), one.unit) for by in (0.001, 0.01, 0.1, 10, 100, 1000))
        tenfold = (one.value, one.unit) not in self.amounts and any(power in self.amounts for power in powers)
        shares = [(one.value / count, one.unit) for count in (1.0, *times) if 0 < count <= _DAY]
        shares += [(one.value / weight, f"{one.unit}/kg") for weight in weights if weight]
        ranges = () if tenfold else self.ranges
        return any(
            (float(f"{value:.9g}"), unit) in self.amounts
            or any(unit == other and low <= value <= high for other, low, high in ranges)
            for value, unit in shares
        )


def wrong_doses(
    answer: CheckedAnswer,
    labels: Sequence[LabelDoses],
    own: re.Pattern[str],
    names_in: Callable[[str], Sequence[str]],
) -> Iterator[tuple[int, int, str, str, str]]:
    """Yield (start, end, dose, reason, status) for each sentence with a dose that no label gives, or that exceeds all.

    The status is to_review where the label gives the amount elsewhere, as in a study or an overdose, else flagged.

    Args:
        answer: the answer and its question, whose amounts do not count.
        labels: the doses of the labels of the answer's drug.
        own: finds the names of the drug.
        names_in: finds the names of drugs in a text; amounts beside another drug's name do not count.
    """
    asked = {(one.value, one.unit) for _, _, one in _Doses(answer.question).found}
    for start, end in sentence_spans(answer.answer):
        doses = _Doses(answer.answer[start:end])
        doses.found = [one for one in doses.found if not _of_another(doses.text, one, own, names_in)]
        if wrong := _wrong_amount(doses, labels, asked) or _wrong_frequency(doses, labels):
            yield start, end, *wrong


def _wrong_amount(
    doses: _Doses, labels: Sequence[LabelDoses], asked: set[tuple[float, str]]
) -> tuple[str, str, str] | None:
    """Return the first wrong amount or duration of a sentence, the reason and the status."""
    counts = {at for at, pair in enumerate(pairwise(doses.found)) if _counts(doses.text, *pair)}
    times = [one.raw for at, (_, _, one) in enumerate(doses.found) if at in counts or one.unit in _UNITLESS]
    times += [_DAY / hours for hours in doses.meant if hours]
    weights = [value for value, unit in asked if unit == "kg"]
    a_day = {(one.value, one.unit): often for one, often, _ in doses.taken()}
    longest = sorted(label.longest for label in labels)
    for at, (first, _, one) in enumerate(doses.found):
        key = one.value, one.unit
        if (
            one.unit == "h"
            and 0 < longest[0] <= longest[-1] < one.value
            and _FOR_LONG.search(doses.text[:first].strip())
        ):
            return one.text, f"The label's longest time of treatment is {longest[0] / _DAY:g} days.", "flagged"
        if at in counts or not _is_taken(one):
            continue
        if _is_dose(one) and key not in asked and not any(label.give(one, times, weights) for label in labels):
            status = "to_review" if any(key in label.elsewhere for label in labels) else "flagged"
            return one.text, "No section of the label with doses to take gives this amount.", status
        most = max(label.most.get(one.unit, 0.0) for label in labels)
        if most and key not in asked and one.value * a_day.get(key, 1.0) > 1.001 * most:
            return one.text, f"The most that the label gives a day is {most:g} {one.unit}.", "flagged"
    return None


def _wrong_frequency(doses: _Doses, labels: Sequence[LabelDoses]) -> tuple[str, str, str] | None:
    """Return the dosing interval of a sentence where the label gives no dose as often, the reason and the status."""
    for one, _, hours in doses.taken():
        given = [label.every[key] for label in labels if label.every.get(key := (one.value, one.unit))]
        if hours and given and not any(min(known) <= min(hours) <= max(known) for known in given):
            often = all(_OFTENER * min(hours) <= min(known) for known in given)
            reason = "The label does not give this amount as often, or as seldom."
            return f"{one.text} every {min(hours):g} hours", reason, "flagged" if often else "to_review"
    least = min(doses.stated or doses.meant, default=inf)
    known = [hours for label in labels for some in label.every.values() for hours in some]
    if least < inf and (doses.taken() or len(doses.text.split()) < 12) and least < 0.99 * min(known, default=0.0):
        return f"every {least:g} hours", "The label gives no dose as often as this.", "flagged"
    return None


def lacks_dose(question: str, answer: str) -> bool:
    """Return whether a question asks for a dose and the answer has no amount, no frequency, and no denial."""
    asked, doses = normalize(question), _Doses(answer)
    if not _ASKED.search(asked) or _NOT_ASKED.search(asked) or _SETTLED.search(doses.said):
        return False
    return not doses.meant and not any(one.unit for _, _, one in doses.found)


def _is_dose(one: Quantity) -> bool:
    return one.unit.split("/")[0] in _MASSES and not one.unit.endswith(("ml", "%"))


def _is_taken(one: Quantity) -> bool:
    return _is_dose(one) or one.unit in _COUNTED


def _counts(text: str, one: _Found, other: _Found) -> bool:
    """Return whether a number counts the amount after it: "two 200 mg doses"."""
    return text[one[1] : other[0]].strip() in ("", ",") and not re.search("[a-z]", text[one[0] : one[1]])


def _ranges(doses: _Doses) -> Iterator[tuple[str, float, float]]:
    for (_, end, low), (start, _, high) in pairwise(doses.found):
        joined = _RANGE.fullmatch(doses.text[end:start])
        if joined and low.unit == high.unit and low.value < high.value and _is_dose(high):
            yield high.unit, low.value, high.value


def _of_another(text: str, amount: _Found, own: re.Pattern[str], names_in: Callable[[str], Sequence[str]]) -> bool:
    """Return whether an amount stands beside the name of another drug: "325 mg of aspirin", "aspirin 325 mg"."""
    first, last, _ = amount
    if (after := _OF_ANOTHER.match(text, last)) and not own.search(after["what"]):
        return True
    beside = f"{' '.join(text[:first].split()[-2:])} | {' '.join(text[last:].split()[:2])}"
    return not own.search(text[max(0, first - 60) : last + 40]) and bool(names_in(beside))
