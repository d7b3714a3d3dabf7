"""The value of a quantity in a sentence: a number or a range, with its unit."""

from __future__ import annotations

import re
from functools import cache

from fdarx_core.generation.terminology import TopicTerm

_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_ABOUT = (
    r"(?:(?:approximately|about|around|roughly|nearly|between|from|less than|greater than|more than|at least|over|"
    r"up to|>|<|≥|≤|~|±)\s*)*"
)
_PER = r"(?:\s*(?:/|per)\s*(?:\d+(?:\.\d+)?\s*)?(?:min(?:ute)?|hr?|hour|kg|m2|day)\b)*"
_BETWEEN = r"(?:[^.;%]|\.(?=\d)){0,60}?"


@cache
def _patterns(term: TopicTerm) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the pattern of a value, and that of the quantity's name with a value near it."""
    unit = term.value.removeprefix(r"\d\s*") if term.value.startswith(r"\d") else ""
    unit = "" if unit == r"\d" else f"{unit}{_PER}" if "mL" in unit else unit
    unit = rf"{unit}\s?[CF]?\b" if unit.endswith("°") else unit
    amount = rf"{_NUMBER}(?:\s*(?:±|\+/-|\(\s*±?)\s*{_NUMBER}\s*\)?)?"
    value = rf"{_ABOUT}{amount}(?:\s*(?:{unit or '%'}|°)?\s*(?:to|-|–|or|and)\s*{amount})?\s*{unit}"
    if not term.value.startswith(r"\d"):
        value = rf"{term.value}\w*"
    names = "|".join(r"\W+".join(map(re.escape, probe.split())) for probe in term.names)
    near = rf"(?:{names}){_BETWEEN}(?<![\w.])({value})|(?<![\w.])({value})[^.;,]{{0,20}}(?:{names})"
    return re.compile(rf"(?<![\w.]){value}", re.I), re.compile(near, re.I)


def only_value(text: str, term: TopicTerm) -> str:
    """Return the value that a sentence gives for a quantity, "" if it gives none or several.

    "The half-life of velorinib is about 2 to 3 hours." gives "about 2 to 3 hours"; with a value of the base and one of
    the salt a sentence gives several.
    """
    value, near = _patterns(term)
    found = near.search(text)
    if found is None or len(value.findall(text)) != 1:
        return ""
    return (found[1] or found[2]).strip()
