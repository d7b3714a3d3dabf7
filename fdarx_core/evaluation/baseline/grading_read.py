"""A text as the baseline grader compares it: its terms, quantities, frequencies, groups of patients and statements."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

from fdarx_core.evaluation.baseline.grading_numbers import Intervals, Quantity, take_intervals, take_quantities
from fdarx_core.evaluation.baseline.grading_plain import plain
from fdarx_core.evaluation.baseline.grading_polarity import forbids
from fdarx_core.evaluation.baseline.grading_words import groups, one_name, stems
from fdarx_core.evaluation.baseline.grading_written import original_words, written
from fdarx_core.filters.text import sentences


@dataclass(frozen=True)
class Said:
    """A text as it was given (`original`) and as it compares.

    `spelled` is plain; `text` lacks the drug's name, and things go by one name in it; `words` has no numbers either.
    """

    original: str
    drug: str
    spelled: str
    text: str
    words: str
    quantities: tuple[Quantity, ...]
    intervals: Intervals
    terms: frozenset[str]

    @cached_property
    def groups(self) -> frozenset[str]:
        return groups(self.text)

    @cached_property
    def forbids(self) -> bool:
        return forbids(self.text)

    @cached_property
    def statements(self) -> tuple[Said, ...]:
        """Its sentences."""
        return tuple(read(sentence, self.drug) for sentence in sentences(self.original))

    def wording(self, wanted: frozenset[str]) -> str:
        """The phrases in which the terms stand in the text, letter for letter, in its order."""
        return written(self.original, self.spelled, wanted, self.drug)

    def figures(self, wanted: list[Quantity]) -> str:
        """The quantities as the text writes them."""
        return ", ".join(dict.fromkeys(original_words(self.original, one.text) for one in wanted))


@lru_cache(maxsize=32768)
def read(text: str, drug: str) -> Said:
    """`drug` is the plain name of the drug, which says nothing in an answer about its label."""
    spelled = plain(text)
    named = one_name(spelled.replace(drug, " ") if drug else spelled)
    intervals, rest = take_intervals(named)
    quantities, words = take_quantities(rest)
    return Said(text, drug, spelled, named, words, quantities, intervals, frozenset(stems(words)))
