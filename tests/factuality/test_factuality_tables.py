"""The paper's tables, and all that a run reports."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from fdarx_core.evaluation.tables import ResultTable, table_text
from fdarx_core.factuality.figures import FactualityRows
from fdarx_core.factuality.tables import Summary, metrics_json, summarize
from fdarx_core.records import Difference, Figure, from_table, to_table
from tests.factuality.made_rows import METHOD, MadeRows


@pytest.fixture(scope="module")
def made() -> MadeRows:
    return MadeRows()


@pytest.fixture(scope="module")
def whole(made: MadeRows) -> Summary:
    return summarize(made.rows, seed=1, resamples=200)


def titled(summary: Summary, title: str) -> ResultTable:
    (grid,) = [grid for grid in summary.grids if grid.title.startswith(title)]
    return grid


def headers(grid: ResultTable) -> list[tuple[str, str]]:
    return grid.columns


def names(grid: ResultTable) -> list[str]:
    return [name for name, _ in grid.rows]


def test_the_tables_of_the_paper_are_there(whole: Summary) -> None:
    titles = [grid.title.partition(".")[0] for grid in whole.grids]
    assert titles == [
        "Table 1", "Table 2", "Question types", "Table 3", "Differences between models",
        "Spearman's ρ of each metric with the reference statements",
        "ρ of FAS [token_f1] with the reference statements minus that of other metrics",
        "Table 4", "Table 4", "Table 5", "Table 5",
        "Safety flags: share of answers",
    ]  # fmt: skip
    for grid in whole.grids:
        text = table_text(grid, 100)
        assert grid.title in text.replace("\n", " ")
        assert all(name in text for name in names(grid))


def test_models_stand_in_rows_and_datasets_in_columns(whole: Summary) -> None:
    one, two, three = (titled(whole, f"Table {number}") for number in (1, 2, 3))
    assert headers(one) == [("alpha", "ROUGE-L"), ("beta", "ROUGE-L"), ("All answers", "ROUGE-L")]
    assert headers(two)[:3] == [("alpha", "S@5"), ("alpha", "C@5"), ("alpha", "Unsupported")]
    assert [names(grid) for grid in (one, two, three)] == [["good", "poor"]] * 3
    figure = next(
        f
        for f in whole.figures
        if f.metric == METHOD.fas and [f.keys[name] for name in ("model", "dataset", "type")] == ["poor", "beta", "all"]
    )
    entry = three.rows[1][1][3]
    assert entry is not None
    assert (entry.value, entry.low, entry.high) == (figure.value, figure.low, figure.high)


def test_question_types_stand_below_their_model(whole: Summary) -> None:
    grid = titled(whole, "Question types")
    assert names(grid) == ["good · factoid", "good · summary", "poor · factoid", "poor · summary"]
    assert headers(grid) == [("alpha", name) for name in ("S@5", "C@5", "Decided", "ROUGE-L", "FAS [token_f1]")]
    assert any("differences between types" in note for note in grid.notes)


def test_ablations_and_thresholds_have_their_change(whole: Summary) -> None:
    four = titled(whole, "Table 4. Ablations: ρ of FAS [token_f1] with completeness")
    assert names(four) == ["Full (FAS)", "Without retrieval", "Judged by other-nli", "Single passage"]
    assert headers(four)[:2] == [("alpha", "ρ"), ("alpha", "Δ")]
    assert four.rows[0][1][1] is None and four.rows[1][1][1] is not None
    rho, delta = four.rows[3][1][4:6]
    known = next(
        one
        for one in whole.correlations
        if (one.keys["configuration"], one.keys["dataset"], one.keys["against"]) == ("single", "all", "completeness")
    )
    assert rho is not None and delta is not None
    assert rho.value == known.value
    (stored,) = [one for one in whole.differences if one.first == {"configuration": "single"}
                 and (one.keys["dataset"], one.keys["against"]) == ("all", "completeness")]  # fmt: skip
    assert delta.value == stored.value
    assert names(titled(whole, "Table 5. Thresholds: ρ of FAS [token_f1] with claims")) == [
        "0.5",
        "0.6",
        "0.7",
        "0.8",
        "0.9",
    ]


def test_the_notes_say_what_judged_and_what_fas_is_made_of(whole: Summary) -> None:
    assert "FAS = 0.3 × token_f1 + 0.4 × Support@5 + 0.3 × (1 − Contra@5)." in titled(whole, "Table 3").notes
    assert any("Judged by exact (threshold 0.7)." in note for note in titled(whole, "Table 2").notes)
    assert any(
        "judged by exact" in note for note in titled(whole, "Table 4. Ablations: ρ of FAS [token_f1] with comp").notes
    )


def test_one_dataset_without_a_name_is_all_answers(made: MadeRows) -> None:
    rows = FactualityRows(
        [replace(one, dataset="", type="", completeness=None, stated_in_references=None) for one in made.scores]
    )
    summary = summarize(rows, seed=0, resamples=20)
    assert headers(titled(summary, "Table 1")) == [("All answers", "ROUGE-L")]
    assert [grid.title.partition(".")[0] for grid in summary.grids] == [
        "Table 1", "Table 2", "Table 3", "Differences between models",
    ]  # fmt: skip
    assert metrics_json(rows, summary)["spearman"] == {}


def test_settings_are_named_beside_their_model(made: MadeRows) -> None:
    rows = replace(made.rows, scores=[replace(one, setting="oracle") for one in made.scores])
    assert names(titled(summarize(rows, seed=0, resamples=20), "Table 1")) == [
        "good · Oracle passages",
        "poor · Oracle passages",
    ]


def test_metrics_json_has_what_it_promises(made: MadeRows, whole: Summary) -> None:
    metrics = json.loads(json.dumps(metrics_json(made.rows, whole), allow_nan=False))
    for name in ("support@5", "contra@5", "unsupported", METHOD.fas, "rouge_l", "bleu_4", "similarity"):
        assert 0 <= metrics[name] <= 1
    assert set(metrics["spearman"]) == {
        METHOD.fas, "support@5", "contra@5", "similarity", "rouge_1", "rouge_2", "rouge_l", "bleu_4",
    }  # fmt: skip
    known = next(one for one in whole.correlations if one.metric == METHOD.fas and one.keys["dataset"] == "all")
    assert metrics["spearman"][METHOD.fas] == known.value
    (single,) = [one for one in metrics["correlations"] if one["configuration"] == "single"
                 and (one["dataset"], one["against"]) == ("all", "completeness")]  # fmt: skip
    assert single["threshold"] == "0.7"
    assert (len(metrics["figures"]), len(metrics["correlations"])) == (len(whole.figures), len(whole.correlations))
    assert (metrics["engine"], metrics["similarity_measure"], metrics["threshold"]) == ("exact", "token_f1", 0.7)


def test_its_rows_can_be_kept(whole: Summary) -> None:
    for rows, record in ((whole.figures, Figure), (whole.correlations, Figure), (whole.differences, Difference)):
        assert list(from_table(to_table(rows, record), record)) == rows


def test_nothing_scored_is_nothing_reported() -> None:
    rows = FactualityRows([])
    summary = summarize(rows, seed=0, resamples=10)
    assert (summary.figures, summary.correlations, summary.differences, summary.grids) == ([], [], [], [])
    metrics = metrics_json(rows, summary)
    assert metrics[METHOD.fas] is None and metrics["spearman"] == {}
