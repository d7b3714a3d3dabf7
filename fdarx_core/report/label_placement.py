"""Positions of the labels of a scatter plot that overlap neither each other nor the points."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

CHARACTER = 7.0
"""Average width of a character of a label in pixels, with a margin."""
LINE = 17.0
"""Height of a label in pixels."""

_POINT = 7.0
_NEAR = 6.0
_DISTANCES = (0, 10, 22, 36, 52, 70, 90, 112, 136, 162, 190, 220)
_DIRECTIONS = 16
_ROUNDS = 4


Box = tuple[float, float, float, float]
"""A rectangle: left, top, right and bottom in pixels from the left and from the top."""


def overlap(one: Box, other: Box) -> float:
    """Return the common area in square pixels; of a rectangle with itself, its area."""
    across = min(one[2], other[2]) - max(one[0], other[0])
    down = min(one[3], other[3]) - max(one[1], other[1])
    return max(across, 0.0) * max(down, 0.0)


Spot = tuple[float, float, float]
"""The center of a label in pixels right of and below its point, and its distance; 0 is directly beside the point."""


def place_labels(points: Sequence[tuple[float, float]], names: Sequence[str], size: tuple[float, float]) -> list[Spot]:
    """Return a spot for each name beside its point; points are in pixels from the left and top of a field of `size`.

    Each label takes the nearest free spot; in further rounds it may move to a spot that others have left.
    """
    field = (0.0, 0.0, *size)
    dots = [(x - _POINT, y - _POINT, x + _POINT, y + _POINT) for x, y in points]
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
    """Return the rectangle of a label at its spot."""
    x, y, wide = point[0] + spot[0], point[1] + spot[1], _width(name)
    return (x - wide / 2, y - LINE / 2, x + wide / 2, y + LINE / 2)


def _width(name: str) -> float:
    return CHARACTER * len(name) + 4


def _best_spot(point: tuple[float, float], name: str, obstacles: Sequence[Box], field: Box) -> Spot:
    """Return the nearest free spot, or the one that is covered least."""
    tried: list[tuple[float, Spot]] = []
    for distance in _DISTANCES:
        reach = _POINT + _NEAR / 2 + distance
        angles = (2 * pi * step / _DIRECTIONS for step in range(_DIRECTIONS))  # beginning on the right
        across, down = reach + _width(name) / 2, reach + LINE / 2
        spots = ((cos(angle) * across, sin(angle) * down, distance) for angle in angles)
        boxes = [(label_box(point, name, spot), spot) for spot in spots]
        # the area that others cover or that is outside the field
        ring = [
            (round(sum(overlap(box, one) for one in obstacles) + overlap(box, box) - overlap(box, field), 6), spot)
            for box, spot in boxes
        ]
        tried.append(min(ring, key=lambda option: (option[0], abs(option[1][1]))))
        if tried[-1][0] == 0:
            break
    return min(tried, key=lambda option: option[0])[1]
