"""The statements by which a label forbids the use of its drug, each with what it forbids.

Only what is forbidden counts ("contraindicated", "do not use", "should not be given"), not what is a mere risk.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

from fdarx_core.factuality.safety.lines import Line, lines_of
from fdarx_core.factuality.safety.objects import forbids, object_of, reads_on
from fdarx_core.factuality.safety.subjects import in_sentence
from fdarx_core.records import Label, Passage, Section

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
    """Each forbidding statement of a label, in order, with the phrases that name what it forbids.

    `own` finds the drug's names. Sections other than Contraindications and Boxed Warning say nothing here. Where a part
    of Contraindications has a title ("Nursing mothers") and no text that forbids, the title does.
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
        """What a line is an item of. One that does not go on with the open list closes it."""
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
    """Whether a short line is the heading of the one below."""
    return not line.bullet and any(forbids(sentence) for sentence in following.sentences)


def _names_only(sentence: str) -> bool:
    """Whether a sentence has no verb of its own, so that it only names something."""
    return not _ORDER.match(sentence) and not _FINITE.search(_CLAUSE.sub("", re.sub(r"\([^()]*\)", "", sentence)))
