"""The Ray flow on a real local Ray: the same rows as the loop, whatever the cut, the order and the interruptions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fdarx_core.generation.contexts import Amounts
from fdarx_core.labels import find_sources
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.build import Build, What
from fdarx_core.pipeline.flow import Flow, identify_all
from fdarx_core.pipeline.outside import Outside
from fdarx_core.pipeline.plan import build_steps
from fdarx_core.pipeline.sink import Sink
from fdarx_core.records import QuestionAnswer, Reject, StageCount
from fdarx_core.storage import RunConflict, RunDirectory, StorageError, read_records
from jobs.ray_session import ray_session
from tests.conftest import EXAMPLES
from tests.pipeline.test_steps import build, identities


@pytest.fixture(scope="module", autouse=True)
def ray_here(own_ray_environment: None) -> Iterator[None]:
    with ray_session(2):
        yield


def new_run(folder: Path) -> RunDirectory:
    return RunDirectory.begin(str(folder), job="build_benchmark", config={}, versions={})


def run_build(run: RunDirectory, *paths: Path) -> None:
    inputs = find_sources([str(path) for path in paths])
    amounts = Amounts(passages=3, section_pairs=3, refusals=2)
    Build(run, What(inputs, amounts=amounts), lambda *_: None).run_all()


def contents(run: RunDirectory) -> dict[str, bytes]:
    names = ("qa.jsonl", "labels.jsonl")
    return {name: run.file(f"benchmark/{name}").read_bytes() for name in names}


def test_the_flow_makes_what_a_loop_makes(tmp_path: Path) -> None:
    labels = identities(EXAMPLES)
    run = new_run(tmp_path / "run")
    parts = [(0, labels[:3]), (1, labels[3:5]), (2, labels[5:])]
    flow = Flow(build_steps(Amounts()), ResponseStore(run.file("responses")), Outside())
    accounts = list(flow.build_parts(parts, Sink(run)))
    assert len(accounts) == 3
    made = [row for part in run.parts("questions") for row in read_records(part, QuestionAnswer)]
    assert made == [question for dossier in build(labels) for question in dossier.questions]


def test_an_output_that_can_not_be_written_is_told_as_that(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    run.file("candidates").write_text("where a folder is to be")
    flow = Flow(build_steps(Amounts()), ResponseStore(run.file("responses")), Outside())
    with pytest.raises(StorageError) as raised:
        list(flow.build_parts([(0, identities(EXAMPLES)[:1])], Sink(run)))
    told = str(getattr(raised.value, "cause", ""))
    assert told.startswith("cannot write ") and "a part of the path is a file; choose another place" in told


def test_bad_files_are_rejects_and_harm_no_other(tmp_path: Path) -> None:
    (tmp_path / "notes.xml").write_text("not a label")
    (tmp_path / "empty.xml").write_text("")
    (tmp_path / "good.xml").write_bytes((EXAMPLES / "telvanto-tablets.xml").read_bytes())
    blocks = list(identify_all(find_sources([str(tmp_path)]).sources))
    rejects = {reject.id.rpartition("/")[2]: reject.reason for block in blocks for reject in block.rejects}
    assert rejects == {"notes.xml": "not_xml", "empty.xml": "empty_file"}
    assert [one.set_id for block in blocks for one in block.identities] == ["00000000-0000-4000-8000-000000000001"]


def test_a_build_that_stopped_goes_on_and_equals_one_that_did_not(tmp_path: Path) -> None:
    whole = new_run(tmp_path / "whole")
    run_build(whole, EXAMPLES)
    broken = new_run(tmp_path / "broken")
    run_build(broken, EXAMPLES)
    for kind in ("stages", "questions"):
        broken.part(kind, 0).delete()
    broken.stop("interrupted")
    resumed = new_run(tmp_path / "broken")
    assert resumed.resumed and not resumed.complete
    run_build(resumed, EXAMPLES)
    assert contents(resumed) == contents(whole)
    assert resumed.info()["stages"] == whole.info()["stages"]


def test_what_a_part_already_holds_is_not_made_again(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    run_build(run, EXAMPLES)
    run.part("stages", 1).delete()
    before = {part.name: part.read_bytes() for part in run.parts("stages")}
    marker = run.part("questions", 0)
    marker.write_bytes(marker.read_bytes())
    run.stop("interrupted")
    untouched = Path(str(marker)).stat().st_mtime_ns
    run_build(new_run(tmp_path / "run"), EXAMPLES)
    assert Path(str(marker)).stat().st_mtime_ns == untouched
    assert before.items() <= {part.name: part.read_bytes() for part in run.parts("stages")}.items()


def test_a_resumed_run_refuses_other_labels(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    run_build(run, EXAMPLES)
    run.stop("interrupted")
    with pytest.raises(RunConflict, match="other labels"):
        run_build(new_run(tmp_path / "run"), EXAMPLES / "telvanto-tablets.xml")


def test_the_accounts_agree_with_the_rows_on_disk(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    run_build(run, EXAMPLES)
    stages = {stage["stage"]: StageCount(**stage) for stage in run.info()["stages"]}
    records = {"questions": QuestionAnswer, "candidates": QuestionAnswer, "rejects": Reject}
    rows = {kind: sum(1 for p in run.parts(kind) for _ in read_records(p, record)) for kind, record in records.items()}
    assert rows["questions"] == stages["quality"].rows_out == sum(run.info()["questions"].values())
    assert rows["candidates"] == stages["generate"].rows_out
    assert rows["rejects"] == sum(stage.rejected for stage in stages.values())
    reasons = {reject.reason for part in run.parts("rejects") for reject in read_records(part, Reject)}
    assert {"document_type", "route", "duplicate_set_id"} <= reasons
