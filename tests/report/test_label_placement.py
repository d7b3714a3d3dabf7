"""Names of models in a figure: beside their points, and never over each other."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.report.label_placement import label_box, overlap, place_labels

NAMES = [f"model-{'x' * (at % 4)}-{at}" for at in range(10)]
PLACES = st.lists(st.tuples(st.integers(0, 672), st.integers(0, 398)), min_size=10, max_size=10)


@given(PLACES)
def test_labels_of_ten_models_never_lie_over_each_other(points: list[tuple[int, int]]) -> None:
    spots = place_labels(points, NAMES, (672, 398))
    boxes = [label_box(*one) for one in zip(points, NAMES, spots, strict=True)]
    assert all(overlap(a, b) < 1e-6 for a, b in combinations(boxes, 2))
    assert all(overlap(box, (0, 0, 672, 398)) > overlap(box, box) - 1e-6 for box in boxes)


def test_labels_of_ten_models_at_one_point_are_all_legible() -> None:
    spots = place_labels([(336, 199)] * 10, NAMES, (672, 398))
    boxes = [label_box((336, 199), name, spot) for name, spot in zip(NAMES, spots, strict=True)]
    assert all(overlap(a, b) < 1e-6 for a, b in combinations(boxes, 2))
