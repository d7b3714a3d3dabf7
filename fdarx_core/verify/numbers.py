"""The check of numbers that models' verdicts have to pass: a statement's amounts must stand in its text."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from fdarx_core.baseline.numbers import Intervals, Quantity, extract_intervals, extract_quantities
from fdarx_core.baseline.tokens import normalize
from fdarx_core.verify.engine import UNDECIDED, Inference, Judgement, TextPair, Unjudged

LEAST_PLAIN = 10
"""The least number without a unit that is compared: smaller ones mostly count what a statement lists."""


def check_numbers(pair: TextPair, judgement: Judgement) -> Judgement:
    """Return a model's judgement, or equal probabilities where it supports a statement with a number that is missing.

    The reason then names the number. Judgements that do not support the statement are returned as they are.
    """
    if isinstance(judgement, Unjudged) or judgement.entailment <= max(judgement.contradiction, UNDECIDED):
        return judgement
    missing = missing_number(pair)
    if not missing:
        return judgement
    return Inference(UNDECIDED, UNDECIDED, UNDECIDED, 0, 0, f"number: {missing} is not in the text")


def missing_number(pair: TextPair, plain: Collection[float] = ()) -> str:
    """Return the first number or dosing interval of a statement that its text does not hold, "" for none.

    Numbers with a unit or bound are compared, and others from `LEAST_PLAIN`. The question and the titles may hold them
    too. Amounts are compared in base units: 1 g is 1000 mg, twice a day is every 12 hours. A number that the text gives
    without a unit, as the cells of a table do, may have any. Of two equal amounts, one at least and one at most differ.
    Numbers without a unit may also be among those of `plain`.
    """
    said, intervals, _ = _numbers(pair.hypothesis)
    compared = [one for one in said if one.unit or one.bound or (one.raw >= LEAST_PLAIN and one.raw not in plain)]
    if not (compared or intervals.stated):
        return ""
    _, known, held = _numbers("\n".join((pair.premise, pair.beside, pair.heading, pair.question)))
    for one in compared:
        if not any(_same(one, other) for other in held):
            return one.text
    return next((f"every {hours:g} hours" for hours in sorted(intervals.stated - known.meant)), "")


def _same(one: Quantity, other: Quantity) -> bool:
    return one.equals(other) and not (one.bound and other.bound and one.bound != other.bound)


@lru_cache(maxsize=1024)
def _numbers(text: str) -> tuple[tuple[Quantity, ...], Intervals, tuple[Quantity, ...]]:
    """Return the quantities of a text outside its dosing intervals, these intervals, and all its quantities."""
    normal = normalize(text, literal=True)
    intervals, rest = extract_intervals(normal)
    return extract_quantities(rest)[0], intervals, extract_quantities(normal)[0]
