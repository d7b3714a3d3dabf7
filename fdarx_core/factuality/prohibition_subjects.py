"""Subjects of prohibitions in labels: populations, conditions and drugs, with their exceptions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from fdarx_core.baseline.tokens import decapitalise, pattern

LONGEST = 45
"""The most words of a subject; a longer one is a text and no name."""

_pattern = partial(pattern, file="prohibitions.yaml", package=__package__)

_PARTS = _pattern("parts", re.I)
_COMMA = re.compile(r",\s*(?:(?:and|or|and/or)\s+)?")
_HEAD = _pattern("head", re.I)
_WITHIN = re.compile(r"(?:in|within) the (?:last|past|previous) (?P<time>\S+ \w+),?\s*", re.I)
_ASIDE = _pattern("aside", re.I | re.S)
_EXCEPT = re.compile(r",?\s*(?P<what>\(?\b(?:unless|except)\b.*)$", re.I)
_REASON = _pattern("reason", re.I | re.S)
_NO_MEMBER = _pattern("no_member", re.I)
_WHOLE = _pattern("whole", re.I)
"""Words that hold for all members of a list: the members are not subjects by themselves."""

_REACTION = _pattern("reaction", re.I)
_DRUG = _pattern("drug", re.I)
_POPULATION = _pattern("population", re.I)


def subjects_of(phrase: str) -> Iterator[tuple[str, str]]:
    """Yield each subject that a phrase names, and the exceptions to it, "" for none.

    "patients with glaucoma, ileus, or anuria and in children" gives four. A list whose members do not stand by
    themselves is not split: "hypersensitivity to aspirin, caffeine, or codeine" is one.
    """
    for part in _pieces(_ASIDE.sub("", without_reason(phrase)), _PARTS):
        exception, bracketed, time = "", False, ""
        if found := _EXCEPT.search(part):
            exception, bracketed, part = found["what"].strip("(). "), found["what"][0] == "(", part[: found.start()]
        if found := _WITHIN.match(part):
            part, time = part[found.end() :], f" in the last {found['time']}"
        *others, last = [one for one in map(_tidy, _members(without_head(part))) if one] or [""]
        for subject in others:
            yield f"{subject}{time}", "" if bracketed else exception
        if last:
            yield f"{last}{time}", exception


def without_reason(text: str) -> str:
    """Return a phrase without the reason at its end."""
    return _REASON.sub("", text)


def without_head(phrase: str) -> str:
    """Return a phrase without what precedes the name of its subject: "in patients who have anuria" gives "anuria"."""
    return _HEAD.sub("", phrase.strip(" .;:,"))


def in_sentence(phrase: str) -> str:
    """Return a phrase in lower case, as within a sentence; names of persons keep their capital."""
    first = phrase.split()[0] if phrase.split() else ""
    return phrase if "'" in first or "’" in first else decapitalise(phrase)


def kind_of(subject: str) -> str:
    """Return the kind of a subject: population, condition or drug."""
    if _REACTION.search(subject):
        return "condition"
    if _DRUG.search(subject):
        return "drug"
    return "population" if _POPULATION.search(subject) else "condition"


def _pieces(text: str, pattern: re.Pattern[str]) -> list[str]:
    """Return the pieces of a text between the places of a pattern outside brackets."""
    shown = re.sub(r"\([^()]*\)", lambda found: "_" * len(found[0]), text)
    edges = [0, *(edge for found in pattern.finditer(shown) for edge in found.span()), len(text)]
    return [text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]


def _members(part: str) -> list[str]:
    members = _pieces(part, _COMMA)
    whole = bool(_WHOLE.search(part)) or any(map(_NO_MEMBER.match, members))
    short = len(members) == 2 and (", and" in part or ", or" in part or min(len(one.split()) for one in members) < 2)
    return [part] if whole or short else members


def _tidy(subject: str) -> str:
    """Return a subject in the case of running text; "" where it is too long or none."""
    subject = in_sentence(without_head(" ".join(subject.split())).strip(" .;:,*"))
    subject = re.sub(r"^those\b", "patients", subject)
    if subject.count("(") != subject.count(")"):
        subject = subject.partition("(")[0].replace(")", "").strip(" .;:,*")
    if subject.isupper() and max(map(len, subject.split())) > 6:
        subject = subject.lower()
    return subject if len(subject.split()) <= LONGEST and re.search(r"[A-Za-z]{3}", subject) else ""
