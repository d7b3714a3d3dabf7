"""A build whose questions are written and judged by a model on a server that works well, or does not."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import orjson
import pytest

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.records import QuestionAnswer, Reject
from fdarx_core.storage import Location, read_records
from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import Fault, LoopbackServer
from tests.pipeline.scripted import (
    KEY_VARIABLE,
    NAME,
    PLANTED_KEY,
    Script,
    asking_process_of,
    models_file,
    read_models,
    weather,
)
from tests.pipeline.test_steps import identities

pytestmark = pytest.mark.slow

Row = TypeVar("Row")
LOST_WITH_A_PROCESS = 64
"""The 16 requests in flight, and what was answered in the moments before a segment of answers was written."""
KILLED_AFTER = (20, 80)
"""Calls after which a driver is killed, one time after the other."""
LABELS = 3
AMOUNTS = ("--sample", str(LABELS), "--passages", "4", "--section-pairs", "3", "--twins", "3", "--transfers", "0")


@pytest.fixture(scope="module", autouse=True)
def key() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, PLANTED_KEY)
        yield


@pytest.fixture(scope="module")
def script(key: None, tmp_path_factory: pytest.TempPathFactory) -> Script:
    file = models_file(tmp_path_factory.mktemp("models"), "http://127.0.0.1:1/v1")
    return Script(
        identities(EXAMPLES, LABELS), GenerationConfig(passages=4, section_pairs=3, twins=3), read_models(file)
    )


@pytest.fixture
def server(script: Script) -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=script) as running:
        yield running


def command(server: LoopbackServer, folder: Path, out: Path, *more: object) -> list[str]:
    line = [sys.executable, "-m", "jobs.cli", "build", "--labels", str(EXAMPLES), "--out", str(out), *AMOUNTS]
    line += ["--models", str(models_file(folder, server.openai_url)), "--cpus", "2"]
    return [*line, "--generator", NAME, "--reader", NAME, "--judge", NAME, *map(str, more)]


def build(server: LoopbackServer, folder: Path, out: Path, *more: object) -> subprocess.CompletedProcess[str]:
    line = command(server, folder, out, *more)
    return run_job(*line[3:])


def must_build(server: LoopbackServer, folder: Path, out: Path, *more: object) -> dict[str, object]:
    done = build(server, folder, out, *more)
    assert done.returncode == 0, done.stderr
    info: dict[str, object] = json.loads((out / "run.json").read_text())
    return info


def qa(out: Path) -> dict[str, bytes]:
    lines = (out / "benchmark" / "qa.jsonl").read_bytes().splitlines()
    return {orjson.loads(line)["qid"]: line for line in lines}


@pytest.fixture(scope="module")
def calm(script: Script, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build from a faultless server."""
    folder = tmp_path_factory.mktemp("calm")
    with LoopbackServer(answer=script) as server:
        must_build(server, folder, folder / "run")
    return folder / "run"


def records(out: Path, kind: str, record: type[Row]) -> list[Row]:
    return [row for part in Location(out / kind).list() for row in read_records(part, record)]


def test_a_model_makes_what_it_says(calm: Path, script: Script) -> None:
    info = json.loads((calm / "run.json").read_text())
    assert sum(info["questions"].values()) == len(qa(calm)) > 30
    asked = {row["task"]: row for row in info["asked"]}
    assert {task: row["requests"] for task, row in asked.items()} == Counter(script.tasks.values())
    assert all(row["endpoint"] == NAME and row["prompt_tokens"] > 0 for row in asked.values())
    made = records(calm, "questions", QuestionAnswer)
    assert all(question.judge == NAME and question.verdict_keys for question in made)


