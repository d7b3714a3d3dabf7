"""Drawing from strata: all of them stand in the sample, each by its size, and the same rows wherever they are drawn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Generic, Protocol, TypeVar

from fdarx_core.records import content_id


class Drawable(Protocol):
    """What can be drawn: its id, and what it is stratified by, what matters most first."""

    @property
    def id(self) -> str: ...
    @property
    def keys(self) -> tuple[str, ...]: ...


Row = TypeVar("Row", bound=Drawable)


@dataclass(frozen=True, slots=True)
class Stratum:
    """Rows that are alike: `size` of them, of which `drawn` stand in the sample."""

    name: str
    size: int
    drawn: int

    @property
    def fraction(self) -> float:
        """Share that was drawn, 0 to 1."""
        return self.drawn / self.size


@dataclass(frozen=True, slots=True)
class Sample(Generic[Row]):
    """`rows` with the stratum of each, in an order that says nothing of strata. `depth` keys tell strata apart."""

    rows: list[tuple[Row, Stratum]]
    strata: list[Stratum]
    depth: int


def draw(rows: Sequence[Row], n: int, seed: int) -> Sample[Row]:
    """A stratified sample of `n` rows, of all where there are fewer; their order does not matter.

    Keys are left off from the last until there are at most `n` strata, so that none is without a row. Within a stratum
    rows go by a hash of seed and id.
    """
    depth = _depth(rows, n)
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[" · ".join(filter(None, row.keys[:depth])) or "all"].append(row)
    shares = allocate({name: len(group) for name, group in groups.items()}, n)
    strata = [Stratum(name, len(groups[name]), shares[name]) for name in sorted(groups)]
    drawn = [(row, one) for one in strata for row in _first(groups[one.name], one.drawn, seed)]
    return Sample(sorted(drawn, key=lambda pair: content_id(str(seed), "order", pair[0].id)), strata, depth)


def allocate(sizes: Mapping[str, int], n: int) -> dict[str, int]:
    """Rows of each stratum: one at least, none more than there are, `n` in all, the rest in proportion to size.

    `n` is at least the number of strata, or all rows are fewer. Source: the divisor method of Sainte-Laguë (Webster),
    each seat to the stratum with the largest size / (rows + 1/2), with one seat to each beforehand.
    """
    shares = dict.fromkeys(sorted(sizes), 1)
    queue = [(-size / 1.5, name) for name, size in sorted(sizes.items())]
    heapify(queue)
    for _ in range(min(n, sum(sizes.values())) - len(shares)):
        name = queue[0][1]
        shares[name] += 1
        full = shares[name] == sizes[name]
        heapreplace(queue, (0.0 if full else -sizes[name] / (shares[name] + 0.5), name))
    return shares


def _depth(rows: Sequence[Row], n: int) -> int:
    depth = max((len(row.keys) for row in rows), default=0)
    while depth and len({row.keys[:depth] for row in rows}) > n:
        depth -= 1
    return depth


def _first(rows: Sequence[Row], number: int, seed: int) -> list[Row]:
    return sorted(rows, key=lambda row: content_id(str(seed), row.id))[:number]
