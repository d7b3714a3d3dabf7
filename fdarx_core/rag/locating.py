"""Finding the place in a context that bears a statement out: its own words, or the sentences that hold most of it.

Quoted sentences are found by exact matching, other statements by their terms, weighted by how rare they are in the
contexts, and by their numbers. A place is a run of sentences, list items or table rows of at most `LONGEST_SPAN`
characters.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat
from math import fsum, log

from fdarx_core.text.sentences import LIST_ITEM, sentence_spans
from fdarx_core.text.stems import terms
from fdarx_core.verify.exact import quoted_span

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
_MOST_INDEXED = 1024
"""Contexts whose units are kept."""
_NUMBER_WEIGHT = 2
_ASKED_WEIGHT, _GIVEN_WEIGHT = 0.4, 0.15
"""The weights of terms that the question has, and of those in the titles of the context."""
_CUTS = (re.compile(r"(?<=\|)\s+|(?<=[;.])\s+"), re.compile(r"(?<=,)\s+"), re.compile(r"\s+"))
_CELLS = " | "
_LEAD_SHARE, _HEADER_SHARE = 0.5, 0.9
"""The share of its weight that a term has which only the lead-in, or only the header of the table, holds."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence, list item or table row of a context, or a part of at most `LONGEST_SPAN` characters of one.

    Attributes:
        start, end: its place in the context.
        is_row: whether it is a row of a table, which is marked alone.
    """

    start: int
    end: int
    is_row: bool


@dataclass(frozen=True, slots=True)
class IndexedText:
    """The units of a context, and which of them have each term, by number.

    Attributes:
        units: the units, in order.
        terms: the terms, each as often as there are units that have it.
        own: for each term the units that have it.
        above: for each term the list items whose introducing sentence has it, and the rows whose table has it in its
            first row.
    """

    units: tuple[Unit, ...]
    terms: tuple[str, ...]
    own: Mapping[str, Sequence[int]]
    above: Mapping[str, Sequence[int]]


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A place in a context, and the terms of the statement that it holds; a quotation holds all of them."""

    start: int
    end: int
    terms: frozenset[str]


def index_texts(texts: Sequence[str]) -> None:
    """Index the texts before they are contexts of questions, where all of them can be kept."""
    if len(texts) <= _MOST_INDEXED:
        for text in texts:
            index_text(text)


@lru_cache(maxsize=_MOST_INDEXED)
def index_text(text: str) -> IndexedText:
    """Return the units of a context with an index of their terms."""
    units = list[Unit]()
    own, above = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
    lead = frozenset[str]()
    in_list = in_table = False
    item_end = 0
    for first, last in sentence_spans(text, "label"):
        is_row, is_item = _CELLS in text[first:last], bool(LIST_ITEM.match(text, first))
        if is_item:
            line_end = text.find("\n", first)
            item_end = line_end if line_end >= 0 else len(text)
        # further sentences on the line of an item belong to it
        if is_row != in_table or not (is_row or first < item_end):
            in_list, lead = False, frozenset()
        for start, end in _pieces(text, first, last):
            for term in terms(text[start:end]):
                own[term].append(len(units))
            for term in lead:
                above[term].append(len(units))
            units.append(Unit(start, end, is_row))
        if not in_list and (is_row or text[last - 1] == ":"):
            in_list, lead = True, terms(text[first:last])
        in_table = is_row
    held = tuple(chain.from_iterable(repeat(term, len(having)) for term, having in own.items()))
    return IndexedText(tuple(units), held, own, above)


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


