"""How rare words are in labels and guidelines: statistics of texts, in `label_words.tsv`."""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files

_LEAST_SHARE = 5e-4
"""The share of passages from which on the rarity of a word no longer grows."""


@cache
def _shares() -> dict[str, float]:
    lines = files(__package__).joinpath("label_words.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return {stem: float(share) for stem, share in (line.split("\t") for line in lines)}


def rarity(stem: str) -> float:
    """Return the rarity of a stem: the negative natural logarithm of the share of passages that have it.

    Each drug counts once; where a greater share of pieces of guidelines has the stem, that share counts.
    """
    return -math.log(_shares().get(stem, 0.0) + _LEAST_SHARE)
