"""Runs in MLflow, on a real tracking server, read back over its REST API."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fdarx_core.records import Figure
from fdarx_core.storage import Location, read_records
from tests.jobs.evaluating import evaluate, reopen
from tests.jobs.in_process import run_job
from tests.tracking.mlflow_server import MlflowServer, values

pytestmark = [pytest.mark.slow, pytest.mark.nightly]

OPTIONS = ("--settings", "oracle,retrieved", "--retrievers", "bm25")


@pytest.fixture(scope="module")
def tracked(example_build: Path, mlflow: MlflowServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tracked") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_EXPERIMENT_NAME", "evaluations")
        done = evaluate(example_build, out, *OPTIONS, "--track", f"mlflow:{mlflow.url}")
    assert done.returncode == 0 and f"logged to mlflow:{mlflow.url} as run" in done.stderr
    return out


def test_parameters_versions_and_digest_are_those_of_the_run(tracked: Path, mlflow: MlflowServer) -> None:
    [run] = mlflow.runs("evaluations")
    info = json.loads((tracked / "run.json").read_text())
    assert run["info"]["status"] == "FINISHED" and run["info"]["run_name"] == tracked.name
    params, tags = values(run["data"]["params"]), values(run["data"]["tags"])
    assert params["settings"] == '["oracle", "retrieved"]' and params["judge"] == "baseline"
    assert params["benchmark"] == info["config"]["benchmark"] and params.keys() == info["config"].keys()
    assert tags["versions.fdarx"] == info["versions"]["fdarx"] and tags["job"] == "evaluate"
    assert tags["input_digest"] == info["benchmark"]["digest"] and tags["status"] == "complete"


def test_metrics_are_the_figures_with_their_intervals(tracked: Path, mlflow: MlflowServer) -> None:
    [run] = mlflow.runs("evaluations")
    metrics = values(run["data"]["metrics"])
    figures = list(read_records(Location(str(tracked / "metrics.parquet")), Figure))
    numbers = [number for one in figures for number in (one.value, one.low, one.high) if number is not None]
    counted = [name for name in metrics if not name.startswith(("questions/", "total_"))]
    assert len(counted) == len(numbers) and sorted(metrics[name] for name in counted) == pytest.approx(sorted(numbers))
    for one in figures:
        keys = one.keys
        if (one.metric, keys["setting"], keys["group_by"]) == ("accuracy", "oracle", "type"):
            group = "" if keys["group"] == "answerable" else f"/{keys['group']}"
            name = f"accuracy/baseline/oracle{group}"
            found = [metrics.get(name), metrics.get(f"{name}/low"), metrics.get(f"{name}/high")]
            assert found == [one.value, one.low, one.high]
    assert "accuracy/baseline/oracle" in metrics


def test_tables_and_the_page_are_artifacts(tracked: Path, mlflow: MlflowServer) -> None:
    [run] = mlflow.runs("evaluations")
    run_id = run["info"]["run_id"]
    tables = [f"tables/{name}.parquet" for name in ("cells", "comparisons", "metrics")]
    assert mlflow.files(run_id) == ["report.html", *tables]
    assert mlflow.content(run_id, "report.html") == (tracked / "report.html").read_bytes()
    for path in tables:
        stored = (tracked / path).parent.parent / Path(path).name
        assert mlflow.content(run_id, path) == stored.read_bytes() and pq.read_table(stored).num_columns > 3


def test_a_run_that_goes_on_stays_one_run(example_build: Path, tracked: Path, mlflow: MlflowServer) -> None:
    before = mlflow.runs("evaluations")
    same = run_job("track", tracked, "--track", f"mlflow:{mlflow.url}")
    assert same.returncode == 0 and "already logged" in same.stderr
    reopen(tracked)
    again = evaluate(example_build, tracked, *OPTIONS, "--track", f"mlflow:{mlflow.url}")
    assert again.returncode == 0 and before[0]["info"]["run_id"] in again.stderr
    [run] = mlflow.runs("evaluations")
    assert run["info"]["run_id"] == before[0]["info"]["run_id"] and run["info"]["status"] == "FINISHED"
    assert values(run["data"]["params"]) == values(before[0]["data"]["params"])


def test_a_build_is_logged_afterwards(
    example_build: Path, mlflow: MlflowServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "builds")
    copy = tmp_path / "build"
    for name in ("run.json", "metrics.parquet", "report.html"):
        copy.mkdir(exist_ok=True)
        (copy / name).write_bytes((example_build / name).read_bytes())
    done = run_job("track", copy, "--track", f"mlflow:{mlflow.url}")
    assert done.returncode == 0, done.stderr
    [run] = mlflow.runs("builds")
    metrics, info = values(run["data"]["metrics"]), json.loads((copy / "run.json").read_text())
    assert {kind: metrics[f"questions/{kind}"] for kind in info["questions"]} == info["questions"]
    assert metrics["answer_words_median/factual"] > 0
