"""Finds the places in contexts that support a statement: a quotation of it, or the sentences with most of its terms.

Terms are weighted by how rare they are in the contexts; numbers count twice. A place is a run of sentences, list items
or table rows of at most `LONGEST_SPAN` characters.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, repeat
from math import fsum, log

from fdarx_core.text.sentences import LIST_ITEM, sentence_spans
from fdarx_core.text.stems import terms

LONGEST_SPAN = 400
"""The most characters of a place that a citation marks."""
MIN_COVERED = 0.35
"""The least share of a statement's weighted terms that its places in all cited contexts have together.

Of statements by language models in published answers on dev drugs, 2 % reach it with contexts of another drug."""
MIN_COVERED_BY_CONTEXT = 0.2
"""The least share of a statement's weighted terms that its places in one context have."""
MAX_SPANS = 3
"""The most places in one context for one statement; a list or table may need several."""

_LONGEST_RUN = 3
"""The most units of a place."""
_MIN_GAIN_OF_UNIT, _MIN_GAIN_OF_SPAN = 0.04, 0.15
"""The least share of the weight that a further sentence of a place, and a further place of a context, must add."""
_MAX_INDEXED = 1024
"""The most contexts whose index is kept in memory."""
_ROUNDING = 1 + 1e-9
_NUMBER_WEIGHT = 2
_WEIGHT_IN_QUESTION, _WEIGHT_IN_TITLE = 0.4, 0.15
"""The factors of the weights of terms that are in the question, and in the titles of the context."""
_SHORTEST_QUOTE = 3
_CUTS = (re.compile(r"(?<=\|)\s+|(?<=[;.])\s+"), re.compile(r"(?<=,)\s+"), re.compile(r"\s+"))
_ALIKE = ("‐‑‒–—−-", "‘’ʼ'", '“”"')
_FOOTNOTE = r"(?:\s*\[\d{1,2}\])?"
"""The number of a footnote, which a quotation may leave out."""
_BETWEEN = rf"{_FOOTNOTE}[\s*_`]+"
_TRAILING = " .;,:"
_ASCII_WORD, _EMPHASIS = re.compile(r"[a-z0-9]+"), re.compile(r"[*_`]")
_CELLS = " | "
_LEAD_SHARE, _HEADER_SHARE = 0.5, 0.9
"""The factors of the weight of a term that is only in the lead-in of a list, or only in the header of a table."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A sentence, list item or table row of a context, or a part of at most `LONGEST_SPAN` characters of one.

    Attributes:
        start, end: its place in the context.
        is_row: whether it is a row of a table; a row is a place of its own.
    """

    start: int
    end: int
    is_row: bool


@dataclass(frozen=True, slots=True)
class IndexedText:
    """The units of a context, and the indices of those that have each term.

    Attributes:
        units: the units, in order.
        terms: the terms, each repeated for every unit that has it.
        numbers: the terms that are numbers.
        own: for each term the units that have it.
        above: for each term the list items whose lead-in has it, and the table rows whose header has it.
        folded: the text, case-folded.
    """

    units: tuple[Unit, ...]
    terms: tuple[str, ...]
    numbers: frozenset[str]
    own: Mapping[str, Sequence[int]]
    above: Mapping[str, Sequence[int]]
    folded: str


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A place in a context, and the terms of the statement in it; a quotation has all of them."""

    start: int
    end: int
    terms: frozenset[str]


def index_texts(texts: Sequence[str]) -> None:
    """Index texts before questions have them as contexts, unless they are too many to keep in memory."""
    if len(texts) <= _MAX_INDEXED:
        for text in texts:
            index_text(text)


@lru_cache(maxsize=_MAX_INDEXED)
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
        # further sentences on the line of a list item belong to the item
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
    numbers = frozenset(filter(_is_number, own))
    return IndexedText(tuple(units), held, numbers, own, above, text.casefold())


def _is_number(term: str) -> bool:
    return term[0].isdigit()


def _pieces(text: str, start: int, end: int, cuts: Sequence[re.Pattern[str]] = _CUTS) -> Iterator[tuple[int, int]]:
    """Yield a span, or parts of a too long one: cut between cells or clauses, then at commas, then between words."""
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
        self._texts, self._question_terms = texts, terms(question)
        self._title_terms = [terms(title) for title in titles]
        self._indexed = [index_text(text) for text in texts]
        distinct = [index_text(text) for text in dict.fromkeys(texts)]
        self._units = sum(len(indexed.units) for indexed in distinct)
        self._counts = Counter(chain.from_iterable(indexed.terms for indexed in distinct))
        numbers = frozenset[str]().union(*(indexed.numbers for indexed in distinct))
        levels = Counter(self._counts.values()) + Counter(self._counts[number] for number in numbers)
        total = fsum(count * self._rarity(units) for units, count in levels.items())
        self._absent = total / max(len(self._counts), 1)

    def find(self, statement: str, contexts: Sequence[int]) -> list[tuple[int, TextSpan]]:
        """Return the places in some contexts that support a statement, each with the index of its context (from 0).

        There are none if the places have too few of the statement's terms.
        """
        wanted = sorted(terms(statement))
        weights = {context: self._weights_in(wanted, context) for context in contexts}
        found = {
            context: spans for context in contexts if (spans := self._in_context(statement, context, weights[context]))
        }
        covered = _covered(chain.from_iterable(found.values()))
        if all(_share(covered, weights[context]) < MIN_COVERED for context in found):
            return []
        return [(context, span) for context, spans in found.items() for span in spans]

    def _in_context(self, statement: str, context: int, weights: Mapping[str, float]) -> list[TextSpan]:
        if quoted := find_quotation(self._texts[context], statement):
            return [TextSpan(start, end, frozenset(weights)) for start, end in quoted]
        spans = _best_spans(self._indexed[context], weights)
        return spans if _share(_covered(spans), weights) >= MIN_COVERED_BY_CONTEXT else []

    def _rarity(self, units: int) -> float:
        """Return the weight of a term that is in `units` units of the contexts."""
        return log(1 + self._units / units)

    def _weights_in(self, wanted: Sequence[str], context: int) -> dict[str, float]:
        """Return the weight of each term of a statement for its places in a context."""
        in_titles, found = self._title_terms[context], dict[str, float]()
        for term in wanted:
            if units := self._counts.get(term):
                weight = self._rarity(units) * (_NUMBER_WEIGHT if _is_number(term) else 1)
            else:
                weight = self._absent
            if term in in_titles:
                weight *= _WEIGHT_IN_TITLE
            elif term in self._question_terms:
                weight *= _WEIGHT_IN_QUESTION
            found[term] = weight
        return found


def _covered(spans: Iterable[TextSpan]) -> frozenset[str]:
    return frozenset[str]().union(*(span.terms for span in spans))


def _share(covered: Collection[str], weights: Mapping[str, float]) -> float:
    """Return the weighted share of a statement's terms that are covered; 1 for a statement without terms."""
    return fsum(weights[term] for term in covered) / fsum(weights.values()) if weights else 1.0