class Locator:
    """Finds the places of statements in the contexts of one question."""

    def __init__(self, question: str, texts: Sequence[str], titles: Sequence[str]) -> None:
        """`titles` are the titles above each text: those of its document and section, and the names of its drug."""
        self._texts, self._asked = texts, terms(question)
        self._given = [terms(title) for title in titles]
        self._indexed = [index_text(text) for text in texts]
        distinct = [index_text(text) for text in dict.fromkeys(texts)]
        self._units = sum(len(indexed.units) for indexed in distinct)
        self._counts = Counter(chain.from_iterable(indexed.terms for indexed in distinct))
        self._absent = fsum(map(self._rarity, self._counts)) / max(len(self._counts), 1)

    def find(self, statement: str, contexts: Sequence[int]) -> list[tuple[int, TextSpan]]:
        """Return the places in some contexts (from 0) that bear a statement out; none where too little of it is there.

        Each place comes with its context.
        """
        said = sorted(terms(statement))
        weights = {context: self._weights_in(said, context) for context in contexts}
        found = {
            context: spans for context in contexts if (spans := self._in_context(statement, context, weights[context]))
        }
        held = frozenset[str]().union(*(span.terms for spans in found.values() for span in spans))
        if all(_share(held, weights[context]) < LEAST_COVERED for context in found):
            return []
        return [(context, span) for context, spans in found.items() for span in spans]

    def _in_context(self, statement: str, context: int, weights: Mapping[str, float]) -> list[TextSpan]:
        indexed = self._indexed[context]
        start, end = quoted_span(statement, self._texts[context]) or (0, 0)
        if (
            0 < end - start < len(statement) + LONGEST_SPAN
        ):  # else much of a list stands between its lead-in and an item
            units = [unit for unit in indexed.units if unit.start < end and start < unit.end]
            return [TextSpan(*place, frozenset(weights)) for place in _joined(units)]
        spans = _places(indexed, weights)
        held = frozenset[str]().union(*(span.terms for span in spans))
        return spans if _share(held, weights) >= LEAST_OF_CONTEXT else []

    def _rarity(self, term: str) -> float:
        """Return the weight of a term by the number of the contexts' units that have it; numbers have twice that."""
        weight = log(1 + self._units / self._counts[term])
        return weight * _NUMBER_WEIGHT if term[0].isdigit() else weight

    def _weights_in(self, said: Sequence[str], context: int) -> dict[str, float]:
        """Return the weight of each term of a statement for its places in a context."""
        in_titles, found = self._given[context], dict[str, float]()
        for term in said:
            weight = self._rarity(term) if term in self._counts else self._absent
            if term in in_titles:
                weight *= _GIVEN_WEIGHT
            elif term in self._asked:
                weight *= _ASKED_WEIGHT
            found[term] = weight
        return found


def _share(held: Collection[str], weights: Mapping[str, float]) -> float:
    """Return the share of a statement's weighted terms that are held; 1 for a statement without terms."""
    return fsum(weights[term] for term in held) / fsum(weights.values()) if weights else 1.0


def _places(indexed: IndexedText, weights: Mapping[str, float]) -> list[TextSpan]:
    """Return the runs of units that together hold most of the terms, in order."""
    own, above = _holding(indexed.own, weights), _holding(indexed.above, weights)
    total = fsum(weights.values())
    missing, found = set(weights), list[TextSpan]()
    while missing and len(found) < MOST_SPANS:
        gain, first, last = _best_run(indexed.units, own, above, {term: weights[term] for term in missing}, total)
        if gain < (_LEAST_GAIN if found else _COST_OF_UNIT) * total:
            break
        covered = missing.intersection(
            term for at in range(first, last) for held in (own, above) for term in held.get(at, ())
        )
        missing -= covered
        found.append(TextSpan(indexed.units[first].start, indexed.units[last - 1].end, frozenset(covered)))
    return sorted(found, key=lambda span: span.start)


def _holding(units_with: Mapping[str, Sequence[int]], weights: Mapping[str, float]) -> dict[int, set[str]]:
    """Return which of the terms each unit has, for the units that have any."""
    held = defaultdict[int, set[str]](set)
    for term in weights:
        for unit in units_with.get(term, ()):
            held[unit].add(term)
    return dict(held)


def _best_run(
    units: Sequence[Unit],
    own: Mapping[int, set[str]],
    above: Mapping[int, set[str]],
    weights: Mapping[str, float],
    total: float,
) -> tuple[float, int, int]:
    """Return the gain of the best run of units by some terms, its first unit and its end; of equal ones the earlier.

    A run begins with a unit that has one of the terms.
    """
    held_by = {at: [term for term in held if term in weights] for at, held in own.items()}
    best = 0.0, 0, 0
    for first in (at for at, held in held_by.items() if held):
        unit, held, introduced = units[first], set[str](), set[str]()
        for last in range(first, min(first + _LONGEST_RUN, len(units))):
            if units[last].end - unit.start > LONGEST_SPAN:
                break
            held.update(held_by.get(last, ()))
            introduced.update(above.get(last, ()))
            share = _HEADER_SHARE if unit.is_row else _LEAD_SHARE
            gain = fsum(weights[term] for term in held)
            gain += share * fsum(weights.get(term, 0.0) for term in introduced - held)
            best = max(best, (gain - _COST_OF_UNIT * total * (last - first), -first, last + 1))
            if unit.is_row:
                break
    return best[0], -best[1], best[2]


def _joined(units: Sequence[Unit]) -> list[tuple[int, int]]:
    """Return adjacent units as places of at most `LONGEST_SPAN` characters."""
    found = list[tuple[int, int]]()
    for unit in units:
        if found and unit.end - found[-1][0] <= LONGEST_SPAN:
            found[-1] = found[-1][0], unit.end
        else:
            found.append((unit.start, unit.end))
    return found
