"""How else an answer may name what a label forbids."""

from __future__ import annotations

import re
from functools import lru_cache

from fdarx_core.factuality.safety.subjects import examples_of

_MOST = 16
_SAME = (
    ("pregnancy", "pregnant women", "pregnant"),
    ("breastfeeding", "breast-feeding", "lactation", "nursing mothers", "nursing"),
    ("pediatric patients", "children"),
    ("infants", "babies"),
    ("neonates", "newborns"),
    ("elderly", "older adults", "geriatric patients"),
    ("renal impairment", "kidney impairment", "renal insufficiency", "kidney disease"),
    ("renal disease", "kidney disease"),
    ("renal dysfunction", "kidney dysfunction"),
    ("renal failure", "kidney failure"),
    ("hepatic impairment", "liver impairment", "hepatic insufficiency", "liver disease"),
    ("hepatic disease", "liver disease"),
    ("hepatic failure", "liver failure"),
    ("bleeding", "hemorrhage"),
    ("heart block", "AV block", "atrioventricular block"),
    ("myocardial infarction", "heart attack"),
    ("hypertension", "high blood pressure"),
    ("hypotension", "low blood pressure"),
    ("bradycardia", "slow heart rate"),
    ("gastrointestinal", "GI"),
    ("central nervous system", "CNS"),
    ("peptic ulcer", "stomach ulcer"),
    ("hypersensitivity to", "allergy to"),
    ("allergic-type reactions", "allergic reactions"),
    ("MAOIs", "monoamine oxidase inhibitors", "MAO inhibitors", "MAOI"),
    ("NSAIDs", "nonsteroidal anti-inflammatory drugs", "non-steroidal anti-inflammatory drugs"),
    ("coronary artery bypass graft", "CABG", "heart bypass"),
    ("surgery", "operation"),
    ("metabolic acidosis", "acidosis"),
    ("HBV", "hepatitis B"),
    ("late stages of pregnancy", "third trimester of pregnancy", "late pregnancy"),
    ("urticaria", "hives"),
)
_OTHERS = {one.lower(): tuple(other for other in group if other != one) for group in _SAME for one in group}
_ANY = re.compile(
    rf"(?<!\w)(?:{'|'.join(sorted(map(re.escape, _OTHERS), key=len, reverse=True))})(?!\w)", re.IGNORECASE
)
_ACRONYM = re.compile(r"(?P<long>[A-Za-z][\w’' -]*?)\s*\((?P<short>[A-Z][A-Za-z0-9-]{1,9})\)")
_INSEPARABLE = re.compile(r"\b(?:syndrome of|that|such as)\b", re.IGNORECASE)
_EXCEPTION = re.compile(r",?\s*\(?\b(?:unless|except)\b.*$", re.IGNORECASE)
_SIMPLER = re.compile(
    r"\b(?:known|previously demonstrated|suspected or confirmed|proven or suspected|known or suspected|documented|"
    r"a previous|previous|prior|a|an|the|in the setting of|setting of|treatment of|history of|presence of|"
    r"concomitant use of|"
    r"concomitant use with|use of|in combination with)\s+",
    re.IGNORECASE,
)
_SHARED = re.compile(r"\b(?:after|associated with|related to|due to|of the|to)\b.*$", re.IGNORECASE)
_ASIDE = re.compile(
    r"\s*\([^()]*\)|,?\s*\b(?:unless|except)\b.*$|,\s*(?:with or without|including)\b.*$", re.IGNORECASE
)


@lru_cache(maxsize=8192)
def names_of(subject: str, phrase: str) -> tuple[str, ...]:
    """Names beside the subject: its alternatives, acronyms, examples of the whole `phrase`, plain words for them."""
    bare = _ASIDE.sub("", subject).strip(" ,")
    found = [bare, _SIMPLER.sub("", bare), *_alternatives(bare)]
    found += _spelled(_EXCEPTION.sub("", subject))
    if not re.search(r"hypersensitiv|allerg|anaphyla|creatinine", subject, re.IGNORECASE):
        found += examples_of(phrase)
    for name in list(found):
        found += _in_other_words(name)
    kept = dict.fromkeys(one.strip(" ,.;") for one in found)
    return tuple(one for one in kept if len(one) > 2 and one != subject)[:_MOST]


def _spelled(subject: str) -> list[str]:
    """ "bypass graft (CABG) surgery" once without the acronym and once with it alone."""
    found = _ACRONYM.search(subject)
    if not found:
        return []
    long = _initials(found["long"], found["short"])
    before, after = subject[: found.start()], subject[found.end() :]
    short = [f"{before}{found['long'].removesuffix(long)}{found['short']}{after}"] if long else []
    return [f"{before}{found['long']}{after}", *short, *(_SIMPLER.sub("", one) for one in short)]


def _initials(long: str, short: str) -> str:
    """The last words of which a short form takes the first letters, "" where it does not."""
    letters = [char for char in short if char.isupper()]
    words = re.findall(r"[^\s-]+[\s-]*", long)[-len(letters) :]
    first = [word[0].upper() for word in words]
    return "".join(words) if first == letters else ""


def _alternatives(bare: str) -> list[str]:
    """ "asthma, urticaria, or hives after taking aspirin": each with the end that they share."""
    shared = _SHARED.search(bare)
    head, tail = (bare[: shared.start()].strip(), f" {shared[0]}") if shared else (bare, "")
    parts = [part.strip() for part in re.split(r",\s*(?:or|and)?\s*|\s+(?:or|and)\s+", head) if part.strip()]
    if len(parts) < 2 or _INSEPARABLE.search(head):
        return []
    return [f"{_completed(part, parts[-1])}{tail}" for part in parts]


def _completed(part: str, last: str) -> str:
    """A part without its noun takes that of the last: "acute or severe asthma", "second- or third-degree block"."""
    if part.endswith("-") and "-" in last:
        return part + last.partition("-")[2]
    return f"{part} {last.split()[-1]}" if _is_adjective(part) else part


def _is_adjective(part: str) -> bool:
    return " " not in part and bool(re.search(r"(?:ary|ory|ous|ic|al|ive|ute|ere|ed|ent)$", part))


def _in_other_words(name: str) -> list[str]:
    return [
        name[: found.start()] + other + name[found.end() :]
        for found in _ANY.finditer(name)
        for other in _OTHERS[found[0].lower()]
    ]
