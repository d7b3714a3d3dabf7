"""What Prometheus reads at Ray's metrics port of a build and a sweep, against what their runs hold."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ray._common.utils import reset_ray_address
from ray.cluster_utils import Cluster

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.pipeline.metrics import COUNTERS, GAUGES
from fdarx_core.records import Grade, Prediction
from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.evaluating import respond, rows_of
from tests.llm.loopback_server import Call, Fault, LoopbackServer
from tests.pipeline.scripted import KEY_VARIABLE, NAME, Script, lot, models_file, read_models
from tests.pipeline.test_steps import identities

pytestmark = pytest.mark.cluster

AMOUNTS = ("--passages", "2", "--section-pairs", "1", "--twins", "1", "--transfers", "0", "--sample", "3")
PRICES = {"input": 3.0, "cached_input": 0.3, "output": 15.0}
WITHIN_S = 60
SWEEP = r"\xe9"
"""How Ray, whose tags are ASCII, is told the sweep's name."""

Tags: TypeAlias = tuple[tuple[str, str], ...]
Key: TypeAlias = tuple[str, Tags]


@dataclass(frozen=True)
class Metered:
    """A cluster with a metrics port of its own."""

    address: str
    port: int

    def samples(self) -> dict[Key, float]:
        """Our metrics now, over all processes: by name and tags, without those that Ray adds."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as reply:
            text = reply.read().decode()
        found: dict[Key, float] = defaultdict(float)
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name.startswith("ray_fdarx_"):
                    found[sample.name, _own(sample.labels)] += sample.value
        return dict(found)


def _own(labels: Mapping[str, str]) -> Tags:
    return tuple(sorted((tag, value) for tag, value in labels.items() if tag.islower() and "otel" not in tag))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Metered]:
    with pytest.MonkeyPatch.context() as patch, socket.socket() as probe:
        patch.setenv(KEY_VARIABLE, "sk-metered")
        patch.setenv("RAY_metrics_report_interval_ms", "1000")
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        head = {"num_cpus": 2, "object_store_memory": 200 * 2**20, "metrics_export_port": port}
        made: Any = Cluster(initialize_head=True, head_node_args={**head, "include_dashboard": False})
        try:
            yield Metered(made.address, port)
        finally:
            made.shutdown()
            reset_ray_address(None)


@pytest.fixture(scope="module")
def built(cluster: Metered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build by a model that is told to wait now and then, and refuses a few prompts."""
    folder = tmp_path_factory.mktemp("metered")
    file = models_file(folder, "http://127.0.0.1:1/v1")
    script = Script(
        identities(EXAMPLES, sample=3), GenerationConfig(passages=2, section_pairs=1, twins=1), read_models(file)
    )
    with LoopbackServer(answer=script) as server:
        server.faults = _weather
        models = models_file(folder, server.openai_url, prices=PRICES)
        roles = ("--generator", NAME, "--reader", NAME, "--judge", NAME)
        _run(
            "build_benchmark",
            cluster,
            "--labels",
            EXAMPLES,
            "--models",
            models,
            *roles,
            *AMOUNTS,
            "--out",
            folder / "b",
        )
    return folder / "b"


@pytest.fixture(scope="module")
def evaluated(built: Path, cluster: Metered) -> Path:
    """An evaluation by a model whose judge now and then says nothing that can be read."""
    with LoopbackServer(answer=respond) as server:
        server.faults = lambda call: (
            Fault(text="?", finish_reason="length") if lot(call.prompt) < 10 else _weather(call)
        )
        models = models_file(built.parent, server.openai_url, prices=PRICES, structured="json_object")
        out = built.parent / "é"
        what = (
            "--benchmark",
            built,
            "--models",
            models,
            "--only",
            NAME,
            "--judge",
            NAME,
            "--resamples",
            200,
            "--settings",
            "closed_book,retrieved",
        )
        _run("evaluate", cluster, *what, "--out", out)
    return out


def _weather(call: Call) -> Fault | None:
    drawn = lot(call.prompt)
    if drawn >= 95:
        return Fault(status=413, error={"message": "this is too long"})
    return Fault(status=429, retry_after="0.1") if drawn > 85 and call.attempt == 1 else None


