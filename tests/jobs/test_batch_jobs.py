"""`fdarx build` and `fdarx evaluate` through batch APIs: what they make is what direct requests make."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.llm import BatchRecords
from fdarx_core.pipeline.asking import AskProgress
from fdarx_core.records import Grade, Prediction
from fdarx_core.storage import Location
from jobs.progress import ProgressLine
from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.evaluating import command, evaluate, models_file, respond, rows_of, untimed
from tests.jobs.in_process import run_job
from tests.llm.batch_server import BatchServer, quicken
from tests.llm.loopback_server import Call, Fault, text_of
from tests.pipeline import scripted
from tests.pipeline.test_steps import identities

pytestmark = pytest.mark.slow

AMOUNTS = ("--sample", "1", "--passages", "4", "--section-pairs", "3", "--twins", "3", "--transfers", "0")
PRICES = {"input": 100, "output": 400}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    quicken(monkeypatch)


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer(answer=respond) as running:
        yield running


def two_percent_fail(call: Call) -> Fault | None:
    fails = scripted.lot(call.prompt) < 2
    return Fault(status=400, error={"message": "the prompt is not allowed"}) if fails else None


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Iterator[scripted.Script]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(scripted.KEY_VARIABLE, scripted.PLANTED_KEY)
        file = scripted.models_file(tmp_path_factory.mktemp("models"), "http://127.0.0.1:1/v1")
        amounts = GenerationConfig(passages=4, section_pairs=3, twins=3)
        yield scripted.Script(identities(EXAMPLES, sample=1), amounts, scripted.read_models(file))


def in_openai_form(body: Mapping[str, Any]) -> dict[str, Any]:
    """The messages of a request as OpenAI's API has them, whichever API it is of."""
    turns = [*({"role": "system", "content": [block]} for block in body.get("system", ())), *body["messages"]]
    return {"messages": [{"role": turn["role"], "content": text_of(turn)} for turn in turns]}


@pytest.mark.parametrize("kind", ["openai", pytest.param("anthropic", marks=pytest.mark.slow)])
def test_a_build_in_batches_makes_the_same_benchmark(
    kind: str, script: scripted.Script, quick: None, tmp_path: Path
) -> None:
    roles = [word for role in ("--generator", "--reader", "--judge") for word in (role, scripted.NAME)]
    with BatchServer(answer=lambda body: script(in_openai_form(body))) as server:
        url = server.openai_url if kind == "openai" else server.url
        models = scripted.models_file(tmp_path, url, kind=kind, prices=PRICES)
        line = ("build", "--labels", EXAMPLES, *AMOUNTS, "--models", models, "--cpus", 2, *roles)
        for out, more in (("direct", ()), ("batched", ("--batch",))):
            done = run_job(*line, "--out", tmp_path / out, *more)
            assert done.returncode == 0, done.stderr
        direct, batched = (json.loads((tmp_path / out / "run.json").read_text()) for out in ("direct", "batched"))
        assert len(server.submitted) == sum(row["requests"] for row in batched["asked"])
        assert len(server.batches) <= 2 * len(batched["asked"])
    assert sum(direct["questions"].values()) > 10
    assert rows_of_benchmark(tmp_path / "direct") == rows_of_benchmark(tmp_path / "batched")
    assert direct["stages"] == batched["stages"]
    assert [row["requests"] for row in direct["asked"]] == [row["batched"] for row in batched["asked"]]
    spent = [sum(row["cost"] for row in info["asked"]) for info in (direct, batched)]
    assert spent[1] == pytest.approx(spent[0] / 2)


def rows_of_benchmark(out: Path) -> dict[str, bytes]:
    """The files of a benchmark that hold its questions and labels."""
    folder = out / "benchmark"
    files = [file for file in folder.rglob("*") if file.suffix in (".jsonl", ".parquet")]
    assert folder / "qa.jsonl" in files and len(files) >= 5
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_an_evaluation_goes_from_batches_to_direct_requests_and_back(
    example_build: Path, quick: None, server: BatchServer, tmp_path: Path
) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "a"}, {"name": "strong"})
    line = ("--models", models, "--judge", "strong", "--settings", "closed_book,oracle")
    direct, mixed = tmp_path / "direct", tmp_path / "mixed"
    assert evaluate(example_build, direct, *line).returncode == 0
    asked = server.number
    assert evaluate(example_build, mixed, *line, "--batch", "--max-requests", 30).returncode == 3
    assert evaluate(example_build, mixed, *line, "--max-requests", 20).returncode == 3
    done = evaluate(example_build, mixed, *line, "--batch")
    assert done.returncode == 0, done.stderr
    assert server.number == 2 * asked
    assert answers(mixed) == answers(direct)
    assert untimed(mixed) == untimed(direct)


