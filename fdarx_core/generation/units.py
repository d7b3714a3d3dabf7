"""The units of a label's body: what stands under one heading, printed as a section's title or within its text."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby

from fdarx_core.baseline.label_statements import ITEM, LabelStatement, parse_passage
from fdarx_core.labels.loinc import PATIENT_SECTIONS
from fdarx_core.records import Passage
from fdarx_core.text.tokens import content_words, pattern, strip_references, vocabulary, with_full_stop

_LEAD_IN = re.compile(r"^([A-Z][^.:;|]{2,80}?)\s?(?::|[—–]|\s-)\s+(?=[A-Z0-9(])")
_FOOTNOTE = re.compile(r"\s*\[(?:\d{1,2}|See footnotes?(?: \[?\d{1,2}\]?)?)\s?\]", re.I)
_POINTER = re.compile(r"\b(?:tables?|figures?|graph|above|below|the following|as follows|preceding|section)\b", re.I)
_SENTENCE_WORDS = 3
_LEAST_COMMAS = 2
"""Commas of the shortest list of things that is no sentence."""
_REFERS_BACK = re.compile(
    r"(?:its?|this|these|those|they|their|such|he|she|both|neither|other|another|however|therefore|thus|also|hence|"
    r"similarly|moreover|furthermore|consequently|additionally|in addition|in (?:these|this|such|those)|of these|"
    r"(?:if|when|because|although|since|while) (?:it|this|these|they|such)|the (?:latter|former|same|above|following)|"
    r"as a result|for (?:this|these)|but|and|or|the (?:stud|trial|effect|result|difference|increase|decrease|symptom|"
    r"reaction|event|risk|change|incidence|majority)\w*)\b",
    re.I,
)
_OF_THE_SAME = re.compile(r"\b(?:such|these|those) (?:patients?|cases?|events?|reactions?|symptoms?)\b", re.I)
_HEADING_WORDS, _HEADING_WORDS_WITH_STOP = 6, 2
_SENTENCE = re.compile(r"\d|^(?:none|not|no|do|avoid|use|stop|monitor|store|keep|see|dispense|protect|rx)\b", re.I)
_pattern = partial(pattern, file="statements.yaml")  # for text in lower case: ignoring case would be slow
_POINTING_START, _POINTING = _pattern("pointing_start"), _pattern("pointing")
_VERB, _IMPERATIVE, _WRECKED = _pattern("verb"), _pattern("imperative"), _pattern("wrecked")
_LETTERS = re.compile(r"[a-z]+")
_POINTERS = frozenset(vocabulary(name="statements.yaml")["pointers"].split())
_NUMBERING = re.compile(r"^\W*(?:\d{1,2}(?:\.\d{1,2})*\.?\s+)?")


def _is_self_contained(lowered: str) -> bool:
    """Return whether a sentence in lower case has a verb, and refers to no other sentence, table or figure."""
    if not (_VERB.search(lowered) or _IMPERATIVE.match(lowered)):
        return False
    if _POINTING_START.match(lowered) or _WRECKED.search(lowered):
        return False
    return _POINTERS.isdisjoint(_LETTERS.findall(lowered)) or not _POINTING.search(lowered)


@dataclass(frozen=True, slots=True)
class TopicStatement:
    """A statement of the body, as an answer can hold it.

    Attributes:
        text: the sentence, or the sentence that announces a list with its items, or a table row; without references.
        passage: the index of its passage.
        points: whether it refers to a table, a figure or other text, without which it is not complete.
        begins: whether it begins a paragraph; other sentences belong to the paragraph of the one before.
        lead, items: of a list the sentence that announces it, and its items.
    """

    text: str
    passage: int
    points: bool = False
    is_row: bool = False
    begins: bool = True
    lead: str = ""
    items: tuple[str, ...] = ()

    @property
    def quotes(self) -> tuple[str, ...]:
        """The pieces of the statement as they stand in the passage."""
        return (self.lead, *self.items) if self.items else (self.text,)

    @property
    def begins_back(self) -> bool:
        """Whether it begins with a reference to what stands before it."""
        return bool(_REFERS_BACK.match(self.text))

    @property
    def refers_back(self) -> bool:
        """Whether it is about what stands before it: "This effect", "in such patients"."""
        return self.begins_back or bool(_OF_THE_SAME.search(self.text))

    @property
    def is_whole(self) -> bool:
        """Whether it is a sentence, a list or a row, and not a piece of one, a heading for example."""
        begins = self.text[:1].isupper() or self.text[:1].isdigit()
        return self.is_row or bool(self.items) or (begins and len(self.text.split()) >= _SENTENCE_WORDS)

    @property
    def stands_alone(self) -> bool:
        """Whether it is understood without those around it; a row is not, since its table has a caption."""
        said = self.lead if self.items else self.text
        if self.is_row or self.begins_back or not (said[:1].isupper() or said[:1].isdigit()):
            return False
        return bool(self.items) or (_is_self_contained(said.lower()) and not _is_enumeration(said))

    def with_items(self, chosen: Callable[[str], bool]) -> TopicStatement:
        """Return a list with the chosen items alone; the statement itself where none is chosen, or it is no list."""
        items = tuple(one for one in self.items if chosen(one))
        return replace(self, text=_listed(self.lead, items), items=items) if items else self


@dataclass(slots=True)
class SectionUnit:
    """What stands under one heading.

    Attributes:
        title: the heading, without its number.
        titles: the titles of the section and of those above it, and the headings within the text; the title is last.
        code: the core LOINC code of its section.
        depth: how many of the titles are headings within the text.
        statements: its statements, in order.
    """

    title: str
    titles: tuple[str, ...]
    code: str
    depth: int = 0
    statements: list[TopicStatement] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(one.text for one in self.statements)

    @property
    def paragraphs(self) -> list[list[TopicStatement]]:
        """The statements by paragraph or list item; a sentence that announces a list is in one with the list."""
        found: list[list[TopicStatement]] = []
        for one in self.statements:
            if one.begins or one.is_row or not found:
                found.append([])
            found[-1].append(one)
        return found

    def under_title(self, statements: Sequence[TopicStatement], titled: bool) -> str:
        """Return the text of some of its statements; `titled` puts the heading before it, unless it begins with it."""
        text = " ".join(one.text for one in statements)
        return f"{self.title}: {text}" if titled and not text.startswith(self.title) else text


def read_units(passages: Sequence[Passage]) -> list[SectionUnit]:
    """Return the units of a label's body, in order, without what is written for patients and without package labels."""
    body = (one for one in passages if one.core_code not in PATIENT_SECTIONS)
    units: list[SectionUnit] = []
    for (code, path, title), group in groupby(
        body, key=lambda one: (one.core_code, one.section_path, one.section_title)
    ):
        units += _units_of(code, tuple(part for part in path.split(" > ") if part), title, list(group))
    return units


