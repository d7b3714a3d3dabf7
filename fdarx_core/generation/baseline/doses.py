"""Doses and strengths: how many units of a strength make a recommended dose."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fdarx_core.generation.baseline.statements import statements

_AMOUNT = r"(\d[\d,]*(?:\.\d+)?) ?(mg|mcg|g)\b(?! ?(?:/|per)(?! ?(?:day|24)))"
_MAXIMUM = re.compile(
    r"(?:maximum (?:recommended )?(?:total )?(?:daily )?(?:dose|dosage)\b[^.;]{0,60}?|(?:not|"
    r"never) (?:to )?exceed(?:ing)? (?:a (?:total|maximum) (?:daily )?(?:dose|dosage) of )?"
    r"|up to a maximum (?:of )?|maximum of )" + _AMOUNT,
    re.I,
)
_A_DAY = re.compile(r"\b(?:daily|per day|a day|/ ?day|24[- ]hours?|in a day)\b", re.I)
_START = re.compile(
    r"(?:starting|initial) (?:daily )?(?:dose|dosage)[^.;]{0,60}?(?:is|of) " + _AMOUNT,
    re.I,
)
_STRENGTH = re.compile(_AMOUNT, re.I)
_OTHER_FORMS = re.compile(r"\bmL\b|suspension|solution|mg ?[/-] ?\w|\bmg,? (?:and|with|plus|/) (?!\d)\w", re.I)
_SOLID = re.compile(r"\b(tablet|capsule|caplet)s?\b", re.I)
_OTHER_PATIENTS = re.compile(
    r"pediatric|child|adolescent|elderly|renal|hepatic|\bkg\b|impair|poor metaboli|inhibitor|single dose|"
    r"loading|<|≥|older|"
    r"weigh|intravenous|intramuscular|inject",
    re.I,
)
_RANGE = re.compile(r"\bor \d|\bto \d|-\d|\btablets?\b|\bcapsules?\b|/ ?(?!day)\w", re.I)
_FREQUENCY = re.compile(
    r"twice|three|four|\bevery\b|times (?:a|per)|b\.?i\.?d|t\.?i\.?d|q\.?i\.?d|\beach\b|\bsingle\b", re.I
)
_LARGEST_STRENGTH_MG = 2000.0


@dataclass(frozen=True, slots=True)
class Dose:
    """An amount as printed, in milligrams, and the sentence that gives it."""

    printed: str
    milligrams: float
    sentence: str


@dataclass(frozen=True, slots=True)
class DoseFacts:
    """What a passage says of doses (a Dosage section) or of strengths, smallest first (where they are listed)."""

    maximum: Dose | None = None
    start: Dose | None = None
    form: str = ""
    strengths: tuple[Dose, ...] = ()


def dose_facts(role: str, text: str) -> DoseFacts | None:
    """The doses or strengths of a passage by its section's role; None for sections that give neither."""
    if role == "dosage":
        return DoseFacts(maximum_daily_dose(text), starting_dose(text))
    if role in ("forms", "supply"):
        form, available = strengths(text)
        return DoseFacts(form=form, strengths=available)
    return None


def maximum_daily_dose(text: str) -> Dose | None:
    """The one maximum daily dose that a passage gives adults; None where it gives none or several."""
    found = [dose for line in statements(text) if _A_DAY.search(line) for dose in _doses(_MAXIMUM, line, _FREQUENCY)]
    return found[0] if len({dose.milligrams for dose in found}) == 1 else None


def starting_dose(text: str) -> Dose | None:
    """The one starting dose that a passage gives adults; None where it gives none or several."""
    found = [dose for line in statements(text) for dose in _doses(_START, line, _RANGE)]
    return found[0] if len({dose.milligrams for dose in found}) == 1 else None


def strengths(text: str) -> tuple[str, tuple[Dose, ...]]:
    """The dosage form (tablet, capsule or caplet) and its strengths, smallest first; none where there are two forms."""
    forms = {form.lower() for form in _SOLID.findall(text)}
    if len(forms) != 1 or _OTHER_FORMS.search(text):
        return "", ()
    found = {dose.milligrams: dose for dose in (_dose(match, "") for match in _STRENGTH.finditer(text))}
    return forms.pop(), tuple(found[size] for size in sorted(found) if 0 < size <= _LARGEST_STRENGTH_MG)


def _doses(pattern: re.Pattern[str], sentence: str, several: re.Pattern[str]) -> list[Dose]:
    """The amounts a sentence gives for all adults, where nothing beside one says that it is one of several."""
    if _OTHER_PATIENTS.search(sentence):
        return []
    found = [
        match for match in pattern.finditer(sentence) if not _RANGE.search(sentence[match.start() : match.end() + 14])
    ]
    return [_dose(match, sentence) for match in found if not several.search(sentence[match.start() : match.end() + 40])]


def _dose(match: re.Match[str], sentence: str) -> Dose:
    number, unit = match.groups()
    factor = {"mg": 1.0, "g": 1000.0, "mcg": 0.001}[unit.lower()]
    return Dose(f"{number} {unit}", float(number.replace(",", "")) * factor, sentence)
