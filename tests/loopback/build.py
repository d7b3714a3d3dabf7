"""A build whose writer, reader and judge are loopback models that follow the prompts, over HTTP.

The models are those of `writer` and `readers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.labels import Selection, find_sources
from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.build import Build
from fdarx_core.pipeline.build_steps import Roles, baseline
from fdarx_core.pipeline.executor import Executor
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.storage import RunDirectory, read_records
from tests.llm.loopback_server import LoopbackServer
from tests.loopback.prompts import JUDGING, READING, WRITING, ShownPrompt
from tests.loopback.readers import READERS
from tests.loopback.writer import write

ROLES = {"writer": WRITING, "reader": READING[:1], "judge": (*JUDGING, *READING[1:])}
"""The models, each with the tasks that it is asked."""


@dataclass(slots=True)
class LoopbackModels:
    """Replies to the requests of a build, and counts those of each task."""

    sent: Counter[str] = field(default_factory=Counter)

    def __call__(self, body: Mapping[str, Any]) -> str:
        """Reply to a request; matches `LoopbackServer.answer`."""
        prompt = ShownPrompt.read(body)
        assert prompt.task in ROLES[body["model"]], f"{body['model']} was asked for {prompt.task}"
        self.sent[prompt.task] += 1
        return write(prompt) if prompt.task in WRITING else READERS[prompt.task](prompt).model_dump_json()


@dataclass(slots=True)
class LoopbackBuild:
    """A finished build: its run, run.json, and by task the requests that were planned and sent."""

    run: RunDirectory
    info: dict[str, Any]
    planned: Mapping[str, int]
    sent: Mapping[str, int]

    def rows(self, kind: str, record: type[Any]) -> list[Any]:
        return [row for part in self.run.parts(kind) for row in read_records(part, record)]


def measure(labels: str, folder: Path, selection: Selection, amounts: GenerationConfig | None = None) -> LoopbackBuild:
    """Plan a build, and make it, in folders below `folder`."""
    models = LoopbackModels()
    with LoopbackServer(models, keep_calls=False) as server:
        fields = loopback_fields(labels, server, selection, amounts)
        rows = begun_build(folder / "plan", fields).plan()
        assert not models.sent, "a plan must not ask"
        made = begun_build(folder / "build", fields)
        info = made.run_all()
    return LoopbackBuild(made.run, info, {row.task: row.requests for row in rows}, models.sent)


def loopback_fields(
    labels: str, server: LoopbackServer, selection: Selection, amounts: GenerationConfig | None = None
) -> dict[str, Any]:
    """Return the fields of a build by the models on a server."""
    configs = {name: ModelConfig(name=name, model=name, base_url=server.openai_url) for name in ROLES}
    roles = Roles(configs, "writer", "reader", ("judge",))
    return {
        "clients": ClientPool(baseline(), roles.used),
        "inputs": find_sources([labels]),
        "selection": selection,
        "amounts": amounts or GenerationConfig(),
        "roles": roles,
    }


def begun_build(folder: Path, fields: Mapping[str, Any], executor: Executor | None = None) -> Build:
    """Return a build in a folder, by default in this process."""
    begun = RunDirectory.begin(str(folder), job="build_benchmark", config={}, versions={})
    return Build(run=begun, executor=executor or LocalExecutor(), progress=_silent, **fields)


def _silent(*_: Any) -> None:
    return
