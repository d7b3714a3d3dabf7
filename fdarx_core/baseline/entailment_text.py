"""A text as the entailment rules read it: its statements, where they stand, and which concept is in which."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from fdarx_core.baseline.answering import ITEM
from fdarx_core.baseline.grammar import core_of, frame_end
from fdarx_core.baseline.numbers import Intervals, Quantity, extract_intervals, extract_quantities
from fdarx_core.baseline.polarity import Polarity, Sides, polarity, sides
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.stems import canonical_names, concept, is_stop_word, patient_groups, stems, weight_of_concept
from fdarx_core.baseline.tokens import normalize, vocabulary

LONGEST_LEAD = 240
"""The most characters of a line that announces a list and is read with each of its items."""
_HEADING_WORDS = 8
_ENDS = (".", "!", "?", ";", ")", '"', "”")
_ABBREVIATED = re.compile(
    r"(?:\b(?:vs|e\.g|i\.e|approx|no|fig|al|etc|dr|st|cf|resp|incl|max|min)|\b[A-Z])\.$", re.IGNORECASE
)
_LONGEST_ABBREVIATION = 8
_UNIT_ABOVE = re.compile(
    r"\((?P<unit>mg|mcg|g|kg|ml|l|%|hours?|hr|h|days?|weeks?|months?|years?)\)\s*:\s*(?P<value>[\d.,]+(?:\s*(?:-|–|to)\s*[\d.,]+)?)",
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:\s*[a-z]+)?(?: of age)?)(?: of age)?,? (?:and|or) (?P<way>older|above|over|"
    r"more|greater|higher|longer|younger|below|under|less|lower|fewer)\b"
)
_FROM_TO = re.compile(r"(?<=\d)(\s?(?:mg|mcg|g|kg|ml|hours?|days?|weeks?|months?|years?))-(?=\d)")
_AGED = re.compile(r"\baged(?= (?:\d|between|over|under|from|at|less|more|up|[<>≥≤]))")
_UP = frozenset({"older", "above", "over", "more", "greater", "higher", "longer"})
_PHRASES = [(hint, re.compile(rf"\b(?:{words})\b"), name) for hint, words, name in vocabulary()["phrases"]]
"""Phrases that have another name: a string that such text contains, the pattern, and the name."""
_MAY_TELL_HOW_OFTEN = (
    *("dai", "day", "/d", "night", "every", "each", "morning", "evening", "bedtime", "week", "month", "annual", "year"),
    *("once", "twice", "thrice", "time", "qd", "bid", "tid", "qid"),
)
_NEVER = Intervals(frozenset(), frozenset())
_DIGIT = re.compile(r"\d")


@dataclass(frozen=True)
class ParsedStatement:
    """A sentence, a table's row or cell, or an item of a list with what announces it; `text[start:end]` of the whole.

    `plain` is how it compares: lower case, things by one name, without the drug's name.
    """

    start: int
    end: int
    plain: str
    quantities: tuple[Quantity, ...]
    intervals: Intervals
    words: str

    @cached_property
    def stems(self) -> list[str]:
        return stems(self.words)

    @cached_property
    def concepts(self) -> frozenset[str]:
        return frozenset(map(concept, self.stems))

    @cached_property
    def polarity(self) -> Polarity:
        return polarity(self.words)

    @cached_property
    def groups(self) -> frozenset[str]:
        return patient_groups(self.plain)

    @cached_property
    def sides(self) -> Sides:
        return sides(self.stems, self.plain)


class ParsedPassage:
    """A premise: its statements in order, and for each concept the places of those that have it."""

    def __init__(self, text: str, drug: str) -> None:
        self.text, self.drug = text, drug
        pieces = list(_pieces(text))
        self.statements = [statement(said, drug, start, end) for start, end, said in pieces]
        self.places: dict[str, list[int]] = {}
        for place, one in enumerate(self.statements):
            for held in one.concepts:
                self.places.setdefault(held, []).append(place)
        self.numbers: dict[float, list[int]] = {}
        for place, one in enumerate(self.statements):
            for value in {quantity.value for quantity in one.quantities}:
                self.numbers.setdefault(value, []).append(place)
        self._windows: dict[tuple[int, int], ParsedStatement] = {}

    def window(self, first: int, last: int) -> ParsedStatement:
        """Return two statements, with the text between them, as one."""
        if (first, last) not in self._windows:
            start = min(self.statements[first].start, self.statements[last].start)
            end = max(self.statements[first].end, self.statements[last].end)
            self._windows[first, last] = statement(self.text[start:end], self.drug, start, end)
        return self._windows[first, last]


@lru_cache(maxsize=1024)
def passage(text: str, drug: str) -> ParsedPassage:
    """Parse a premise; it is kept for the other claims that are compared with it."""
    return ParsedPassage(text, drug)


@lru_cache(maxsize=8192)
def claim(text: str, drug: str) -> ParsedStatement:
    """Parse a hypothesis as one statement."""
    return statement(text, drug, 0, len(text))


@lru_cache(maxsize=8192)
def subject(text: str) -> frozenset[str]:
    """Return the concepts of a claim's subject, that is, before its verb; none where the verb is uncertain."""
    core = core_of(text, frame_end(text))
    said = statement(text[core.start : core.verb], "", core.start, core.verb).concepts if core else frozenset[str]()
    return frozenset(one for one in said if weight_of_concept(one) >= 1)


