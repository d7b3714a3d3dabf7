"""A few rows of many, picked by a seeded hash of their ids so that any machine picks the same."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable
from operator import itemgetter
from typing import Generic, TypeVar

from fdarx_core.records import content_id

Item = TypeVar("Item")


class Picks(Generic[Item]):
    """The `size` rows of each group whose hash of seed and id is smallest."""

    def __init__(self, size: int, seed: int) -> None:
        self._size, self._seed = size, str(seed)
        self._best: dict[str, list[tuple[str, Item]]] = {}

    def offer(self, group: str, row_id: str, make: Callable[[], Item]) -> None:
        """Consider a row; `make` is called only if it is picked. An id offered twice counts once."""
        rank = content_id(self._seed, row_id)
        best = self._best.setdefault(group, [])
        full = len(best) == self._size
        if (full and rank >= best[-1][0]) or any(rank == known for known, _ in best):
            return
        insort(best, (rank, make()), key=itemgetter(0))
        del best[self._size :]

    def of(self, group: str) -> list[Item]:
        """What was picked of a group, in the order of the hash."""
        return [item for _, item in self._best.get(group, [])]
