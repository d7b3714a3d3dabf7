"""Phrases that name what is forbidden, taken apart into one subject each, in the label's few words."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fdarx_core.factuality.safety.objects import without_reason
from fdarx_core.generation.baseline.text import decapitalise

_LONGEST_ACRONYM = 6
LONGEST = 45
"""Words: a longer subject is no name but a text."""

_PEOPLE = r"(?:patients?|individuals?|persons?|people|subjects?|those|anyone|adults)"
_GROUP = rf"(?:{_PEOPLE}|women|children|infants|neonates|females?|pregnan\w+|lactat\w+|nursing|breast-?feeding)"
_STARTS = (
    rf"(?:(?:in|with|for|to|during)\s+(?:\w+\s+)?{_GROUP}|"
    rf"{_PEOPLE}\s+(?:with|who|at|having|receiving|taking|known))"
)
_PARTS = re.compile(
    r";\s*(?:(?:and|or)\s+)?"
    rf"|,\s*(?:(?:and|or|and/or)\s+)?(?={_STARTS})"
    rf"|,?\s+(?:and|or)\s+(?={_STARTS}|who\s)"
    r"|,?\s+and\s+(?=in\s|during\s|with\s|are\s|(?:a\s+|known\s+|prior\s+)?(?:hypersensitivity|history of|allergy))"
    r"|,?\s+or\s+(?=have (?!had)|are )",
    re.IGNORECASE,
)
_DANGLING = re.compile(r"(?:^|\s)(?:with|in|or|and|of|by|to|without|who|have|has|are|known|both)\W*$", re.IGNORECASE)
_HEAD = re.compile(
    rf"^(?:(?:in|for|with|to|by|among|under|during|as|the|an?|any|all|other|adult|certain)\s+)*"
    rf"(?:following\s+\w+\s*:\s*)?(?:{_PEOPLE}\b\s*,?\s*"
    r"(?:(?:in|with|who|that|whom|have|has|had|are|is|were|been|being|having|known to (?:be|have)|shown|exhibited|"
    r"demonstrated|experienced|developed|the following|suffering from|an?|the)\b\s*)+:?\s*)?",
    re.IGNORECASE,
)
_AT_RISK = re.compile(rf"^(?:{_PEOPLE}\s+)?(?=at (?:high|increased|greater)?\s?risk)", re.IGNORECASE)
_AGED = re.compile(r"^(?:those|individuals)\b", re.IGNORECASE)
_LITTLE_HEAD = re.compile(
    r"^(?:(?:who|with|in|have|has|had|are|is|were|been|being|be|the|an?|to|for|during|presence of|have the presence of|"
    r"patients? with|experienced|the following:?|conditions?:|and|or|,|:)(?=[\s:,])[\s:,]*)+",
    re.IGNORECASE,
)
_RECENT = re.compile(
    r"^in the (?:last|past|previous) (?P<time>(?:\d+|\w+) \w+),?\s*(?:have |has )?(?:experienced |had )?(?:an? )?",
    re.IGNORECASE,
)
_EXAMPLES = re.compile(
    r"\s*\((?:e\.\s?g\.?|eg,|for example|such as|i\.e\.),?\s*(?P<what>(?:[^()]|\([^()]*\))*)\)", re.I
)
_COMMENT = re.compile(r",?\s*\b(?<!in )(?<!of )which\b.*$|\s*\([^()]{70,}\)", re.IGNORECASE | re.DOTALL)
_NO_MEMBER = re.compile(
    r"(?:including|with|without|such|especially|particularly|as|in|of|to|for|from|at|by|on|who|that|whether|regardless|"
    r"even|unless|except|where|when|if|eg|e\.g)\b",
    re.IGNORECASE,
)
_EXCEPT = re.compile(r",?\s*(?P<what>\(?\b(?:unless|except)\b.*)$", re.IGNORECASE)
_WHOLE = re.compile(
    r"\b(?:hypersensitiv\w+|allerg\w+|anaphyla\w+|intoleran\w+|sensitiv\w+|reactions?|after|associated|related|"
    r"syndrome of|consistent|within|concomitant|combination|use of|taking|receiving)\b",
    re.IGNORECASE,
)
_UNFINISHED = re.compile(r"(?:(?:ary|ory|ous|ic|[tnrm]al|ive|oid|ent|ant|degree|type|ute|ere|ed|known|or|and|of)|-)$")
_NOUNS = re.compile(
    r"(?:patient|infant|agent|antagonist|event|transplant|implant|withdrawal|colic|tic|panic|clinic)s?$"
)
_A_SENTENCE = re.compile(r"^(?:\w+ ){1,3}(?:have|has|had|must|should) (?:been|be|included|occurred)\b", re.IGNORECASE)
_TOO_LITTLE = re.compile(
    r"(?:patients?|use|the|following|any|these|this|it|them|conditions?|both|other|treatment|therapy|drug|children and)"
    r"\W*",
    re.IGNORECASE,
)


def subjects_of(phrase: str) -> Iterator[tuple[str, str]]:
    """Each thing that a phrase names, and the part that names it.

    "patients with glaucoma, ileus, or anuria and in children" gives four. A list is parted only where every part
    stands by itself: "hypersensitivity to aspirin, caffeine, or codeine" is one.
    """
    for part in _parts(in_sentence(phrase)):
        for one in _listed(_headless(part)):
            subject = _tidy(one)
            if (
                subject
                and not _A_SENTENCE.search(subject)
                and len(subject.split()) <= LONGEST
                and not _TOO_LITTLE.fullmatch(subject)
            ):
                yield subject, part


def examples_of(phrase: str) -> list[str]:
    """What a phrase names as examples: "(e.g., hemophilia, von Willebrand's disease)", "including ileus"."""
    phrase = _COMMENT.sub("", phrase)
    told = [found["what"] for found in _EXAMPLES.finditer(phrase)]
    told += re.findall(r"\b(?:including|such as)\s+([^();]+)", phrase, re.IGNORECASE)
    parts = (one.strip(" .;,") for text in told for one in re.split(r",\s*(?:and|or)?\s*|\s+(?:and|or)\s+", text))
    return [one for one in parts if 1 <= len(one.split()) <= 4 and not re.search(r"\d|^(?:as|with|other)\b", one)]


def _parts(phrase: str) -> Iterator[str]:
    depth = _depths(phrase)
    start = 0
    for found in _PARTS.finditer(phrase):
        left = phrase[start : found.start()]
        if depth[found.start()] == 0 and left.strip() and not _DANGLING.search(left):
            yield left
            start = found.end()
    yield phrase[start:]


def _headless(part: str) -> str:
    part = _COMMENT.sub("", _EXAMPLES.sub(" ", without_reason(part))).strip(" .;:,")
    if found := _AT_RISK.match(part):
        return f"patients {part[found.end() :]}"
    if found := _RECENT.match(part):
        return f"{part[found.end() :]} in the last {found['time']}"
    kept = _HEAD.sub("", part, count=1)
    if found := _RECENT.match(kept):
        return f"{kept[found.end() :]} in the last {found['time']}"
    return _LITTLE_HEAD.sub("", kept) or kept


def _listed(part: str) -> list[str]:
    """The members of a list of nouns, each with what holds for all; the part whole where they can't stand alone."""
    if not part or _WHOLE.search(part):
        return [part]
    tail = ""
    if found := re.search(r" in the last (?:\d+|\w+) \w+$", part):
        tail, part = found[0], part[: found.start()]
    if found := _EXCEPT.search(part):
        exception = found["what"].strip("() ")
        head = part[: found.start()]
        members = _members(head)
        # In brackets it holds for what stands before them alone.
        holds = [at == len(members) - 1 or not found["what"].startswith("(") for at in range(len(members))]
        return [
            f"{one}{tail}, {exception}" if is_so else f"{one}{tail}" for one, is_so in zip(members, holds, strict=True)
        ]
    return [f"{one}{tail}" for one in _members(part)]