def test_a_plan_states_both_prices(example_build: Path, server: BatchServer, tmp_path: Path) -> None:
    vendor = {"name": "a", "prices": {**PRICES, "batch_discount": 0.25}}
    models = models_file(tmp_path, server.openai_url, vendor, {"name": "b", "prices": PRICES, "batch_api": False})
    done = evaluate(example_build, tmp_path / "run", "--models", models, "--settings", "oracle", "--plan")
    assert done.returncode == 0, done.stderr
    a, b = (next(line.split() for line in done.stdout.splitlines() if f" {name} " in line) for name in "ab")
    assert float(a[-1]) == pytest.approx(0.75 * float(a[-2]), abs=0.01) and float(a[-1]) > 0
    assert float(b[-2]) > 0 and b[-1] == "-"
    assert "through the vendors' batch APIs" in done.stdout


def test_only_models_with_a_batch_api_are_asked_through_it(
    example_build: Path, quick: None, server: BatchServer, tmp_path: Path
) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "a"}, {"name": "b", "batch_api": False})
    out = tmp_path / "run"
    done = evaluate(example_build, out, "--models", models, "--settings", "closed_book", "--batch", "--sample", 3)
    assert done.returncode == 0, done.stderr
    asked = {row["endpoint"]: row for row in json.loads((out / "run.json").read_text())["asked"]}
    assert asked["a"]["batched"] == asked["a"]["requests"] == asked["b"]["requests"] and asked["b"]["batched"] == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--executor", "ray"), "--batch works in this process; leave out --executor ray"),
        (("--deploy", str(next(REPOSITORY.glob("serving/models/*-a100.yaml")))), "leave it out with --deploy"),
    ],
)
def test_batches_are_refused_where_they_are_not_made(
    options: tuple[str, str], message: str, example_build: Path, tmp_path: Path
) -> None:
    done = evaluate(example_build, tmp_path / "run", "--batch", "--plan", *options)
    assert done.returncode == 2 and message in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("status", [404, 405, 501])
def test_a_server_without_a_batch_api_is_a_wrong_argument(
    example_build: Path, server: BatchServer, tmp_path: Path, status: int
) -> None:
    server.call_faults = lambda call, number: status
    models = models_file(tmp_path, server.openai_url, {"name": "direct", "batch_api": False}, {"name": "a"})
    build = (
        "build",
        "--labels",
        EXAMPLES,
        "--models",
        models,
        "--generator",
        "a",
        "--out",
        tmp_path / "run",
        "--batch",
    )
    done = evaluate(example_build, tmp_path / "run", "--models", models, "--batch")
    for one in (done, run_job(*build)):
        [told] = [line for line in one.stderr.splitlines() if "error" in line]
        assert one.returncode == 2
        assert told.startswith(
            f"error: model a (a) at {server.openai_url}: its server has no batch API: GET /v1/batches"
        )
        assert f"HTTP {status}" in told and "leave out --batch" in told and "Nothing was submitted" in told
        assert not (tmp_path / "run").exists()
    assert server.number == 0 and server.calls_made == {"GET /v1/batches": 2}


def test_a_server_that_takes_no_batches_leaves_none_to_collect(
    example_build: Path, quick: None, server: BatchServer, tmp_path: Path
) -> None:
    """It lists batches, so that only the submission tells."""
    server.call_faults = lambda call, number: 501 if call.startswith("POST") else None
    line = ("--models", models_file(tmp_path, server.openai_url, {"name": "a"}), "--settings", "closed_book")
    done = evaluate(example_build, tmp_path / "run", *line, "--sample", 3, "--batch")
    assert done.returncode == 3 and "its server has no batch API: POST /v1/files: HTTP 501" in done.stderr
    done = evaluate(example_build, tmp_path / "run", *line, "--sample", 3)
    assert done.returncode == 0 and "were not collected" not in done.stderr and server.number > 0


def test_ctrl_c_leaves_the_batches_to_the_same_command(
    example_build: Path, server: BatchServer, quick: None, tmp_path: Path
) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "a"})
    line = ("--models", models, "--settings", "closed_book", "--batch")
    out = tmp_path / "run"
    server.holds = lambda batch: True
    errors = tmp_path / "errors"
    with errors.open("w") as stream:
        process = subprocess.Popen(command(example_build, out, *line), cwd=REPOSITORY, stderr=stream)
        wait_until(lambda: uncollected(out) > 0)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    told = errors.read_text()
    assert re.search(r"nothing more is asked; the same command collects 1 batch \(validating 0 of \d+\)", told)
    assert json.loads((out / "run.json").read_text())["status"] == "interrupted"
    server.holds = lambda batch: False
    warned = evaluate(example_build, out, "--models", models, "--settings", "closed_book", "--max-requests", 1)
    assert "were not collected: with --batch they are collected" in warned.stderr
    done = evaluate(example_build, out, *line)
    assert done.returncode == 0, done.stderr
    assert len(server.batches) == 1


