"""How frequent words are, and in which sections of labels they stand: statistics of texts, in `label_words.tsv`."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_LEAST_SHARE = 5e-4
"""The share of passages from which on the rarity of a word no longer grows."""


class LabelWord(NamedTuple):
    """A stem in labels.

    Attributes:
        rarity: the negative natural logarithm of the share of passages that have it, each drug counted once, or of
            the share of pieces of guidelines where this is greater.
        sections: by LOINC code, the logarithm of the ratio of its share in a section to its mean over the sections,
            where that is at least 1.
    """

    rarity: float
    sections: Mapping[str, float]


@cache
def _table() -> dict[str, LabelWord]:
    lines = files(__package__).joinpath("label_words.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return {stem: _read(share, sections) for stem, share, sections in (line.split("\t") for line in lines)}


def _read(share: str, sections: str) -> LabelWord:
    pairs = (one.split(":") for one in sections.split())
    return LabelWord(-math.log(float(share) + _LEAST_SHARE), {code: float(evidence) for code, evidence in pairs})


_UNKNOWN = LabelWord(-math.log(_LEAST_SHARE), {})


def label_word(stem: str) -> LabelWord:
    """Return what is known of a stem; one that neither labels nor guidelines have has the greatest rarity."""
    return _table().get(stem, _UNKNOWN)


def section_probabilities(stems: Iterable[str]) -> dict[str, float]:
    """Return the probability of each section, by LOINC code, that it is asked for by a question with these stems.

    This is naive Bayes with equal priors; sections for which no word speaks are left out.
    """
    totals = Counter[str]()
    for stem in stems:
        totals.update(label_word(stem).sections)
    odds = {code: math.exp(total) for code, total in totals.items()}
    whole = math.fsum(odds.values()) + 1
    return {code: value / whole for code, value in odds.items()}
