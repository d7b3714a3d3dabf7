"""The sentences of a passage that can stand alone in an answer."""

from __future__ import annotations

import re

from fdarx_core.generation.baseline.text import capitalise, sentences, strip_references

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
    """Sentences of at most `MAX_STATEMENT` characters that need no neighbour, references and bullets taken off."""
    found: dict[str, None] = {}
    for line in context.split("\n"):
        if len(line) >= _MIN_STATEMENT and "|" not in line:
            for sentence in sentences(strip_references(line)):
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
