"""The statements by which a label forbids the use of its drug, and the phrases that name what each forbids."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.tokens import decapitalise, strip_references
from fdarx_core.records import Label, Passage, Section

_BULLET = re.compile(r"\s*(?P<sign>[-•·●▪◦*○−–—]|o(?= [A-Z]))\s*")
_NUMBER = re.compile(r"\s*(?:\(?\d{1,2}[.)]\s*(?=[A-Za-z])|\(?[a-z][.)]\s+)")
_SECTION_NUMBER = re.compile(r"\s*\d{1,2}\.\d{1,2}\s+(?=[A-Z])")
_WARNING_SIGN = re.compile(r"^(?:WARNINGS?|CONTRAINDICATIONS?)\s*[:.–-]*\s*(?=[A-Z][a-z])")
_OPEN_REFERENCE = re.compile(r"[\[(]\s*(?:also |please )?(?:see|refer to)\b[^\])]*$", re.IGNORECASE)
_GLUED = re.compile(r"(?<=[A-Za-z)]{3})\.(?=[A-Z][A-Za-z]{2})")
_BROKEN_REFERENCE = re.compile(r"\s*[\[(]\s*(?:also |please )?(?:[Ss]ee|SEE)(?![a-z])[^\[\]()]{0,240}[\])]")
_INNER_BULLET = re.compile(r"(?<=\S)\s*•\s*(?=[A-Z])")
_WRAPPED = re.compile(r"(?<=[a-z,)])(\s?-)?[ \t]*\n[ \t]*(?=(?!o )[a-z])")
_HEADING_WORDS = 8


@dataclass(frozen=True, slots=True)
class Line:
    """One line: its sentences without cross-references, and its `bullet`: sign and depth, "" for none.

    `heading`: it has few words and no mark at its end. An empty line that has a bullet passes it to the next.
    """

    sentences: tuple[str, ...]
    bullet: str
    heading: bool
    passage: Passage

    @property
    def text(self) -> str:
        return " ".join(self.sentences)


def lines_of(passages: Sequence[Passage]) -> Iterator[Line]:
    """Yield the lines of the passages that contain text, in order."""
    bullet = ""
    for passage in passages:
        for raw in _unglued(passage.text):
            line = _line(raw, passage, bullet)
            bullet = "" if line.text else line.bullet
            if line.text:
                yield line


def _line(raw: str, passage: Passage, inherited: str) -> Line:
    bullet = inherited
    rest = raw
    while found := _BULLET.match(rest):
        bullet = f"{found['sign']}{len(raw) - len(raw.lstrip())}"
        rest = rest[found.end() :]
    section, item = _SECTION_NUMBER.match(rest), _NUMBER.match(rest)
    if found := section or item:
        rest = rest[found.end() :]
    text = _WARNING_SIGN.sub("", _without_references(rest))
    heading = len(text.split()) <= _HEADING_WORDS and not text.endswith((".", ":", ";", ","))
    if item or (section and not heading):
        bullet = bullet or "1"
    return Line(tuple(split_sentences(text, "label")), bullet, heading, passage)


def _unglued(text: str) -> Iterator[str]:
    """Yield the lines, also those whose line break the label lost; a line that the next one repeats is left out."""
    joined = _WRAPPED.sub(lambda found: "-" if found[1] else " ", _BROKEN_REFERENCE.sub("", text))
    raw = _INNER_BULLET.sub("\n• ", _GLUED.sub(". ", joined)).split("\n")
    for at, line in enumerate(raw):
        if not (line.strip() and at + 1 < len(raw) and raw[at + 1].startswith(line) and raw[at + 1] != line):
            yield line


def _without_references(text: str) -> str:
    return _OPEN_REFERENCE.sub("", strip_references(text)).strip(" \t")


_USED = (
    r"(?:used?|given|give|taken?|administer(?:ed)?|co-?administer(?:ed)?|prescribed?|receive|start(?:ed)?|"
    r"initiate(?:d)?|inject(?:ed)?|instituted|employed|treated with)"
)
_CONTRAINDICATED = r"(?<!not )(?<!relatively )\bcontraindicated\b(?! sections?)"
_NOT_USED = rf"\b(?:should|must|may|can|shall)(?: \w+ly)? (?:not|never) (?:be )?(?:\w+ly )?{_USED}\b"
_NOT_TO_BE = rf"\b(?:is|are) not to be {_USED}\b"
_DO_NOT = rf"(?:^|(?<=[:;,] )|(?<=and ))(?:do not|never) {_USED}\b"
_A_REASON = r"\b(?:is|are|constitutes?) (?:an? )?(?:absolute )?contraindications?\b"
_FORBIDS = re.compile("|".join((_CONTRAINDICATED, _NOT_USED, _NOT_TO_BE, _DO_NOT, _A_REASON)), re.IGNORECASE)

_GROUP = (
    r"patients?|individuals?|persons?|people|subjects?|those|anyone|adults?|conditions?|situations?|circumstances|"
    r"populations?|settings?|cases|neonates?|infants?|children|women|men|drugs?|medications?|medicines?|agents"
)
_READS_ON = re.compile(
    rf"(?:\s|\b(?:following\s+\w+(?=\s*:)|in|for|under|with|by|to|of|the|any|following|concomitantly|who|whom|have|has|"
    rf"had|are|or|and|use|used|{_GROUP})\b)*[:.]?\s*"
)
_REASON = re.compile(
    r"(?:,|\.)?\s*\b(?:because|since|due to (?:its|their|the (?:potential|risk|increased|possib\w+|"
    r"cumulative|alcohol))|"
    r"in order to|as (?:it|this|these|there|serious|severe)\b|which (?:may|can|could|might)|owing to|given the)\b.*$",
    re.IGNORECASE | re.DOTALL,
)
_AMOUNT = re.compile(
    r"\s*(?:for (?:more|longer) than|more than|(?:for )?(?:longer|greater) than|at doses?|in doses?|in excess|"
    r"(?:\w+ ){0,2}beyond|as a substitute|interchangeably|until|unless)\b",
    re.IGNORECASE,
)
_LEADS = re.compile(
    r"[\s,:;]*(?:(?:also|therefore|and|is|are)\s+)*(?=(?:in|for|with|to|during|within|when|if|as|under|by|after|before|"
    r"while|concomitantly|concurrently|simultaneously|together|at|prior|following|on)\b)",
    re.IGNORECASE,
)
_USE_OF = re.compile(
    r"(?:\b(?:the|its|this|their)\s+)?(?:\b(?:concomitant|concurrent|simultaneous|combined|oral|parenteral)\s+)*"
    r"\b(?:use|administration|co-?administration|therapy|treatment|initiation|starting|initiating|injection)\b\s*"
    r"(?:of\s+)?(?P<what>.*)$",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"\s*\b(?P<how>(?:together |concomitantly |concurrently )?with|and|in|during|within|to|for)\b\s+", re.IGNORECASE
)
_FOR_WHOM = re.compile(
    r"\s*\b(?:(?:together |concomitantly |concurrently )?with|in|during|within|to|for|after|before|"
    r"when|if|while|as|and)\b\s+",
    re.IGNORECASE,
)
_WHO = re.compile(
    r"(?:patients?|individuals?|persons?|people|women|children|infants|neonates|pregnant|nursing|pediatric|those|"
    r"adults|elderly|adolescents)\b",
    re.IGNORECASE,
)
_AT_ONCE = re.compile(r"\s*(?:at the same time|concurrently|concomitantly|simultaneously|together)\W*$", re.IGNORECASE)
_UNTIL_KNOWN = re.compile(r"^until\b.{0,60}?\bin (?P<who>[\w ]{4,40}?) (?:is|are|has|have)\b", re.IGNORECASE)
_AGAIN = re.compile(r"(?:,|\s)\s*(?:and|or)\s+(?:(?:is|are)\s+)?(?:also\s+)?contraindicated\b", re.IGNORECASE)
_THIS = re.compile(r"\b(?:this|the) (?:drug|medicine|medication|product|combination)\b|^it\b", re.IGNORECASE)


def forbids(sentence: str) -> bool:
    """Return whether a sentence forbids the use of something."""
    return bool(_FORBIDS.search(sentence))


def reads_on(sentence: str) -> bool:
    """Return whether a forbidding sentence ends before it says what it forbids, because a list follows."""
    found = _last(sentence)
    rest = sentence[found.end() :]
    words = rest.strip(" :.")
    return bool(_READS_ON.fullmatch(rest)) and (
        rest.rstrip().endswith(":") or bool(re.search(r"following|with$", words))
    )


def object_of(sentence: str, own: re.Pattern[str]) -> list[str]:
    """Return the phrases that name what the sentence forbids; `own` finds the names of the label's drug."""
    found = _last(sentence)
    before, after = sentence[: found.start()], sentence[found.end() :]
    if again := _AGAIN.search(after):
        first, second = before + found[0] + after[: again.start()], again[0].lstrip(" ,") + after[again.end() :]
        return [*object_of(first, own), *object_of(second, own)]
    if until := _UNTIL_KNOWN.search(sentence):
        return [until["who"]]
    if "contraindication" in found[0].lower():
        return _of_a_reason(before, after)
    if found[0].lower().startswith(("do not", "never")):
        return _of_an_order(after, own)
    after = without_reason(after)
    if "contraindicated" not in found[0].lower() and _AMOUNT.match(after):
        return []
    if not re.search(r"contraindicated", found[0], re.IGNORECASE):
        if _WHO.match(before.strip()):
            return [_who(before)]
        if _AT_ONCE.match(after) and not _names(own, before):
            return [f"concomitant use of {decapitalise(without_reason(before).strip(' ,'))}"]
    told = after[lead.end() :].strip(" ,.;:") if (lead := _LEADS.match(after)) else ""
    return [told] if told and not _AT_ONCE.fullmatch(after) else _of_a_use(before, own)


