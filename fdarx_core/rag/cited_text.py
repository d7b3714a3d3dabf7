"""Citations and statements in the reply of a model: what it cites, and which sentence, list item or table row cites it.

Citations are numbers in brackets: [2], [1][3], [1, 3], [1-3], [Context 2], 【2】. Other brackets are text.

In plain text, where there are no elements to show verdicts with, a mark stands before each statement that is not
supported. A model cannot write a mark itself: in its answers, brackets that speak of verification become parentheses,
and invisible characters are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Literal, NamedTuple
from unicodedata import category

from fdarx_core.llm.reply import without_thoughts
from fdarx_core.records import AnswerStatement
from fdarx_core.text.refusals import declines
from fdarx_core.text.sentences import sentence_spans

_GAP = r"\s{0,3}"
_NAME = rf"(?:contexts?|passages?|sources?|documents?|refs?\.?|no\.|#|\^){_GAP}"
_NUMBER = rf"(?:{_NAME})?([0-9]{{1,6}})"
_RANGE = rf"{_NUMBER}(?:{_GAP}(?:-|–|—|\bto\b){_GAP}{_NUMBER})?"
_LIST = rf"{_GAP}{_RANGE}(?:{_GAP}(?:[,;&]|\band\b){_GAP}(?:and{_GAP})?{_RANGE}){{0,40}}{_GAP}(?:†[^\[\]【】]{{0,80}})?"
_NAME_FOLLOWS = re.compile(r"\w|-\w")
CITATION = re.compile(rf"\[{_LIST}\](?!{_NAME_FOLLOWS.pattern})|【{_LIST}】", re.IGNORECASE)
"""No name follows square brackets, as in ring systems: "[1,2,4]triazolo"."""
_CITED_RANGE = re.compile(_RANGE, re.IGNORECASE)
_MARKS = re.compile(r"[*`#>]")
_EMPHASIS = re.compile(r"`+|(?<!\w)_+|_+(?!\w)")
_STARS = re.compile(
    r"(?<![\w*])(\*{2,3})(?=[^\s*])((?:[^\n*]|\*(?!\*))*?\S)\1(?![\w*])|(?<![\w*])(\*)(?=[^\s*])([^\n*]*[^\s*])\3(?![\w*])"
)
"""A text between stars. The stars of alleles, "CYP2C9 *1/*3", stay."""
_BEFORE_MARK = re.compile(r"\s+(?=[.,;:!?])")
_ITEM = re.compile(r"\s*(?:[-–—+*•·◦▪‣●]\s+|\(?(?:\d{1,2}|[a-zA-Z]|[ivx]{1,4})[.)]\s+)")
_HEADING = re.compile(r"\s*#{1,6}\s")
_LINE = re.compile(r"^.*$", re.MULTILINE)
_RULE = re.compile(r"(?=.*\|)(?=.*-)[ \t|:-]+")
_NUMBER_ALONE = re.compile(r"(?:[^\W\d]+\.?\s+)?\d+\.")
"""A number with its stop is no sentence: "Table 1.", "Fig. 2."."""
_WORD_ALONE = re.compile(r"\W*\w+\W*")
"""A word with its stop belongs to the sentence after it, which says what is answered: "Yes.", "No."."""
_OPENING = re.compile(r"[*_`]*$")
_WORDS = re.compile(r"\w")

UNVERIFIED = "[unverified]"
"""Stands before each statement that is not supported: text of the statement can't take it in, as behind "none is"."""
_FORGED = re.compile(
    r"[\[【［]([^\[\]【】［］]{0,40}(?<![^\W_])(?:un)?(?:verified|supported)(?![^\W_])[^\[\]【】［］]{0,40})[\]】］]",
    re.IGNORECASE,
)
_INVISIBLE = frozenset(["Cf", "Co", "Cn", "Cs"])
"""Unicode categories of characters that nobody sees: they split words, turn the direction of text, or carry text."""

