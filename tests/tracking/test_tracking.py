"""What is logged of a run, under which names; trackers that are wrong or down; packages that add one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from fdarx_core import plugins
from fdarx_core.records import Figure
from fdarx_core.storage import RunDirectory
from fdarx_core.tracking import TrackerSpec, TrackingFailed, log_run
from fdarx_core.tracking.run_log import metrics_of, params_of
from tests.jobs.evaluating import evaluate
from tests.jobs.in_process import run_job

DOWN = "mlflow:http://anna:planted-secret@127.0.0.1:9"


def figure(metric: str, value: float | None = 0.5, **keys: str) -> Figure:
    return Figure(value, value and value - 0.1, value and value + 0.1, 10, 3, 0, metric, keys)


def cell(group: str, by: str = "type", retriever: str = "", metric: str = "accuracy") -> Figure:
    keys = {"model": "tiny", "setting": "retrieved", "retriever": retriever, "group_by": by, "group": group}
    return Figure(0.5, 0.4, 0.6, 10, 3, 0, metric, keys)


def test_names_of_metrics_are_stable() -> None:
    figures = [
        cell("factual"),
        cell("answerable"),
        cell("Dosage & use", by="section"),
        cell("answerable", retriever="bm25+rerank"),
        cell("all", metric="failed_rate"),
        cell("answerable", metric="failed_rate"),
        cell("refusal", metric="hallucination_rate"),
        figure("fas", model="m", setting="", dataset="all", type="all"),
        figure("fas", model="m", setting="", dataset="all", type="factual"),
        figure("recurring"),
    ]
    names = [name for name in metrics_of(figures) if not name.endswith(("/low", "/high"))]
    assert names == [
        "accuracy/tiny/retrieved/factual",
        "accuracy/tiny/retrieved",
        "accuracy/tiny/retrieved/section/Dosage _ use",
        "accuracy/tiny/retrieved/bm25_rerank",
        "failed_rate/tiny/retrieved",
        "failed_rate/tiny/retrieved/answerable",
        "hallucination_rate/tiny/retrieved",
        "fas/m",
        "fas/m/factual",
        "recurring",
    ]


def test_every_value_is_logged_and_what_has_none_is_not() -> None:
    one, other = figure("f", 0.1, model="a+b"), figure("f", 0.2, model="a*b")
    found = metrics_of([one, other, figure("g", None), Figure(1.0, None, None, 1, 1, 0, "h", {})])
    assert sorted(found.values()) == pytest.approx([0.0, 0.1, 0.1, 0.2, 0.2, 0.3, 1.0][:7], abs=1e-9)
    assert "g" not in found and found["h"] == 1.0 and "h/low" not in found
    assert len([name for name in found if name.startswith("f/a_b ")]) == 6


def test_long_parameters_are_cut_with_a_note_and_have_no_credentials() -> None:
    params = params_of({"labels": ["x" * 900], "cut_by": {"m": {"length": 5}}, "url": "http://anna:plan@ted@host/x"})
    assert params["cut_by.m.length"] == "5" and params["url"] == "http://***@host/x"
    assert len(params["labels"]) == 500 and params["labels"].endswith("(cut, 904 characters; run.json has all)")


def test_a_tracker_that_is_down_costs_no_results(example_build: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = evaluate(example_build, out, "--settings", "oracle", "--sample", 2, "--track", DOWN)
    assert done.returncode == 0 and "Table 1" in done.stdout and (out / "report.html").exists()
    [line] = [line for line in done.stderr.splitlines() if "not logged to mlflow" in line]
    assert f"fdarx track {out} --track mlflow:" in line and "planted-secret" not in done.stderr
    assert json.loads((out / "run.json").read_text())["status"] == "complete"
    later = run_job("track", out, "--track", DOWN)
    assert later.returncode == 3 and "planted-secret" not in later.stderr
    assert not [file for file in out.rglob("*") if file.is_file() and b"planted-secret" in file.read_bytes()]


@pytest.mark.parametrize(
    ("tracker", "message"),
    [
        ("mlfow:http://anna:planted-secret@host", "there is no tracker 'mlfow'; known are mlflow, wandb"),
        ("mlflow", "mlflow is no tracker; write one of mlflow:ADDRESS, wandb:ADDRESS"),
        ("wandb:a/b/c", "does not name a project; write wandb:PROJECT or wandb:ENTITY/PROJECT"),
    ],
)
def test_a_wrong_tracker_stops_a_job_before_it_starts(
    example_build: Path, tmp_path: Path, tracker: str, message: str
) -> None:
    done = evaluate(example_build, tmp_path / "run", "--track", tracker)
    assert done.returncode == 2 and message in done.stderr and "planted-secret" not in done.stderr
    assert not (tmp_path / "run").exists()
    assert run_job("track", example_build, "--track", tracker).returncode == 2


@pytest.mark.parametrize(
    "job",
    [
        ("build", "--labels", "x"),
        ("evaluate", "--benchmark", "x"),
        ("evaluate-rag", "--index", "x", "--questions", "x"),
        ("factuality", "--predictions", "x", "--evidence", "file:x"),
        ("finetune", "--questions", "x", "--model", "x"),
    ],
    ids=lambda job: job[0],
)
def test_jobs_with_figures_have_the_option(job: tuple[str, ...], tmp_path: Path) -> None:
    done = run_job(*job, "--out", tmp_path / "run", "--track", "wandb:ours,nothing:x")
    assert done.returncode == 2 and "there is no tracker 'nothing'" in done.stderr


def test_a_run_without_figures_is_refused(example_build: Path, tmp_path: Path) -> None:
    info = json.loads((example_build / "run.json").read_text())
    (tmp_path / "run.json").write_text(json.dumps({**info, "status": "interrupted"}))
    done = run_job("track", tmp_path, "--track", DOWN)
    assert done.returncode == 2 and "is interrupted: it has no figures yet" in done.stderr


class FileTracker:
    """A tracker as a package may add it: it writes what it is given into a folder."""

    def __init__(self, address: str) -> None:
        self.folder = Path(address)

    def start(self, run_id: str | None, *, name: str, job: str, tags: Mapping[str, str]) -> str:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "starts").open("a").write(f"{run_id}\n")
        return run_id or f"{job}-1"

    def log_params(self, params: Mapping[str, str]) -> None:
        (self.folder / "params.json").write_text(json.dumps(params))

    def log_metrics(self, metrics: Mapping[str, float], at: int) -> None:
        if (self.folder / "full").exists():
            raise OSError("no space is left")
        (self.folder / "metrics.json").write_text(json.dumps(metrics))

    def log_table(self, file: Path) -> None:
        (self.folder / file.name).write_bytes(file.read_bytes())

    def log_artifact(self, file: Path) -> None:
        (self.folder / file.name).write_bytes(file.read_bytes())

    def finish(self, *, complete: bool) -> str:
        (self.folder / "complete").write_text(str(complete))
        return ""


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a package with the entry point is installed."""
    entry = EntryPoint("files", f"{__name__}:FileTracker", "fdarx.trackers")
    monkeypatch.setattr(plugins, "entry_points", lambda group: EntryPoints([entry] if group == entry.group else []))
    monkeypatch.setattr(EntryPoint, "load", lambda self: FileTracker)


