"""The amounts that a label gives anywhere, to hold an answer's doses against."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

from fdarx_core.evaluation.baseline.grading_numbers import Quantity, take_intervals, take_quantities
from fdarx_core.evaluation.baseline.grading_plain import plain
from fdarx_core.generation.baseline.text import sentences
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
    """Whether a quantity has a unit in which drugs are dosed by mass, units or milliequivalents."""
    return one.unit in _DOSE_UNITS


def tells_amount(text: str) -> bool:
    """Whether a text says how much of a drug, in any unit in which drugs are given."""
    return any(one.unit in _GIVEN_UNITS for one in take_quantities(take_intervals(plain(text))[1])[0])


def tells_how_often(text: str) -> bool:
    return bool(take_intervals(plain(text))[0].meant)


class Amounts:
    """All amounts of one label, read on first use. `passages` are all of its passages.

    What its section on overdosage gives is no dose to take: `of_overdose` has it alone.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self._all = passages
        self._passages = [passage for passage in passages if passage.core_code != OVERDOSAGE]

    @cached_property
    def of_overdose(self) -> Amounts:
        taken = [replace(passage, core_code="") for passage in self._all if passage.core_code == OVERDOSAGE]
        return Amounts(taken)

    @cached_property
    def dosing(self) -> tuple[str, str]:
        """A sentence of Dosage and Administration that gives a dose, and its passage's marker; "" without one."""
        for passage in self._passages:
            if passage.core_code == DOSAGE:
                for line in passage.text.split("\n"):
                    if found := next(filter(_tells_dose, sentences(line)), ""):
                        return found[:_LONGEST], passage.marker
        return "", ""

    @cached_property
    def has_any(self) -> bool:
        return any(unit in _DOSE_UNITS for _, unit in self._given)

    def give(self, one: Quantity, times: Iterable[int] = ()) -> bool:
        """Whether the label gives this amount, a range that holds it, the whole of a day, or a share of it.

        `times`: it may also be so many times an amount of the label ("two 500 mg tablets").
        """
        if (one.value, one.unit) in self._given or one.raw in self._bare:
            return True
        if any(low <= one.value <= high for low, high in self._ranges.get(one.unit, ())):
            return True
        return any((_rounded(one.value / count), one.unit) in self._given for count in times if count in _MANY)

    @cached_property
    def _lines(self) -> list[str]:
        return [plain(line) for passage in self._passages for line in passage.text.split("\n") if _has_digit(line)]

    @cached_property
    def _given(self) -> frozenset[tuple[float, str]]:
        return frozenset(pair for line in self._lines for pair in _pairs(line))

    @cached_property
    def _bare(self) -> frozenset[float]:
        """Numbers without a unit under a table's column that is headed by one of doses: "Dose (mg): 40"."""
        cells = (cell for line in self._lines if " | " in line for cell in line.split(" | "))
        dosed = (value for head, _, value in (cell.rpartition(": ") for cell in cells) if _HEADED.search(head))
        return frozenset(one.raw for value in dosed for one in take_quantities(value)[0] if not one.unit)

    @cached_property
    def _ranges(self) -> dict[str, list[tuple[float, float]]]:
        found: dict[str, list[tuple[float, float]]] = {}
        for line in self._lines:
            for range_ in _RANGE.finditer(line):
                quantities = take_quantities(range_[0])[0]
                for low, high in pairwise(quantities):
                    if low.unit == high.unit and low.value < high.value and is_dose(high):
                        found.setdefault(high.unit, []).append((low.value, high.value))
        return found


def _pairs(line: str) -> Iterator[tuple[float, str]]:
    """The amounts of a line, what they make in a day, and the shares of those that are divided."""
    intervals, rest = take_intervals(line)
    doses = [one for one in take_quantities(rest)[0] if one.unit]
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
    said = plain(sentence)
    return any(is_dose(one) for one in take_quantities(said)[0]) and bool(re.search(r"dos|daily|day|maximum|mg", said))


def _has_digit(line: str) -> bool:
    return any(map(str.isdigit, line))


def _rounded(value: float) -> float:
    return float(f"{value:.9g}")
