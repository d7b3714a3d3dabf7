"""The check of numbers that models' verdicts have to pass: a statement's amounts must stand in its text."""

from __future__ import annotations

from functools import lru_cache

from fdarx_core.baseline.numbers import Intervals, Quantity, extract_intervals, extract_quantities
from fdarx_core.baseline.tokens import normalize
from fdarx_core.verify.engine import Inference, Judgement, TextPair, Unjudged
from fdarx_core.verify.exact import ENGINE, UNDECIDED


def check_numbers(pair: TextPair, judgement: Judgement) -> Judgement:
    """Return a model's judgement, or another one where it supports a statement whose numbers the text lacks.

    The other one is that of the exact engine where this finds a contradiction, else equal probabilities, with the
    missing number as the reason. Judgements that do not support the statement are returned as they are.
    """
    if isinstance(judgement, Unjudged) or judgement.entailment <= max(judgement.contradiction, UNDECIDED):
        return judgement
    missing = missing_number(pair)
    if not missing:
        return judgement
    [exact] = ENGINE.judge([pair])
    if isinstance(exact, Inference) and exact.contradiction == 1:
        return exact
    return Inference(UNDECIDED, UNDECIDED, UNDECIDED, 0, 0, f"number: {missing} is not in the text")


def missing_number(pair: TextPair) -> str:
    """Return the first quantity with a unit or bound, or dosing interval, that the text does not hold, "" for none.

    Amounts are compared in base units: 1 g is 1000 mg, twice a day is every 12 hours. A number that the text gives
    without a unit, as the cells of a table do, may have any. Of two equal amounts, one at least and one at most differ.
    """
    said, intervals, _ = _numbers(pair.hypothesis)
    _, known, held = _numbers("\n".join((pair.premise, pair.beside, pair.heading)))
    for one in said:
        if (one.unit or one.bound) and not any(_same(one, other) for other in held):
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
