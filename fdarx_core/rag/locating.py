"""Finding the place in a context that bears a statement out: its own words, or the sentences that hold most of it.

A quotation is found by its text, a paraphrase by its terms, weighted by how rare they are in the contexts, and by its
numbers. A place is a run of sentences, list items or table rows of at most `LONGEST_SPAN` characters.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import fsum, log

from fdarx_core.baseline.sentences import sentence_spans
from fdarx_core.baseline.stems import terms

LONGEST_SPAN = 400
"""The most characters of a place that a citation marks."""
LEAST_COVERED = 0.35
"""The least share of a statement's weighted terms that the places in the contexts that it cites hold together.

Of statements by language models in published answers on dev drugs, beside contexts of another drug 2 % reach it."""
LEAST_OF_CONTEXT = 0.2
"""The least share that the places in one of these contexts hold."""
MOST_SPANS = 3
"""The most places in one context for one statement; a list or table may need several."""

_LONGEST_RUN = 3
_COST_OF_UNIT = 0.04
"""The share of the weight that a further sentence of a run, or place of a context, has to add."""
_LEAST_GAIN = 0.15
_NUMBER_WEIGHT = 2.0
_ASKED_WEIGHT, _GIVEN_WEIGHT = 0.4, 0.15
"""The weights of terms that the question has, and of those in the titles of the context."""
_SHORTEST_QUOTE = 3
_CUTS = (re.compile(r"(?<=\|)\s+|(?<=[;.])\s+"), re.compile(r"(?<=,)\s+"), re.compile(r"\s+"))
_ALIKE = ("‐‑‒–—−-", "‘’ʼ'", '“”"')
_FOOTNOTE = r"(?:\s*\[\d{1,2}\])?"
"""The number of a footnote, which a quotation leaves out."""
_BETWEEN = rf"{_FOOTNOTE}[\s*_`]+"
_TRAILING = " .;,:"
_CELLS = " | "
_BULLETS = ("- ", "• ", "o ", "* ")
_LEAD_SHARE, _HEADER_SHARE = 0.5, 0.9
"""The share of its weight that a term has which only the lead-in, or only the header of the table, holds."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence, list item or table row of a context, or a part of at most `LONGEST_SPAN` characters of one.

    Attributes:
        start, end: its place in the context.
        terms: its terms.
        above: the terms of the sentence that introduces a list item, or of the first row of a table; none for others.
        is_row: whether it is a row of a table, which is marked alone.
    """

    start: int
    end: int
    terms: frozenset[str]
    above: frozenset[str]
    is_row: bool


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A place in a context, and the terms of the statement that it holds; a quotation holds all of them."""

    start: int
    end: int
    terms: frozenset[str]


@lru_cache(maxsize=1024)
def units_of(text: str) -> tuple[Unit, ...]:
    """Return the units of a context, in order."""
    return tuple(_units(text))


def _units(text: str) -> Iterator[Unit]:
    lead: tuple[int, int] | None = None
    in_table, item_end = False, 0
    for first, last in sentence_spans(text, "label"):
        is_row, is_item = _CELLS in text[first:last], text.startswith(_BULLETS, first)
        if is_item:
            line_end = text.find("\n", first)
            item_end = line_end if line_end >= 0 else len(text)
        # further sentences on the line of an item belong to it
        if is_row != in_table or not (is_row or first < item_end):
            lead = None
        above = lead
        if lead is None and (is_row or text[last - 1] == ":"):
            lead = first, last
        in_table = is_row
        held = terms(text[slice(*above)]) if above else frozenset()
        for start, end in _pieces(text, first, last):
            yield Unit(start, end, terms(text[start:end]), held, is_row)


def _pieces(text: str, start: int, end: int, cuts: Sequence[re.Pattern[str]] = _CUTS) -> Iterator[tuple[int, int]]:
    """Yield a span, cut between cells or clauses, then at commas, then between words where it is too long."""
    if end - start <= LONGEST_SPAN:
        yield start, end
        return
    if not cuts:
        yield from ((at, min(at + LONGEST_SPAN, end)) for at in range(start, end, LONGEST_SPAN))
        return
    begin, last = start, start
    for stop in [*(found.start() for found in cuts[0].finditer(text, start, end)), end]:
        if stop - begin > LONGEST_SPAN and last > begin:
            yield from _pieces(text, begin, last, cuts[1:])
            begin = last + len(text[last:stop]) - len(text[last:stop].lstrip())
        last = stop
    yield from _pieces(text, begin, end, cuts[1:])


@lru_cache(maxsize=128)
def term_weights(texts: tuple[str, ...]) -> Mapping[str, float]:
    """Return the weight of each term of some contexts: its rarity among their units, twice that for a number."""
    units = [unit for text in dict.fromkeys(texts) for unit in units_of(text)]
    found = Counter(term for unit in units for term in unit.terms)
    return {
        term: log(1 + len(units) / count) * (_NUMBER_WEIGHT if term[0].isdigit() else 1)
        for term, count in found.items()
    }


