"""Whether a text affirms or denies: "no adjustment is needed" against "adjustment is needed", rise against fall."""

from __future__ import annotations

import re

from fdarx_core.evaluation.baseline.grading_words import stems, weight

_FORBIDS = re.compile(r"\b(?:contraindicat\w*|avoid\w*|forbid\w*|prohibit\w*)\b")
_RULES_OUT = re.compile(r"\brules? out\b|\bnot (?:be|take|use|receive)\b")
_ASIDE = re.compile(r"\([^()]*\)")
_NOT_FORBIDDEN = re.compile(r"\b(?:not|never|no)\s+(?:\w+\s+)?forbids\b")
_FORBIDDEN = re.compile(
    r"\b(?:(?:should|must|may|can) (?:not|never) (?:be )?(?:used?|given?|taken?|administer(?:ed)?|prescribed?|receive)"
    r"|(?:do|does|did) not (?:use|give|take|administer|prescribe)|(?:is|are|was|were) not recommended"
    r"|not (?:recommended|indicated|advised|be used))\b"
)
_MAY_FORBID = re.compile(
    r"\b(?:should|must|may|can|shall) not\b"
    r"|\b(?:cannot|can't|don't|shouldn't|mustn't|do not|never|unsafe|unless|only if)\b"
    r"|\bnot (?:be|suitable|safe|advis\w+|an option)\b|\b(?:withh[eo]ld|discourag|refrain|prevent)|\bagainst\b"
)
_DENIES = re.compile(
    r"\b(?:no|not|never|neither|nor|without|cannot|none|lacks?|absence|failed|unlikely|forbids)\b|n't\b"
)
_ONLY = re.compile(
    r"\bwith (?:and|or) without\b|\bnot (?:only|limited to|known|yet|necessarily)\b"
    r"|\bno (?:more|less|later|fewer) than\b|\bif not\b|\bnot (?:to |be )?exceed\w*"
)
_CLAUSE = re.compile(r"[.!?](?:\s|$)|\n|\b(?:but|though|although|however|unless|whereas|while|except)\b")
_OPPOSITES = tuple(
    (re.compile(rf"\b(?:{one})\b"), re.compile(rf"\b(?:{other})\b"))
    for one, other in (
        (
            r"increas\w+|rais\w+|elevat\w+|higher|rise|rises|greater|enhanc\w+",
            r"decreas\w+|reduc\w+|lower\w*|fall|falls|smaller|diminish\w*",
        ),
        (r"before", r"after"),
        (r"with (?:food|meals?|a meal)", r"without food|on an empty stomach|fasting"),
        (r"agonist", r"antagonist"),
        (r"inducers?|induces?", r"inhibitors?|inhibits?"),
    )
)
Sides = dict[str, bool | None]


def sides(text: str, *, asked_what_is_forbidden: bool) -> Sides:
    """For each stem of a plain text whether it stands in clauses that affirm (True), that deny (False), or both (None).

    Where the question asks what is forbidden, an answer may list it with or without saying so again.
    """
    found: Sides = {}
    text = _FORBIDDEN.sub(" forbids ", _FORBIDS.sub(" forbids ", _ONLY.sub(" ", _ASIDE.sub(" ", text))))
    text = _NOT_FORBIDDEN.sub(" never " if asked_what_is_forbidden else " ", text)
    if asked_what_is_forbidden:
        text = text.replace(" forbids ", " ")
    for clause in _CLAUSE.split(text):
        affirms = not _DENIES.search(clause)
        for one in stems(_DENIES.sub(" ", clause)):
            found[one] = affirms if found.setdefault(one, affirms) == affirms else None
    return found


def prohibits(text: str) -> bool:
    """Whether a plain text says of something that it must not be done, is to be avoided or is not recommended."""
    return bool(_FORBIDS.search(text) or _FORBIDDEN.search(text))


def forbids(text: str) -> bool:
    """Whether a plain text speaks of what must not be done."""
    return prohibits(text) or bool(_RULES_OUT.search(text))


def may_forbid(text: str) -> bool:
    """Whether a plain text may be taken to speak of what must not be done, or only under conditions."""
    return forbids(text) or bool(_MAY_FORBID.search(text))


def reversed_stems(gold: Sides, said: Sides) -> list[str]:
    """The stems that one text affirms and the other denies, where these are most of what both speak of; else none."""
    shared = frozenset(one for one in gold.keys() & said.keys() if None not in (gold[one], said[one]))
    turned = frozenset(one for one in shared if gold[one] != said[one])
    return sorted(turned) if turned and weight(turned) > 0.5 * weight(shared) else []


def opposite(gold: str, said: str) -> str:
    """The word by which one text says the opposite of the other (a rise for a fall), "" for none."""
    for pair in _OPPOSITES:
        for side, other in (pair, pair[::-1]):
            wrong = other.search(said)
            if wrong and side.search(gold) and not other.search(gold) and not side.search(said):
                return wrong[0]
    return ""
