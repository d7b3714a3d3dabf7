"""`fdarx build` as a user runs it: a process of its own, its exit code, what it prints, what it leaves behind."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.in_process import run_job

SMALL = ("--twins", "4")


LATIN_1 = '<?xml version="1.0" encoding="UTF-8"?>\n<a>50 µg</a>'.encode("latin-1")


def zipped(members: dict[str, bytes]) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return held.getvalue()


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "jobs.build_benchmark", *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return run_job("build", *arguments)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "examples"
    done = run("--labels", EXAMPLES, "--out", out, *SMALL, "--cpus", 2)
    assert done.returncode == 0, done.stderr
    assert str(out / "report.html") in done.stdout
    assert re.search(r"generate +[\d,]+ in +\d+ rejected, [\d,]+ candidates made\b", done.stdout)
    return out


def test_a_build_leaves_a_whole_run(built: Path) -> None:
    info = json.loads((built / "run.json").read_text())
    assert info["status"] == "complete"
    assert info["config"]["seed"] == 0 and "cpus" not in info["config"]
    assert set(info["questions"]) == {"factual", "multihop", "refusal"}
    lines = (built / "benchmark" / "qa.jsonl").read_text().splitlines()
    assert len(lines) == sum(info["questions"].values()) > 50
    assert (built / "report.html").stat().st_size > 100_000
    assert f"{len(lines):,} questions" in (built / "questions.html").read_text()


def test_the_pages_are_built_again_by_report(built: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(built, tmp_path / "run")
    (copy / "questions.html").unlink()
    (copy / "report.html").unlink()
    done = run_job("report", copy)
    assert done.returncode == 0, done.stderr
    assert f"{copy}/questions.html" in done.stdout and f"{copy}/report.html" in done.stdout
    assert (copy / "questions.html").read_bytes() == (built / "questions.html").read_bytes()
    assert (copy / "report.html").exists()


def test_the_same_bytes_from_other_cpus_and_another_order(built: Path, tmp_path: Path) -> None:
    shuffled = tmp_path / "labels"
    shuffled.mkdir()
    for position, file in enumerate(sorted(EXAMPLES.glob("*.xml"), reverse=True)):
        shutil.copy(file, shuffled / f"{position:02d}.xml")
    for cpus in (1, 4):
        out = tmp_path / str(cpus)
        done = run("--labels", shuffled, "--out", out, *SMALL, "--cpus", cpus)
        assert done.returncode == 0, done.stderr
        for name in ("qa.jsonl", "labels.jsonl", "README.md"):
            assert (out / "benchmark" / name).read_bytes() == (built / "benchmark" / name).read_bytes(), name


def test_a_complete_run_is_not_made_again(built: Path) -> None:
    done = run("--labels", EXAMPLES, "--out", built, *SMALL)
    assert done.returncode == 0
    assert "complete already" in done.stderr


def test_a_run_with_other_options_is_refused_with_the_difference(built: Path) -> None:
    done = run("--labels", EXAMPLES, "--out", built, *SMALL, "--seed", 5)
    assert done.returncode == 2
    assert "seed: was 0, now 5" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--labels", "nowhere/at/all.zip", "--out", "{tmp}/run"], "nowhere/at/all.zip"),
        (["--labels", str(EXAMPLES), "--out", "/proc/no/run"], "/proc/no/run"),
        (["--labels", str(EXAMPLES), "--out", "{tmp}/run", "--sample", "0"], "--sample"),
        (["--labels", str(REPOSITORY / "README.md"), "--out", "{tmp}/run"], "1 not_xml"),
        (["--labels", str(EXAMPLES), "--out", "{tmp}/run", "--set-ids", "unknown"], "not_listed"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path: Path, arguments: list[str], says: str) -> None:
    done = run(*(argument.format(tmp=tmp_path) for argument in arguments))
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == 2
    assert len(errors) == 1 and says in errors[0]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("job", ["build", "index"])
@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("empty.zip", zipped({}), "empty.zip: the archive is empty"),
        ("cut.xml", b"", "cut.xml: it has no bytes"),
        ("old.xml", LATIN_1, "save it as UTF-8, or declare its encoding in its first line"),
        ("leaflets.zip", zipped({"a.pdf": b"%PDF-1.4\n"}), "only .pdf"),
        ("notes.txt", "50 µg".encode("latin-1"), "notes.txt: "),
    ],
)
def test_a_file_without_a_label_is_named_with_the_reason_and_nothing_is_left(
    tmp_path: Path, job: str, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    given = ("--labels",) if job == "build" else ("--words-only", "--documents")
    done = run_job(job, *given, tmp_path / name, "--out", tmp_path / "run")
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert done.returncode == 2 and len(errors) == 1, done.stderr
    assert name in errors[0] and (says in errors[0] or job == "index")
    assert not (tmp_path / "run").exists()


def test_an_interrupted_build_goes_on_to_the_same_result(built: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    arguments = ("--labels", EXAMPLES, "--out", out, *SMALL, "--cpus", 2)
    process = subprocess.Popen(command(*arguments), cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(out.glob("stages/part-*")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    if process.returncode != 0:
        assert process.returncode == 130, errors
        assert "the same command resumes the job" in errors
        assert json.loads((out / "run.json").read_text())["status"] == "interrupted"
    again = run(*arguments)
    assert again.returncode == 0, again.stderr
    assert (out / "benchmark" / "qa.jsonl").read_bytes() == (built / "benchmark" / "qa.jsonl").read_bytes()
