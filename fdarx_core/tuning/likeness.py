"""Which pairs are so alike that to train on one is to have seen the other."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

from fdarx_core.tuning.near import near
from fdarx_core.tuning.pairs import Pair

ALIKE = 0.9
"""Edit similarity, 1 less the Levenshtein distance over the longer text's length, from which two texts are the same."""
TELLING = 10
"""Words from which an answer alone makes two pairs alike: "Yes." and "10 mg once daily" answer many questions."""


def groups(pairs: Sequence[Pair]) -> list[list[int]]:
    """Positions of the pairs, those together that are alike, or are linked by others that are.

    Alike are pairs whose questions, or whose answers of `TELLING` words or more, or whose question and answer taken
    together, have an edit similarity of `ALIKE`; case and spaces do not count.
    """
    chief = list(range(len(pairs)))
    for at, other in _links(pairs):
        chief[_chief(chief, at)] = _chief(chief, other)
    members: dict[int, list[int]] = {}
    for at in range(len(pairs)):
        members.setdefault(_chief(chief, at), []).append(at)
    return list(members.values())


def _links(pairs: Sequence[Pair]) -> Iterator[tuple[int, int]]:
    yield from near([_plain(one.question) for one in pairs], ALIKE)
    yield from near([_plain(f"{one.question} {one.answer}") for one in pairs], ALIKE)
    answers = [_plain(one.answer) for one in pairs]
    telling = [at for at, answer in enumerate(answers) if len(answer.split()) >= TELLING]
    for at, other in near([answers[at] for at in telling], ALIKE):
        yield telling[at], telling[other]


def _chief(chief: list[int], at: int) -> int:
    while chief[at] != at:
        chief[at] = chief[chief[at]]
        at = chief[at]
    return at


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
