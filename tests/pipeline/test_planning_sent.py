"""The sizing table's counts for the example labels, against what a build and a sweep really send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from benchmarks.sizing import BEGIN, END, NAME, Load, WorkPlans, measure, rows, silent, stand_in, table, written
from benchmarks.throughput import PUBLISHED, derived, deviation
from fdarx_core.evaluation.scoring import GradeReply
from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.pipeline.evaluation import Evaluation, check_benchmark
from fdarx_core.pipeline.evaluation_steps import EvaluationSpec, baseline, evaluation_steps, read_samples
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.ray_executor import RayExecutor
from fdarx_core.pipeline.steps import Part, run_steps
from fdarx_core.records import Request, Response
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.benchmark_reader import read_benchmark
from jobs.ray_session import ray_session
from serving.served_model import load_served
from tests.conftest import EXAMPLES, REPOSITORY
from tests.llm.loopback_server import LoopbackServer

MODELS = sorted((REPOSITORY / "serving" / "models").glob("*-a100.yaml"))
LABELS = 4


@pytest.fixture(scope="module")
def folder(own_ray_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with ray_session(2):
        yield tmp_path_factory.mktemp("sizing")


@pytest.fixture(scope="module")
def measured(folder: Path) -> WorkPlans:
    return measure(str(EXAMPLES), LABELS, folder)


def as_the_rules(folder: Path, spec: EvaluationSpec) -> dict[bytes, str]:
    """What the rules, which stand in for models in a plan, answer to each prompt of the sweep.

    A model does not abstain: where the rules are undecided, its grade has their reason.
    """
    texts: dict[bytes, str] = {}

    def answer(requests: Sequence[Request]) -> list[Response]:
        responses = baseline().answer(requests)
        for request, reply in zip(requests, responses, strict=True):
            if reply.reason == "undecided":
                reply.text = GradeReply(reason=reply.text, grade="INCORRECT").model_dump_json()
                reply.reason, reply.finish_reason = "", "stop"
            texts[orjson.dumps(request.messages)] = reply.text
        return responses

    parts = PartFiles(RunDirectory.open(str(folder / "sweep")), "")
    for number in range(len(parts.run.parts("subjects"))):
        run_steps(evaluation_steps(spec, NAME), read_samples(parts, spec, NAME, None, Part(number)), answer)
    return texts


@pytest.mark.cluster
def test_a_build_asks_at_most_as_often_as_planned(measured: WorkPlans) -> None:
    assert measured.labels == LABELS and measured.questions > 50
    planned = {row.task: row.requests for row in rows(measured.build)}
    assert all(planned[task] >= count for task, count in measured.asked.items())  # a plan drops nothing


@pytest.mark.cluster
def test_a_sweep_sends_what_was_planned(measured: WorkPlans, folder: Path) -> None:
    planned = {row.task: row for row in rows(measured.sweep)}
    with LoopbackServer() as server:
        spec = EvaluationSpec(stand_in(server.openai_url), [NAME], NAME, list(SETTINGS), ["bm25"])
        texts = as_the_rules(folder, spec)

        def say(body: Mapping[str, Any]) -> str:
            return texts[orjson.dumps(body["messages"])]

        server.answer = say
        benchmark = read_benchmark(str(folder / "build"))
        run = RunDirectory.begin(str(folder / "sent"), job="evaluate", config={}, versions={})
        check_benchmark(run, benchmark.about["digest"], {})
        job = Evaluation(run=run, executor=RayExecutor(), progress=silent, benchmark=benchmark, spec=spec)
        asked = {row["task"]: row for row in job.run_all()["asked"]}
        assert server.number == sum(row.requests for row in planned.values())
    assert {task: row["requests"] for task, row in asked.items()} == {
        task: row.requests for task, row in planned.items()
    }
    for task, row in asked.items():
        assert planned[task].prompt_tokens == pytest.approx(row["prompt_tokens"], rel=0.1)
        assert planned[task].completion_tokens == pytest.approx(row["completion_tokens"], rel=0.4)


def test_the_table_stands_between_its_marks() -> None:
    works = ("build", "answers", "grades")
    loads = [Load(name, 700, 100_000, 9e7, 7e7, 2e6, parts=[900, 1000, 1100]) for name in works]
    made = table(loads, [load_served(file) for file in MODELS])
    assert made.count("| 50,000 | ") == 3 and made.count("| qwen3-32b | 2 | ") == 3
    assert "| 5,000 | build | 714,286 | 642.9 M | 78% | 14.3 M | 11% |" in made
    before = f"# Sizes\n\n{BEGIN}\nan older one\n{END}\n\nAfter.\n"
    after = written(before, made)
    assert after == f"# Sizes\n\n{BEGIN}\n{made}\n{END}\n\nAfter.\n"
    assert written(after, made) == after
    with pytest.raises(ValueError, match="sizing"):
        written("# No marks", made)


def test_a_prefix_cache_spares_what_is_shared() -> None:
    [model] = [load_served(file) for file in MODELS if file.stem == "qwen3-32b-a100"]
    assert model.throughput is not None
    load = Load("answers", 700, 1, 1e9, 9e8, 1e6)
    fewer = load.gpu_hours(model, cached=False) - load.gpu_hours(model, cached=True)
    assert fewer == pytest.approx(9e8 / model.throughput.prefill * 2 / 3600)


def test_throughput_is_near_what_others_measured() -> None:
    for one in PUBLISHED:
        assert abs(deviation(one)) <= 1 / 3, one


@pytest.mark.parametrize("file", MODELS, ids=lambda file: str(file.stem))
def test_the_models_state_the_throughput_that_is_derived(file: Path) -> None:
    stated = load_served(file).throughput
    assert stated is not None
    _, prefill, decode = derived(file)
    assert stated.prefill == pytest.approx(prefill, rel=0.05)
    assert stated.decode == pytest.approx(decode, rel=0.05)