def test_bad_weather_costs_only_the_rows_that_garbage_touched(calm: Path, script: Script, tmp_path: Path) -> None:
    models = read_models(models_file(tmp_path, "http://127.0.0.1:1/v1"))
    storm = Script(
        identities(EXAMPLES, LABELS), GenerationConfig(passages=4, section_pairs=3, twins=3), models, garbage=True
    )
    with LoopbackServer(answer=storm) as server:
        server.faults = weather
        must_build(server, tmp_path, tmp_path / "run")
    found = Counter((one.stage, one.reason) for one in records(tmp_path / "run", "rejects", Reject))
    assert found.items() >= storm.rejects.items()
    assert storm.rejects["generate", "invalid_json"] > 0
    judged = {one.id for one in records(tmp_path / "run", "questions", QuestionAnswer) if not one.unscored}
    assert judged < storm.questions
    replies = json.loads((tmp_path / "run" / "run.json").read_text())["replies"]
    generated = next(one for one in replies if one["stage"] == "generate")
    assert generated["unusable"] == storm.rejects["generate", "invalid_json"]
    assert sum(one["unusable"] for one in replies if one["stage"] != "generate") > 0
    stormy, fair = qa(tmp_path / "run"), qa(calm)
    assert stormy.keys() == storm.questions
    assert all(stormy[qid] == fair[qid] for qid in judged & fair.keys())
    assert len(stormy.keys() & fair.keys()) > len(fair) / 2


def test_what_was_answered_is_not_asked_again(calm: Path, server: LoopbackServer, tmp_path: Path) -> None:
    must_build(server, tmp_path, tmp_path / "run", "--reuse", calm)
    assert server.number == 0
    assert qa(tmp_path / "run") == qa(calm)


