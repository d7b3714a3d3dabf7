"""The frequency of an adverse reaction, from the row of a table."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fdarx_core.generation.terminology import TopicTerm, fold
from fdarx_core.generation.units import TopicStatement

_PERCENT = re.compile(r"%|\bpercent|\bincidence", re.I)
_FREQUENCY = re.compile(r"\s*[<≤]?\s*\d+(?:\.\d+)?\s*%?\W*$")
_COUNTS = re.compile(r"\bn,?\s*\(\s*%\s*\)", re.I)
_UNIT = re.compile(r"[\s,]*(?:\(\s*%\s*\)|%\s*of patients|%\s*incidence|%(?=\s*$))", re.I)
_MOST_COLUMNS = 4


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
    for one in named:
        cells = one.text.rstrip(".").split("; ")
        first = cells[0].rsplit(": ", 1)[-1]
        if one.is_row and fold(first).strip() in {probe.strip() for probe in term.names}:
            rows.append((one, _rates(cells[1:], aliases)))
        elif one.is_row or _PERCENT.search(one.text):
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