@pytest.mark.usefixtures("added")
def test_a_package_adds_a_tracker(finished: Path, tmp_path: Path) -> None:
    done = run_job("track", finished, "--track", f"files:{tmp_path / 'kept'}")
    assert done.returncode == 0, done.stderr
    kept = tmp_path / "kept"
    assert (kept / "report.html").read_bytes() == (finished / "report.html").read_bytes()
    assert (kept / "metrics.parquet").exists() and (kept / "complete").read_text() == "True"
    assert "accuracy/baseline/full_label" in json.loads((kept / "metrics.json").read_text())


@pytest.mark.usefixtures("added")
def test_a_run_that_was_logged_in_part_goes_on_as_the_same(finished: Path, tmp_path: Path) -> None:
    run, spec = RunDirectory.open(str(finished)), TrackerSpec("files", str(tmp_path))
    (tmp_path / "full").touch()
    with pytest.raises(TrackingFailed, match="no space is left"):
        log_run(run, spec)
    assert (tmp_path / "complete").read_text() == "False"
    (tmp_path / "full").unlink()
    assert "logged to" in log_run(run, spec)
    assert (tmp_path / "starts").read_text().splitlines() == ["None", "evaluate-1"]


@pytest.mark.usefixtures("added")
def test_a_damaged_state_is_told_in_a_line(finished: Path, tmp_path: Path) -> None:
    (finished / "tracking.json").write_text("{")
    done = run_job("track", finished, "--track", f"files:{tmp_path / 'kept'}")
    assert done.returncode == 3 and "tracking.json is damaged" in done.stderr and "Traceback" not in done.stderr
