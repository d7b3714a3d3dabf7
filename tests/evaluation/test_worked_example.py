"""The figures of docs/statistics.md, by the functions that it explains and by enumeration of all draws and swaps."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest

from fdarx_core.evaluation.bootstrap import holm, paired_differences
from fdarx_core.evaluation.metrics import SCORE_METRICS, ScoreColumns
from fdarx_core.records import Score
from tests.conftest import REPOSITORY
from tests.evaluation.synthetic_scores import score_rows, table
from tests.evaluation.whole_tables import figures

PAGE = (REPOSITORY / "docs" / "statistics.md").read_text("utf-8")
ROWS = re.findall(r"^\| (drug\d) \| ([01? ]+) \| ([01? ]+) \| (\d) \|$", PAGE, re.MULTILINE)
VERDICTS = {"1": "correct", "0": "incorrect", "?": "unscored"}
MODELS = ("A", "B")
ERROR = 0.02
"""How far an interval of drawn samples may lie from that of all samples, whose values have steps of about 0.06."""


def scores(model: str) -> list[Score]:
    """The verdicts of the table as Score rows of factual questions."""
    template = next(row for row in score_rows(1, setting="oracle", model=model) if row.type == "factual")
    rows = []
    for drug, *both, _ in ROWS:
        for number, mark in enumerate(both[MODELS.index(model)].split()):
            question = f"{drug}-{number}"
            about = {"question_id": question, "prediction_id": f"{model}-{question}", "cluster": drug, "set_id": drug}
            graded = {"outcome": "answered", "grade": VERDICTS[mark]}
            rows.append(Score(**{name: getattr(template, name) for name in template.__slots__} | about | graded))
    return rows


def verdicts(model: str, missing: float = np.nan) -> list[list[float]]:
    """The verdicts by drug, with this number for a missing one."""
    at = 1 + MODELS.index(model)
    return [[missing if mark == "?" else float(mark) for mark in row[at].split()] for row in ROWS]


def of_all_draws(values: list[list[float]]) -> tuple[float, float, float]:
    """The mean and its interval over all draws of as many drugs as there are; NaN is left out."""
    known = [[value for value in one if not np.isnan(value)] for one in values]
    sums, counts = np.array([sum(one) for one in known]), np.array([len(one) for one in known])
    draws = np.indices((len(known),) * len(known)).reshape(len(known), -1)
    means = sums[draws].sum(axis=0) / counts[draws].sum(axis=0)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(sums.sum() / counts.sum()), float(low), float(high)


def bracketed(low: float, high: float) -> str:
    return f"[{low:.3f}, {high:.3f}]"


def test_accuracies_and_intervals() -> None:
    for model, share in (("A", "13 ÷ 15 = 0.867"), ("B", "0.375")):
        value, low, high = of_all_draws(verdicts(model))
        assert share.endswith(f"{value:.3f}") and share in PAGE and bracketed(low, high) in PAGE
        (lowest, _), (_, highest) = (of_all_draws(verdicts(model, missing))[1:] for missing in (0.0, 1.0))
        assert bracketed(lowest, max(high, highest)) in PAGE
        (found,) = [
            one
            for one in figures(table(scores(model)), seed=0, resamples=20_000)
            if one.metric == "accuracy" and (one.keys["group_by"], one.keys["group"]) == ("type", "factual")
        ]
        assert found.value == pytest.approx(value)
        assert (found.low, found.high) == pytest.approx((min(low, lowest), max(high, highest)), abs=ERROR)


def test_the_difference_and_its_p_value() -> None:
    pairs = [[a - b for a, b in zip(*both, strict=True)] for both in zip(*map(verdicts, MODELS), strict=True)]
    value, low, high = of_all_draws(pairs)
    sums = [int(np.nansum(one)) for one in pairs]
    assert sums == [int(row[3]) for row in ROWS]
    assert f"{sum(sums)} ÷ 15 = {value:.3f}" in PAGE and bracketed(low, high) in PAGE
    swapped = [
        abs(sum(sign * one for sign, one in zip(signs, sums, strict=True))) for signs in product((1, -1), repeat=7)
    ]
    as_far = sum(one >= sum(sums) for one in swapped)
    assert f"p = {as_far} ÷ {len(swapped)} = {as_far / len(swapped):.3f}" in PAGE
    first, second = (ScoreColumns(table(scores(model))) for model in MODELS)
    everywhere = np.ones(first.rows, dtype=np.bool_)
    (found,) = paired_differences(first, second, [(SCORE_METRICS["accuracy"], everywhere)], seed=0, resamples=20_000)
    assert found is not None and found.value == pytest.approx(value) and found.p is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=ERROR)
    assert found.p == pytest.approx(as_far / len(swapped), abs=0.01)


def test_holm() -> None:
    before, after = re.findall(r"p values of ([\d., and]+), `p_holm` is ([\d., and]+)\. Only", PAGE)[0]
    numbers = [[float(one) for one in re.findall(r"\d\.\d+", text)] for text in (before, after)]
    assert holm(numbers[0]) == pytest.approx(numbers[1])