def _best_spans(indexed: IndexedText, weights: Mapping[str, float]) -> list[TextSpan]:
    """Return the runs of units that together have most of the terms, in order."""
    own, above = _terms_by_unit(indexed.own, weights), _terms_by_unit(indexed.above, weights)
    total = fsum(weights.values())
    missing, found = set(weights), list[TextSpan]()
    while missing and len(found) < MAX_SPANS:
        gain, first, last = _best_run(indexed.units, own, above, {term: weights[term] for term in missing}, total)
        if gain < (_MIN_GAIN_OF_SPAN if found else _MIN_GAIN_OF_UNIT) * total:
            break
        covered = missing.intersection(
            term for unit in range(first, last) for by_unit in (own, above) for term in by_unit.get(unit, ())
        )
        missing -= covered
        found.append(TextSpan(indexed.units[first].start, indexed.units[last - 1].end, frozenset(covered)))
    return sorted(found, key=lambda span: span.start)


def _terms_by_unit(units_with: Mapping[str, Sequence[int]], weights: Mapping[str, float]) -> dict[int, set[str]]:
    """Return which of the terms each unit has, for the units that have any."""
    found = defaultdict[int, set[str]](set)
    for term in weights:
        for unit in units_with.get(term, ()):
            found[unit].add(term)
    return found


def _best_run(
    units: Sequence[Unit],
    own: Mapping[int, set[str]],
    above: Mapping[int, set[str]],
    weights: Mapping[str, float],
    total: float,
) -> tuple[float, int, int]:
    """Return the gain of the best run of units, its first unit and its end; of equally good runs the earliest.

    The gain is the weight of the terms in the run, less a share of `total` for each further unit. A run begins with a
    unit that has one of the terms.
    """
    wanted_in = {at: wanted for at, held in own.items() if (wanted := [term for term in held if term in weights])}
    bounds = defaultdict[int, float](float)
    for by_unit in (wanted_in, above):
        for at, in_unit in by_unit.items():
            bounds[at] += sum(weights.get(term, 0.0) for term in in_unit)
    starts = [(sum(bounds[at] for at in range(first, first + _LONGEST_RUN)), first) for first in wanted_in]
    best = 0.0, 0, 0
    for bound, first in sorted(starts, reverse=True):
        if bound * _ROUNDING < best[0]:
            break  # no further run can have as much
        unit, in_run, introduced = units[first], set[str](), set[str]()
        for last in range(first, min(first + _LONGEST_RUN, len(units))):
            if units[last].end - unit.start > LONGEST_SPAN:
                break
            in_run.update(wanted_in.get(last, ()))
            introduced.update(above.get(last, ()))
            share = _HEADER_SHARE if unit.is_row else _LEAD_SHARE
            gain = fsum(weights[term] for term in in_run)
            gain += share * fsum(weights.get(term, 0.0) for term in introduced - in_run)
            best = max(best, (gain - _MIN_GAIN_OF_UNIT * total * (last - first), -first, last + 1))
            if unit.is_row:
                break
    return best[0], -best[1], best[2]


def find_quotation(text: str, statement: str) -> list[tuple[int, int]]:
    """Return the units of a text that quote a statement, as places of at most `LONGEST_SPAN` characters.

    White space, case, the kinds of dashes and quotation marks, emphasis, footnotes and the last full stop are ignored.
    Fewer than three words are a quotation only if they are a whole unit. Whole units are returned, because a part of a
    sentence may have another meaning.
    """
    words = statement.strip().rstrip(_TRAILING).split()
    indexed = index_text(text)
    # searching for single words is faster than the regular expression, and the text lacks a word of most statements
    parts = _ASCII_WORD.findall(_EMPHASIS.sub("", " ".join(words)).casefold())
    if not words or not all(part in indexed.folded for part in sorted(parts, key=len, reverse=True)):
        return []
    quoted = re.compile(rf"(?<!\w){_BETWEEN.join(map(_written, words))}(?!\w)", re.IGNORECASE)
    for found in quoted.finditer(text):
        start, end = found.span()
        units = [unit for unit in indexed.units if unit.start < end and start < unit.end]
        characters = sum(unit.end - unit.start for unit in units)
        if len(words) >= _SHORTEST_QUOTE or characters - (end - start) <= len(_TRAILING):
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
