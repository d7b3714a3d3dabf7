"""Statements that can stand alone, with their doses and strengths, for generated answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial

from fdarx_core.baseline.numbers import milligrams
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.tokens import capitalise, pattern, strip_references, vocabulary

MAX_STATEMENT = 290
"""Characters: two statements make an answer within the 600 of FDARxBench §B.4."""

_pattern = partial(pattern, file="statements.yaml")

_MIN_STATEMENT = 30
_BULLET = re.compile(r"^\W*(?:\(?[a-z0-9]\)\s)?\W*(?=[\w\[(])")
_RUN_IN = re.compile(r"^[A-Z][^.:;—–]{2,60}(?::| [—–]) ?(?=[A-Z])")
# Matched against lower case, which spares the regular expressions their slow case-blind search.
_POINTING_START = _pattern("pointing_start")
_POINTING = _pattern("pointing")
_VERB = _pattern("verb")
_IMPERATIVE = _pattern("imperative")
_WRECKED = _pattern("wrecked")
_WORD = re.compile(r"[a-z]+")
_POINTERS = frozenset(vocabulary(name="statements.yaml")["pointers"].split())
_GLUED = re.compile(r"[a-z]{3}[A-Z][a-z]{2}|[a-z]\.[A-Z][a-z]")
_CAPITALS = re.compile(r"[A-Z]")


def statements(context: str) -> list[str]:
    """Return self-contained sentences of at most `MAX_STATEMENT` characters, without references and bullets."""
    found: dict[str, None] = {}
    for line in context.split("\n"):
        if len(line) >= _MIN_STATEMENT and "|" not in line:
            for sentence in split_sentences(strip_references(line), "label"):
                if statement := _standing_alone(sentence):
                    found[statement] = None
    return list(found)


def _standing_alone(sentence: str) -> str:
    if not _MIN_STATEMENT <= len(sentence) <= MAX_STATEMENT + 60 or sentence[-1] not in ".;)":
        return ""
    bare = _RUN_IN.sub("", _BULLET.sub("", sentence, count=1), count=1)
    text = capitalise(_LEAD_IN.sub("", bare, count=1)).rstrip(";.") + "."
    if not _MIN_STATEMENT <= len(text) <= MAX_STATEMENT or not text[0].isupper() or text.count("(") != text.count(")"):
        return ""
    if _GLUED.search(text):
        return ""
    return text if speaks_for_itself(text.lower()) and len(_CAPITALS.findall(text)) < len(text) // 4 else ""


def has_verb(lowered: str) -> bool:
    """Return whether a sentence in lower case has a finite verb."""
    return bool(_VERB.search(lowered))


def speaks_for_itself(lowered: str) -> bool:
    """Return whether a sentence in lower case has a verb, and refers to no other sentence, table or figure."""
    if not (_VERB.search(lowered) or _IMPERATIVE.match(lowered)):
        return False
    if _POINTING_START.match(lowered) or _WRECKED.search(lowered):
        return False
    return _POINTERS.isdisjoint(_WORD.findall(lowered)) or not _POINTING.search(lowered)


_LEAD_IN = _pattern("lead_in", re.I)
_MAXIMUM = _pattern("maximum", re.I)
_A_DAY = _pattern("a_day", re.I)
_STRENGTH = _pattern("amount", re.I)
_OTHER_FORMS = _pattern("other_forms", re.I)
_OTHER_PATIENTS = _pattern("other_patients", re.I)
_RANGE = _pattern("range", re.I)
_FREQUENCY = _pattern("frequency", re.I)
_SOLID = re.compile(r"\b(tablet|capsule|caplet)s?\b", re.I)
_LARGEST_STRENGTH_MG = 2000.0


@dataclass(frozen=True, slots=True)
class Dose:
    """An amount as printed, in milligrams, and the sentence that gives it."""

    printed: str
    milligrams: float
    sentence: str


def maximum_daily_dose(text: str) -> Dose | None:
    """Return the only maximum daily dose that a passage gives adults; None if it gives none or several."""
    found = [dose for line in statements(text) if _A_DAY.search(line) for dose in _doses(_MAXIMUM, line, _FREQUENCY)]
    return found[0] if len({dose.milligrams for dose in found}) == 1 else None


def strengths(text: str) -> tuple[str, tuple[Dose, ...]]:
    """Return the dosage form (tablet, capsule or caplet) and its strengths, smallest first; none for two forms."""
    forms = {form.lower() for form in _SOLID.findall(text)}
    if len(forms) != 1 or _OTHER_FORMS.search(text):
        return "", ()
    found = {dose.milligrams: dose for dose in (_dose(match, "") for match in _STRENGTH.finditer(text))}
    return forms.pop(), tuple(found[size] for size in sorted(found) if 0 < size <= _LARGEST_STRENGTH_MG)


def _doses(pattern: re.Pattern[str], sentence: str, several: re.Pattern[str]) -> list[Dose]:
    """Return the amounts that a sentence gives for all adults, unless it marks one as one of several."""
    if _OTHER_PATIENTS.search(sentence):
        return []
    found = [
        match for match in pattern.finditer(sentence) if not _RANGE.search(sentence[match.start() : match.end() + 14])
    ]
    return [_dose(match, sentence) for match in found if not several.search(sentence[match.start() : match.end() + 40])]


def _dose(match: re.Match[str], sentence: str) -> Dose:
    number, unit = match.groups()
    return Dose(f"{number} {unit}", milligrams(number, unit), sentence)
