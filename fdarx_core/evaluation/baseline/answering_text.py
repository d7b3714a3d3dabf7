"""What the baseline reads of the passages it is shown, taken together: which word stands where, and how rare it is."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

from fdarx_core.evaluation.baseline.answering_statements import Told, told_by_label
from fdarx_core.filters.baseline.terms import terms

_MARKED = re.compile(r"^\|\|(PASSAGE_\d+)\|\| ?(.*)$", re.MULTILINE)
_K1, _B = 1.5, 0.75
_STEM = 5
"""Letters that two forms of a word share: "dialysis" and "dialyzable"."""


class Evidence:
    """The passages shown, each given as marker ("" where the prompt shows none), its section's titles and what it says.

    `passage_of[i]` is the place of the passage of `statements[i]`, `bm25[i]` what a word in it counts for.
    """

    def __init__(self, passages: Sequence[tuple[str, str, Told]]) -> None:
        self.markers = [marker for marker, _, _ in passages]
        self._titles = [terms(title) for _, title, _ in passages]
        self._told = [told for _, _, told in passages]
        self._starts = list(accumulate((len(one.statements) for one in self._told), initial=0))
        self._places: dict[str, list[int]] = {}
        self.statements = [one for held in self._told for one in held.statements]
        self.passage_of = [place for place, held in enumerate(self._told) for _ in held.statements]
        lengths = [len(one.terms) for one in self.statements]
        mean = max(sum(lengths) / max(len(lengths), 1), 1)
        self.bm25 = [(_K1 + 1) / (1 + _K1 * (1 - _B + _B * length / mean)) for length in lengths]

    def in_statements(self, term: str) -> list[int]:
        """The places of the statements that have a term."""
        if term not in self._places:
            shifted = zip(self._starts, self._told, strict=False)
            self._places[term] = [start + place for start, one in shifted for place in one.places.get(term, ())]
        return self._places[term]

    def in_titles(self, term: str) -> list[int]:
        """The places of the passages whose titles have a term."""
        return [place for place, held in enumerate(self._titles) if term in held]

    def in_passages(self, term: str) -> list[int]:
        """The places of the passages that have a term in their text or titles."""
        both = zip(self._titles, self._told, strict=True)
        return [place for place, (titles, one) in enumerate(both) if term in titles or term in one.places]

    def has_form(self, term: str) -> bool:
        """Whether the term stands anywhere, as such or in another form."""
        return any(term in one.places for one in self._told) or term[:_STEM] in self._stems

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(term[:_STEM] for held in (*self._titles, *(one.places for one in self._told)) for term in held)

    def titles_of(self, place: int) -> frozenset[str]:
        """The terms of the titles above a statement."""
        return self._titles[self.passage_of[place]]

    def rarity(self, term: str) -> float:
        """A term's idf over the statements, as BM25 has it; above 0 also for one that stands in most."""
        held = len(self.in_statements(term))
        return math.log(1 + (len(self.statements) - held + 0.5) / (held + 0.5))


def evidence_of(slots: Mapping[str, Any]) -> Evidence:
    """What the slots of an answering task show. A label is read once for all questions that follow on it."""
    if "label" in slots:
        return _of_label(slots["label"])
    return Evidence([(one.get("marker", ""), one["section"], told_by_label(one["text"])) for one in slots["passages"]])


@lru_cache(maxsize=4)
def _of_label(label: str) -> Evidence:
    found = list(_MARKED.finditer(label))
    ends = [*(one.start() for one in found[1:]), len(label)]
    passages, titles = [], ""
    for one, end in zip(found, ends, strict=False):
        titles = one[2] or titles
        passages.append((one[1], titles, told_by_label(label[one.end() : end].strip())))
    return Evidence(passages)
