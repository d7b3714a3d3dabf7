"""Figures and differences as rows of a file, and tables built from figures."""

from __future__ import annotations

from fdarx_core.evaluation.tables import build_table
from fdarx_core.records import Difference, Estimate, Figure, from_table, to_table

KEYS = {"model": "m", "setting": "oracle", "retriever": ""}


def test_figures_with_different_keys_are_kept_in_one_file() -> None:
    figures = [
        Figure.of("accuracy", KEYS, Estimate(0.5, 0.4, 0.6, 30, 3, 2)),
        Figure.of("rouge_l", {"dataset": "alpha"}, Estimate(None, unscored=4)),
    ]
    table = to_table(figures, Figure)
    assert table.column_names[:4] == ["model", "setting", "retriever", "metric"]
    assert list(from_table(table, Figure)) == figures
    assert list(from_table(to_table([], Figure), Figure)) == []


def test_the_sides_of_a_difference_keep_their_keys() -> None:
    one = Difference.of(
        "accuracy",
        {"group": "factual"},
        Estimate(0.1, 0.0, 0.2, 20, 2),
        first={"model": "a"},
        second={"model": "b"},
        p=0.5,
    )
    table = to_table([one], Difference)
    assert {"group", "model_a", "model_b"} <= set(table.column_names)
    assert list(from_table(table, Difference)) == [one]
    assert not one.significant


def test_a_table_leaves_out_columns_without_a_value_and_keeps_every_row() -> None:
    cells = [("a", "x", Estimate(0.5, clusters=3)), ("a", "y", Estimate(None)), ("b", "x", Estimate(None))]
    table = build_table("T", "Model", [("G", "X", "x"), ("G", "Y", "y"), ("G", "Z", "z")], cells, "drugs")
    assert table.columns == [("G", "X")]
    assert table.rows == [("a", [cells[0][2]]), ("b", [None])]
    assert table.notes == ["Intervals: 95 %, bootstrap over drugs. Only 3 drugs: these intervals are too narrow."]