def test_a_changed_prompt_asks_that_task_alone(calm: Path, server: LoopbackServer, tmp_path: Path) -> None:
    for name in ("fdarx_core", "jobs", "prompts", "serving"):  # prompts are read beside the package
        shutil.copytree(REPOSITORY / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    changed = tmp_path / "prompts" / "judge_quality_factual.yaml"
    changed.write_text(changed.read_text().replace("system: |", "system: |\n  Take your time.", 1))
    line = command(server, tmp_path, tmp_path / "run", "--reuse", calm)
    elsewhere = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(line, cwd=tmp_path, env=elsewhere, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    assert server.number > 0
    assert all(call.body["messages"][0]["content"].startswith("Take your time.") for call in server.calls)


def test_the_key_is_nowhere(calm: Path, server: LoopbackServer, tmp_path: Path) -> None:
    server.faults = lambda call: Fault(status=401, error={"message": f"bad key {PLANTED_KEY}"})
    refused = build(server, tmp_path, tmp_path / "run")
    assert refused.returncode == 3
    errors = [line for line in refused.stderr.splitlines() if line.startswith("stopped:")]
    assert len(errors) == 1 and "key_env" in errors[0] and "Traceback" not in refused.stderr
    assert PLANTED_KEY not in refused.stdout + refused.stderr
    for folder in (calm, tmp_path):
        for file in folder.rglob("*"):
            assert not file.is_file() or PLANTED_KEY.encode() not in file.read_bytes(), file


@pytest.mark.parametrize("executor", ["local", "ray"])
def test_a_budget_stops_cleanly_and_the_same_command_goes_on(
    calm: Path, server: LoopbackServer, tmp_path: Path, executor: str
) -> None:
    stopped = build(server, tmp_path, tmp_path / "run", "--max-requests", 40, "--executor", executor)
    assert stopped.returncode == 3 and "40 requests were sent" in stopped.stderr
    assert server.number == 40
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "stopped"
    must_build(server, tmp_path, tmp_path / "run")
    assert qa(tmp_path / "run") == qa(calm)
    assert max(server.by_prompt.values()) == 1


def interrupted(
    server: LoopbackServer,
    folder: Path,
    out: Path,
    strike: Callable[[subprocess.Popen[str]], None],
    after: int,
    executor: str = "ray",
) -> subprocess.Popen[str]:
    """A build that is struck once the server has seen so many calls."""
    process = subprocess.Popen(
        command(server, folder, out, "--executor", executor),
        cwd=REPOSITORY,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while server.number < after and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    strike(process)
    process.communicate(timeout=120)
    return process


def answered_twice(server: LoopbackServer) -> int:
    return sum(count - 1 for count in server.answered.values())


@pytest.mark.parametrize("executor", ["local", "ray"])
def test_ctrl_c_saves_what_is_in_flight(calm: Path, server: LoopbackServer, tmp_path: Path, executor: str) -> None:
    server.latency = 0.5  # so long that the build can't come to its end before the signal is heard
    out = tmp_path / "run"
    done = interrupted(server, tmp_path, out, lambda one: os.kill(one.pid, signal.SIGINT), 30, executor)
    assert done.returncode == 130
    assert json.loads((out / "run.json").read_text())["status"] == "interrupted"
    server.latency = 0.0
    must_build(server, tmp_path, out)
    assert qa(out) == qa(calm)
    assert max(server.by_prompt.values()) == 1


def test_a_killed_driver_loses_almost_nothing(calm: Path, server: LoopbackServer, tmp_path: Path) -> None:
    server.latency = 0.2  # few answers arrive while a segment is written, even on a busy machine
    out = tmp_path / "run"
    for after in KILLED_AFTER:
        interrupted(server, tmp_path, out, lambda one: os.killpg(one.pid, signal.SIGKILL), after)
    must_build(server, tmp_path, out)
    assert qa(out) == qa(calm)
    assert answered_twice(server) <= len(KILLED_AFTER) * LOST_WITH_A_PROCESS + 0.02 * len(server.answered)


@pytest.mark.parametrize("after", [60, *(pytest.param(calls, marks=pytest.mark.nightly) for calls in (10, 120))])
def test_a_killed_worker_is_replaced_without_running_again(
    calm: Path, server: LoopbackServer, tmp_path: Path, after: int
) -> None:
    server.latency = 0.2  # few answers arrive while a segment is written, even on a busy machine
    out = tmp_path / "run"
    done = interrupted(server, tmp_path, out, lambda one: os.kill(asking_process_of(one.pid), signal.SIGKILL), after)
    assert done.returncode == 0
    assert qa(out) == qa(calm)
    assert answered_twice(server) <= LOST_WITH_A_PROCESS + 0.02 * len(server.answered)


def test_a_plan_is_near_what_a_build_then_asks(calm: Path, server: LoopbackServer, tmp_path: Path) -> None:
    planned = build(server, tmp_path, tmp_path / "run", "--plan")
    assert planned.returncode == 0, planned.stderr
    assert server.number == 0 and not (tmp_path / "run").exists()
    sums = next(line for line in planned.stdout.splitlines() if line.startswith("sum"))
    requests, tokens_in = (int(field.replace(",", "")) for field in sums.split()[1:3])
    asked = json.loads((calm / "run.json").read_text())["asked"]
    for planned_for, counted in ((requests, "requests"), (tokens_in, "prompt_tokens")):
        sent = sum(row[counted] for row in asked)
        assert sent / 2 <= planned_for <= 2 * sent  # how many questions a model writes is known when it wrote them


def test_show_tells_a_questions_life(calm: Path) -> None:
    lines = (calm / "benchmark" / "qa.jsonl").read_bytes().splitlines()
    question = next(row["qid"] for row in map(orjson.loads, lines) if row["source"] == "section_selfinst")
    told = run_job("show", calm, question)
    assert told.returncode == 0, told.stderr
    for part in ("context", "made by", "relevance  kept", "support    kept", "evidence", "in the benchmark"):
        assert part in told.stdout
    for shown in ("label", "passages"):
        assert re.search(rf"^  reader's answer from {shown}: \S", told.stdout, re.MULTILINE)
    unknown = run_job("show", calm, "0" * 16)
    assert unknown.returncode == 2 and "no question" in unknown.stderr


def test_a_name_that_is_no_model_is_refused_at_once(server: LoopbackServer, tmp_path: Path) -> None:
    wrong = build(server, tmp_path, tmp_path / "run", "--judge", "nobody")
    assert wrong.returncode == 2
    assert "--judge nobody" in wrong.stderr and "scripted" in wrong.stderr
    unpriced = build(server, tmp_path, tmp_path / "run", "--max-cost", 1)
    assert unpriced.returncode == 2 and "prices" in unpriced.stderr
