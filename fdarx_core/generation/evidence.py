"""Which passages of the full section bear out a statement of the Highlights."""

from __future__ import annotations

from collections.abc import Sequence

from fdarx_core.generation.baseline.text import answer_numbers, words
from fdarx_core.records import Label, Passage

MOST_PASSAGES = 5
LEAST_COVERED = 0.6
STANDS_THERE = 0.2


def find_evidence(
    answer: str, code: str, references: Sequence[str], label: Label, passages: Sequence[Passage]
) -> list[tuple[int, bool]]:
    """At most 5 passages as (doc_chunk_index, whether the answer stands there), ascending; empty where support is low.

    They come from the section with that code, narrowed to the sections that the statement refers to where those hold
    enough: all numbers of the answer and 60 % of its telling words. The answer stands where the largest share of its
    terms is found, and wherever a fifth of them is found that no passage before it holds.
    """
    section = _full_section(code, label, passages)
    narrowed = [one for one in section if any(_is_within(one.section_number, number) for number in references)]
    return _cover(answer, narrowed) or _cover(answer, section)


def _full_section(code: str, label: Label, passages: Sequence[Passage]) -> list[Passage]:
    """Subsections may have codes of their own (8.1 Pregnancy), so the section's number counts as well as its code."""
    numbers = {section.number for section in label.sections if section.code == code and section.depth == 0}
    return [
        one
        for one in passages
        if one.core_code == code or any(number and _is_within(one.section_number, number) for number in numbers)
    ]


def _is_within(number: str, above: str) -> bool:
    return number == above or number.startswith(f"{above}.")


def _cover(answer: str, pool: Sequence[Passage]) -> list[tuple[int, bool]]:
    """Greedy: the passage that adds most of the answer's terms, numbers counting twice, until none adds two."""
    wanted = _terms(answer)
    if not wanted or not pool:
        return []
    held = {one.doc_chunk_index: _terms(one.text) & wanted for one in pool}
    missing, gained = set(wanted), dict[int, float]()
    while missing and len(gained) < MOST_PASSAGES:
        index = max(held, key=lambda index: (_weight(held[index] & missing), -index))
        gain = _weight(held[index] & missing)
        if gain < 2:
            break
        gained[index] = gain / _weight(wanted)
        missing -= held[index]
    if any(term[0].isdigit() for term in missing) or len(missing) > (1 - LEAST_COVERED) * len(wanted):
        return []
    most = max(gained.values())
    return [(index, gain == most or gain >= STANDS_THERE) for index, gain in sorted(gained.items())]


def _terms(text: str) -> set[str]:
    plain = (word.rstrip(".,'’").removesuffix("s") for word in words(text) if not word[0].isdigit())
    return {*plain, *answer_numbers(text)}


def _weight(terms: set[str]) -> int:
    return sum(2 if term[:1].isdigit() else 1 for term in terms)
