"""Numbers, quantities with units, and dosing intervals, in comparable form.

"0.5 g" equals "500 milligrams", and "once daily" equals "every 24 hours".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from fdarx_core.text.tokens import pattern, vocabulary

_DAY, _WEEK, _MONTH = 24.0, 168.0, 730.0
_pattern = partial(pattern, file="numbers.yaml")
_VOCABULARY = vocabulary(name="numbers.yaml")
_UNIT: dict[str, tuple[str, float]] = {
    name: (base, size)
    for base, sizes in _VOCABULARY["units"].items()
    for size, names in sizes.items()
    for name in names.split()
}
_NAMES = "|".join(sorted(map(re.escape, _UNIT), key=len, reverse=True))
_GAP = r"[^\S\n]*"
"""White space within a line: the number at the end of one row of a table has no unit of the next row."""
_QUANTITY = re.compile(
    rf"(?<![\w.])(?<![a-z]-)(?P<number>\d+(?:\.\d+)?|\.\d+)(?![\d.]*[a-z]*\d)"
    rf"(?:{_GAP}-?{_GAP}(?P<unit>{_NAMES})(?![a-z])(?:\s*\((?:{_NAMES})\))?(?P<per>(?:\s*(?:/|per|a(?=\s))\s*(?:{_NAMES})(?![a-z]))*)"
    r"|(?!-(?!to\b)[a-z]))"  # "17-ketosteroid" is a name, not a number
)
_NUMBERED = re.compile(r"\b(?:days?|weeks?|months?|years?)\s+(?:\d+\s*(?:-|to|and|or)\s*)?$")
"""A unit of time before a number: "weeks 1-2" numbers the weeks."""
_PER = re.compile(rf"(?:/|per|a)\s*({_NAMES})(?![a-z])")
_JOINED = re.compile(rf"{_GAP}(?:(?:-|to|and|or|through|,|/|x|by|, and|, or|,? respectively){_GAP})?[<>≤≥~]?{_GAP}")
_BELOW = _pattern("below")
_ABOVE = _pattern("above")

_FREQUENCY = _pattern("frequency")
_FREQUENCY_HINT = _pattern("hint")
_LOOSE = _pattern("loose")
_LATIN: dict[str, float] = _VOCABULARY["latin"]
_PERIODS = {"h": 1.0, "d": _DAY, "w": _WEEK, "m": _MONTH, "y": 12 * _MONTH, "a": 12 * _MONTH}
_TIMES = {"once": 1.0, "twice": 2.0, "thrice": 3.0}


_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
_THOUSANDS = re.compile(r",(?=\d{3}(?:\D|$))")


class Quantity(NamedTuple):
    """A number with its unit.

    Attributes:
        raw: the number in the unit of the text, such as 0.5 for "0.5 g".
        value: the number in the base unit, such as 500 for "0.5 g".
        unit: the base unit, "" if there is none.
        bound: "<" for "below 30" and "up to 30", ">" for "at least 30", else "".
        text: number and unit as in the text.
    """

    raw: float
    value: float
    unit: str
    bound: str
    text: str

    def equals(self, other: Quantity) -> bool:
        """Return whether both are the same amount. A number without a unit equals the same number with any unit."""
        if self.unit and other.unit:
            return self.unit == other.unit and self.value == other.value
        return self.raw == other.raw


class Intervals(NamedTuple):
    """Dosing intervals in hours: those stated ("twice daily"), and those that may be meant (also a single "daily")."""

    stated: frozenset[float]
    meant: frozenset[float]


def number_strings(text: str) -> frozenset[str]:
    """Return the distinct numbers of a text as strings: "1,500 mg in 2.5 mL" gives 1500 and 2.5."""
    return frozenset(map(without_thousands, _NUMBER.findall(text)))


def without_thousands(number: str) -> str:
    """Return the string of a number without thousands separators."""
    return _THOUSANDS.sub("", number)


def extract_intervals(text: str) -> tuple[Intervals, str]:
    """Return the dosing intervals of a normalized text, and the text without the stated intervals."""
    matches = _FREQUENCY.finditer(text) if _FREQUENCY_HINT.search(text) else ()
    stated = frozenset(hours for found in matches for hours in _hours(found))
    rest = _FREQUENCY.sub(" ; ", text) if stated else text
    loose = frozenset(_PERIODS[found.lastgroup[0]] for found in _LOOSE.finditer(rest) if found.lastgroup)
    return Intervals(stated, stated | loose), rest


def extract_quantities(text: str) -> tuple[tuple[Quantity, ...], str]:
    """Return the quantities of a normalized text in order, and the text without them. "5 to 10 mg" has two in mg."""
    return tuple(one for _, _, one in find_quantities(text)), _QUANTITY.sub(" ", text)


def find_quantities(text: str) -> list[tuple[int, int, Quantity]]:
    """Return (start, end, quantity) of each quantity of a normalized text, in order."""
    quantities: list[tuple[int, int, Quantity]] = []
    unit, spelt, start = ("", 1.0), "", len(text)
    for match in reversed(list(_QUANTITY.finditer(text))):
        numbered = _NUMBERED.search(text, max(0, match.start() - 20), match.start())
        own = ("number", 1.0) if numbered and not match["unit"] else _unit(match)
        if own or not _JOINED.fullmatch(text, match.end(), start):
            unit, spelt = own or ("", 1.0), text[match.end("number") : match.end()]
        start, raw = match.start(), float(match["number"])
        before = text[max(0, start - 30) : start]
        bound = "<" if _BELOW.search(before) else ">" if _ABOVE.search(before) else ""
        value, as_written = float(f"{raw * unit[1]:.9g}"), f"{match['number']}{spelt}".strip()
        quantities.append((start, match.end(), Quantity(raw, value, unit[0], bound, as_written)))
    return quantities[::-1]


def _unit(found: re.Match[str]) -> tuple[str, float] | None:
    """Return the base unit and the factor to it; "a day" as a denominator is a frequency and is left out."""
    if not found["unit"]:
        return None
    name, factor = _UNIT[found["unit"]]
    for below in _PER.findall(found["per"] or ""):
        if below not in ("d", "day"):
            base, size = _UNIT[below]
            name, factor = f"{name}/{base}", factor / size
    return name, factor


def _hours(found: re.Match[str]) -> Iterator[float]:
    if found["latin"]:
        yield _LATIN[found["latin"]]
    elif found["q"]:
        yield from (float(hours) for hours in (found["q"], found["q_to"]) if hours)
    elif found["each"]:
        for count in filter(None, (found["from"] or "1", found["to"])):
            yield float(count) * _PERIODS[found["each"][0]]
    else:
        for count in filter(None, (found["low"], found["count"])):
            times = _TIMES.get(count) or float(re.sub(r"[^\d.]", "", count)) or 1.0
            yield round(_PERIODS[found["period"][0]] / times, 6)
