"""A hundred real labels through a model on a server: bad weather, and a driver killed three times. Minutes long."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.labels import Identity, Selection, find_sources, identify, read_source, select
from fdarx_core.records import Reject
from fdarx_core.storage import Location, read_records
from tests.conftest import REPOSITORY
from tests.llm.loopback_server import LoopbackServer
from tests.pipeline.scripted import KEY_VARIABLE, NAME, Script, models_file, read_models, weather

pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(1800)]

LABELS = 100


def chosen(archive: Path) -> list[Identity]:
    documents = (one for source in find_sources([str(archive)]).sources for one in read_source(source))
    found = [identify(one[1], one[0]) for one in documents if not isinstance(one, Reject)]
    return select(found, Selection(sample=LABELS))[0]


@pytest.fixture(scope="module")
def script(real_labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Script]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, "sk-real")
        file = models_file(tmp_path_factory.mktemp("models"), "http://127.0.0.1:1/v1")
        yield Script(chosen(real_labels), GenerationConfig(), read_models(file))


def command(server: LoopbackServer, archive: Path, out: Path) -> list[str]:
    line = [
        sys.executable,
        "-m",
        "jobs.build_benchmark",
        "--labels",
        str(archive),
        "--sample",
        str(LABELS),
        "--transfers",
        "0",
    ]
    file = models_file(out.parent, server.openai_url, max_in_flight=32)
    line += ["--out", str(out), "--models", str(file), "--generator", NAME, "--reader", NAME, "--judge", NAME]
    return line


def must_build(server: LoopbackServer, archive: Path, out: Path) -> None:
    line = command(server, archive, out)
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stderr


def qa(out: Path) -> dict[str, bytes]:
    return {orjson.loads(line)["qid"]: line for line in (out / "benchmark" / "qa.jsonl").read_bytes().splitlines()}


@pytest.fixture(scope="module")
def calm(script: Script, real_labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("calm") / "run"
    with LoopbackServer(answer=script, keep_calls=False) as server:
        must_build(server, real_labels, out)
    return out


def test_bad_weather(calm: Path, real_labels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY_VARIABLE, "sk-real")
    models = read_models(models_file(tmp_path, "http://127.0.0.1:1/v1"))
    storm = Script(chosen(real_labels), GenerationConfig(), models, garbage=True)
    out = tmp_path / "run"
    with LoopbackServer(answer=storm, keep_calls=False) as server:
        server.faults = weather
        must_build(server, real_labels, out)
        calls = server.number
    rejects = [row for part in Location(out / "rejects").list() for row in read_records(part, Reject)]
    found = Counter((one.stage, one.reason) for one in rejects)
    unscored = sum(count for (_, reason), count in found.items() if "invalid_json" in reason)
    stormy, fair = qa(out), qa(calm)
    print(f"{calls} calls, {unscored} rows lost to garbage, {len(fair)} questions if fair, {len(stormy)} in storm")
    assert found.items() >= storm.rejects.items() and unscored > 0
    assert stormy.keys() == storm.questions
    assert all(stormy[qid] == fair[qid] for qid in stormy.keys() & fair.keys())
    asked = json.loads((out / "run.json").read_text())["asked"]
    assert sum(row["retries"] for row in asked) > 0


def test_a_driver_killed_three_times(calm: Path, script: Script, real_labels: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    moments = random.Random(5)
    with LoopbackServer(answer=script, latency=0.1, keep_calls=False) as server:
        for _ in range(3):
            before, after = server.number, moments.randint(500, 3000)
            process = subprocess.Popen(command(server, real_labels, out), cwd=REPOSITORY, start_new_session=True)
            while server.number < before + after and process.poll() is None:
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=60)
        must_build(server, real_labels, out)
        twice = sum(count - 1 for count in server.answered.values())
        print(f"{len(server.answered)} requests, {twice} answered twice: {twice / len(server.answered):.2%}")
    assert qa(out) == qa(calm)
    assert twice <= 0.02 * len(server.answered)
