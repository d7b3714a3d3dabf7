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
LEAST_COVERED = 0.4
"""The least share of a statement's weighted terms that the places of a context hold together."""
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
_FOLDED = re.compile(r"\s+|[‐‑‒–—−]|[‘’ʼ]|[“”]|[*_`]+|.", re.DOTALL)
_TRAILING = " .;,:"


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence, list item or table row of a context, or a part of at most `LONGEST_SPAN` characters of one."""

    start: int
    end: int
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a context, and the share of the statement's terms that it holds; a quotation holds all of them."""

    start: int
    end: int
    covered: float


@lru_cache(maxsize=512)
def units_of(text: str) -> tuple[Unit, ...]:
    """Return the units of a context, in order."""
    return tuple(
        Unit(start, end, terms(text[start:end]))
        for first, last in sentence_spans(text, "label")
        for start, end in _pieces(text, first, last)
    )


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

    def find(self, statement: str, context: int) -> list[Span]:
        """Return the places in a context (from 0) that bear a statement out; none where too little of it does."""
        text = self._texts[context]
        quoted = find_quotation(text, statement)
        if quoted is not None:
            return [Span(start, end, 1.0) for start, end in _covering(units_of(text), *quoted)]
        weights = self._weights_of(statement, context)
        total = fsum(weights.values())
        return _places(units_of(text), weights, total) if total else []

    def _weights_of(self, statement: str, context: int) -> dict[str, float]:
        found = {term: self._weights.get(term, self._absent) for term in sorted(terms(statement))}
        for term in found:
            if term in self._given[context]:
                found[term] *= _GIVEN_WEIGHT
            elif term in self._asked:
                found[term] *= _ASKED_WEIGHT
        return found


def _places(units: Sequence[Unit], weights: Mapping[str, float], total: float) -> list[Span]:
    """Return the runs that together hold most of the terms, in order; none where that is too little."""
    held = [unit.terms & weights.keys() for unit in units]
    missing, found = set(weights), list[Span]()
    while missing and len(found) < MOST_SPANS:
        gain, first, last = max(_runs(units, held, weights, missing, total), default=(0.0, 0, 0))
        if gain < (_LEAST_GAIN if found else _COST_OF_UNIT) * total:
            break
        covered = missing & frozenset[str]().union(*held[-first:last])
        missing -= covered
        share = fsum(weights[term] for term in sorted(covered)) / total
        found.append(Span(units[-first].start, units[last - 1].end, share))
    if fsum(one.covered for one in found) < LEAST_COVERED:
        return []
    return sorted(found, key=lambda one: one.start)


def _runs(
    units: Sequence[Unit], held: Sequence[frozenset[str]], weights: Mapping[str, float], missing: set[str], total: float
) -> Iterator[tuple[float, int, int]]:
    """Yield (gain, -first, end) of each run of units; the earlier one is the greater of two equal ones."""
    for first, unit in enumerate(units):
        if not held[first] & missing:
            continue
        terms_of_run = frozenset[str]()
        for last in range(first, min(first + _LONGEST_RUN, len(units))):
            if units[last].end - unit.start > LONGEST_SPAN:
                break
            terms_of_run |= held[last] & missing
            gain = fsum(weights[term] for term in terms_of_run) - _COST_OF_UNIT * total * (last - first)
            yield gain, -first, last + 1


def find_quotation(text: str, statement: str) -> tuple[int, int] | None:
    """Return the place of a statement's own words in a text, None where they are not there.

    White space, case, the kinds of dashes and quotation marks, emphasis and the last full stop are ignored. Fewer than
    three words are a quotation only if they are a whole unit.
    """
    wanted, _ = _folded(statement.strip().rstrip(_TRAILING))
    folded, places = _folded_text(text)
    at = folded.find(wanted) if wanted else -1
    while at >= 0:
        after = at + len(wanted)
        if not (folded[at - 1 : at].isalnum() or folded[after : after + 1].isalnum()):
            start, end = places[at], places[after - 1] + 1
            end += text[end : end + 1] == "."
            if wanted.count(" ") + 1 >= _SHORTEST_QUOTE or any(
                (u.start, u.end) == (start, end) for u in units_of(text)
            ):
                return start, end
        at = folded.find(wanted, at + 1)
    return None


@lru_cache(maxsize=512)
def _folded_text(text: str) -> tuple[str, Sequence[int]]:
    return _folded(text)


def _folded(text: str) -> tuple[str, list[int]]:
    """Return a text in a form for comparison, and the place of each of its characters in the text."""
    parts, places = list[str](), list[int]()
    for found in _FOLDED.finditer(text):
        piece = found[0]
        if piece.isspace():
            folded = " "
        elif piece in "‐‑‒–—−":
            folded = "-"
        elif piece in "‘’ʼ":
            folded = "'"
        elif piece in "“”":
            folded = '"'
        elif piece[0] in "*_`":
            folded = ""
        else:
            folded = piece.lower()
        parts.append(folded)
        places += [found.start()] * len(folded)
    return "".join(parts), places


def _covering(units: Sequence[Unit], start: int, end: int) -> list[tuple[int, int]]:
    """Return a quotation in pieces of at most `LONGEST_SPAN` characters, cut between units."""
    if end - start <= LONGEST_SPAN:
        return [(start, end)]
    found = list[tuple[int, int]]()
    for unit in units:
        first, last = max(unit.start, start), min(unit.end, end)
        if last <= first:
            continue
        if found and last - found[-1][0] <= LONGEST_SPAN:
            found[-1] = found[-1][0], last
        else:
            found.append((first, last))
    return found
