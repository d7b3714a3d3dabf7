"""Where the labels of a scatter plot stand, so that none lies over another or over a point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import cos, pi, sin

CHARACTER = 7.0
"""Pixels that a character of a label takes on average, with a little to spare."""
LINE = 17.0
"""Pixels that a label takes in height."""

_POINT = 7.0
_NEAR = 6.0
_DISTANCES = (0, 10, 22, 36, 52, 70, 90, 112, 136, 162, 190, 220)
_DIRECTIONS = 16
_ROUNDS = 4


@dataclass(frozen=True, slots=True)
class Box:
    """Pixels from the left and from the top."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """Square pixels that both cover."""
        across = min(self.right, other.right) - max(self.left, other.left)
        down = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(across, 0.0) * max(down, 0.0)

    @property
    def area(self) -> float:
        return (self.right - self.left) * (self.bottom - self.top)


@dataclass(frozen=True, slots=True)
class Spot:
    """A label's centre as pixels right of and below its point, and how far off it stands: 0 is right beside it."""

    dx: float
    dy: float
    distance: float


def place_labels(points: Sequence[tuple[float, float]], names: Sequence[str], size: tuple[float, float]) -> list[Spot]:
    """A spot for each name beside its point, which is in pixels from the left and the top of a field of this size.

    Each label takes the nearest free spot; in further rounds each may move to where the others have left room.
    """
    field = Box(0, 0, *size)
    dots = [Box(x - _POINT, y - _POINT, x + _POINT, y + _POINT) for x, y in points]
    spots: dict[int, Spot] = {}
    for _ in range(_ROUNDS):
        before = dict(spots)
        for at in range(len(points)):
            others = [label_box(points[other], names[other], spots[other]) for other in spots if other != at]
            spots[at] = _best_spot(points[at], names[at], [*dots, *others], field)
        if spots == before:
            break
    return [spots[at] for at in range(len(points))]


def label_box(point: tuple[float, float], name: str, spot: Spot) -> Box:
    """What a label covers at its spot."""
    x, y, wide = point[0] + spot.dx, point[1] + spot.dy, _width(name)
    return Box(x - wide / 2, y - LINE / 2, x + wide / 2, y + LINE / 2)


def _width(name: str) -> float:
    return CHARACTER * len(name) + 4


def _best_spot(point: tuple[float, float], name: str, obstacles: Sequence[Box], field: Box) -> Spot:
    """The least covered spot, the nearest of those that are free."""
    tried: list[tuple[float, Spot]] = []
    for distance in _DISTANCES:
        ring = [(_covered(label_box(point, name, spot), obstacles, field), spot) for spot in _ring(name, distance)]
        tried.append(min(ring, key=lambda option: (option[0], abs(option[1].dy))))
        if tried[-1][0] == 0:
            break
    return min(tried, key=lambda option: option[0])[1]


def _ring(name: str, distance: float) -> Iterator[Spot]:
    """Spots all round, beginning on the right: the label's near edge is that far from the point's mark."""
    for step in range(_DIRECTIONS):
        angle = 2 * pi * step / _DIRECTIONS
        reach = _POINT + _NEAR / 2 + distance
        yield Spot(cos(angle) * (reach + _width(name) / 2), sin(angle) * (reach + LINE / 2), distance)


def _covered(box: Box, obstacles: Sequence[Box], field: Box) -> float:
    """Square pixels that the label shares with others, or that lie outside the field."""
    return round(sum(box.overlap(other) for other in obstacles) + box.area - box.overlap(field), 6)