class Locator:
    """Finds the places of statements in the contexts of one question."""

    def __init__(self, question: str, texts: Sequence[str], titles: Sequence[str]) -> None:
        """`titles` are the titles above each text: those of its document and section, and the names of its drug."""
        self._texts, self._asked = texts, terms(question)
        self._given = [terms(title) for title in titles]
        self._weights = term_weights(tuple(texts))
        self._absent = sum(self._weights.values()) / max(len(self._weights), 1)

    def find(self, statement: str, contexts: Sequence[int]) -> list[tuple[int, TextSpan]]:
        """Return the places in some contexts (from 0) that bear a statement out; none where too little of it is there.

        Each place comes with its context.
        """
        found = {context: spans for context in contexts if (spans := self._in_context(statement, context))}
        held = frozenset[str]().union(*(one.terms for spans in found.values() for one in spans))
        if all(self._share(statement, held, context) < LEAST_COVERED for context in found):
            return []
        return [(context, span) for context, spans in found.items() for span in spans]

    def _in_context(self, statement: str, context: int) -> list[TextSpan]:
        text = self._texts[context]
        if quoted := find_quotation(text, statement):
            said = terms(statement)
            return [TextSpan(start, end, said) for start, end in quoted]
        spans = _places(units_of(text), self._weights_of(statement, context))
        held = frozenset[str]().union(*(one.terms for one in spans))
        return spans if self._share(statement, held, context) >= LEAST_OF_CONTEXT else []

    def _share(self, statement: str, held: frozenset[str], context: int) -> float:
        """Return the share of a statement's weighted terms that are held; 1 for a statement without terms."""
        weights = self._weights_of(statement, context)
        return fsum(weights[term] for term in sorted(held)) / fsum(weights.values()) if weights else 1.0

    def _weights_of(self, statement: str, context: int) -> dict[str, float]:
        found = {term: self._weights.get(term, self._absent) for term in sorted(terms(statement))}
        for term in found:
            if term in self._given[context]:
                found[term] *= _GIVEN_WEIGHT
            elif term in self._asked:
                found[term] *= _ASKED_WEIGHT
        return found


def _places(units: Sequence[Unit], weights: Mapping[str, float]) -> list[TextSpan]:
    """Return the runs of units that together hold most of the terms, in order."""
    held = [(unit.terms & weights.keys(), unit.above & weights.keys()) for unit in units]
    total = fsum(weights.values())
    missing, found = set(weights), list[TextSpan]()
    while missing and len(found) < MOST_SPANS:
        gain, first, last = max(_runs(units, held, weights, missing, total), default=(0.0, 0, 0))
        if gain < (_LEAST_GAIN if found else _COST_OF_UNIT) * total:
            break
        covered = missing & frozenset[str]().union(*(own | above for own, above in held[-first:last]))
        missing -= covered
        found.append(TextSpan(units[-first].start, units[last - 1].end, frozenset(covered)))
    return sorted(found, key=lambda one: one.start)


def _runs(
    units: Sequence[Unit],
    held: Sequence[tuple[frozenset[str], frozenset[str]]],
    weights: Mapping[str, float],
    missing: set[str],
    total: float,
) -> Iterator[tuple[float, int, int]]:
    """Yield (gain, -first, end) of each run of units; the earlier one is the greater of two equal ones."""
    for first, unit in enumerate(units):
        if not held[first][0] & missing:
            continue
        own, above = frozenset[str](), frozenset[str]()
        for last in range(first, min(first + _LONGEST_RUN, len(units))):
            if units[last].end - unit.start > LONGEST_SPAN:
                break
            own, above = own | held[last][0] & missing, above | held[last][1] & missing
            share = _HEADER_SHARE if unit.is_row else _LEAD_SHARE
            gain = fsum(weights[term] for term in own) + share * fsum(weights[term] for term in above - own)
            yield gain - _COST_OF_UNIT * total * (last - first), -first, last + 1
            if unit.is_row:
                break


def find_quotation(text: str, statement: str) -> list[tuple[int, int]]:
    """Return the units of a text that have a statement's own words, as places of at most `LONGEST_SPAN` characters.

    White space, case, the kinds of dashes and quotation marks, emphasis, footnotes and the last full stop are ignored.
    Fewer than three words are a quotation only if they are a whole unit. Whole units are returned, because a part of a
    sentence may say something else.
    """
    words = statement.strip().rstrip(_TRAILING).split()
    if not words:
        return []
    quoted = re.compile(rf"(?<!\w){_BETWEEN.join(map(_written, words))}(?!\w)", re.IGNORECASE)
    for found in quoted.finditer(text):
        start, end = found.span()
        units = [unit for unit in units_of(text) if unit.start < end and start < unit.end]
        said = sum(unit.end - unit.start for unit in units)
        if len(words) >= _SHORTEST_QUOTE or said - (end - start) <= len(_TRAILING):
            return _joined(units)
    return []


def _written(word: str) -> str:
    """Return a pattern for the ways in which a word may be written, also with a footnote before its last stop."""
    stem = word.rstrip(_TRAILING)
    return f"{_letters(stem)}{_FOOTNOTE}{_letters(word[len(stem) :])}" if stem != word else _letters(word)


def _letters(word: str) -> str:
    return "".join(
        next((f"[{signs}]" for signs in _ALIKE if sign in signs), re.escape(sign)) for sign in word if sign not in "*_`"
    )


def _joined(units: Sequence[Unit]) -> list[tuple[int, int]]:
    """Return adjacent units as places of at most `LONGEST_SPAN` characters."""
    found = list[tuple[int, int]]()
    for unit in units:
        if found and unit.end - found[-1][0] <= LONGEST_SPAN:
            found[-1] = found[-1][0], unit.end
        else:
            found.append((unit.start, unit.end))
    return found
