"""The values of an answer: of a quantity in a sentence, and the frequencies of a reaction in the row of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from fdarx_core.generation.terminology import TopicTerm, fold
from fdarx_core.generation.units import TopicStatement

_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_ABOUT = (
    r"(?:(?:approximately|about|around|roughly|nearly|between|from|less than|greater than|more than|at least|over|"
    r"up to|>|<|≥|≤|~|±)\s*)*"
)
_PER = r"(?:\s*(?:/|per)\s*(?:\d+(?:\.\d+)?\s*)?(?:min(?:ute)?|hr?|hour|kg|m2|day)\b)*"
_BETWEEN = r"(?:[^.;%]|\.(?=\d)){0,60}?"
_PERCENT = re.compile(r"%|\bpercent|\bincidence", re.I)
_FREQUENCY = re.compile(r"\s*[<≤]?\s*\d+(?:\.\d+)?\s*%?\W*$")
_COUNTS = re.compile(r"\bn,?\s*\(\s*%\s*\)", re.I)
_UNIT = re.compile(r"[\s,]*(?:\(\s*%\s*\)|%\s*of patients|%\s*incidence|%(?=\s*$))", re.I)
_MOST_COLUMNS = 4


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


def reaction_rates(
    named: Sequence[TopicStatement], term: TopicTerm, aliases: Sequence[str]
) -> tuple[list[TopicStatement], str]:
    """Return the row that gives the frequency of a reaction, and its cells as "VELORIN (N=200): 12%; placebo: 4%".

    There is none where another statement gives a frequency of the reaction too, since a question cannot tell them
    apart, and where no column is of the drug.

    Args:
        named: the statements that name the reaction, of the sections on adverse reactions, warnings and studies.
        term: the reaction.
        aliases: the folded names of the drug.
    """
    rows: list[tuple[TopicStatement, str]] = []
    for statement in named:
        cells = statement.text.rstrip(".").split("; ")
        first = cells[0].rsplit(": ", 1)[-1]
        if statement.is_row and fold(first).strip() in {probe.strip() for probe in term.names}:
            rows.append((statement, _rates(cells[1:], aliases)))
        elif statement.is_row or _PERCENT.search(statement.text):
            return [], ""
    return ([rows[0][0]], rows[0][1]) if len(rows) == 1 and rows[0][1] else ([], "")


def _rates(cells: Sequence[str], aliases: Sequence[str]) -> str:
    """Return the percentages of a row with their column headings, "" where they are not all percentages."""
    found, of_drug = [], False
    for cell in cells:
        header, _, value = cell.rpartition(": ")
        in_percent = "%" in value or (_PERCENT.search(header) is not None and not _COUNTS.search(header))
        if not header or not in_percent or not _FREQUENCY.match(value):
            return ""
        of_drug |= any(alias in fold(header) for alias in aliases)
        found.append(f"{_UNIT.sub('', header)}: {value.strip().rstrip('%').strip()}%")
    return "; ".join(found) if of_drug and len(found) <= _MOST_COLUMNS else ""
