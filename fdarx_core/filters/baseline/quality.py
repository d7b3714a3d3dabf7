"""The baseline's search for faults: what question, answer and passages have in common, and what they lack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

from fdarx_core.filters.baseline.support import both_needed, covered
from fdarx_core.filters.baseline.terms import headings, shown_text, terms, weight
from fdarx_core.filters.text import numbers, tokens

FactualFault = tuple[Literal["answer_leakage", "context_mismatch", "unanswerable", "low_utility", "other"], str]
MultihopFault = tuple[Literal["one_sided", "hop_mismatch", "leak_from_context", "unanswerable", "other"], str]

LEAST_LEAKED = 4
"""Weight of what one passage alone adds, from which it counts as given away when the question has all of it."""

_POINTS = re.compile(
    r"\b(?:this|the (?:above|following|preceding)|in the|does the|of the) "
    r"(?:passage|table|figure|excerpt|context|text)\b"
    r"|\bthis section\b"
)
_POINTER = re.compile(r"(?:see|refer to|please see)\b.{0,120}|.{0,30}\bsee full prescribing information\b.{0,20}", re.S)
_SAYS_NOTHING = re.compile(r"(?:yes|no|true|false|not applicable|none)\b\W*")
_SPACED_OUT = re.compile(r"(?<![\w.])(?:[A-Za-z] ){3,}[A-Za-z]")
_DENIES = re.compile(r"\b(?:no|not|never|none|neither|nor|without|cannot|unknown|lack)\b|n['’]t\b", re.I)
_SHORT_FORM = re.compile(r"\([A-Z]{2,6}s?\)")
_GROUPS = {
    "children": (
        r"\bchild(?:ren)?\b|pa?ediatric|adolescent|infant|neonat",
        r"child|pa?ediatric|adolescen|infant|neonat|\bage[ds]?\b",
    ),
    "older adults": (r"elderly|geriatric|older (?:adult|patient)", r"elderly|geriatric|older|\bage[ds]?\b|\b65\b"),
    "pregnancy": (r"pregnan", r"pregnan|fetus|fetal|gestation|trimester|teratogen|embryo"),
    "lactation": (r"lactat|breast-?feed|nursing", r"lactat|breast|nursing|milk|postpartum"),
    "renal impairment": (
        r"(?:renal|kidney) (?:impairment|disease|failure|insufficiency)",
        r"renal|kidney|creatinine|egfr|dialysis|nephr",
    ),
    "hepatic impairment": (
        r"(?:hepatic|liver) (?:impairment|disease|failure|insufficiency)",
        r"hepat|liver|child-pugh|cirrho|transaminase|\balt\b",
    ),
}
"""What asks about a group of patients, and what speaks of it."""
_NAMED_THING = re.compile(
    r"\w{3,}(?:itis|a?emia|osis|pathy|m[ai]b|pril|sartan|olol|statin|azole|cillin|mycin|floxacin|parin|thium|oxin|barbital|"
    r"farin|trexate|phylline|porine|limus|gliptin|plegia|algia|oma|uria|penia|rrh?ea|ectomy|plasty|ciclib|tinib)"
)
_THING = r"\bcolou?r\b|\bshape|\bstor(?:e|ed|age)\b|\bpackag|imprint|\bbottle|\bndc\b"
_EFFECT = r"\brisk|advers|\bdose|\bdosing|\bdosage|overdos|interact|pregnan|impairment|metaboli|half-life|\bauc\b|toxic"
_NO_HOP = re.compile(rf"(?=.*(?:{_THING}))(?=.*(?:{_EFFECT}))", re.S)


def factual_fault(slots: Mapping[str, Any]) -> FactualFault | None:
    """The first fault found, with what it is."""
    question, answer, drug = (str(slots[name]) for name in ("question", "answer", "drug"))
    where = f"{headings(slots)}\n{shown_text(slots)}"
    if garbled := _SPACED_OUT.search(f"{question}\n{answer}"):
        return "other", f"letters apart: {garbled[0]!r}"
    if vague := _vague(question, answer):
        return "low_utility", vague
    if _adds_nothing(question, answer, drug):
        return "answer_leakage", "the question holds all that the answer says"
    if foreign := _foreign(question, where, drug):
        return "context_mismatch", f"the passages do not speak of {foreign}"
    if not covered(terms(answer), terms(where)):
        return "unanswerable", "most of the answer's words are not in the passages"
    return None


def multihop_fault(slots: Mapping[str, Any]) -> MultihopFault | None:
    """The first fault found, with what it is."""
    question, answer, drug = (str(slots[name]) for name in ("question", "answer", "drug"))
    a, b = str(slots["context_a"]), str(slots["context_b"])
    where = "\n".join((str(slots["section_a"]), a, str(slots["section_b"]), b))
    if garbled := _SPACED_OUT.search(f"{question}\n{answer}"):
        return "other", f"letters apart: {garbled[0]!r}"
    if vague := _vague(question, answer):
        return "other", vague
    if foreign := _foreign(question, where, drug):
        return "unanswerable", f"the passages do not speak of {foreign}"
    if not both_needed(answer, a, b):
        return "one_sided", "one passage adds nothing to the answer"
    if _NO_HOP.match(question.lower()):
        return "hop_mismatch", "look or storage of the product with an effect of the drug"
    if leaked := _leaked(question, answer, drug, a, b):
        return "leak_from_context", f"the question holds all that one passage adds: {leaked}"
    return None


def _adds_nothing(question: str, answer: str, drug: str) -> bool:
    denied = len(_DENIES.findall(answer)) > len(_DENIES.findall(question))
    return not denied and not terms(_SHORT_FORM.sub("", answer)) - terms(question) - terms(drug)


def _leaked(question: str, answer: str, drug: str, a: str, b: str) -> str:
    asked, said = terms(question), terms(answer) - terms(drug)
    in_a, in_b = said & terms(a), said & terms(b)
    own = next((own for own in (in_a - in_b, in_b - in_a) if weight(own) >= LEAST_LEAKED and own <= asked), ())
    return ", ".join(sorted(own))


def _vague(question: str, answer: str) -> str:
    said = answer.strip().lower()
    if found := _POINTS.search(question.lower()):
        return f"the question points at a place: {found[0]!r}"
    return "the answer says nothing by itself" if _SAYS_NOTHING.fullmatch(said) or _POINTER.fullmatch(said) else ""


def _foreign(question: str, where: str, drug: str) -> str:
    """What the question names and the passages do not, "" for nothing: numbers, groups of patients, drugs, diseases."""
    asked, there = question.lower().replace(drug.lower(), " "), where.lower()
    missing = set(numbers(asked) - numbers(there))
    missing |= {
        group for group, (asks, speaks) in _GROUPS.items() if re.search(asks, asked) and not re.search(speaks, there)
    }
    missing |= {word for word in tokens(asked) if _NAMED_THING.fullmatch(word) and word not in there}
    return ", ".join(sorted(missing))
