"""Spans of jobs: the job, its phases and parts, and the requests of its models, in this process and on Ray."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fdarx_core.telemetry import PARENT_VARIABLE
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import command, evaluate, models_file, respond
from tests.llm.loopback_server import LoopbackServer
from tests.telemetry.otlp_receiver import OtlpReceiver

OPTIONS = ("--settings", "oracle", "--retrievers", "bm25", "--sample", 2, "--only", "tiny")


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=respond) as running:
        yield running


def test_requests_are_below_their_part_and_job(
    example_build: Path, server: LoopbackServer, collector: OtlpReceiver, tmp_path: Path
) -> None:
    models, before = models_file(tmp_path, server.openai_url, {"name": "tiny"}), server.number
    done = evaluate(example_build, tmp_path / "run", *OPTIONS, "--models", models, "--executor", "local")
    assert done.returncode == 0, done.stderr
    [job] = collector.named("job evaluate")
    assert job.parent == "" and job.attributes["fdarx.run"] == "run" and not job.failed
    chats = collector.named("chat tiny")
    assert len(chats) == server.number - before > 0
    assert {tuple(collector.above(one)) for one in chats} == {("ask", "part tiny", "answer", "job evaluate")}
    parts = collector.named("part tiny")
    assert {one.attributes["fdarx.stage"] for one in parts} == {"tiny"}
    assert {"publish", "report"} <= {one.name for one in collector.spans if one.parent == job.id}
    assert {one.trace_id for one in collector.spans} == {job.trace_id} and PARENT_VARIABLE not in os.environ


@pytest.mark.slow
@pytest.mark.nightly
def test_workers_on_ray_send_their_spans_too(
    example_build: Path, server: LoopbackServer, collector: OtlpReceiver, tmp_path: Path
) -> None:
    models, before = models_file(tmp_path, server.openai_url, {"name": "tiny"}), server.number
    line = command(example_build, tmp_path / "run", *OPTIONS, "--models", models, "--executor", "ray")
    outer = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    environment = {**os.environ, PARENT_VARIABLE: outer, "OTEL_SERVICE_NAME": "evaluations"}
    done = subprocess.run(line, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    [job] = collector.named("job evaluate")
    assert job.parent == outer.split("-")[2]
    chats = collector.named("chat tiny")
    assert len(chats) == server.number - before > 0
    assert {tuple(collector.above(one)) for one in chats} == {("ask", "job evaluate")}
    for name in ("begin tiny", "end tiny"):
        assert {one.parent for one in collector.named(name)} == {job.id}
    assert {one.resource["service.name"] for one in collector.spans} == {"evaluations"}


def test_a_collector_that_is_down_costs_no_results(
    example_build: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    line = command(example_build, tmp_path / "run", "--settings", "oracle", "--sample", "2", "--executor", "local")
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "Table 1" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_missing_library_is_told_once_and_costs_nothing_else(collector: OtlpReceiver) -> None:
    code = (
        "import sys; sys.modules['opentelemetry.exporter.otlp.proto.http.trace_exporter'] = None\n"
        "from fdarx_core.telemetry import flush, span\n"
        "for _ in range(2):\n    with span('x'):\n        print('done')\nflush()"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout == "done\ndone\n" and done.stderr.count("pip install 'fdarx[telemetry]'") == 1
