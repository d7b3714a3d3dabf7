"""Which pairs are so alike that to train on one is to have seen the other."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np

from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.tuning.pairs import Pair

ALIKE = 0.9
"""Edit similarity, 1 less the Levenshtein distance over the longer text's length, from which two texts are the same."""
TELLING = 10
"""Words from which an answer alone makes two pairs alike: "Yes." and "10 mg once daily" answer many questions."""
_ROWS = 256


def groups(pairs: Sequence[Pair]) -> list[list[int]]:
    """Positions of the pairs, those together that are alike, or are linked by others that are.

    Alike are pairs whose questions, or whose answers of `TELLING` words or more, or whose question and answer taken
    together, have an edit similarity of `ALIKE`; case and spaces do not count. Every pair is compared with all those of
    such a length that they could be.
    """
    chief = list(range(len(pairs)))
    for at, other in _links(pairs):
        chief[_chief(chief, at)] = _chief(chief, other)
    members: dict[int, list[int]] = {}
    for at in range(len(pairs)):
        members.setdefault(_chief(chief, at), []).append(at)
    return list(members.values())


def _links(pairs: Sequence[Pair]) -> Iterator[tuple[int, int]]:
    everyone = range(len(pairs))
    yield from _near([_plain(one.question) for one in pairs], everyone)
    yield from _near([_plain(f"{one.question} {one.answer}") for one in pairs], everyone)
    answers = [_plain(one.answer) for one in pairs]
    telling = [at for at in everyone if len(answers[at].split()) >= TELLING]
    yield from _near([answers[at] for at in telling], telling)


def _near(texts: Sequence[str], names: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of `names` whose texts are alike. In order of length, each block meets only what is not too long for it."""
    process, distance = _rapidfuzz("process"), _rapidfuzz("distance")
    scorer = distance.Levenshtein.normalized_similarity
    order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
    lengths = [len(texts[at]) for at in order]
    for start in range(0, len(order), _ROWS):
        rows = order[start : start + _ROWS]
        end = int(np.searchsorted(lengths, len(texts[rows[-1]]) / ALIKE, side="right"))
        columns = order[start:end]
        found = process.cdist(
            [texts[at] for at in rows],
            [texts[at] for at in columns],
            scorer=scorer,
            score_cutoff=ALIKE,
            dtype=np.float32,
        )
        for row, column in zip(*np.nonzero(np.triu(found, k=1)), strict=True):
            yield names[rows[row]], names[columns[column]]


def _rapidfuzz(part: str) -> Any:
    try:
        return import_module(f"rapidfuzz.{part}")
    except ImportError as error:
        raise ModelMissing("telling near-duplicates needs rapidfuzz: pip install 'fdarx[models]'") from error


def _chief(chief: list[int], at: int) -> int:
    while chief[at] != at:
        chief[at] = chief[chief[at]]
        at = chief[at]
    return at


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())
