"""The page of a fine-tuning."""

from __future__ import annotations

import re

import pytest

from fdarx_core.records import Difference, Figure
from fdarx_core.report.tuning_page import tuning_page, verdict
from fdarx_core.tuning.evaluation import BASE, TUNED, Change, TunedAnswer
from fdarx_core.tuning.trainer import LossPoint

HOSTILE = "</script><script>alert(1)</script>"
INFO = {
    "started": "2026-01-02T03:04:05+00:00",
    "finished": "2026-01-02T03:09:05+00:00",
    "config": {"seed": 0, "rank": 16, "max_tokens": 8, "evaluate_every": None, "model": {"name": "a-model"}},
    "versions": {"python": "3.11"},
    "pairs": {"train": 80, "validation": 10, "test": 6},
    "groups": 90,
    "rejects": {"too_long": 2},
    "timings": {"encode": 0.5, "train": 4.5, "examine": 1.5},
    "steps": 3,
    "steps_planned": 12,
    "best_step": 2,
    "validation_loss": 1.5,
}
CURVE = [LossPoint(1, 0.3, 3.0, 1e-4), LossPoint(2, 0.6, 2.0, 2e-4, 1.5), LossPoint(3, 0.9, 1.25, 1e-4, 1.75)]


def change(
    measure: str, base: float, tuned: float, value: float, low: float | None, high: float | None, rows: int, groups: int
) -> Change:
    return (
        measure,
        Figure(base, rows=rows, clusters=groups, metric=measure),
        Figure(tuned, rows=rows, clusters=groups, metric=measure),
        Difference(value, low, high, rows, groups, metric=measure),
    )


FIGURES = [change("loss", 3.0, 1.5, -1.5, -1.75, -1.25, 6, 5), change("rouge_l", 0.25, 0.5, 0.25, None, None, 6, 1)]


def answered(number: int, text: str = "") -> list[TunedAnswer]:
    return [
        TunedAnswer(f"{at}", "g", model, HOSTILE, "the reference", text or f"{model} {at}", 1.0, 0.5)
        for at in range(number)
        for model in (BASE, TUNED)
    ]


def page() -> str:
    return tuning_page(INFO, CURVE, FIGURES, answered(12))


@pytest.mark.parametrize(
    ("measure", "low", "high", "told"),
    [
        ("loss", -1.0, -0.5, "better"),
        ("loss", 0.5, 1.0, "worse"),
        ("rouge_l", -1.0, -0.5, "worse"),
        ("rouge_l", 0.5, 1.0, "better"),
        ("rouge_l", -0.5, 1.0, "unclear"),
        ("rouge_l", 0.0, 1.0, "unclear"),
        ("loss", None, None, "unclear"),
    ],
)
def test_a_difference_tells_only_where_its_interval_leaves_out_none(
    measure: str, low: float | None, high: float | None, told: str
) -> None:
    assert verdict(change(measure, 3.0, 2.0, -1.0, low, high, 6, 5)) == told


def test_the_summary_names_what_came_nearer_and_what_did_not() -> None:
    figures = [*FIGURES, change("bert_f1", 0.5, 0.75, 0.25, 0.125, 0.5, 6, 5)]
    text = tuning_page(INFO, CURVE, figures, answered(3))
    told = dict(re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    assert told["References"] == (
        "The loss is 3.000 nats per token for the base model and 1.500 for the tuned model; "
        "the difference is -1.500 (95 % [-1.750, -1.250]): better."
    )
    assert (
        told["Answers"] == "The tuned model's answers are nearer to the references by BERTScore F1; "
        "not clearly different by ROUGE-L."
    )


NOTES = ("lowest at the last step", "only 1 group of pairs", "empty answer to 3 of 3", "not clearly nearer")


def test_notes_say_what_the_figures_cannot() -> None:
    many = [change("rouge_l", 0.25, 0.5, 0.25, 0.125, 0.5, 60, 50)]
    clear, unclear = (
        tuning_page(INFO, CURVE, many, answered(3)),
        tuning_page(INFO, CURVE[:2], FIGURES, answered(3, " ")),
    )
    for part in NOTES:
        assert part not in clear
        assert part in unclear


def test_it_says_what_was_made_and_when_it_was_stopped() -> None:
    text = re.sub(r"\s+", " ", page())
    assert "An adapter after 3 steps on 80 pairs" in text
    assert "Its weights are those of step 2, with a validation loss of 1.500; training ended 9 steps early" in text
    assert "[-1.750, -1.250]" in text and "+0.250" in text
    assert "left out: too_long" in text and "a-model" in text and "evaluate_every" not in text


def test_the_curve_is_there_as_a_figure_and_as_numbers() -> None:
    assert "figure-loss" in page()
    for number in ("3.0000", "1.5000", "1.7500", "2.00e-04"):
        assert number in page()


def test_samples_stand_with_both_answers_and_no_text_is_code() -> None:
    text = page()
    assert text.count('<details class="sample"') == 8
    assert HOSTILE not in text
    chosen = re.findall(r"<b>Tuned [^<]+</b>tuned (\d+)", text)
    assert [re.search(rf"<b>Base model [^<]+</b>base {one}<", text) is not None for one in chosen] == [True] * 8


def test_it_loads_nothing() -> None:
    text = page()
    assert "default-src 'none'" in text
    assert not re.search(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", text)
