"""Multi-hop questions whose answer is computed: how many units, or which strength, make a recommended dose."""

from __future__ import annotations

from fdarx_core.generation.baseline.doses import Dose
from fdarx_core.generation.baseline.links import Facts

_MAX_UNITS = 12


def dose_questions(drug: str, a: Facts, b: Facts) -> list[tuple[str, str]]:
    """Questions and answers on a passage with doses and one with strengths, in either order; none on other passages."""
    for dosing, supply in ((a.doses, b.doses), (b.doses, a.doses)):
        # A passage with a single strength may be one of several on a product's strengths.
        if dosing and supply and len(supply.strengths) > 1:
            made = [
                _units_of_maximum(drug, dosing.maximum, supply.form, supply.strengths),
                _strength_of_start(drug, dosing.start, supply.form, supply.strengths),
            ]
            return [question for question in made if question]
    return []


def _units_of_maximum(drug: str, limit: Dose | None, form: str, available: tuple[Dose, ...]) -> tuple[str, str] | None:
    largest = available[-1]
    count = limit.milligrams / largest.milligrams if limit and largest.milligrams else 0
    if limit is None or count != int(count) or not 1 <= count <= _MAX_UNITS:
        return None
    units = f"{int(count)} {form}" + ("s" if count > 1 else "")
    return (
        f"How many of the highest-strength {form}s of {drug} add up to the maximum daily dose?",
        f"{units}, as computed from the maximum daily dose ({limit.printed}) with the highest strength "
        f"({largest.printed}). {limit.sentence}",
    )


def _strength_of_start(drug: str, start: Dose | None, form: str, available: tuple[Dose, ...]) -> tuple[str, str] | None:
    if start is None or start.milligrams not in {dose.milligrams for dose in available}:
        return None
    listed = ", ".join(dose.printed for dose in available)
    return (
        f"Which available {form} strength of {drug} gives the recommended starting dose in a single {form}?",
        f"The {start.printed} {form}, one of the strengths available ({listed}). {start.sentence}",
    )
