"""The sentence a rule looks at, and whether it and its phrases can be understood outside the passage."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fdarx_core.generation.baseline.text import capitalise, decapitalise
from fdarx_core.generation.baseline.units import Unit

MAX_ANSWER = 600
_DRUG_WORD = r"(?! (?:drug|medicine|medication|product)\b)"
_CONNECTIVE = re.compile(
    r"^(?:However|Therefore|In addition|Additionally|Furthermore|Moreover|Thus"
    r"|Also|Consequently|Accordingly|Nevertheless"
    r"|For this reason|Hence|Likewise|Similarly|In general|Generally|In contrast"
    r"|Conversely|On the other hand|As a result"
    r"|Because of this|Further|Finally|Lastly|Second(?:ly)?|First(?:ly)?|Note|NOTE)[,:]\s+"
)
_DANGLING_START = re.compile(
    r"^(?:(?:It(?! is (?:not )?(?:known|recommended|important|advisable|unknown"
    r"|suggested|necessary|essential|possible))"
    rf"|They|This{_DRUG_WORD}|These|Those|Such|He|She|Its|Their|Both(?! .* and )|Neither(?! .* nor )"
    r"|Others?|Another|Similar|Same|And|But|Or|Which|Who|Then|Half of|Most of|Some of|One of|Again)\b"
    r"|The (?:latter|former|same|above|other|following|remaining|observed|reported|resulting|reason|change|difference"
    r"|increase|decrease|two|three|result|finding|event|effect)s? (?!of\b))"
)
_ELSEWHERE = re.compile(
    r"\b(?:the (?:latter|former|above)|aforementioned|see above|as above|(?:the"
    r"|in) (?:table|figure)|(?:table|figure) \d"
    r"|(?:described|mentioned|listed|noted|given|shown|discussed|stated|outlined)"
    r" (?:above|elsewhere|previously|in the table)"
    r"|respective section|this (?:section|table|trial)|the (?:present|current) study"
    r"|(?:these|this|that|such|those) (?:stud(?:y|ies)|trials?|data|results|findings|doses?|patients?|population"
    r"|subjects|patient population|drugs|agents|group|age group|risk|reason|indication|effect))\b",
    re.I,
)
_LIST_TO_COME = re.compile(
    r"\bfollowing\b(?!.*\b(?:administration|exposure|dos|treat|surg|use)\w*)|as follows"
    r"|\bbelow(?! (?:the |age |\d|\w+ years))",
    re.I,
)
_POINTER = re.compile(
    rf"\b(?:this{_DRUG_WORD}|these|such(?! as\b)|those(?! (?:who|with|without|receiving|treated|in|of|taking|on|seen"
    r"|observed|given|from|reported|for|patients)\b))\b",
    re.I,
)
_UNSOUND = re.compile(
    rf"\b(?:this{_DRUG_WORD}|these|those(?! (?:who|with|receiving)\b)|such(?! as\b)|it|its|they|them|he|she|latter"
    r"|former|above|same|table|figure|following|you|your|we|our|i|subsequent|second"
    r"|described|aforementioned|either case)\b",
    re.I,
)
_CLAUSE = re.compile(
    r"^(?:with|in|at|after|during|following|for|since|because|unlike|like|there"
    r"|although|both|either|neither|whether|so|as)\b"
    r"|[–—]|\b(?:is|are|was|were|be|been|may|should|will|can|must|has|have|had|do|does|did|which|that|because|although"
    r"|however|causes?|caused|resulted|occurred|showed|demonstrated|indicates?|suggests?|if|when)\b"
    r"|\b(?:a|an|the|of|with|and|or|for|to|in|at|by|no|not|from|on|as|than|also)$",
    re.I,
)
_SUPPLIED_AS = re.compile(
    r"(?:,| and|, and)?(?: are| is)?(?: supplied| available| packaged)(?: as| in)?(?: follows)?:$"
)
_LEAD = re.compile(
    r"^(?:In|For|After|Following|During|When|If|Among|With|At|On|Under|Upon|Before|Prior to|While|Once|Until|Should"
    r"|Within|Based on)\b"
)
_STARTS = """the a an no there both each all one two we they he she it this these patients dose doses dosage treatment
therapy safety plasma mean caution approximately about consider monitor discontinue stop initiate start reduce avoid use
do administer increase decrease withhold interrupt instruct advise seek take evaluate adjust if"""
_CLAUSE_STARTS = frozenset(_STARTS.split())


@dataclass(slots=True)
class Scene:
    """A sentence, its main clause without connective and leading condition (`lead`), and what surrounds it.

    `about_drug`: whether the passage speaks of the drug that the label is named for. `low` is the sentence in lower
    case.
    """

    drug: str
    title: str
    code: str
    unit: Unit
    sentence: str
    lead: str
    clause: str
    low: str
    about_drug: bool


def set_scene(unit: Unit, drug: str, title: str, code: str, about_drug: bool) -> Scene | None:
    """The scene of a sentence, or None where it cannot be understood alone or makes too long an answer."""
    sentence = _SUPPLIED_AS.sub(".", capitalise(_CONNECTIVE.sub("", unit.text)))
    if len(sentence) > MAX_ANSWER or not sentence[:1].isalnum() or not _stands_alone(sentence):
        return None
    if not unit.items and (sentence.endswith(":") or _LIST_TO_COME.search(sentence)):
        return None
    lead, clause = split_lead(sentence)
    return Scene(drug, title, code, unit, sentence, lead, clause, sentence.lower(), about_drug)


def _stands_alone(sentence: str) -> bool:
    """A late "such" or "these" mostly points back within its own sentence, an early one out of it."""
    pointer = _POINTER.search(sentence)
    early = pointer is not None and len(sentence[: pointer.start()].split()) < 14
    return not (early or _DANGLING_START.match(sentence) or _ELSEWHERE.search(sentence))


def split_lead(sentence: str) -> tuple[str, str]:
    """A leading condition and the clause after it: "In adults, the dose is …" gives "in adults", "the dose is …"."""
    if not _LEAD.match(sentence):
        return "", sentence
    cut = sentence.find(", ")
    while 0 < cut < 150:
        clause = sentence[cut + 2 :]
        first = clause.split(None, 1)[0].lower() if clause.strip() else ""
        if first in _CLAUSE_STARTS or (sentence.count(", ") == 1 and first not in ("and", "or")):
            return decapitalise(sentence[:cut]), clause
        cut = sentence.find(", ", cut + 2)
    return "", sentence


def sound(phrase: str, longest: int = 110) -> bool:
    """Whether a phrase can be copied into a question: short, brackets closed, nothing that points elsewhere."""
    return (
        0 < len(phrase) <= longest
        and phrase.count("(") == phrase.count(")")
        and phrase.count("[") == phrase.count("]")
        and not _UNSOUND.search(phrase)
    )


def is_noun_phrase(phrase: str) -> bool:
    """`sound`, and without a verb, a relative clause or a loose end."""
    return sound(phrase) and not _CLAUSE.search(phrase)
