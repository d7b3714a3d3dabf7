"""Statements that can stand alone, with their doses and strengths, for generated answers."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fdarx_core.baseline.numbers import milligrams
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.tokens import capitalise, strip_references

MAX_STATEMENT = 290
"""Characters: two statements make an answer within the 600 of FDARxBench §B.4."""

_MIN_STATEMENT = 30
_BULLET = re.compile(r"^\W*(?:\(?[a-z0-9]\)\s)?\W*(?=[\w\[(])")
_RUN_IN = re.compile(r"^[A-Z][^.:;—–]{2,60}(?::| [—–]) ?(?=[A-Z])")
_LEAD_IN = re.compile(
    r"^(?:however|therefore|thus|in addition|additionally|furthermore|moreover|also|consequently|"
    r"accordingly|nevertheless|"
    r"hence|likewise|similarly|in contrast|conversely|on the other hand|as a result|finally|"
    r"for this reason|in general),\s+",
    re.I,
)
# Matched against lower case, which spares the regular expressions their slow case-blind search.
_POINTING_START = re.compile(
    r"(?:it|they|this|these|those|such|he|she|its|their|both|neither|other|another|same|similar|and|but|"
    r"or|which|who|then|"
    r"(?:some|most|all|none|one|many) of (?:these|them)|patients? (?:had|was|were)|subjects|the (?:latter|"
    r"former|same|above|"
    r"following|stud(?:y|ies)|trials?|table|results?|effects?|increase|incidence|decrease|difference|"
    r"majority|drug concentration|"
    r"primary objective|reactions?|symptoms|events?|change|patients?|risk|other|dose|recommended|usual|"
    r"use of these)) "
    r"(?!(?:is|was) (?:not )?(?:known|recommended|important|advisable|unknown|possible)\b|of\b|to\b|for\b|"
    r"in\b|with\b|starting|dose|dosage)"
)
_POINTING = re.compile(
    r"\bthis (?:study|trial|patient|population|case|section|effect|group|combination|event|reaction|"
    r"finding|condition|change|"
    r"reason|risk|setting|time|period|indication|dosage|dose|interaction|information|product|type|"
    r"phenomenon|drug combination|increase|decrease)"
    r"|\bthese\b|\bthose (?!who|with|in|of|receiving|taking|treated|patients|seen|given)|"
    r"\bsuch (?:patients|cases|an? |drugs|events|effects|reactions|use|therapy|women)"
    r"|\bthe (?:latter|former|above|following|table|figure)\b|\b(?:as follows|as (?:described|noted|listed|shown))"
    r"|\b(?:described|mentioned|listed|noted|shown|discussed) (?:above|below|previously)|\b(?:see|"
    r"section) (?:the |below|above|\d)|\btable \d|\bfigure \d"
    r"|\b(?:package insert|prescribing information|full list)|\bsuch as the|\bin that (?:study|trial)|"
    r"-label study|\bthe same (?:study|trial)"
)
_WORD = re.compile(r"[a-z]+")
_POINTERS = {
    *("this", "these", "those", "such", "latter", "former", "above", "following", "table", "figure", "follows", "as"),
    *("below", "previously", "see", "section", "package", "prescribing", "full", "that", "label", "same"),
}
_VERB = re.compile(
    r"\b(?:is|are|was|were|be|been|has|have|had|may|can|could|should|must|will|does|do|did|(?:caus|"
    r"increas|decreas|reduc|inhibit|occur|"
    r"appear|requir|includ|result|suggest|contain|differ|remain|produc|prolong|affect)(?:e|es|s|ed|red)?|"
    r"leads?|shows?|shown|showed|undergoes)\b"
)
_IMPERATIVE = re.compile(
    r"(?:avoid|advise|inform|instruct|tell|monitor|use|do not|discontinue|stop|reduce|consider|assess|"
    r"obtain|evaluate|initiate|"
    r"start|take|administer|counsel|caution|limit|withhold|measure|check|adjust|give|perform|treat|"
    r"individualize|educate) "
)
_WRECKED = re.compile(r":$|\[\d|\bndc\b|https?:|www\.|\d-8\d\d-|\b(?:you|your|we|our)\b|\?|e\.g\.$|\.\w+\.\w+\.|\d {2}")
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
    return text if _speaks_for_itself(text.lower()) and len(_CAPITALS.findall(text)) < len(text) // 4 else ""


def _speaks_for_itself(lowered: str) -> bool:
    if not (_VERB.search(lowered) or _IMPERATIVE.match(lowered)):
        return False
    if _POINTING_START.match(lowered) or _WRECKED.search(lowered):
        return False
    return _POINTERS.isdisjoint(_WORD.findall(lowered)) or not _POINTING.search(lowered)


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
    """The doses of a passage of a Dosage section, or the strengths of a list, smallest first."""

    maximum: Dose | None = None
    start: Dose | None = None
    form: str = ""
    strengths: tuple[Dose, ...] = ()


def dose_facts(role: str, text: str) -> DoseFacts | None:
    """Return the doses or strengths of a passage by its section's role; None for sections that give neither."""
    if role == "dosage":
        return DoseFacts(maximum_daily_dose(text), starting_dose(text))
    if role in ("forms", "supply"):
        form, available = strengths(text)
        return DoseFacts(form=form, strengths=available)
    return None


def maximum_daily_dose(text: str) -> Dose | None:
    """Return the only maximum daily dose that a passage gives adults; None if it gives none or several."""
    found = [dose for line in statements(text) if _A_DAY.search(line) for dose in _doses(_MAXIMUM, line, _FREQUENCY)]
    return found[0] if len({dose.milligrams for dose in found}) == 1 else None


def starting_dose(text: str) -> Dose | None:
    """Return the only starting dose that a passage gives adults; None if it gives none or several."""
    found = [dose for line in statements(text) for dose in _doses(_START, line, _RANGE)]
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