def _run(job: str, cluster: Metered, *arguments: object) -> None:
    line = [sys.executable, "-m", f"jobs.{job}", *map(str, arguments)]
    environment = {**os.environ, "RAY_ADDRESS": cluster.address}
    done = subprocess.run(line, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr


def expected_asking(out: Path) -> dict[Key, float]:
    """What the run's ledger says of its one model."""
    rows = [row for row in json.loads((out / "run.json").read_text())["asked"] if row["endpoint"] == NAME]
    tags: Tags = (("model", NAME), ("run", out.name.encode("ascii", "backslashreplace").decode()))
    sums = {name: sum(row[name] for row in rows) for name in ("requests", "failed", "retries")}
    prompt, cached = (sum(row[f"{name}_tokens"] for row in rows) for name in ("prompt", "cached"))
    kinds = {"prompt_computed": prompt - cached, "prompt_cached": cached}
    kinds["completion"] = sum(row["completion_tokens"] for row in rows)
    wanted: dict[Key, float] = {(f"ray_fdarx_run_{name}_total", tags): value for name, value in sums.items()}
    wanted |= {("ray_fdarx_run_tokens_total", (("kind", kind), *tags)): value for kind, value in kinds.items()}
    return {**wanted, ("ray_fdarx_run_cost_usd_total", tags): sum(row["cost"] for row in rows)}


def must_show(cluster: Metered, wanted: Mapping[Any, float]) -> None:
    """Every process hands its counts on within seconds of its end."""
    deadline = time.monotonic() + WITHIN_S
    while True:
        samples = cluster.samples()
        seen = {key: samples.get(key, 0.0) for key in wanted}
        if seen == pytest.approx(dict(wanted)):
            return
        assert time.monotonic() < deadline, {
            key: (seen[key], wanted[key]) for key in wanted if seen[key] != wanted[key]
        }
        time.sleep(0.5)


def test_what_a_build_asks_and_loses_is_shown(built: Path, cluster: Metered) -> None:
    wanted = expected_asking(built)
    assert wanted["ray_fdarx_run_retries_total", (("model", NAME), ("run", "b"))] > 0
    assert wanted["ray_fdarx_run_failed_total", (("model", NAME), ("run", "b"))] > 0
    stages = {stage["stage"]: stage for stage in json.loads((built / "run.json").read_text())["stages"]}
    flow = list(stages)[list(stages).index("passages") :]
    rejected = {stage: stages[stage]["rejected"] for stage in flow if stages[stage]["rejected"]}
    wanted |= {
        ("ray_fdarx_run_rejects_total", (("run", "b"), ("stage", stage))): count for stage, count in rejected.items()
    }
    labels = stages["passages"]["rows_in"]
    must_show(cluster, {**wanted, ("ray_fdarx_run_labels_total", (("model", ""), ("run", "b"))): labels})


def test_what_a_sweep_asks_and_grades_is_shown(evaluated: Path, cluster: Metered) -> None:
    cells = {
        row.id: "/".join(filter(None, (row.model, row.setting, row.retriever)))
        for row in rows_of(evaluated, "predictions/scripted", Prediction)
    }
    graded = Counter(
        (cells[grade.prediction_id], grade.outcome) for grade in rows_of(evaluated, "grades/scripted", Grade)
    )
    assert any(outcome == "unscored" for _, outcome in graded)
    wanted = {
        ("ray_fdarx_run_grades_total", (("cell", cell), ("outcome", outcome), ("run", SWEEP))): float(count)
        for (cell, outcome), count in graded.items()
    }
    must_show(cluster, expected_asking(evaluated) | wanted)


def test_nothing_is_left_in_flight_and_every_metric_is_one_of_ours(evaluated: Path, cluster: Metered) -> None:
    known = {f"ray_{name}_total": set(tags) for name, (_, tags) in COUNTERS.items()}
    known |= {f"ray_{name}": {"run", "model"} for name in GAUGES}
    for (name, tags), value in cluster.samples().items():
        assert {tag for tag, _ in tags} == known[name]
        if name.removeprefix("ray_") in GAUGES:
            assert value == 0, (name, tags)