def without_references(text: str) -> str:
    """Return a text without cross-references and the numbers of footnotes."""
    return _FOOTNOTE.sub("", strip_references(text)).strip()


def _units_of(code: str, path: tuple[str, ...], title: str, passages: Sequence[Passage]) -> Iterator[SectionUnit]:
    unit = SectionUnit(_bare(title), path, code)
    heads: tuple[str, ...] = ()
    after_heading = False
    for passage in passages:
        lines = f"\n{passage.text}"
        for one in parse_passage(passage.text):
            at = lines.find(one.text)
            begins = at < 0 or not ITEM.sub("", lines[:at].rpartition("\n")[2]).strip(" •-*†")
            lead, statement = _statement(one, passage.doc_chunk_index, begins)
            # A heading of the same form ends those before it: "Aspirin:" ends at "Lithium:".
            nearest = one.heads[-1:] if one.heads and one.heads[-1].endswith(":") else one.heads
            above = nearest or (heads if one.is_row else ())
            now = (*above, lead) if lead else above
            if not lead and heads[:-1] == above and (not begins or after_heading):
                now = heads  # a sentence of the paragraph that began with a heading
            if now != heads and (now or heads):
                if unit.statements:
                    yield unit
                titles = (*path, *map(_bare, now))
                unit = SectionUnit(titles[-1] if titles else "", titles, code, len(now))
                heads = now
            after_heading = not statement.text
            if statement.text:
                unit.statements.append(statement)
    if unit.statements:
        yield unit


def _statement(parsed: LabelStatement, passage: int, begins: bool) -> tuple[str, TopicStatement]:
    """Return the heading at the beginning of a statement, "" for none, and the statement, which keeps it.

    A few words without a verb are a heading by themselves: "Lithium." before a sentence on lithium.
    """
    text = without_references(parsed.text)
    if not parsed.is_row and not parsed.items and _is_heading(text):
        return text, TopicStatement("", passage)
    lead = ""
    if begins and not parsed.is_row and (found := _LEAD_IN.match(text)) and len(text) > found.end() + 20:
        lead = found[1].strip()
    points = bool(_POINTER.search(text)) and not parsed.items
    if parsed.is_row:
        cells = [cell.strip(" :") for cell in text.split(" | ") if cell.strip(" :")]
        text = ": ".join(cells) if len(cells) == 2 and ": " not in cells[1][:60] else "; ".join(cells)
    if parsed.items:
        announced = text.rstrip(" :")
        stripped = (without_references(item).rstrip(" .;,") for item in parsed.items)
        items = tuple(item for item in stripped if item)
        return lead, TopicStatement(_listed(announced, items), passage, begins=begins, lead=announced, items=items)
    return lead, TopicStatement(with_full_stop(text) if text else "", passage, points, parsed.is_row, begins)


def _is_enumeration(text: str) -> bool:
    """Return whether a text lists things without a sentence: "Skin: alopecia, sweating increased, rash"."""
    functional = set(text.lower().split()) - content_words(text.lower())
    words = {word for word in functional if word.isalpha()}
    return text.count(",") >= _LEAST_COMMAS and words <= {"and", "or"}


def _is_heading(text: str) -> bool:
    most = _HEADING_WORDS_WITH_STOP if text.endswith(".") else _HEADING_WORDS
    entry = re.search(r":\s*\w", text)  # "Ear and labyrinth disorders: vertigo" has its text in it
    return len(text.split()) <= most and not (entry or _SENTENCE.search(text)) and not _VERB.search(text.lower())


def _listed(lead: str, items: tuple[str, ...]) -> str:
    return with_full_stop(f"{lead}: {'; '.join(items)}")


def _bare(title: str) -> str:
    return _NUMBERING.sub("", title).strip(" .:–—-*†•")
