"""Figures of an evaluation are those of the rows of all parts in one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from fdarx_core.evaluation.figures import CellKey, length_edges
from fdarx_core.pipeline.evaluation_results import write_results
from fdarx_core.records import (
    Difference,
    Figure,
    Grade,
    Prediction,
    QuestionAnswer,
    RetrievalScore,
    Score,
    SettingProgress,
    to_table,
)
from fdarx_core.storage import Location, RunDirectory, read_records, write_table
from tests.evaluation.synthetic_scores import retrieval_rows, score_rows
from tests.evaluation.whole_tables import compare_retrievers, comparisons, figures, filled_cells, retrieval_figures

MODELS, SETTINGS, RETRIEVERS = ("a", "b", "c"), ("full_label", "closed_book"), ("bm25", "dense")
LABELS = 30
OPTIONS: dict[str, Any] = {"seed": 3, "resamples": 60}


def part_of(set_id: str) -> int:
    return int(set_id.removeprefix("label-")) // 4


def rows_of(model: str, setting: str) -> list[Score]:
    """Rows of a cell. Drugs have labels in several parts; refusal questions and BERTScores are in some parts only."""
    rows = score_rows(LABELS, seed=ord(model), model=model, setting=setting)
    rows = [replace(row, cluster=f"drug-{int(row.set_id[-3:]) % 11:02d}") for row in rows]
    return [row for row in rows if row.type != "refusal" or part_of(row.set_id) % 2]


@pytest.fixture(scope="module")
def scores() -> dict[CellKey, pa.Table]:
    made = {}
    for model in MODELS:
        for setting in SETTINGS:
            rows = rows_of(model, setting)
            if model == "b":
                for row in rows:
                    row.bert_score = len(row.question_id) / 20 + int(row.question_id[-1]) / 40
            made[CellKey(model, setting, "")] = to_table(rows, Score)
    return made


@pytest.fixture(scope="module")
def rankings() -> dict[str, pa.Table]:
    return {
        name: to_table(retrieval_rows(LABELS, seed=seed, retriever=name), RetrievalScore)
        for seed, name in enumerate(RETRIEVERS)
    }


@pytest.fixture(scope="module")
def run(
    tmp_path_factory: pytest.TempPathFactory, scores: dict[CellKey, pa.Table], rankings: dict[str, pa.Table]
) -> RunDirectory:
    """A run with scored parts; the BERTScores are in files of their own."""
    run = RunDirectory.begin(str(tmp_path_factory.mktemp("evaluation") / "run"), job="evaluate", config={}, versions={})
    for model in MODELS:
        mine = pa.concat_tables([table for key, table in scores.items() if key.model == model])
        for number, part in in_parts(mine):
            semantic = part.select(["prediction_id", "bert_score"])
            column = part.schema.get_field_index("bert_score")
            bare = part.set_column(column, "bert_score", pa.nulls(part.num_rows, pa.float64()))
            write_table(run.part(f"scores/{model}", number), bare)
            if model == "b":
                write_table(run.part(f"bert_scores/{model}", number), semantic)
    for name, table in rankings.items():
        for number, part in in_parts(table):
            write_table(run.part(f"retrieval_scores/{name}", number), part)
    return run


def in_parts(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    numbers = np.array([part_of(one) for one in table["set_id"].to_pylist()])
    for number in np.unique(numbers).tolist():
        yield number, table.filter(pa.array(numbers == number))


def progress() -> list[SettingProgress]:
    """Cells of so many questions due that they cover equal shares, so that all may be compared."""
    cells = [SettingProgress(model, setting, "", "done", due=10**6) for model in MODELS for setting in SETTINGS]
    return [*cells, SettingProgress("a", "oracle", "", "skipped", reason="no question is due")]


def close(one: Figure, other: Figure) -> bool:
    """Two figures that differ in the last digits of their sums alone."""
    assert (one.metric, one.keys, one.rows, one.clusters, one.unscored) == (
        other.metric,
        other.keys,
        other.rows,
        other.clusters,
        other.unscored,
    )
    pairs = [(getattr(one, name), getattr(other, name)) for name in ("value", "low", "high")]
    return all(x == y if x is None or y is None else abs(x - y) < 1e-9 * (1 + abs(y)) for x, y in pairs)


def test_figures_of_parts_are_those_of_one_table(
    run: RunDirectory, scores: dict[CellKey, pa.Table], rankings: dict[str, pa.Table]
) -> None:
    cells = write_results(run, progress(), RETRIEVERS, **OPTIONS)
    edges = length_edges(scores.values())
    expected = [one for table in scores.values() for one in figures(table, edges=edges, **OPTIONS)]
    expected += [one for table in rankings.values() for one in retrieval_figures(table, **OPTIONS)]
    made = list(read_records(run.file("metrics.parquet"), Figure))
    assert len(made) == len(expected)
    assert all(map(close, made, expected))
    assert {one.metric for one in made if one.keys["model"] == "b"} > {"bert_score", "refusal_f1", "citation_f1"}
    compared = list(read_records(run.file("comparisons.parquet"), Difference))
    apart = comparisons(scores, **OPTIONS) + compare_retrievers(rankings, **OPTIONS)
    assert len(compared) == len(apart)
    assert [(one.first, one.second) for one in compared] == [(one.first, one.second) for one in apart]
    assert [one.p for one in compared] == pytest.approx([one.p for one in apart])
    assert [one.p_holm for one in compared] == pytest.approx([one.p_holm for one in apart])
    assert all(map(close, compared, apart))
    for one, other in zip(cells, filled_cells(progress(), scores), strict=True):
        assert replace(one, cost=0.0) == replace(other, cost=0.0)
        assert one.cost == pytest.approx(other.cost)


def test_a_run_without_scores_has_no_figures(tmp_path: Path) -> None:
    run = RunDirectory.begin(str(tmp_path / "run"), job="evaluate", config={}, versions={})
    cells = [SettingProgress("a", "oracle", "", "skipped", reason="no question is due")]
    assert write_results(run, cells, ["bm25"], **OPTIONS) == cells
    assert list(read_records(run.file("metrics.parquet"), Figure)) == []
    assert Location(f"{run.root}/metrics.json").read_text() == "[]"


def words(question: QuestionAnswer, prediction: Prediction, grade: Grade | None) -> float | None:
    return float(len(prediction.answer.split()))


def test_a_given_function_is_a_metric_of_the_run(tmp_path: Path) -> None:
    rows = [replace(row, extra={"words": float(at)}) for at, row in enumerate(rows_of("a", "full_label"))]
    run = RunDirectory.begin(str(tmp_path / "run"), job="evaluate", config={}, versions={})
    for number, part in in_parts(to_table(rows, Score)):
        write_table(run.part("scores/a", number), part)
    cells = [SettingProgress("a", "full_label", "", "done", due=len(rows))]
    write_results(run, cells, [], **OPTIONS, added=[words])
    found = {
        one.keys["group"]: one for one in read_records(run.file("metrics.parquet"), Figure) if one.metric == "words"
    }
    asked = {kind: [row.extra["words"] for row in rows if row.type == kind] for kind in ("factual", "multihop")}
    assert found.keys() == {"factual", "multihop", "answerable"}
    for kind, numbers in asked.items():
        assert found[kind].value == pytest.approx(np.mean(numbers)) and found[kind].rows == len(numbers)
