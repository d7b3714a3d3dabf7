"""Parse SPL documents into Labels and their Passages."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

from fdarx_core.labels.blocks import (
    BLOCK_TAGS,
    MARK_TAGS,
    Block,
    Footnotes,
    may_delete,
    read_blocks,
    remove_deleted,
    rewrite_marks,
)
from fdarx_core.labels.drugs import drug_of
from fdarx_core.labels.metadata import SUBJECT, Header, read_header, read_products
from fdarx_core.labels.selection import find_sources, read_each, read_source
from fdarx_core.labels.xml import CODE, TEXT, TITLE, BadDocument, Element, children, clean, parse_xml, raw_text
from fdarx_core.records import Highlight, Label, Passage, Reject, Section
from fdarx_core.storage.sources import Source

if TYPE_CHECKING:
    from pandas import DataFrame

MIN_WORDS = 20
MAX_WORDS = 220
LONGEST_SENTENCE = 300
"""Minimum and maximum number of words of a passage, and maximum number of words of a sentence that is not cut."""

UNCLASSIFIED = "42229-5"
BOXED_WARNING = "34066-1"

_SECTION, _COMPONENT, _BODY, _EXCERPT = "section", "component", "structuredBody", "excerpt"
_CONTENTS = frozenset((TEXT, _EXCERPT, _COMPONENT))
_NUMBERED = re.compile(r"([1-9]\d?(?:\.\d{1,2})*)\.?(?:\s+|(?=[A-Z]))")
_AMOUNT = re.compile(
    r"(?:ST|ND|RD|TH|[mkn]?g|mcg|[µμ]g|mL|ml|MG|MCG|ML|(?i:units?|IU|mEq|mmol|hours?|hrs?|minutes?|days?|weeks?|months?|"
    r"years?|tablets?|capsules?|vials?|count|ct)|in|x)\b|%"
)
"""What follows a number that is an amount, a strength, an age or an ordinal."""
_ITEM_MARK = re.compile(r"- |\d{1,3}\. ")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+(?=[A-Z0-9(\[•])")
_SECTION_NUMBER = r"\d{1,2}(?:\.\d{1,2})*"
_REFERENCE = re.compile(rf"[(\[](?:see\s+)?({_SECTION_NUMBER}(?:\s*(?:,|and|-|–|;)\s*{_SECTION_NUMBER})*)\s*[)\]]")
_NUMBER = re.compile(_SECTION_NUMBER)
_TOPIC = re.compile(r"^(?!WARNING)([A-Z](?:[^:.()]|\([^\d()][^()]*\)){1,90}?)(?:\s*[(\[][\d.,\s]+[)\]])?\s*:\s+(?=\S)")


LabelInput: TypeAlias = str | os.PathLike[str] | bytes
"""A file, folder, glob or zip, on a disk or on `s3://`, or the bytes of a file."""


@dataclass(slots=True)
class ParsedLabel(Label):
    """A label with the passages of its body in document order."""

    passages: list[Passage] = field(default_factory=list)


def parse_label(label: LabelInput) -> ParsedLabel:
    """Parse one label.

    Args:
        label: what `read_labels` takes, if it holds one label: a file, folder, glob or zip, or the bytes of a file.

    Raises:
        StorageError: there is no such file.
        BadDocument: it holds no label, or several; the message names the file, the reason and the remedy.
    """
    (parsed, passages), *more = _parse_files([label])
    if more:
        raise BadDocument("several_labels", f"{_named(label)} holds several labels; use read_labels")
    return ParsedLabel(**_values(parsed), passages=passages)


def read_labels(labels: LabelInput | Sequence[LabelInput]) -> DataFrame:
    """Parse many labels into a pandas DataFrame with one row per label, in order of set id.

    The columns are the fields of `Label`, and `passages`, a list of `Passage`. Files that hold no label are listed as
    `Reject` in `attrs["rejects"]`.

    Args:
        labels: files, folders, globs or zips (DailyMed's bulk releases too), on a disk or on `s3://`, or the bytes of
            files; one or a list.

    Raises:
        StorageError: an input does not exist.
        BadDocument: the inputs contain no label.
    """
    import pandas

    paths = [labels] if isinstance(labels, str | os.PathLike | bytes) else labels
    rejects: list[Reject] = []
    parsed = sorted(_parse_files(paths, rejects), key=lambda one: (one[0].set_id, one[0].version))
    table = pandas.DataFrame([{**_values(label), "passages": passages} for label, passages in parsed])
    table.attrs["rejects"] = rejects
    return table


def _values(record: Label | Header) -> dict[str, Any]:
    """Return the fields and their values, without the copies that `asdict` makes."""
    return {one.name: getattr(record, one.name) for one in fields(record)}


def _parse_files(
    inputs: Iterable[LabelInput], rejects: list[Reject] | None = None
) -> list[tuple[Label, list[Passage]]]:
    """Parse every label of the inputs. Raises BadDocument if there is none or, without `rejects`, if one is bad."""
    bad: list[Reject] = [] if rejects is None else rejects
    listed = list(inputs)
    found = find_sources([os.fspath(one) for one in listed if not isinstance(one, bytes)])
    bad += found.rejects
    parsed = []
    given = [(Source(""), one) for one in listed if isinstance(one, bytes)]
    documents = chain(*map(read_source, found.sources), given)
    for row in read_each(documents, lambda data, source: parse_document(data, source.name), "read"):
        if isinstance(row, Reject):
            bad.append(row)
        else:
            parsed.append(row)
    if parsed and (rejects is not None or not bad):
        return parsed
    remedy = "give SPL documents (XML, or zips with XML), such as those of DailyMed"
    if not bad:
        raise BadDocument("no_document", f"no XML file in {', '.join(map(_named, listed))}; {remedy}")
    raise BadDocument(bad[0].reason, f"{bad[0].source or 'the given bytes'}: {bad[0].detail}; {remedy}")


def _named(label: LabelInput) -> str:
    return "the given bytes" if isinstance(label, bytes) else os.fspath(label)


def parse_document(data: bytes, source: str = "") -> tuple[Label, list[Passage]]:
    """Parse one SPL XML document.

    Args:
        data: the bytes of the file, in the encoding that it declares.
        source: the name of the file, for `Label.source`.

    Returns:
        The label, and the passages of its body in document order.

    Raises:
        BadDocument: the document is refused (see `parse_xml`), or no_set_id.
    """
    root, special = parse_xml(data, SUBJECT, *MARK_TAGS)
    if may_delete(data):
        remove_deleted(root)
    header = read_header(root)
    products = read_products(element for element in special if element.tag == SUBJECT)
    body = _Body(header.set_id, rewrite_marks(special))
    for structured in root.iterfind(f"{_COMPONENT}/{_BODY}"):
        for component in structured:
            body.read_component(component, "", "", 0)
    label = Label(
        **_values(header),
        **products,
        drug_name=next(iter(products["aliases"]), header.title),
        boxed_warning="\n".join(one.text for one in body.passages if one.core_code == BOXED_WARNING),
        sections=body.sections,
        highlights=body.highlights,
        source=source,
        drug=drug_of(*products["products"]).id,
    )
    return label, body.passages


@dataclass(slots=True)
class _Body:
    """Collects sections, Highlights and passages while the section tree is walked once."""

    set_id: str
    notes: Footnotes
    sections: list[Section] = field(default_factory=list)
    highlights: list[Highlight] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)

    def read_component(self, component: Element, core_code: str, path: str, depth: int) -> None:
        for section in children(component):
            if section.tag == _SECTION:
                self._read_section(section, core_code, path, depth)

    def _read_section(self, element: Element, core_code: str, path: str, depth: int) -> None:
        code = title = ""
        parts: list[tuple[str, Element]] = []
        for child in children(element):
            tag = child.tag
            if tag == CODE:
                code = child.get("code") or ""
            elif tag == TITLE:
                title = clean(raw_text(child))
            elif tag in _CONTENTS:
                parts.append((tag, child))
            elif tag in BLOCK_TAGS:
                text = child.makeelement(TEXT)  # around a block outside of one, and the words after it
                text.append(child)
                parts.append((TEXT, text))
                continue
            if child.tail and not child.tail.isspace():
                text = child.makeelement(TEXT)
                text.text = child.tail
                parts.append((TEXT, text))
        if code and code != UNCLASSIFIED:
            core_code = code
        number, title = _split_number(title)
        path = f"{path} > {title}" if path and title else path or title
        self.sections.append(Section(code, core_code, number, title, path, depth))
        for tag, part in parts:
            if tag == TEXT:
                where = code, core_code, number, title, path
                for position, passage in enumerate(_build_passages(read_blocks(part, self.notes))):
                    self.passages.append(Passage(self.set_id, len(self.passages), position, *where, *passage))
            elif tag == _COMPONENT:
                self.read_component(part, core_code, path, depth + 1)
            else:
                self.highlights += _read_highlights(part, self.notes, core_code, title)


def _split_number(title: str) -> tuple[str, str]:
    """Return the printed section number and the title after it. A figure that is no section number ("5-HT …") stays."""
    match = _NUMBERED.match(title) if title[:1].isdigit() else None
    if match is None or match.end() == len(title) or _AMOUNT.match(title, match.end()):
        return "", title
    return match.group(1), title[match.end() :]


def _read_highlights(excerpt: Element, notes: Footnotes, code: str, heading: str) -> list[Highlight]:
    """Return the statements of one section's Highlights: one for each outermost list item, table row or paragraph.

    Nested items belong to the item above them.
    """
    statements: list[str] = []
    for text in excerpt.iter(TEXT):
        for line, *_ in read_blocks(text, notes):
            if line.startswith("  ") and statements:
                statements[-1] += "\n" + line.lstrip()
            else:
                statements.append(_ITEM_MARK.sub("", line, count=1) if _ITEM_MARK.match(line) else line)
    return [_statement(line, code, heading) for line in statements]


def _statement(text: str, code: str, heading: str) -> Highlight:
    topic = _TOPIC.match(text) if ":" in text else None
    references = [number for group in _REFERENCE.findall(text) for number in _NUMBER.findall(group)]
    return Highlight(code, heading, topic.group(1).strip() if topic else "", text, list(dict.fromkeys(references)))


def _build_passages(blocks: list[Block]) -> list[tuple[str, str]]:
    """Return the passages of one section: the text, with one block per line, and the table header of its first line.

    A passage ends before a heading, and before a block with which it would exceed `MAX_WORDS`. A longer block is cut
    between sentences. Fragments under `MIN_WORDS` join their neighbours, so a passage is shorter only if the
    whole section is. Source: FDARxBench §B.1.
    """
    passages: list[tuple[str, str]] = []
    current: list[str] = []
    count, header = 0, ""
    for block in blocks:
        for text, heading, words, above in (block,) if block[2] <= MAX_WORDS else _cut(block):
            if count >= MIN_WORDS and (heading or count + words > MAX_WORDS):
                passages.append(("\n".join(current), header))
                current, count = [], 0
            if not current:
                header = above
            current.append(text)
            count += words
    if current:
        tail = "\n".join(current)
        if count < MIN_WORDS and passages:
            last, above = passages[-1]
            passages[-1] = f"{last}\n{tail}", above
        else:
            passages.append((tail, header))
    return passages


def _cut(block: Block) -> list[Block]:
    """Cut a long block between its sentences, into pieces of at most `MAX_WORDS` if the sentences are short enough."""
    pieces: list[str] = []
    for sentence in (piece for part in _SENTENCE_END.split(block[0]) for piece in _bounded(part)):
        if pieces and pieces[-1].count(" ") + sentence.count(" ") + 2 <= MAX_WORDS:
            pieces[-1] += " " + sentence
        else:
            pieces.append(sentence)
    return [(piece, False, piece.count(" ") + 1, block[3]) for piece in pieces]


def _bounded(sentence: str) -> Iterator[str]:
    """Yield the sentence; one of more than `LONGEST_SENTENCE` words is cut into pieces, after commas if possible."""
    words = sentence.split(" ")
    while len(words) > LONGEST_SENTENCE:
        commas = (place for place in range(MAX_WORDS, MAX_WORDS // 2, -1) if words[place - 1].endswith((",", ":", ")")))
        end = next(commas, MAX_WORDS)
        yield " ".join(words[:end])
        words = words[end:]
    yield " ".join(words)
