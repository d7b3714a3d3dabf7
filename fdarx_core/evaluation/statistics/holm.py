"""Correction for having made several comparisons. Source: Holm 1979."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjusted p values in the order given: the family-wise error stays below a level if those below it are believed.

    The smallest of m is multiplied by m, the next by m - 1 and so on; none falls below a smaller one's, none exceeds 1.
    """
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[at]))
        adjusted[at] = highest
    return adjusted