def _last(sentence: str) -> re.Match[str]:
    """Return the first forbidding words of a sentence."""
    found = _FORBIDS.search(sentence)
    if found is None:
        raise ValueError(f"no sentence that forbids: {sentence[:80]}")
    return found


def _of_a_reason(before: str, after: str) -> list[str]:
    what = re.sub(r"\b(?:usually|generally|therefore|also)\s*$", "", before.strip(), flags=re.IGNORECASE).strip()
    return [what] if re.match(r"\s*(?:to|for)\b", after) or not after.strip(" .") else []


def _of_an_order(after: str, own: re.Pattern[str]) -> list[str]:
    after = without_reason(after).strip(" .;")
    parted = _FOR_WHOM.search(after)
    if not parted or _AMOUNT.match(after[parted.start() :]):
        return []
    what, rest = after[: parted.start()], after[parted.start() :].strip()
    if what.strip() and not _names(own, what):
        left = own.sub("", rest) if _names(own, rest) else rest
        left = re.sub(r"^\s*with\s+(?:tablets?|capsules?|injection)?\s*", "", left).strip()
        return [f"concomitant use of {what.strip()} {left}".strip()]
    return [rest]


def _of_a_use(before: str, own: re.Pattern[str]) -> list[str]:
    """Return the drug in "The use of A with B is contraindicated" that is not the label's drug."""
    before = re.sub(r"\W*\b(?:is|are|was|were|be|and|also|therefore|thus)\b\W*$", "", before.strip())
    before = re.sub(r"(?:\W*\b(?:is|are|also|therefore|thus)\b)+\W*$", "", before).strip(" ,")
    used = _USE_OF.search(before)
    if not used:
        return []
    whole = used["what"].strip()
    pieces = list(_BETWEEN.finditer(whole))
    if not pieces:
        return [] if _names(own, whole) or not whole else [f"use of {whole}"]
    parted = next((one for one in pieces if _parts(own, whole, one)), pieces[0])
    what, how, rest = whole[: parted.start()].strip(), parted["how"].lower(), whole[parted.end() :].strip()
    if not what or _names(own, what):
        if how in ("with", "and") or how.endswith(" with"):
            return [f"concomitant use of {rest}"]
        return [f"{how} {rest}"]
    return [f"concomitant use of {what}"] if _names(own, rest) else [f"use of {whole}"]