def statement(text: str, drug: str, start: int, end: int) -> ParsedStatement:
    """Parse a text as one statement; the name of the drug is left out, because it distinguishes nothing."""
    spelled = normalize(_UNIT_ABOVE.sub(r"\g<value> \g<unit>", text)) if "(" in text else normalize(text)
    if named_so := _drug(drug):
        spelled = named_so.sub(" ", spelled)
    for hint, phrase, name in _PHRASES:
        if hint in spelled:
            spelled = phrase.sub(name, spelled)
    named, counted = canonical_names(_AGED.sub("age", spelled)), _DIGIT.search(spelled) is not None
    if counted:
        named = _AFTER.sub(_bound, _FROM_TO.sub(r"\1 to ", named))
    often = counted or any(hint in named for hint in _MAY_TELL_HOW_OFTEN)
    intervals, rest = extract_intervals(named) if often else (_NEVER, named)
    quantities, words = extract_quantities(rest) if counted else ((), rest)
    return ParsedStatement(start, end, named, quantities, intervals, words)


@lru_cache(maxsize=256)
def _drug(name: str) -> re.Pattern[str] | None:
    """Return a pattern for the words of a drug's name in a plain text; None without a name."""
    words = [word for word in re.findall(r"[a-z][a-z0-9-]{3,}", normalize(name)) if not is_stop_word(word)]
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(words, key=len, reverse=True)))})\b") if words else None


def _bound(found: re.Match[str]) -> str:
    return f"{'at least' if found['way'] in _UP else 'at most'} {found['number']}"


def _pieces(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and text of each statement, with what announces it."""
    lead, header, at = "", "", 0
    for line in text.split("\n"):
        start, at = at, at + len(line) + 1
        said = line.strip()
        if not said:
            continue
        if " | " in said:
            header, rows = _rows(said, header)
            yield from ((start, start + len(line), row) for row in rows)
            continue
        header = ""
        if bullet := ITEM.match(line):
            yield start, start + len(line), f"{lead} {line[bullet.end() :]}" if lead else said
            continue
        if _announces(said):
            lead = said if len(said) <= LONGEST_LEAD else ""
        elif said.endswith("."):
            lead = ""
        yield from _sentences(line, start)


def _announces(said: str) -> bool:
    return said.endswith(":") or (not said.endswith(_ENDS) and len(said.split()) <= _HEADING_WORDS)


def _rows(said: str, header: str) -> tuple[str, list[str]]:
    """Return the header of the first column, and a table row as a whole and its first cell with each other cell."""
    first, *cells = said.split(" | ")
    if ": " in first:
        header = first.split(": ")[0]
    elif header:
        first = f"{header}: {first}"
    rows = [f"{first} | {' | '.join(cells)}"]
    return header, rows if len(cells) == 1 else [*rows, *(f"{first} | {cell}" for cell in cells)]


def _sentences(line: str, start: int) -> Iterator[tuple[int, int, str]]:
    """Yield the sentences of a line; the stop of an abbreviation ends none."""
    begin, cursor = -1, 0
    for piece in split_sentences(line):
        at = line.index(piece, cursor)
        begin, cursor = (at if begin < 0 else begin), at + len(piece)
        if not _ABBREVIATED.search(piece, max(0, len(piece) - _LONGEST_ABBREVIATION)):
            yield start + begin, start + cursor, line[begin:cursor]
            begin = -1
    if begin >= 0:
        yield start + begin, start + cursor, line[begin:cursor]
