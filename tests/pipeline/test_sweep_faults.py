"""A sweep whose processes are killed and whose files are damaged: it goes on, loses little and asks nothing twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq
import pytest

from fdarx_core.records import Grade, Prediction, content_id
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import by_type, command, models_file, reopen, respond, rows_of
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer
from tests.pipeline.scripted import process_of

pytestmark = pytest.mark.slow

IN_FLIGHT = 8
LOST_WITH_A_PROCESS = 12 * IN_FLIGHT
"""Requests to both models in flight, and what was answered in the moments before a segment of answers was written."""


def answer(body: Mapping[str, Any]) -> str:
    """To every prompt another answer, so that a mix-up shows; as a judge, content with every other one."""
    number = int(content_id(orjson.dumps(body["messages"]).decode()), 16) % 1000
    if "response_format" in body:
        return json.dumps({"reason": f"Reason {number}.", "grade": "CORRECT" if number % 2 else "INCORRECT"})
    return respond(body).replace("5 mg", f"{number} mg")


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=answer) as running:
        yield running


def line(server: LoopbackServer, benchmark: Path, out: Path) -> list[str]:
    names = ({"name": "small"}, {"name": "strong"})
    models = models_file(out.parent, server.openai_url, *({**one, "max_in_flight": IN_FLIGHT} for one in names))
    return command(benchmark, out, "--models", models, "--judge", "strong", "--settings", "oracle,full_label")


def must_evaluate(server: LoopbackServer, benchmark: Path, out: Path) -> None:
    done = run_job(*line(server, benchmark, out)[3:])
    assert done.returncode == 0, done.stderr


def found(out: Path) -> tuple[list[Prediction], list[Grade]]:
    """All that was said and found, but for how long it took."""
    said = [replace(row, latency_s=0.0) for row in rows_of(out, "predictions/small", Prediction)]
    return said, rows_of(out, "grades/small", Grade)


@pytest.fixture(scope="module")
def calm(example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run without trouble."""
    out = tmp_path_factory.mktemp("calm") / "run"
    with LoopbackServer(answer=answer) as server:
        must_evaluate(server, example_build, out)
        assert max(server.by_prompt.values()) == 1
    assert len(found(out)[0]) > 100 and len({row.answer for row in found(out)[0]}) > 30
    return out


@pytest.fixture
def copy(calm: Path, tmp_path: Path) -> Path:
    """The same run, stopped before it was complete, which knows of nothing that it was done."""
    shutil.copytree(calm, tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "done")
    reopen(tmp_path / "run")
    return tmp_path / "run"


def struck(
    server: LoopbackServer, benchmark: Path, out: Path, strike: Callable[[subprocess.Popen[str]], None], after: int
) -> int:
    """An evaluation that is struck once the server has seen so many calls; its exit code."""
    process = subprocess.Popen(
        [*line(server, benchmark, out), "--executor", "ray"],
        cwd=REPOSITORY,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while server.number < after and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert process.poll() is None
    strike(process)
    process.communicate(timeout=120)
    return process.returncode


def answered_twice(server: LoopbackServer) -> int:
    return sum(count - 1 for count in server.answered.values())


def kill_asking_process(driver: subprocess.Popen[str]) -> None:
    process = process_of(driver.pid, "ray::AskWorker")
    assert process
    os.kill(process, signal.SIGKILL)


@pytest.mark.nightly
def test_a_killed_asking_process_is_replaced_without_running_again(
    calm: Path, example_build: Path, server: LoopbackServer, tmp_path: Path
) -> None:
    server.latency = 0.1
    out = tmp_path / "run"
    assert struck(server, example_build, out, kill_asking_process, after=100) == 0
    assert json.loads((out / "run.json").read_text())["status"] == "complete"
    assert found(out) == found(calm)
    assert answered_twice(server) <= LOST_WITH_A_PROCESS


@pytest.mark.nightly
def test_a_killed_driver_loses_almost_nothing(
    calm: Path, example_build: Path, server: LoopbackServer, tmp_path: Path
) -> None:
    server.latency = 0.1
    out = tmp_path / "run"
    struck(server, example_build, out, lambda one: os.killpg(one.pid, signal.SIGKILL), after=100)
    assert json.loads((out / "run.json").read_text())["status"] == "running"
    must_evaluate(server, example_build, out)
    assert found(out) == found(calm)
    assert answered_twice(server) <= LOST_WITH_A_PROCESS


def test_replies_are_read_anew_and_not_asked_for_again(
    copy: Path, calm: Path, example_build: Path, server: LoopbackServer
) -> None:
    for kind in ("predictions", "grades", "scores"):
        shutil.rmtree(copy / kind)
    must_evaluate(server, example_build, copy)
    assert server.number == 0
    assert found(copy) == found(calm)
    assert by_type(copy) == by_type(calm)


def test_what_a_damaged_segment_held_is_asked_again_and_nothing_else(
    copy: Path, calm: Path, example_build: Path, server: LoopbackServer
) -> None:
    segment = max((copy / "responses" / "answer_oracle").glob("*.parquet"), key=lambda file: file.stat().st_size)
    held = pq.read_metadata(segment).num_rows
    segment.write_bytes(segment.read_bytes()[:-100])
    must_evaluate(server, example_build, copy)
    assert server.number == held > 0
    assert {call.body["model"] for call in server.calls} == {"small"}
    assert found(copy) == found(calm)