def _parts(own: re.Pattern[str], whole: str, between: re.Match[str]) -> bool:
    return _names(own, whole[: between.start()]) or bool(own.match(whole[between.end() :]))


def _who(before: str) -> str:
    return before.strip(" ,")


def _names(own: re.Pattern[str], text: str) -> bool:
    return bool(own.search(text) or _THIS.search(text))


def without_reason(text: str) -> str:
    """Return a phrase without the reason at its end."""
    return _REASON.sub("", text)


def in_sentence(one: str) -> str:
    """Return a phrase in lower case, as within a sentence; names of persons keep their capital."""
    first = one.split()[0] if one.split() else ""
    return one if "'" in first or "’" in first else decapitalise(one)


CONTRAINDICATIONS = "34070-3"
BOXED_WARNING = "34066-1"

_TITLE = re.compile(r"[\d.\s]*contraindications?(?: section)?\s*(?:>|$)", re.IGNORECASE)
_GENERAL = re.compile(r"(?:other|general|clinical|contraindications?|use with|specific|special)\b", re.IGNORECASE)
_EMPTY = re.compile(
    r"(?:none|no(?:ne)? known(?: contraindications?)?|not applicable|n/?a|close|contraindications?(?: section)?|"
    r"there are no(?: known)? contraindications\b.*|see\b.*|refer\b.*|rx only|"
    r"(?-i:[A-Z ,.:;()&-]*(?:WARNINGS?|PRECAUTIONS|REACTIONS)[A-Z ,.:;()&-]*))[\s.:*]*",
    re.IGNORECASE,
)
_FINITE = re.compile(
    r"\b(?:is|are|was|were|has|have|had|may|might|can|could|should|must|will|would|shall|do|does|did|cannot|"
    r"(?:prolong|increas|inhibit|caus|produc|requir|appear|show|contain|potentiat|interact|reduc|metaboli[sz]|includ|"
    r"result|occur|affect|reflect|suggest|indicat)(?:e?s|e)?)\b",
    re.IGNORECASE,
)
_CLAUSE = re.compile(
    r"\b(?:who|whom|whose|which|that|where|when|if|unless|until|including|such as|e\.g|requiring|resulting)\b.*",
    re.IGNORECASE,
)
_ORDER = re.compile(
    r"(?:for|see|refer|when|because|use|monitor|avoid|consult|discontinue|stop|reduce|consider|assess|"
    r"advise|if|although|"
    r"while|also|note|the|this|these|it|they)\b",
    re.IGNORECASE,
)
_SHARED = re.compile(
    r"\b(?:neonates?|infants?|children|women|females?|men|elderly|adolescents|p(?:a?ediatric|regnan)\w*)\b",
    re.IGNORECASE,
)
_RESUMES = re.compile(r"(?:in|known|a? ?history|patients?|hypersensitivity|concomitant|pregnan)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Forbidden:
    """What one sentence or list item forbids.

    `said` is it as the label writes it, `lead` the sentence that opens the list and what it says of all items (`over`).
    `section` is the LOINC code of where it stands, `marker` the passage's, "" where a section has a title and no text.
    """

    said: str
    lead: str
    over: str
    section: str
    marker: str

    @property
    def statement(self) -> str:
        return f"{self.lead} {self.said}".strip()


def forbidden_by(
    label: Label, passages: Sequence[Passage], own: re.Pattern[str]
) -> Iterator[tuple[Forbidden, list[str]]]:
    """Yield each forbidding statement of a label, in order, with the phrases that name what it forbids.

    `own` finds the drug's names. Only Contraindications and Boxed Warning are read. If a part of Contraindications has
    a title ("Nursing mothers") and no text that forbids, its title is the statement.
    """
    by_path: dict[str, list[Passage]] = {}
    for passage in passages:
        by_path.setdefault(passage.section_path, []).append(passage)
    for code in (CONTRAINDICATIONS, BOXED_WARNING):
        paths = dict.fromkeys(section.path for section in label.sections if _belongs(section, code))
        for path in paths:
            texts = [one for one in by_path.get(path, ()) if one.core_code == code or _TITLE.match(path)]
            found = list(_Section(own, code).read(texts))
            if not found and code == CONTRAINDICATIONS:
                found = list(_by_title(path, texts, paths))
            yield from found


def _belongs(section: Section, code: str) -> bool:
    if section.core_code == code:
        return True
    return code == CONTRAINDICATIONS and bool(_TITLE.match(section.path))


def _by_title(path: str, texts: Sequence[Passage], paths: Container[str]) -> Iterator[tuple[Forbidden, list[str]]]:
    parent, _, title = path.rpartition(" > ")
    if parent in paths and _TITLE.match(path) and title and not _GENERAL.match(title) and _names_only(title):
        yield Forbidden(title, "Contraindications:", "", CONTRAINDICATIONS, texts[0].marker if texts else ""), [title]


class _Section:
    """One section, read line by line. What Contraindications names without a verb is forbidden too."""

    def __init__(self, own: re.Pattern[str], code: str) -> None:
        self._own = own
        self._code = code
        self._lead: Forbidden | None = None
        self._inner: Forbidden | None = None
        self._bullet: str | None = None
        self._had_list = False

    def read(self, passages: Sequence[Passage]) -> Iterator[tuple[Forbidden, list[str]]]:
        lines = list(lines_of(passages))
        for at, line in enumerate(lines):
            if _EMPTY.fullmatch(line.text) or line.text.casefold() == line.passage.section_title.casefold():
                continue
            following = lines[at + 1] if at + 1 < len(lines) else None
            if line.heading and not self._lead and following and _heads(line, following):
                continue
            yield from self._line(line)

    def _line(self, line: Line) -> Iterator[tuple[Forbidden, list[str]]]:
        first, *others = line.sentences
        if forbids(first):
            self._close()
            yield from self._sentence(first, line)
        elif lead := self._lead_of(line):
            yield from self._item(first, line, lead)
        elif self._stands_alone(first):
            yield self._told(first, line), [first]
        for sentence in others:
            yield from self._sentence(sentence, line)

    def _open(self, sentence: str, line: Line) -> None:
        over = object_of(sentence.rstrip(" :."), self._own)
        shared = over[0] if over and _SHARED.search(over[0]) else ""
        self._close()
        self._lead = replace(self._told(sentence, line), lead=sentence, over=shared)

    def _close(self) -> None:
        self._had_list = self._had_list or self._lead is not None
        self._lead = self._inner = self._bullet = None

    def _lead_of(self, line: Line) -> Forbidden | None:
        """Return the list that a line is an item of. A line that does not continue the open list closes it."""
        if self._lead and not line.bullet and (self._bullet or not _names_only(line.sentences[0])):
            self._close()
        if self._lead and self._bullet is None:
            self._bullet = line.bullet
        elif line.bullet == self._bullet:
            self._inner = None
        return self._inner or self._lead

    def _item(self, first: str, line: Line, lead: Forbidden) -> Iterator[tuple[Forbidden, list[str]]]:
        if first.endswith(":") and len(first.split()) > 1:
            self._inner = replace(lead, lead=f"{lead.lead} {first}", over=first.rstrip(": "))
        else:
            row = replace(lead, said=first, marker=line.passage.marker)
            yield row, [f"{lead.over} {in_sentence(first)}".strip()]

    def _sentence(self, sentence: str, line: Line) -> Iterator[tuple[Forbidden, list[str]]]:
        if not forbids(sentence):
            return
        if reads_on(sentence):
            self._open(sentence, line)
        elif found := object_of(sentence, self._own):
            yield self._told(sentence, line), found

    def _told(self, said: str, line: Line) -> Forbidden:
        return Forbidden(said, "", "", self._code, line.passage.marker)

    def _stands_alone(self, sentence: str) -> bool:
        if self._code != CONTRAINDICATIONS or (self._had_list and not _RESUMES.match(sentence)):
            return False
        return _names_only(sentence)


def _heads(line: Line, following: Line) -> bool:
    """Return whether a short line is the heading of the next line."""
    return not line.bullet and any(forbids(sentence) for sentence in following.sentences)


def _names_only(sentence: str) -> bool:
    """Return whether a sentence has no finite verb, so that it only names something."""
    return not _ORDER.match(sentence) and not _FINITE.search(_CLAUSE.sub("", re.sub(r"\([^()]*\)", "", sentence)))
