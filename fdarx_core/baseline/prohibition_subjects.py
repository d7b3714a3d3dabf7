"""Subjects of prohibitions in labels: their kind, and other names for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from fdarx_core.baseline.prohibitions import in_sentence, without_reason
from fdarx_core.baseline.tokens import vocabulary

_LONGEST_ACRONYM = 6
LONGEST = 45
"""The most words of a subject; a longer one is a text and no name."""

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
    """Yield each subject that a phrase names, with the part that names it.

    "patients with glaucoma, ileus, or anuria and in children" gives four. A list of incomplete parts is not split:
    "hypersensitivity to aspirin, caffeine, or codeine" is one.
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
    """Return the examples in a phrase: "(e.g., hemophilia, von Willebrand's disease)", "including ileus"."""
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
    """Return the members of a list of nouns, each with the words that apply to all; or the whole part."""
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
    """Return the text without unopened brackets, and up to the first unclosed one."""
    opened: list[int] = []
    for at, char in enumerate(text):
        if char == "(":
            opened.append(at)
        elif char == ")" and opened:
            opened.pop()
        elif char == ")":
            return _balanced(text[:at] + text[at + 1 :])
    return text[: opened[0]] if opened else text


def _depths(text: str) -> list[int]:
    """Return how many brackets are open before each character."""
    depths, open_ = [], 0
    for char in text:
        depths.append(open_)
        open_ += (char in "([") - (char in ")]" and open_ > 0)
    return [*depths, open_]


_REACTION = re.compile(
    r"\b(?:hypersensitiv\w+|hyper-sensitiv\w+|allerg\w+|anaphyla\w+|asthma\w*|urticaria|angioedema|intoleran\w+|"
    r"sensitiv\w+|reactions? to|history of)\b",
    re.IGNORECASE,
)
_ANOTHER_DRUG = re.compile(
    r"^(?:(?:patients?|who|are|is|currently|already|also|concomitantly|concurrently|simultaneously|together|"
    r"being|been|or|and|a|an|the|any|other|strong|moderate|potent|with|to|in|when)\b\W*)*"
    r"(?:taking|took|taken|receiving|received|using|use of|treated with|treated by|treatment with|"
    r"on (?:an? )?\w+ (?:inhibitor|therapy)|"
    r"concomitant\w*|concurrent\w*|simultaneous\w*|co-?administ\w+|co-?prescri\w+|administered with|"
    r"in combination|combination with|combined with|administration of|drugs?\b|medications?\b|"
    r"within \S+ \w+ (?:of|after|before|following) (?:\w+ing|\w+ion|the last|use)|within (?:the )?\S+ \S+ of)",
    re.IGNORECASE,
)
_DRUG_WORD = re.compile(
    r"\b(?:inhibitors?|inducers?|MAOIs?|nitrates?|nitrites?|stimulators?|substrates?|antagonists?|agonists?|diuretics?|"
    r"NSAIDs?|opioids?|anticoagulants?|antifungals?|macrolides?|antiarrhythmics?|vaccines?|contraceptives?)\b"
)
_NO_DRUG = re.compile(r"\b(?:dialysis|hemodialysis|radiation|radiotherapy|phototherapy|anesthesia|nutrition)\b", re.I)
_PROCEDURE = re.compile(
    r"\b(?:surger\w+|surgical|surgeries|CABG|bypass|an[a]?esthe\w+|puncture|biopsy|procedures?|(?:nerve|"
    r"neuraxial|spinal|"
    r"epidural|paracervical|regional|lumbar|bier) block\w*|tonsillectomy|adenoidectomy|transplant\w*|implant\w*|"
    r"intrathecal|epidural|neuraxial|intra-?arterial\w*|intravenous(?:ly)? (?:use|administration|injection)|"
    r"intramuscular (?:use|administration|injection)|subcutaneous (?:use|administration|injection)|imaging|"
    r"radiologic\w*|contrast|hemodialysis|dialysis|peri-?operative|prophylactic analgesi\w+)\b",
    re.IGNORECASE,
)
_POPULATION = re.compile(
    r"\b(?:pregnan\w+|lactat\w+|breast-?\s?feed\w*|nursing|women|woman|females?|pa?ediatric\w*|child(?!-)|children|infants?|"
    r"neonates?|newborns?|adolescents?|teenagers?|elderly|geriatrics?|(?-i:men|males?)|childbearing|labor and delivery|"
    r"years? of age|years? old|(?:younger|less|older) than \d+ (?:years?|months?)|trimester)\b",
    re.IGNORECASE,
)
_EXCEPT_KINDS = re.compile(r"[\s,(]*\b(?:unless|except)\b.*$", re.IGNORECASE)
_OF_A_KIND = re.compile(
    r"\b(?:with (?!mechanical|reproductive)|who (?:are|have|has|is) (?!pregnant|nursing|breast|or may|able)|suspected)",
    re.IGNORECASE,
)


def kind_of(subject: str, lead: str = "") -> str:
    """Return the kind of a subject: population, condition, drug or procedure. `lead` is the sentence above its list."""
    subject = _EXCEPT_KINDS.sub("", subject)
    if _ANOTHER_DRUG.match(subject) and not _NO_DRUG.search(subject):
        return "drug"
    if _REACTION.search(subject):
        return "condition"
    if re.search(r"\b(?:with|of) (?:any of )?the following(?: \w+)?\W*$|concomitant|co-?administ", lead, re.I):
        return "condition" if re.search(r"patients|conditions", lead, re.I) else "drug"
    if _DRUG_WORD.search(subject) and not _POPULATION.search(subject) and not _PROCEDURE.search(subject):
        return "drug"
    if _PROCEDURE.search(subject) and not _POPULATION.match(subject):
        return "procedure"
    if _POPULATION.search(subject):
        return "condition" if _OF_A_KIND.search(subject) else "population"
    return "condition"


_MOST = 16
_OTHERS = {
    one.lower(): tuple(other for other in group if other != one)
    for group in vocabulary()["same_subjects"]
    for one in group
}
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
    """Return other names of a subject: alternatives, acronyms, examples of the whole `phrase`, and common words."""
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
    """Return "bypass graft (CABG) surgery" without the acronym, and with the acronym only."""
    found = _ACRONYM.search(subject)
    if not found:
        return []
    long = _initials(found["long"], found["short"])
    before, after = subject[: found.start()], subject[found.end() :]
    short = [f"{before}{found['long'].removesuffix(long)}{found['short']}{after}"] if long else []
    return [f"{before}{found['long']}{after}", *short, *(_SIMPLER.sub("", one) for one in short)]


def _initials(long: str, short: str) -> str:
    """Return the last words whose first letters make up a short form, "" if they do not."""
    letters = [char for char in short if char.isupper()]
    words = re.findall(r"[^\s-]+[\s-]*", long)[-len(letters) :]
    first = [word[0].upper() for word in words]
    return "".join(words) if first == letters else ""


def _alternatives(bare: str) -> list[str]:
    """Return the parts of "asthma, urticaria, or hives after taking aspirin", each with the ending that they share."""
    shared = _SHARED.search(bare)
    head, tail = (bare[: shared.start()].strip(), f" {shared[0]}") if shared else (bare, "")
    parts = [part.strip() for part in re.split(r",\s*(?:or|and)?\s*|\s+(?:or|and)\s+", head) if part.strip()]
    if len(parts) < 2 or _INSEPARABLE.search(head):
        return []
    return [f"{_completed(part, parts[-1])}{tail}" for part in parts]


def _completed(part: str, last: str) -> str:
    """Return a part with the noun of the last one added: "acute or severe asthma", "second- or third-degree block"."""
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
