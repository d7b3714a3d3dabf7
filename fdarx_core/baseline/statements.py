"""Statements that can stand alone: for answers, with their doses and strengths, and as windows for equivalence."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise

from fdarx_core.baseline.numbers import milligrams, without_thousands
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.stems import is_stop_word, stem, stem_weight
from fdarx_core.baseline.tokens import capitalise, strip_references, tokenize, vocabulary
from fdarx_core.records import Passage

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


SHORT_PASSAGE = 50
"""The most words of a passage that is one window."""
LONG_LIST = 60
"""The number of words from which the items of a list are windows of their own, each with the lead-in."""
SEQUENCE = 3
"""The number of neighboring terms that are compared as one."""

_SIGNS = str.maketrans({"²": "2", "³": "3", "µ": "u", "μ": "u", "\u00ad": None, "\u200b": None, "’": "'"})
_ITEM = re.compile(r"\s*(?:[-•·●▪◦*○–]|\(?\w{1,2}[.)])\s+")
_QUALIFIER = tuple((name, re.compile(words)) for name, words in vocabulary()["qualifiers"].items())


@lru_cache(maxsize=262144)
def _term(token: str) -> str:
    if token[0].isdigit():
        return without_thousands(token)
    return "" if is_stop_word(token) else stem(token)


def sequence(text: str) -> list[str]:
    """Return the stems of the words that carry meaning, and the numbers, thousands separators taken out, in order."""
    return [term for term in map(_term, tokenize(text.lower().translate(_SIGNS), "sequence")) if term]


def terms(text: str) -> frozenset[str]:
    """Return the distinct terms of `sequence`."""
    return frozenset(sequence(text))


def figures(found: frozenset[str]) -> frozenset[str]:
    """Return the numbers among terms."""
    return frozenset(term for term in found if term[0].isdigit())


def qualifiers(text: str) -> frozenset[str]:
    """Return what narrows a statement: groups of patients, animals, overdose, dosage forms."""
    lowered = text.lower()
    return frozenset(name for name, words in _QUALIFIER if words.search(lowered))


def lacks(wanted: frozenset[str], held: frozenset[str], most: float) -> bool:
    """Return whether a number of what is wanted is missing, or more of its weight than the share `most`."""
    missing = wanted - held
    if not missing:
        return False
    if len(missing) > 6 * most * len(wanted):  # no term weighs more than six times another: most end here, unweighed
        return True
    return bool(figures(missing)) or stem_weight(missing) > most * stem_weight(wanted)


class PassageTerms:
    """The terms of a passage, which are computed when they are first used."""

    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.index = passage.doc_chunk_index
        self.text = passage.text
        self.order = sequence(passage.text)
        self.terms = frozenset(self.order)

    @cached_property
    def heading(self) -> frozenset[str]:
        return terms(f"{self.passage.section_path} {self.passage.section_title}")

    @cached_property
    def qualifiers(self) -> frozenset[str]:
        return qualifiers(self.text)

    @cached_property
    def windows(self) -> list[tuple[str, frozenset[str]]]:
        """Each sentence, two of a paragraph that are neighbours, lists with their lead-in, each table row.

        A line of its own that ends without a stop heads what follows. A short passage is a window as well.
        """
        units = list(_units(self.text))
        pairs = [f"{one}\n{other}" for (one, goes_on), (other, _) in pairwise(units) if goes_on]
        whole = [self.text] if len(self.text.split()) <= SHORT_PASSAGE else []
        return [(text, terms(text)) for text in (*(unit for unit, _ in units), *pairs, *whole)]

    def holding(self, wanted: frozenset[str], most: float) -> list[tuple[str, frozenset[str]]]:
        """Return the windows that lack no number of what is wanted and no more of its weight than the share `most`."""
        return [window for window in self.windows if not lacks(wanted, window[1], most)]

    @cached_property
    def sequences(self) -> frozenset[tuple[str, ...]]:
        ends = range(max(1, len(self.order) - SEQUENCE + 1))
        return frozenset(tuple(self.order[start : start + SEQUENCE]) for start in ends)


def _units(text: str) -> Iterator[tuple[str, bool]]:
    """Yield sentences, table rows, and lists with their introduction, each with whether the next one belongs to it."""
    open_list: list[str] = []
    for line in text.split("\n"):
        if open_list and _ITEM.match(line):
            open_list.append(line)
            continue
        yield from _joined(open_list)
        open_list = []
        if " | " in line:
            yield line, False
        elif found := split_sentences(line):
            yield from ((sentence, True) for sentence in found[:-1])
            open_list = found[-1:]
    yield from _joined(open_list)


def _joined(lines: Sequence[str]) -> Iterator[tuple[str, bool]]:
    text = "\n".join(lines)
    if len(lines) > 1 and text.count(" ") > LONG_LIST:
        yield from ((f"{lines[0]}\n{item}", False) for item in lines[1:])
    elif lines:
        yield text, len(lines) == 1 and not text.rstrip().endswith((".", ";", ",", ")", "]"))
