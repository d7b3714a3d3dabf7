"""What a text says in words, as it compares: stems, one word for what has several names, and groups of patients."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

_LITTLE = """
a an the of in on at to for from by with and or as is are was were be been being do does did has have had can could may
might must shall should will would it its he she they them their this that these those there here which who whom whose
what when where why how if than then so such any all each other into about per also only both either while because
since not no nor never without avoid cannot but until unless against very more most less some you your i we our us
according label section state says say said include includes including following respectively approximately about
eg ie etc e.g i.e however therefore thus just well given based
"""
_LITTLE_WORDS = frozenset(_LITTLE.split())
_LIGHT = """
patient drug use treatment recommend tablet capsule dose therapy medicine medication receive take give administration
administer product usual case occur report show result consider available contain know cause associate experience
"""
_OF_AN_ORGAN = "|".join(f"(?<={organ} {{0}})" for organ in ("renal", "kidney", "hepatic", "liver"))
_SAME = {
    "kidney": "renal",
    "liver": "hepatic",
    r"elderly|older (?:adults?|patients?|people|persons?)|aged": "geriatric",
    r"child(?:ren)?|paediatrics?|pediatrics|kids|youths?": "pediatric",
    r"nursing (?:mothers?|infants?)|breast[- ]?fe(?:ed|eding|d)|lactating|breast milk|human milk": "lactation milk",
    r"heart attacks?|mi": "myocardial infarction",
    r"high blood pressure": "hypertension",
    r"low blood (?:sugar|glucose)": "hypoglycemia",
    r"by mouth": "oral",
    r"allerg(?:y|ies|ic)(?: reactions?)?(?: to)?": "hypersensitivity",
    r"insufficiency|dysfunction|impaired": "impairment",
    rf"failure(?:{_OF_AN_ORGAN.format('failure')})|disease(?:{_OF_AN_ORGAN.format('disease')})": "impairment",
    r"side effects?|undesirable effects?|adverse events?|adverse effects?": "adverse reaction",
    r"start(?:ed|ing|s)?|begin(?:ning|s)?|begun|began|initiat(?:e|ed|ion|ing)": "start",
    r"stop(?:ped|ping|s)?|discontinu(?:e|ed|ation|ing)|cease|withdraw(?:n|al)?": "stop",
    r"reduc(?:es?|ed|ing|tion)|lower(?:ed|ing|s)?|diminish(?:e[sd]|ing)?": "decrease",
    r"rais(?:es?|ed|ing)|elevat(?:es?|ed|ing|ion)|enhanc(?:es?|ed|ing)": "increase",
    r"max|maximal": "maximum",
    r"bleed(?:s|ing)?|haemorrhages?": "hemorrhage",
    r"tumou?rs?": "tumor",
    r"components?": "ingredient",
    r"gi": "gastrointestinal",
    r"cv": "cardiovascular",
    r"cns": "central nervous system",
    r"cabg": "coronary artery bypass graft",
    r"ckd": "chronic renal impairment",
    r"esrd": "end stage renal impairment",
    r"type (?:1|i)": "type1",
    r"type (?:2|ii)": "type2",
    r"t2dm": "type2 diabetes mellitus",
    r"non-?\s?steroidal,? anti-?\s?inflammatory (?:drugs?|agents?|medicines?)|nsaids?": "nsaid",
    r"expectant mothers?": "pregnant",
    r"physicians?|doctors?|prescribers?|healthcare providers?": "physician",
}
_PATTERNS = [(re.compile(words), name) for words, name in _SAME.items()]
_SYNONYM = re.compile(rf"\b(?:{'|'.join(_SAME)})\b")
_WORD = re.compile(r"[a-z0-9]*[a-z][a-z0-9]*")
_PIECE = re.compile(rf"(?P<several>{_SYNONYM.pattern})|{_WORD.pattern}")
_ENDING = re.compile(r"(?<=\w{3})(?:ations?|ions?|ings?|ages?|ated?|ates|ed|es|e|s|ly|ally|al|y|ies)$")

_GROUPS = {
    "children": r"pediatric|adolescen|infant|neonat|newborn",
    "older adults": r"geriatric",
    "pregnancy": r"pregnan|gestation|trimester",
    "lactation": r"\blactation|milk",
    "renal impairment": r"(?<!acute )renal impair|renal function|egfr|creatinine clearance|dialysis|\bcrcl\b",
    "hepatic impairment": r"hepatic function|(?<!acute )hepatic impair(?!\w*,? develop)|child-pugh|cirrho",
    "women": r"(?<!pregnant )(?<!lactation milk )\b(?:women|woman|female)",
    "men": r"\bmen\b|\bmale",
    "adults": r"\badult",
}
_GROUP = tuple((name, re.compile(words)) for name, words in _GROUPS.items())


def one_name(text: str) -> str:
    """A plain text in which things that go by several names have one: kidney is renal, bleeding is hemorrhage."""
    return _SYNONYM.sub(lambda found: _name(found[0]), text)


@lru_cache(maxsize=1024)
def _name(written: str) -> str:
    # What is taken as a failing organ's only beside its name is looked up without it.
    return next((name for words, name in _PATTERNS if words.fullmatch(written)), "impairment")


@lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """A word without its ending; one with a digit, as in "cyp3a4", is a name and stays whole."""
    return word if any(map(str.isdigit, word)) else _ENDING.sub("", word)


def is_little(word: str) -> bool:
    """Whether a lower-case word says nothing by itself."""
    return word in _LITTLE_WORDS or len(word) < 2


def stems(text: str) -> list[str]:
    """The stems, in order, of the words of a plain text that carry meaning."""
    return [stem(word) for word in _WORD.findall(text) if not is_little(word)]


def spelt_stems(text: str) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Where words that carry meaning stand in a plain text, things with several names as one, each with its stems."""
    for found in _PIECE.finditer(text):
        if said := frozenset(stems(_name(found[0]) if found["several"] else found[0])):
            yield found.start(), found.end(), said


_LIGHT_STEMS = frozenset(map(stem, _LIGHT.split()))


def weight(found: frozenset[str]) -> float:
    """How much stems say together: a word that all labels use is a third of another, a name with digits is two."""
    return sum(map(_weight, found))


@lru_cache(maxsize=65536)
def _weight(one: str) -> float:
    return 1 / 3 if one in _LIGHT_STEMS else 2.0 if any(map(str.isdigit, one)) else 1.0


def groups(text: str) -> frozenset[str]:
    """The groups of patients that a plain text speaks of."""
    return frozenset(name for name, words in _GROUP if words.search(text))
