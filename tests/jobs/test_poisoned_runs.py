"""Runs, indexes, stores and predictions made by somebody else: one line says what is wrong, and nothing is executed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fdarx_core.retrieval.index import IndexStore
from fdarx_core.retrieval.index.segments import FileInfo, digest
from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.in_process import run_job
from tests.storage.poisoned import RAY_TYPE, pickled_column, poison, ray_type_registered

SMALL = ("--passages", "3", "--section-pairs", "2", "--twins", "4", "--cpus", "2")


@pytest.fixture
def marker(tmp_path: Path) -> Iterator[Path]:
    """The file that is made where a poisoned column is unpickled. Ray's type is registered, as in a Ray job."""
    with ray_type_registered():
        yield tmp_path / "executed"
    assert not (tmp_path / "executed").exists(), "code of the file was executed"


def poison_parts(run: Path, kind: str, marker: Path) -> Path:
    """Poison each Parquet file of one kind in a run."""
    files = list((run / kind).rglob("*.parquet"))
    assert files
    for file in files:
        poison(file, marker)
    return run


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """Return the one line that says what was wrong."""
    [line] = [one for one in done.stderr.splitlines() if RAY_TYPE in one]
    assert done.returncode != 0 and "Traceback" not in done.stderr
    return line


@pytest.mark.parametrize("kind", ["labels", "passages"])
def test_an_index_of_a_poisoned_run(kind: str, example_build: Path, marker: Path, tmp_path: Path) -> None:
    run = poison_parts(Path(shutil.copytree(example_build, tmp_path / "run")), kind, marker)
    done = run_job("index", "--documents", run, "--words-only", "--out", tmp_path / "index")
    line = refusal(done)
    assert f"{run}/{kind}/" in line and "its column" in line


@pytest.mark.parametrize("kind", ["questions", "labels", "passages"])
def test_an_evaluation_of_a_poisoned_run(kind: str, example_build: Path, marker: Path, tmp_path: Path) -> None:
    run = poison_parts(Path(shutil.copytree(example_build, tmp_path / "run")), kind, marker)
    done = run_job("evaluate", "--benchmark", run, "--out", tmp_path / "evaluation", "--cpus", 2)
    assert f"{run}/{kind}/" in refusal(done)


def test_a_poisoned_store_of_responses(example_build: Path, marker: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(example_build, tmp_path / "run"))
    [first, *_] = (run / "questions").rglob("*.parquet")
    question = pq.read_table(first)["id"][0].as_py()
    for segment in (run / "responses").rglob("*.parquet"):
        poison(segment, marker, "text")
    done = run_job("show", run, question)
    assert f"{run}/responses/" in refusal(done)
    (run / "run.json").write_bytes(orjson.dumps(orjson.loads((run / "run.json").read_bytes()) | {"status": "running"}))
    for kind in ("questions", "candidates", "verdicts", "stages"):  # the build goes on from its responses
        shutil.rmtree(run / kind)
    done = run_job("build", "--labels", EXAMPLES, "--out", run, *SMALL)
    assert f"{run}/responses/" in refusal(done)


def test_poisoned_predictions(example_build: Path, marker: Path, tmp_path: Path) -> None:
    field, values = pickled_column(2, marker, "answer")
    plain = pa.array(["a", "b"])
    rows = tmp_path / "rows.parquet"
    schema = pa.schema([("id", pa.string()), ("question", pa.string()), field])
    pq.write_table(pa.table([plain, plain, values], schema=schema), rows)
    evaluated = ("evaluate", "--benchmark", example_build, "--predictions", rows, "--out", tmp_path / "e")
    checked = ("factuality", "--predictions", rows, "--evidence", f"labels:{example_build}", "--out", tmp_path / "f")
    for words in (evaluated, checked):
        assert f"{rows} " in refusal(run_job(*words))


def poisoned_index(example_build: Path, place: Path, marker: Path) -> Path:
    """Make an index, poison its chunks, and write the manifest anew so that all digests are right."""
    done = run_job("index", "--documents", example_build, "--words-only", "--out", place)
    assert done.returncode == 0, done.stderr
    manifest = IndexStore(str(place)).current()
    assert manifest is not None
    [segment] = manifest.segments
    file = place / segment.chunks.name
    poison(file, marker, "text")
    info = FileInfo(segment.chunks.name, file.stat().st_size, digest(file.read_bytes()))
    changed = replace(manifest, segments=(replace(segment, chunks=info),))
    (place / f"versions/{changed.version}.json").write_bytes(changed.data)
    (place / "index.json").write_bytes(orjson.dumps({"version": changed.version}))
    return file


def test_a_poisoned_index(example_build: Path, marker: Path, tmp_path: Path) -> None:
    file = poisoned_index(example_build, tmp_path / "index", marker)
    questions = tmp_path / "questions.jsonl"
    questions.write_bytes(orjson.dumps({"id": "1", "question": "What is the dose?", "answer": "5 mg"}) + b"\n")
    options = ("--index", tmp_path / "index", "--questions", questions, "--out", tmp_path / "rag")
    assert f"{file} " in refusal(run_job("evaluate-rag", *options))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "command"),
    [
        ("labels", lambda run, out: ("index", "--documents", run, "--words-only", "--out", out)),
        ("passages", lambda run, out: ("evaluate", "--benchmark", run, "--out", out)),
    ],
)
def test_on_ray(
    kind: str, command: Callable[[Path, Path], tuple[object, ...]], example_build: Path, tmp_path: Path
) -> None:
    run = poison_parts(Path(shutil.copytree(example_build, tmp_path / "run")), kind, tmp_path / "executed")
    words = [str(one) for one in command(run, tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-m", "jobs.cli", *words, "--executor", "ray", "--cpus", "2"],
        cwd=REPOSITORY,
        env=os.environ,
        capture_output=True,
        text=True,
    )
    assert f"{run}/{kind}/" in refusal(done)
    assert not (tmp_path / "executed").exists(), "code of the file was executed"


def test_ray_data_flows_have_forgotten_the_type_of_pickled_objects() -> None:
    code = (
        "import pyarrow as pa, fdarx_core.pipeline.ray_data\n"
        f"try: pa.unregister_extension_type({RAY_TYPE!r})\n"
        "except KeyError: print('gone')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert done.stdout.strip() == "gone", done.stderr


@pytest.mark.slow
def test_no_module_of_the_current_folder_is_imported_by_workers(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("orjson", "lxml", "pyarrow", "prompts", "yaml"):
        (folder / f"{name}.py").write_text(f"import pathlib\npathlib.Path({str(tmp_path / 'executed')!r}).touch()\n")
    code = "from jobs.cli import main; raise SystemExit(main())"
    words = (
        "build",
        "--labels",
        str(EXAMPLES / "telvanto-tablets.xml"),
        "--out",
        str(tmp_path / "run"),
        "--executor",
        "ray",
        "--cpus",
        "2",
        "-q",
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "executed").exists(), "code of the folder was executed"