def test_progress_tells_the_states_of_batches(capsys: pytest.CaptureFixture[str]) -> None:
    states = ["in progress 1,200 of 2,000", "validating 0 of 10"]
    printed: list[str] = []

    def is_told() -> bool:
        line("build", 8, 9)
        printed.append(capsys.readouterr().err)
        return "2,010 in flight in 2 batches (in progress 1,200 of 2,000; validating 0 of 10)" in printed[-1]

    line = ProgressLine({"build": "labels built"})
    with line, line.watching(lambda: AskProgress(done=5, in_flight=2010, batches=states), "build"):
        wait_until(is_told)


def test_the_last_line_of_a_phase_tells_nothing_in_flight(capsys: pytest.CaptureFixture[str]) -> None:
    """The state of asking is looked at twice a second, so that it may be older than the last part."""
    line = ProgressLine({"check": "parts checked"})
    with line, line.watching(lambda: AskProgress(in_flight=11), "check"):
        line("check", 0, 1)
        time.sleep(1.2)
        line("check", 1, 2)
        line("check", 2, 2)
    [*_, last] = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"2 of 2 parts checked(, [\d.]+/(s|min))?", last)


def wait_until(happened: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.02)


def uncollected(out: Path) -> int:
    """How many requests of a run the server has in batches."""
    records = BatchRecords(Location(out) / "batches").load()
    return sum(len(record.custom_ids) for record in records if not record.results)


@pytest.mark.slow
def test_nothing_is_asked_twice_by_a_driver_that_is_killed_twice(
    example_build: Path, server: BatchServer, tmp_path: Path
) -> None:
    names = ("a", "b", "c")
    models = models_file(tmp_path, server.openai_url, *({"name": name} for name in names))
    line = ("--models", models, "--retrievers", "bm25,tfidf")
    direct, batched = tmp_path / "direct", tmp_path / "batched"
    server.faults = two_percent_fail
    done = evaluate(example_build, direct, *line)
    assert done.returncode == 0, done.stderr
    asked, server.number = server.number, 0
    assert asked >= 1000

    drawn: set[str] = set()

    def expires(custom_id: str) -> bool:
        first = custom_id not in drawn
        drawn.add(custom_id)
        return first and int(custom_id[:8], 16) % 100 < 3

    server.expires = expires
    server.holds = lambda batch: True
    killed(example_build, batched, *line, until=lambda: len(server.batches) >= len(names))
    first = set(server.batches)
    server.holds = lambda batch: batch.id not in first
    killed(example_build, batched, *line, until=lambda: len(server.batches) > len(first))
    server.holds = lambda batch: False
    last = evaluate(example_build, batched, *line, "--batch")
    assert last.returncode == 0, last.stderr

    assert sum(server.expired.values()) > 0.02 * asked
    again = {request: count for request, count in server.submitted.items() if count > 1}
    assert again == dict.fromkeys(server.expired, 2)
    assert len(server.submitted) == server.number == asked
    assert BatchRecords(Location(batched) / "batches").uncollected() == {}
    failed = [one for one in answers(direct) if one.outcome == "failed"]
    assert 0.005 * asked < len(failed) < 0.04 * asked
    assert answers(batched) == answers(direct)
    assert grades(batched) == grades(direct)
    assert untimed(batched) == untimed(direct)


def killed(benchmark: Path, out: Path, *line: object, until: Callable[[], bool]) -> None:
    """An evaluation in batches whose process is killed at that moment."""
    process = subprocess.Popen(
        command(benchmark, out, *line, "--batch"), cwd=REPOSITORY, stderr=subprocess.DEVNULL, start_new_session=True
    )
    wait_until(until)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert json.loads((out / "run.json").read_text())["status"] == "running"


def answers(out: Path) -> list[Prediction]:
    """The predictions of a run, without what differs between two ways of asking: the time and the cost."""
    models = sorted(folder.name for folder in (out / "predictions").iterdir())
    rows = [row for model in models for row in rows_of(out, f"predictions/{model}", Prediction)]
    return [replace(row, latency_s=0.0, cost=None) for row in rows]


def grades(out: Path) -> list[Grade]:
    models = sorted(folder.name for folder in (out / "grades").iterdir())
    return [row for model in models for row in rows_of(out, f"grades/{model}", Grade)]
