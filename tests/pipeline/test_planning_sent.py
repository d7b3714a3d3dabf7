"""The plans of a build and of an evaluation of the example labels, against what they really send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from fdarx_core.evaluation.scoring import GradeReply
from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.labels import Selection, find_sources
from fdarx_core.llm import ModelConfig, ResponseStore
from fdarx_core.pipeline.asking import ClientPool, PlanRow, add_up
from fdarx_core.pipeline.build import Build
from fdarx_core.pipeline.build_steps import Roles
from fdarx_core.pipeline.build_steps import baseline as build_rules
from fdarx_core.pipeline.evaluation import Evaluation, check_benchmark
from fdarx_core.pipeline.evaluation_steps import EVALUATION_RULES, EvaluationSetup, evaluation_steps, read_samples
from fdarx_core.pipeline.part_files import PartFiles
from fdarx_core.pipeline.ray_executor import RayExecutor
from fdarx_core.pipeline.steps import Part, run_steps
from fdarx_core.records import Request, Response
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.benchmark_reader import read_benchmark
from jobs.ray_session import ray_session
from tests.conftest import EXAMPLES
from tests.llm.loopback_server import LoopbackServer

NAME, LABELS = "model", 4


@pytest.fixture(scope="module")
def folder(own_ray_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with ray_session(2):
        yield tmp_path_factory.mktemp("sizing")


def silent(*_: Any) -> None:
    pass


def stand_in(base_url: str = "http://localhost:8000/v1") -> dict[str, ModelConfig]:
    return {NAME: ModelConfig(name=NAME, model=NAME, base_url=base_url, context_length=40_960)}


def by_task(parts: Iterable[Sequence[PlanRow]]) -> dict[str, PlanRow]:
    return {row.task: row for row in add_up(parts, stand_in())}


def build_of(folder: Path, roles: Roles | None = None) -> Build:
    roles = roles or Roles()
    run = RunDirectory.begin(str(folder), job="build_benchmark", config={}, versions={})
    return Build(
        run=run,
        executor=RayExecutor(),
        progress=silent,
        clients=ClientPool(build_rules(), roles.used),
        inputs=find_sources([str(EXAMPLES)]),
        selection=Selection(sample=LABELS),
        roles=roles,
    )


def evaluation_of(folder: Path, benchmark: Path, base_url: str) -> Evaluation:
    spec = EvaluationSetup(stand_in(base_url), [NAME], NAME, list(SETTINGS), ["bm25"])
    run = RunDirectory.begin(str(folder), job="evaluate", config={}, versions={})
    given = read_benchmark(str(benchmark))
    check_benchmark(run, given.about["digest"], {})
    clients = ClientPool(EVALUATION_RULES, spec.used, shared_fate=False)
    return Evaluation(run=run, executor=RayExecutor(), progress=silent, clients=clients, benchmark=given, spec=spec)


@pytest.fixture(scope="module")
def made(folder: Path) -> dict[str, Any]:
    """The results of a build by the rules, whose run is in the folder `build`."""
    return build_of(folder / "build").run_all()


def as_the_rules(folder: Path, spec: EvaluationSetup) -> dict[bytes, str]:
    """What the rules, which stand in for models in a plan, answer to each prompt of the sweep.

    A model does not abstain: where the rules are undecided, its grade has their reason.
    """
    texts: dict[bytes, str] = {}

    def answer(requests: Sequence[Request]) -> list[Response]:
        responses = EVALUATION_RULES.answer(requests)
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
def test_a_build_asks_at_most_as_often_as_planned(made: Mapping[str, Any], folder: Path) -> None:
    planned = by_task(build_of(folder / "plan", Roles(stand_in(), NAME, NAME, (NAME,))).planned_parts())
    store = ResponseStore(RunDirectory.open(str(folder / "build")).file("responses"))
    asked = Counter(segment.split("/")[-2] for segment in store.index().values())
    assert sum(made["questions"].values()) > 50 and asked
    assert all(planned[task].requests >= count for task, count in asked.items())  # a plan drops nothing


@pytest.mark.cluster
def test_a_sweep_sends_what_was_planned_and_grades_at_most_as_many(made: Mapping[str, Any], folder: Path) -> None:
    planned = by_task(evaluation_of(folder / "sweep", folder / "build", "http://localhost:8000/v1").planned_parts())
    with LoopbackServer() as server:
        job = evaluation_of(folder / "sent", folder / "build", server.openai_url)
        texts = as_the_rules(folder, job.spec)

        def say(body: Mapping[str, Any]) -> str:
            return texts[orjson.dumps(body["messages"])]

        server.answer = say
        asked = {row["task"]: row for row in job.run_all()["asked"]}
        assert server.number == sum(row["requests"] for row in asked.values())
    grades = asked.pop("grade_answer"), planned.pop("grade_answer")
    assert 0 < grades[0]["requests"] <= grades[1].requests  # equal answers share a request, refusals need none
    assert {task: row["requests"] for task, row in asked.items()} == {
        task: row.requests for task, row in planned.items()
    }
    for task, row in asked.items():
        assert planned[task].prompt_tokens == pytest.approx(row["prompt_tokens"], rel=0.1)
        assert planned[task].completion_tokens == pytest.approx(row["completion_tokens"], rel=0.4)