StatementKind = Literal["sentence", "item", "row", "lead", "heading", "header"]


class CitedText(NamedTuple):
    """The reply of a model, parsed: the answer with each citation of a context as [n], and whether it says that the
    contexts hold no answer, and gives none."""

    text: str
    refused: bool


def parse_cited_text(text: str, contexts: int) -> CitedText:
    """Parse an answer to a number of contexts; never raises.

    Thoughts in tags are dropped; thoughts without an end leave no text. Texts like the marks of unverified statements
    are changed by `without_marks`. A citation of a number that no context has stays as it is.
    """

    def canonical(citation: re.Match[str]) -> str:
        numbers = cited_numbers(citation[0], contexts)
        if not all(1 <= number <= contexts for number in numbers):
            return citation[0]
        # 【1】0 becomes "[1] 0", because "[1]0" is read as a name, not as a citation.
        space = " " if _NAME_FOLLOWS.match(citation.string, citation.end()) else ""
        return "".join(f"[{number}]" for number in numbers) + space

    answer = without_marks(without_thoughts(text) or "").strip()
    plain = _MARKS.sub("", CITATION.sub("", answer)).strip()
    return CitedText(CITATION.sub(canonical, answer), declines(plain))


@lru_cache(maxsize=1024)
def cited_numbers(citation: str, contexts: int) -> tuple[int, ...]:
    """Return the numbers in one pair of brackets. Of a range beyond the contexts only its ends can be unknown."""
    numbers = list[int]()
    for found in _CITED_RANGE.finditer(citation.partition("†")[0]):
        first = int(found[1])
        last = int(found[2] or first)
        inner = range(max(first + 1, 1), min(last, contexts + 1))
        numbers += [first, *inner, *([last] if last != first else [])]
    return tuple(numbers)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence, list item or table row of an answer, or a part of its frame: a lead-in, heading or table header.

    Attributes:
        start, end: its place in the answer, its citations included.
        kind: lead is a sentence with a colon at its end.
        text: what it says, on one line, without citations and emphasis.
        lead: the text of the lead-in above a list item, or of the header above a table row; else "".
        citations: the part of the text before each group of citations, with the numbers of the group.
    """

    start: int
    end: int
    kind: StatementKind
    text: str
    lead: str
    citations: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def is_frame(self) -> bool:
        """Whether it only introduces other statements."""
        return self.kind in ("lead", "heading", "header")

    @property
    def reading(self) -> str:
        """The text with its lead-in, so that it can be read by itself."""
        return f"{self.lead} {self.text}".strip()


def read_statements(answer: str, contexts: int) -> list[Statement]:
    """Return the statements of an answer to a number of contexts, in order; lines without words have none.

    A citation belongs to the sentence in which it stands, or after which it stands. A list item or table row without
    citations has those of its lead-in or header.
    """

    def without_stars(found: re.Match[str]) -> str:
        stars, inner = found[1] or found[3], found[2] or found[4]
        return f"{' ' * len(stars)}{inner}{' ' * len(stars)}"

    masked = _EMPHASIS.sub(_blank, CITATION.sub(_blank, answer))
    for _ in range(2):  # emphasis within emphasis
        masked = _STARS.sub(without_stars, masked)
    found, lead = list[Statement](), None
    lines = [line.span() for line in _LINE.finditer(masked)]
    for at, (start, end) in enumerate(lines):
        kind = _kind(masked, start, end, lines[at + 1] if at + 1 < len(lines) else None)
        if kind == "rule" or not _WORDS.search(masked, start, end):
            continue
        if kind not in ("item", "row"):
            lead = None
        item = _ITEM.match(masked, start, end) if kind == "item" else None
        for statement in _of_line(answer, masked, item.end() if item else start, end, kind, lead, contexts):
            found.append(statement)
            lead = statement if statement.kind in ("lead", "header") else lead
    return found


def _blank(found: re.Match[str]) -> str:
    return " " * len(found[0])


def _kind(text: str, start: int, end: int, following: tuple[int, int] | None) -> str:
    """Return the kind of a line; a line with two bars, or one between spaces, is a row of a table."""
    if text.count("|", start, end) > 1 or text.find(" | ", start, end) >= 0:
        if _RULE.fullmatch(text, start, end):
            return "rule"
        return "header" if following and _RULE.fullmatch(text, *following) else "row"
    if _HEADING.match(text, start, end):
        return "heading"
    return "item" if _ITEM.match(text, start, end) else "sentence"


def _of_line(
    answer: str, masked: str, start: int, end: int, kind: str, lead: Statement | None, contexts: int
) -> Iterator[Statement]:
    line = masked[start:end]
    spans = sentence_spans(line, "label") if kind in ("sentence", "item") else [(0, len(line.rstrip()))]
    starts = [
        start + begin
        for (before, stop), (begin, _) in pairwise(spans)
        if not (_NUMBER_ALONE.fullmatch(line, before, stop) or _WORD_ALONE.fullmatch(line, before, stop))
    ]
    starts = [begin - len(_OPENING.search(answer, start, begin)[0]) for begin in starts]  # type: ignore[index]
    for begin, limit in pairwise([start, *starts, end]):
        text = _plain(masked[begin:limit])
        if not text:
            continue
        last = len(answer[begin:limit].rstrip()) + begin
        begin += len(answer[begin:limit]) - len(answer[begin:limit].lstrip())
        own: StatementKind = "lead" if kind in ("sentence", "item") and text.endswith(":") else kind  # type: ignore[assignment]
        listed = lead if kind in ("item", "row") else None
        cited = tuple(_groups(answer, masked, begin, last, contexts))
        if not cited and listed is not None:
            numbers = dict.fromkeys(number for _, group in listed.citations for number in group)
            cited = ((text, tuple(numbers)),) if numbers else ()
        yield Statement(begin, last, own, text, listed.text if listed else "", cited)


def _plain(masked: str) -> str:
    """Return a piece of a masked answer on one line."""
    return _BEFORE_MARK.sub("", " ".join(masked.split())).lstrip("# ")


def _groups(answer: str, masked: str, start: int, end: int, contexts: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the text before each group of adjacent citations, and the known numbers of the group."""
    marks = list(CITATION.finditer(answer, start, end))
    at = start
    for place, mark in enumerate(marks):
        numbers = list[int]()
        numbers += (number for number in cited_numbers(mark[0], contexts) if 1 <= number <= contexts)
        following = marks[place + 1].start() if place + 1 < len(marks) else end
        text = _plain(masked[at : mark.start()])
        if not numbers:
            continue
        if not _WORDS.search(masked, mark.end(), end) or not _WORDS.search(text):
            text = _plain(masked[at if _WORDS.search(text) else start : end])
        yield text, tuple(dict.fromkeys(numbers))
        if _WORDS.search(masked, mark.end(), following):
            at = mark.end()


def without_marks(text: str) -> str:
    """Return the text of a model without invisible characters, and with parentheses for brackets that say that it is
    verified, supported, or is not."""
    visible = text if text.isascii() else "".join(char for char in text if category(char) not in _INVISIBLE)
    return _FORGED.sub(r"(\1)", visible)


def marked_text(text: str, statements: Iterable[AnswerStatement], start: int = 0) -> str:
    """Return an answer, or a piece of it, with `UNVERIFIED` before each statement that is not supported.

    In a row of a table the mark is in the first cell, because a page that shows the table may leave out the last one.

    Args:
        text: the text.
        statements: its statements, in order, with their places in the answer.
        start: the number of the answer's characters before the text.
    """
    parts, at = list[str](), 0
    for statement in statements:
        if statement.verdict == "supported":
            continue
        place = statement.start - start
        in_row = text.startswith("|", place)
        place += in_row
        parts += (text[at:place], " " * in_row, UNVERIFIED, " ")
        at = place
    return "".join(parts) + text[at:]
