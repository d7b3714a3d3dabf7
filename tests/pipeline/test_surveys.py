"""The surveys of a build's labels, which the run keeps part by part."""

from __future__ import annotations

from pathlib import Path

from fdarx_core.generation.topics import TopicSurvey
from fdarx_core.labels import find_sources
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.build import Build
from fdarx_core.pipeline.build_steps import baseline
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.storage import RunDirectory, read_records
from tests.conftest import EXAMPLES


def prepared(out: Path) -> Build:
    run = RunDirectory.begin(str(out), job="benchmark", config={}, versions={})
    inputs, clients = find_sources([str(EXAMPLES)]), ClientPool(baseline())
    build = Build(run=run, executor=LocalExecutor(), progress=lambda *_: None, clients=clients, inputs=inputs)
    build.prepare(planned=False)
    run.release()
    return build


def test_a_part_that_was_lost_is_surveyed_again(tmp_path: Path) -> None:
    first = prepared(tmp_path / "run")
    files = first.run.parts("surveys")
    assert len(files) == len(first.corpus.parts) == 2
    for part, file in zip(first.corpus.parts, files, strict=True):
        surveyed = {one.set_id for one in read_records(file, TopicSurvey)}
        assert surveyed == {label.set_id for label in part.inputs}
    files[0].delete()
    assert prepared(tmp_path / "run").plans == first.plans