def _members(part: str) -> list[str]:
    depth = _depths(part)
    commas = [found for found in re.finditer(r",\s*(?:(?:and|or|and/or)\s+)?", part) if depth[found.start()] == 0]
    if not commas or (len(commas) == 1 and commas[0][0].strip() != ","):
        return [part]
    edges = [0, *(edge for found in commas for edge in found.span()), len(part)]
    members = [part[edges[at] : edges[at + 1]].strip() for at in range(0, len(edges), 2)]
    if not all(map(_stands_alone, members)) or (len(commas) == 1 and min(len(one.split()) for one in members) < 2):
        return [part]
    last = members.pop()
    return [*members, *re.split(r"^(?:and|or)\s+", last)[-1:]]


def _stands_alone(member: str) -> bool:
    unfinished = _UNFINISHED.search(_last_word(member)) and not _NOUNS.search(member)
    return bool(member) and not _NO_MEMBER.match(member) and not unfinished


def _last_word(text: str) -> str:
    words = re.sub(r"\s*\([^()]*\)", "", text).split()
    return words[-1] if words else ""


def _tidy(one: str) -> str:
    one = re.sub(r"\s+(?=[,;])", "", re.sub(r"\s+", " ", _COMMENT.sub("", one))).strip(" .;:,*")
    one = _LITTLE_HEAD.sub("", one)
    one = re.sub(r"(?:,?\s+(?:and|or|and/or))$", "", one).strip(" .;:,")
    one = _balanced(one).strip(" .;:,")
    one = _AGED.sub("patients", one)
    if one.isupper() and len(max(one.split(), key=len)) > _LONGEST_ACRONYM:
        one = one.lower()
    return one if re.search(r"[A-Za-z]{3}", one) else ""


def _balanced(text: str) -> str:
    """Without brackets that nothing opens, and without what follows one that nothing closes."""
    opened: list[int] = []
    for at, char in enumerate(text):
        if char == "(":
            opened.append(at)
        elif char == ")" and opened:
            opened.pop()
        elif char == ")":
            return _balanced(text[:at] + text[at + 1 :])
    return text[: opened[0]] if opened else text


def in_sentence(one: str) -> str:
    """A phrase from a sentence's beginning as it stands within one; names of persons keep their capital."""
    first = one.split()[0] if one.split() else ""
    return one if "'" in first or "’" in first else decapitalise(one)


def _depths(text: str) -> list[int]:
    """How many brackets are open before each character."""
    depths, open_ = [], 0
    for char in text:
        depths.append(open_)
        open_ += (char in "([") - (char in ")]" and open_ > 0)
    return [*depths, open_]
