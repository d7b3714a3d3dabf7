from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.storage import RunConflict, RunDirectory, StorageError

CONFIG: dict[str, Any] = {"sample": 700, "seed": 0, "labels": ["a.zip"], "limits": {"answer": 600, "question": 200}}


def _begin(out: Path, **changes: Any) -> RunDirectory:
    return RunDirectory.begin(str(out), job="build_benchmark", config={**CONFIG, **changes}, versions={"fdarx": "1"})


def test_a_run_from_start_to_finish(tmp_path: Path) -> None:
    run = _begin(tmp_path / "run")
    assert (run.resumed, run.complete) == (False, False)
    assert run.info()["status"] == "running"
    run.part("labels", 12).write_bytes(b"x")
    run.finish({"counts": [{"stage": "read", "rows_in": 1}]})
    info = RunDirectory.open(str(tmp_path / "run")).info()
    assert info["status"] == "complete"
    assert info["format"] == 1
    assert info["config"] == CONFIG
    assert info["counts"][0]["rows_in"] == 1
    assert info["finished"] >= info["started"]


def test_layout(tmp_path: Path) -> None:
    run = _begin(tmp_path)
    for number in (12, 3, 1_000_000):
        run.part("responses/highlights", number).write_bytes(b"x")
    run.file("responses/highlights/notes.txt").write_text("")
    names = [part.name for part in run.parts("responses/highlights")]
    assert names == ["part-000003.parquet", "part-000012.parquet", "part-1000000.parquet"]
    assert run.parts("nothing") == []
    assert str(run.file("report.html")) == f"{tmp_path}/report.html"


def test_the_same_run_resumes(tmp_path: Path) -> None:
    _begin(tmp_path).stop("interrupted")
    assert RunDirectory.open(str(tmp_path)).info()["status"] == "interrupted"
    again = _begin(tmp_path)
    assert (again.resumed, again.complete) == (True, False)
    assert again.info()["status"] == "running"
    again.finish({})
    last = _begin(tmp_path)
    assert (last.resumed, last.complete) == (True, True)
    assert last.info()["status"] == "complete"


def test_tuples_and_lists_are_the_same_option(tmp_path: Path) -> None:
    _begin(tmp_path)
    assert _begin(tmp_path, labels=("a.zip",)).resumed


def test_other_options_are_refused_one_by_one(tmp_path: Path) -> None:
    _begin(tmp_path)
    before = (tmp_path / "run.json").read_bytes()
    with pytest.raises(RunConflict) as refused:
        _begin(tmp_path, sample=10, limits={"answer": 600, "question": 300}, routes=["oral"])
    message = str(refused.value)
    assert "sample: was 700, now 10" in message
    assert "limits.question: was 200, now 300" in message
    assert 'routes: was not set, now ["oral"]' in message
    assert "seed" not in message
    assert "limits.answer" not in message
    assert "another --out" in message
    assert "\n" not in message
    assert (tmp_path / "run.json").read_bytes() == before


def test_another_job_is_refused(tmp_path: Path) -> None:
    _begin(tmp_path)
    with pytest.raises(RunConflict, match="build_benchmark, not evaluate"):
        RunDirectory.begin(str(tmp_path), job="evaluate", config=CONFIG, versions={})


def test_a_folder_of_other_files_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "thesis.docx").write_text("precious")
    with pytest.raises(RunConflict, match=r"no run\.json"):
        _begin(tmp_path)
    assert list(tmp_path.iterdir()) == [tmp_path / "sub"]


def test_unwritable_output_stops_before_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(StorageError, match="choose another place"):
            _begin(bad)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "\x80"])
def test_damaged_run_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(StorageError, match=r"run\.json is .*choose another --out"):
        _begin(tmp_path)
    with pytest.raises(StorageError, match=r"run\.json is .*choose another --out"):
        RunDirectory.open(str(tmp_path))


def test_a_newer_format_is_not_misread(tmp_path: Path) -> None:
    run = _begin(tmp_path)
    run.file("run.json").write_text(run.file("run.json").read_text().replace('"format": 1', '"format": 9'))
    with pytest.raises(StorageError, match="format 9"):
        RunDirectory.open(str(tmp_path))


def test_open_wants_a_run(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"no run\.json; give the folder"):
        RunDirectory.open(str(tmp_path))


def test_it_travels_to_workers_in_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = _begin(Path("run"))
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(run)).info()["status"] == "running"
