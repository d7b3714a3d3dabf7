"""The check of numbers that models' verdicts have to pass: a statement's amounts must stand in its text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from math import isclose

from fdarx_core.text.numbers import Intervals, Quantity, extract_intervals, find_quantities
from fdarx_core.text.tokens import normalize
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


def missing_number(pair: TextPair) -> str:
    """Return the first number or dosing interval of a statement that its text does not hold, "" for none.

    Numbers with a unit or bound are compared, and others from `LEAST_PLAIN`. The question and the titles may hold them
    too. Amounts are compared in base units: 1 g is 1000 mg, twice a day is every 12 hours. A number that the text gives
    without a unit, as the cells of a table do, may have any. Of two equal amounts, one at least and one at most differ.
    """
    return number_not_in(pair.hypothesis, (pair.premise, pair.beside, pair.heading, pair.question))


def number_not_in(statement: str, texts: Iterable[str], plain: Collection[float] = ()) -> str:
    """Return the first number or dosing interval of a statement that none of some texts holds, "" for none.

    Numbers are compared as `missing_number` says; those without a unit may also be among `plain`. An amount that the
    statement computes is not missing: a dose for a weight, as 100 mg of 5 mg/kg for 20 kg, or half of an amount that it
    calls half. Each text is read once, and then kept.
    """
    intervals, rest, _ = _numbers(statement)
    said = [quantity for _, _, quantity in find_quantities(rest)]
    compared = [
        quantity
        for quantity in said
        if quantity.unit or quantity.bound or (quantity.raw >= LEAST_PLAIN and quantity.raw not in plain)
    ]
    if not (compared or intervals.stated):
        return ""
    read = [_numbers(text) for text in texts if text]
    meant = frozenset[float]().union(*(known.meant for known, _, _ in read))
    known = [quantity for _, _, held in read for quantity in held]
    for amount in compared:
        period = amount.raw == 1 and amount.unit == "h" and amount.value in meant  # "in one day" for "a day"
        if not period and not _is_held(amount, known):
            stated = [quantity for quantity in said if _is_held(quantity, known)]
            if not _is_computed(amount, stated, halved="half" in rest):
                return amount.text
    return next((f"every {hours:g} hours" for hours in sorted(intervals.stated - meant)), "")


def _is_held(quantity: Quantity, known: Sequence[Quantity]) -> bool:
    same = (other for other in known if quantity.equals(other))
    return any(not quantity.bound or not other.bound or quantity.bound == other.bound for other in same)


def _is_computed(quantity: Quantity, stated: Sequence[Quantity], *, halved: bool) -> bool:
    """Return whether an amount is half of a stated one, or the product of one per unit and a number of these units."""
    if halved and any(other.unit == quantity.unit and other.value == 2 * quantity.value for other in stated):
        return True
    return any(
        rate.unit == f"{quantity.unit}/{other.unit}" and isclose(rate.value * other.value, quantity.value, rel_tol=1e-6)
        for rate in stated
        for other in stated
    )


@lru_cache(maxsize=4096)
def _numbers(text: str) -> tuple[Intervals, str, tuple[Quantity, ...]]:
    """Return the dosing intervals of a text, its normal form outside of these, and all its quantities."""
    normal = normalize(text, literal=True)
    return *extract_intervals(normal), tuple(quantity for _, _, quantity in find_quantities(normal))
