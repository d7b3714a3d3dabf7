"""Builds on both executors: the same rows as a plain loop, whatever the parts, the order and the interruptions."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.labels import find_sources, identify_sources
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.build import Build
from fdarx_core.pipeline.build_steps import baseline
from fdarx_core.pipeline.executor import Executor
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.pipeline.ray_executor import RayExecutor
from fdarx_core.records import QuestionAnswer, Reject, StageCount
from fdarx_core.storage import RunConflict, RunDirectory, StorageError, read_records
from jobs.ray_session import ray_session
from tests.conftest import EXAMPLES
from tests.pipeline.test_steps import build, identities

AMOUNTS = GenerationConfig(passages=3, section_pairs=3, twins=2)


@pytest.fixture(scope="module")
def on_ray(own_ray_environment: None) -> Iterator[RayExecutor]:
    with ray_session(2):
        yield RayExecutor()


@pytest.fixture
def local() -> LocalExecutor:
    return LocalExecutor()


def new_run(folder: Path) -> RunDirectory:
    return RunDirectory.begin(str(folder), job="build_benchmark", config={}, versions={})


def run_build(executor: Executor, run: RunDirectory, *paths: Path) -> None:
    inputs, clients = find_sources([str(path) for path in paths]), ClientPool(baseline())
    Build(
        run=run, executor=executor, progress=lambda *_: None, clients=clients, inputs=inputs, amounts=AMOUNTS
    ).run_all()


def contents(run: RunDirectory) -> dict[str, bytes]:
    names = ("qa.jsonl", "labels.jsonl")
    return {name: run.file(f"benchmark/{name}").read_bytes() for name in names}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A build of the examples in this process; tests read it, or break a copy of it."""
    run = new_run(tmp_path_factory.mktemp("flow") / "whole")
    run_build(LocalExecutor(), run, EXAMPLES)
    run.release()
    return run


def stopped_copy(whole: RunDirectory, folder: Path) -> RunDirectory:
    """A copy of a run as a job leaves it that stopped before its end."""
    shutil.copytree(str(whole.root), folder)
    run = RunDirectory.open(str(folder))
    run.stop("interrupted")
    return run


@pytest.mark.slow
def test_both_executors_make_what_a_loop_makes(whole: RunDirectory, on_ray: Executor, tmp_path: Path) -> None:
    expected = [question for state in build(identities(EXAMPLES), AMOUNTS) for question in state.questions]
    flow = new_run(tmp_path / "ray")
    run_build(on_ray, flow, EXAMPLES)
    for run in (whole, flow):
        assert [row for part in run.parts("questions") for row in read_records(part, QuestionAnswer)] == expected
    assert contents(flow) == contents(whole)
    assert flow.info()["stages"] == whole.info()["stages"]


@pytest.mark.parametrize("name", ["local", pytest.param("on_ray", marks=pytest.mark.slow)])
def test_an_output_that_can_not_be_written_is_named(name: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    executor = request.getfixturevalue(name)
    run = new_run(tmp_path / "run")
    run.file("candidates").write_text("where a folder is to be")
    with pytest.raises(StorageError) as raised:
        run_build(executor, run, EXAMPLES / "telvanto-tablets.xml")
    message = str(getattr(raised.value, "cause", raised.value))
    assert message.startswith("cannot write ") and "a part of the path is a file; choose another place" in message


def test_bad_files_are_rejects_and_harm_no_other(tmp_path: Path) -> None:
    (tmp_path / "notes.xml").write_text("not a label")
    (tmp_path / "empty.xml").write_text("")
    (tmp_path / "good.xml").write_bytes((EXAMPLES / "telvanto-tablets.xml").read_bytes())
    sources, identities, rejected = identify_sources(find_sources([str(tmp_path)]).sources)
    assert sources == 3
    rejects = {reject.id.rpartition("/")[2]: reject.reason for reject in rejected}
    assert rejects == {"notes.xml": "not_xml", "empty.xml": "empty_file"}
    assert [one.set_id for one in identities] == ["00000000-0000-4000-8000-000000000001"]


def test_a_build_that_stopped_goes_on_and_equals_one_that_did_not(
    whole: RunDirectory, local: Executor, tmp_path: Path
) -> None:
    broken = stopped_copy(whole, tmp_path / "broken")
    for kind in ("stages", "questions"):
        broken.part(kind, 0).delete()
    resumed = new_run(tmp_path / "broken")
    assert resumed.resumed and not resumed.complete
    run_build(local, resumed, EXAMPLES)
    assert contents(resumed) == contents(whole)
    assert resumed.info()["stages"] == whole.info()["stages"]


def test_what_a_part_already_holds_is_not_made_again(whole: RunDirectory, local: Executor, tmp_path: Path) -> None:
    run = stopped_copy(whole, tmp_path / "run")
    run.part("stages", 1).delete()
    before = {part.name: part.read_bytes() for part in run.parts("stages")}
    marker = run.part("questions", 0)
    marker.write_bytes(marker.read_bytes())
    untouched = Path(str(marker)).stat().st_mtime_ns
    run_build(local, new_run(tmp_path / "run"), EXAMPLES)
    assert Path(str(marker)).stat().st_mtime_ns == untouched
    assert before.items() <= {part.name: part.read_bytes() for part in run.parts("stages")}.items()


def test_a_resumed_run_refuses_other_labels(whole: RunDirectory, local: Executor, tmp_path: Path) -> None:
    stopped_copy(whole, tmp_path / "run")
    with pytest.raises(RunConflict, match="other labels"):
        run_build(local, new_run(tmp_path / "run"), EXAMPLES / "telvanto-tablets.xml")


def test_the_accounts_agree_with_the_rows_on_disk(whole: RunDirectory) -> None:
    run = whole
    stages = {stage["stage"]: StageCount(**stage) for stage in run.info()["stages"]}
    records = {"questions": QuestionAnswer, "candidates": QuestionAnswer, "rejects": Reject}
    rows = {kind: sum(1 for p in run.parts(kind) for _ in read_records(p, record)) for kind, record in records.items()}
    assert rows["questions"] == stages["twins"].rows_out == sum(run.info()["questions"].values())
    assert rows["candidates"] == stages["generate"].rows_out
    assert rows["rejects"] == sum(stage.rejected for stage in stages.values())
    reasons = {reject.reason for part in run.parts("rejects") for reject in read_records(part, Reject)}
    assert {"document_type", "route", "duplicate_set_id"} <= reasons
