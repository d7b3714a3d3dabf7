"""A passage as the rules see it: sentences with the heading over them and the list under them, and table rows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fdarx_core.generation.baseline.text import clean, sentences

_INLINE_HEADING = re.compile(r"^([A-Z][A-Za-z0-9 ,/()'’&-]{2,70}?)\s?:\s+(?=[A-Z])")
_BULLET = re.compile(r"^\s*(?:[-•·●▪◦*○]+|o(?= [A-Z]))\s*(?:[•·●▪◦○]\s*)?")
_CAPTION = re.compile(r"^Table\s+\w+\s*[.:–-]?\s*", re.I)
_FOOTNOTE = re.compile(r"^\[?[a-z0-9*†‡]{1,3}\]\s")
_INTRODUCES = re.compile(
    r"\b(?:include|includes|including|following|such as|if you|if you have|in patients with)$", re.I
)
_MARKS = re.compile(r"\s*\[[a-z0-9,* ]{1,8}\]|\*+")


@dataclass(slots=True)
class Unit:
    """One sentence. `items` are those of the list it introduces; `order` counts through the passage."""

    text: str
    heading: str
    order: int
    items: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Row:
    """One table row: its own header, its cells ("column header: value"), the heading of its group and the caption."""

    header: str
    cells: list[str]
    group: str
    caption: str
    order: int


@dataclass(slots=True)
class Block:
    """A question that the label itself asks as a heading, and the lines of text under it."""

    question: str
    lines: list[str]
    order: int


class Reading:
    """All sentences, table rows and question headings of one passage, in its order."""

    def __init__(self, context: str) -> None:
        self.units: list[Unit] = []
        self.rows: list[Row] = []
        self.blocks: list[Block] = []
        self._heading = self._caption = ""
        self._list_open = False
        for order, raw in enumerate(context.split("\n")):
            line = clean(raw)
            if line and not _FOOTNOTE.match(line):
                self._read(line, order)

    def _read(self, line: str, order: int) -> None:
        if "?" in line and (found := _question_heading(line)):
            self.blocks.append(Block(found, [], order))
            line = line[len(found) :].strip()
            self._list_open = False
            if not line:
                return
        if self.blocks:
            self.blocks[-1].lines.append(line)
        if " | " in line:
            self._add_row(line, order)
        elif (bullet := _BULLET.match(line)) and bullet.end() > 0:
            self._add_item(line[bullet.end() :])
        elif _is_heading(line):
            self._add_heading(line)
        else:
            self._add_sentences(line)

    def _add_row(self, line: str, order: int) -> None:
        header, *cells = (_MARKS.sub("", part).strip() for part in line.split(" | "))
        self._list_open = False
        if len(cells) == 1 and len(cells[0].split()) > 5 and not cells[0].partition(": ")[2].isdigit():
            self.rows.append(Row(header.strip(" :"), cells, self._heading, "", order))
            for sentence in sentences(cells[0]):
                self._add_unit(sentence, self._heading)
        else:
            self.rows.append(Row(header.strip(" :"), cells, self._heading, self._caption, order))

    def _add_heading(self, line: str) -> None:
        if caption := _CAPTION.match(line):
            self._caption = _MARKS.sub("", line[caption.end() :]).strip(" .:")
            self._heading = ""
        else:
            self._heading = _MARKS.sub("", line).rstrip(": ")
        self._list_open = line.endswith(":") or bool(_INTRODUCES.search(line))
        if self._list_open:
            self._add_unit(f"{line.rstrip(':')}:", "")

    def _add_item(self, item: str) -> None:
        if self._list_open and self.units:
            self.units[-1].items.append(item)
        elif item:
            self._add_sentences(item)

    def _add_sentences(self, line: str) -> None:
        heading = self._heading
        if found := _INLINE_HEADING.match(line):
            heading, line = found.group(1).strip(), line[found.end() :]
        for sentence in sentences(line):
            self._add_unit(sentence, heading)
        self._list_open = line.endswith(":")

    def _add_unit(self, text: str, heading: str) -> None:
        self.units.append(Unit(text, heading, len(self.units)))


def _question_heading(line: str) -> str:
    found = re.match(r"(?:What|How|Who|When|Where|Why|Can|Should|Are|Is|Do|Does)\b[^?.!]{5,150}\?", line)
    return found.group() if found else ""


def _is_heading(line: str) -> bool:
    if len(line) > 110 and not _CAPTION.match(line):
        return False
    return (
        len(line) <= 200
        and not line.endswith((".", "!", ";", ",", "?"))
        and len(line.split()) <= (30 if _CAPTION.match(line) else 12)
    )
