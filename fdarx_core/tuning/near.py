"""Which of many texts are nearly equal: every two are compared, or ruled out by a bound that can't be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdarx_core.retrieval.models import ModelMissing

_ROWS = 128
_BUCKETS = 64
_FULL = np.iinfo(np.int16).max
_CHANGED = 4
"""Pairs of neighbouring letters that one edit makes or takes away, at most. Source: Ukkonen 1992, q-grams."""
_SLACK = 1e-6


def near(texts: Sequence[str], least: float) -> Iterator[tuple[int, int]]:
    """Positions of two texts with an edit similarity, 1 less the Levenshtein distance over the longer one's length, of
    `least` or more: all such two among texts that differ; a text that stood before comes with its first place alone.
    """
    first: dict[str, int] = {}
    for at, text in enumerate(texts):
        if (before := first.setdefault(text, at)) != at:
            yield before, at
    places = sorted(first.values(), key=lambda at: len(texts[at]))
    yield from _near([texts[at] for at in places], places, least)


def _near(texts: Sequence[str], places: Sequence[int], least: float) -> Iterator[tuple[int, int]]:
    """Of texts in order of length: each block meets only what is not too long for it."""
    lengths = np.array([len(one) for one in texts])
    counts = _letter_pairs(texts)
    for start in range(0, len(texts), _ROWS):
        rows = slice(start, start + _ROWS)
        end = int(np.searchsorted(lengths, lengths[rows][-1] / least + _SLACK, side="right"))
        most = _CHANGED * ((1 - least) * lengths[start:end] + _SLACK)
        possible = _differing(counts[rows], counts[start:end]) <= most
        left, right = np.nonzero(np.triu(possible, k=1))
        found = _similar([texts[start + at] for at in left], [texts[start + at] for at in right], least)
        for one, other in zip(left[found], right[found], strict=True):
            yield places[start + one], places[start + other]


def _letter_pairs(texts: Sequence[str]) -> NDArray[np.int16]:
    """How often two letters in a row stand in a text, by bucket of such; shape (texts, buckets). Buckets that are
    shared or full make texts look more alike than they are, never less.
    """
    counts = np.zeros((len(texts), _BUCKETS), dtype=np.int16)
    for row, text in zip(counts, texts, strict=True):
        letters = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
        row += np.bincount((letters[:-1] * 31 + letters[1:]) % _BUCKETS, minlength=_BUCKETS).clip(max=_FULL)
    return counts


def _differing(rows: NDArray[np.int16], columns: NDArray[np.int16]) -> NDArray[np.int32]:
    """How many letter pairs stand in one of two texts alone, at least; shape (rows, columns)."""
    differing = np.zeros((len(rows), len(columns)), dtype=np.int32)
    for bucket in range(_BUCKETS):
        differing += np.abs(rows[:, bucket, None] - columns[None, :, bucket])
    return differing


def _similar(left: Sequence[str], right: Sequence[str], least: float) -> NDArray[np.bool_]:
    process, distance = _rapidfuzz("process"), _rapidfuzz("distance")
    scorer = distance.Levenshtein.normalized_similarity
    found = process.cpdist(left, right, scorer=scorer, score_cutoff=least, dtype=np.float64)
    return np.asarray(found >= least)


def _rapidfuzz(part: str) -> Any:
    try:
        return import_module(f"rapidfuzz.{part}")
    except ImportError as error:
        raise ModelMissing("telling near-duplicates needs rapidfuzz: pip install 'fdarx[models]'") from error
