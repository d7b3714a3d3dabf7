"""The lines of an answer: text, items of lists, rows of tables, headings. Models write Markdown unasked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from fdarx_core.factuality.claims.words import begins_question, has_verb


class Kind(Enum):
    TEXT = "text"
    ITEM = "item"
    ROW = "row"
    HEADING = "heading"


@dataclass(frozen=True, slots=True)
class Block:
    """`answer[start:end]`, without the marks it begins with; `headers` name a row's cells, where its table has any."""

    start: int
    end: int
    kind: Kind
    headers: tuple[str, ...] = ()


_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_QUOTED = re.compile(r"\s*(?:>\s*)*")
_HASHES = re.compile(r"#{1,6}\s+|#{2,6}(?=\S)")
_ITEM = re.compile(
    r"(?:[-–—+](?=\s|[^\W\d])|[*](?=\s|[^\W\d*][^*]*$)|[•·◦▪‣●○■□➢✓✔]|\(?\d{1,2}[.)](?=\s)|\(?[a-zA-Z]\)(?=\s)|"
    r"[a-z]\.(?=\s)|"
    r"\(?[ivx]{1,4}[.)](?=\s))\s*"
)
_LABEL = re.compile(r"(?:[QA]|answer|response|question)\s?\d{0,2}\s?[:：]\s*", re.IGNORECASE)
_BOLD = re.compile(r"(\*{2,3}|__)[^*_]+\1\W{0,2}$")
_RULE = re.compile(r"[\s|:+=_*-]+$")
_FENCE = re.compile(r"(?:```|~~~)")
_ENDED = re.compile(r"[.!?;:。…][*_\"”’')\]]*$")
_CONTINUES = re.compile(r"[a-z]")
_LONGEST_HEADING = 10


def blocks_of(answer: str) -> list[Block]:
    """The answer's blocks in order. Lines that only rule off, and marks of fences, are in none."""
    lines = [(found.start(), found.end()) for found in _LINE.finditer(answer)]
    said = [
        line
        for line in _tables(answer, lines)
        if line.end > line.start and not _RULE.match(answer[line.start : line.end])
    ]
    joined = _joined(answer, said)
    return [_as_heading(answer, block, alone=len(joined) == 1) for block in joined]


def _tables(answer: str, lines: list[tuple[int, int]]) -> Iterator[Block]:
    """Each line as a block; a row of a table with the cells of the row that stands above the table's rule."""
    headers: tuple[str, ...] = ()
    for at, (start, end) in enumerate(lines):
        line = answer[start:end]
        if line.count("|") < 2 and not (headers and "|" in line):
            headers = ()
            yield _block(answer, start, end)
            continue
        if at + 1 < len(lines) and _is_rule(answer[slice(*lines[at + 1])]):
            headers = cells(line)
        elif not _is_rule(line):
            yield _stripped(answer, start, end, Kind.ROW, headers)


def _is_rule(line: str) -> bool:
    return "|" in line and "-" in line and bool(_RULE.match(line))


def cells(row: str) -> tuple[str, ...]:
    """A row's cells, without space around."""
    return tuple(cell.strip() for cell in row.strip().strip("|").split("|"))


def _stripped(answer: str, start: int, end: int, kind: Kind, headers: tuple[str, ...] = ()) -> Block:
    """Without space, and pipes, around."""
    marks = " \t|" if kind is Kind.ROW else None
    text = answer[start:end]
    start += len(text) - len(text.lstrip(marks))
    return Block(start, max(start, start + len(answer[start:end].rstrip(marks))), kind, headers)


def _block(answer: str, start: int, end: int) -> Block:
    start = _after(_QUOTED, answer, start, end)
    if _FENCE.match(answer, start, end):
        return Block(start, start, Kind.TEXT)
    if hashed := _HASHES.match(answer, start, end):
        return _stripped(answer, hashed.end(), end, Kind.HEADING)
    item = _ITEM.match(answer, start, end)
    begins = _after(_LABEL, answer, item.end() if item else start, end)
    return _stripped(answer, begins, end, Kind.ITEM if item else Kind.TEXT)


def _after(pattern: re.Pattern[str], answer: str, start: int, end: int) -> int:
    found = pattern.match(answer, start, end)
    return found.end() if found else start


def _joined(answer: str, blocks: list[Block]) -> list[Block]:
    """A line that goes on with the sentence of the line before belongs to it: text that was wrapped."""
    joined = list[Block]()
    for block in blocks:
        before = joined[-1] if joined else None
        if before and _goes_on(answer, before, block):
            joined[-1] = Block(before.start, block.end, before.kind)
        else:
            joined.append(block)
    return joined


def _goes_on(answer: str, before: Block, block: Block) -> bool:
    wrapped = before.kind in (Kind.TEXT, Kind.ITEM) and block.kind is Kind.TEXT
    gap = answer[before.end : block.start]
    return (
        wrapped
        and gap.count("\n") + (gap.count("\r") if "\n" not in gap else 0) == 1
        and bool(_CONTINUES.match(answer, block.start, block.end))
        and not _ENDED.search(answer[max(before.start, before.end - 8) : before.end])
    )


def _as_heading(answer: str, block: Block, *, alone: bool) -> Block:
    """A line in bold, or a short one of text without a verb and an end, heads what follows; not one that is `alone`."""
    if block.kind is not Kind.TEXT or alone:
        return block
    text = answer[block.start : block.end]
    short = not _ENDED.search(text) and (len(text.split()) <= _LONGEST_HEADING or text.isupper())
    heads = _BOLD.match(text) or (short and (text.isupper() or begins_question(text) or not has_verb(text)))
    return Block(block.start, block.end, Kind.HEADING) if heads else block
