"""A metric that another package adds by an entry point: in the scores, the figures, the tables and the page."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fdarx_core.evaluation.metrics import ANSWERABLE, added_metrics, mean_metric
from fdarx_core.evaluation.scoring import question_features, score
from fdarx_core.evaluation.tables import added_metrics_table
from fdarx_core.pipeline.evaluation_results import figures_by_cell
from fdarx_core.records import Figure, Grade, LabelSummary, Prediction, QuestionAnswer, Score
from fdarx_core.report.evaluation_page import build_evaluation_report
from fdarx_core.storage import read_records
from tests.report.synthetic_evaluation import make_evaluation

MODULE = """
def words(question, prediction, grade):
    return float(len(prediction.answer.split())) if prediction.outcome == "answered" else None
"""


@pytest.fixture
def other_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An installed package with the metric `answer_words`, outside this project."""
    (tmp_path / "package" / "words-1.0.dist-info").mkdir(parents=True)
    (tmp_path / "package" / "word_metrics.py").write_text(MODULE)
    info = tmp_path / "package" / "words-1.0.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: words\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[fdarx.metrics]\nanswer_words = word_metrics:words\n")
    monkeypatch.syspath_prepend(tmp_path / "package")
    added_metrics.cache_clear()
    yield info
    added_metrics.cache_clear()
    sys.modules.pop("word_metrics", None)


def test_an_added_metric_is_in_scores_figures_tables_and_page(other_package: Path, tmp_path: Path) -> None:
    run = make_evaluation(tmp_path / "run", labels=3)
    scores = [row for part in run.parts("scores") for row in read_records(part, Score)]
    figures = list(read_records(run.file("metrics.parquet"), Figure))
    mine = [one for one in figures if one.metric == "answer_words"]
    assert {one.keys["group"] for one in mine} == {"factual", "multihop", "answerable"}
    assert all(one.value and one.value > 0 and one.rows for one in mine)
    assert all(set(row.extra) <= {"answer_words"} for row in scores)
    cells = {(one["model"], one["setting"], one["retriever"]): one["metrics"] for one in figures_by_cell(figures)}
    for one in mine:
        assert (
            cells[one.keys["model"], one.keys["setting"], one.keys["retriever"]]["answer_words"][one.keys["group"]][
                "value"
            ]
            == one.value
        )
    table = added_metrics_table(figures)
    assert {column[0].partition(",")[0] for column in table.columns} == {"answer_words"} and table.rows
    assert 'id="added-metrics"' in build_evaluation_report(run)


def test_without_other_packages_there_is_no_table(tmp_path: Path) -> None:
    run = make_evaluation(tmp_path / "run", labels=2)
    assert not added_metrics_table(list(read_records(run.file("metrics.parquet"), Figure))).rows
    assert 'id="added-metrics"' not in build_evaluation_report(run)


def test_an_entry_point_that_is_no_metric_or_takes_a_built_in_name_is_refused(other_package: Path) -> None:
    entries = other_package / "entry_points.txt"
    entries.write_text("[fdarx.metrics]\nanswer_words = word_metrics:__name__\n")
    with pytest.raises(ValueError, match="has type str; it must be a function"):
        added_metrics()
    entries.write_text("[fdarx.metrics]\naccuracy = word_metrics:words\n")
    with pytest.raises(ValueError, match="'accuracy' exists"):
        added_metrics()


def answered(question: QuestionAnswer, prediction: Prediction, grade: Grade | None) -> float | None:
    return float(prediction.outcome == "answered")


ANY_ANSWER = mean_metric(answered, "any_answer", types=("refusal",), title="Any answer")
QUESTION = QuestionAnswer("q", "factual", "factual", "", "", "set", "drug", "How often?", "Daily.")
PREDICTION = Prediction("p", "q", "set", "m", "oracle", "", "answered", "Once a day.", "Once a day.")


def test_functions_and_metrics_are_given_without_a_package() -> None:
    given = (answered, ANY_ANSWER)
    found = added_metrics(given)
    assert list(found) == ["answered", "any_answer"]
    assert [one.types for one in found.values()] == [ANSWERABLE, ("refusal",)]
    features = question_features(QUESTION, LabelSummary("set", "drug", True, 1, 100), {})
    assert score(features, QUESTION, PREDICTION, None, None, added=given).extra == {"answered": 1.0, "any_answer": 1.0}
    with pytest.raises(ValueError, match="'answered' exists already"):
        added_metrics((answered, answered))
