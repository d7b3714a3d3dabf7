"""A build whose writer, reader and judge are loopback models that follow the prompts, over HTTP.

    python -m benchmarks.loopback_build [--labels PATH] [--part all] [--sample 100] [--per-drug 2] [--out FOLDER]
        [--show 3]

The models are those of `loopback_writer` and `loopback_readers`. Prints what each stage kept, the reasons of rejects
with examples, how well refusals can be told from the question alone, and the requests that `fdarx build --plan` expects
against those that were sent, by task. `--part dev` or `test` takes the labels of one half of the drugs, as
`benchmarks.drug_search` does; amounts were chosen on `dev`. Exits 1 where the artifact audit fails, or the requests
that were sent differ by more than a tenth from the plan, in all or for a task.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import PRESCRIPTION_LABELS, run
from benchmarks.loopback_prompts import JUDGING, READING, TASKS, WRITING, ShownPrompt
from benchmarks.loopback_readers import READERS
from benchmarks.loopback_writer import write
from benchmarks.spoilt_labels import Part, read_part
from fdarx_core.evaluation.artifact_classifiers import REFUSAL_F1_BOUND
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.labels import Selection, find_sources
from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.build import Build, BuildSpec
from fdarx_core.pipeline.build_steps import Roles
from fdarx_core.pipeline.executor import Executor
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.records import QuestionAnswer, Reject
from fdarx_core.storage import RunDirectory, read_records
from tests.llm.loopback_server import LoopbackServer

TOLERANCE = 0.1
"""By how much the requests that are sent may differ from the plan, as a share of the plan."""
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
    """A finished build: its run, run.json, and by task the requests that were planned and that were sent."""

    run: RunDirectory
    info: dict[str, Any]
    planned: Mapping[str, int]
    sent: Mapping[str, int]

    def deviations(self) -> dict[str, float | None]:
        """Return sent over planned requests minus 1, by task and for all; None for a task that was not planned."""
        counts = {task: (self.planned.get(task, 0), self.sent.get(task, 0)) for task in TASKS}
        counts["all"] = (sum(self.planned.values()), sum(self.sent.values()))
        return {
            task: sent / planned - 1 if planned else None for task, (planned, sent) in counts.items() if planned or sent
        }

    def rows(self, kind: str, record: type[Any]) -> list[Any]:
        return [row for part in self.run.parts(kind) for row in read_records(part, record)]


def measure(labels: str, folder: Path, selection: Selection, amounts: GenerationConfig | None = None) -> LoopbackBuild:
    """Plan a build and make it, in folders below `folder`."""
    models = LoopbackModels()
    with LoopbackServer(models, keep_calls=False) as server:
        spec = loopback_spec(labels, server, selection, amounts)
        planned = {row.task: row.requests for row in begun_build(folder / "plan", spec).plan()}
        assert not models.sent, "a plan must not ask"
        made = begun_build(folder / "build", spec)
        info = made.run_all()
    return LoopbackBuild(made.run, info, planned, models.sent)


def loopback_spec(
    labels: str, server: LoopbackServer, selection: Selection, amounts: GenerationConfig | None = None
) -> BuildSpec:
    """Return the specification of a build by the models on a server."""
    configs = {name: ModelConfig(name=name, model=name, base_url=server.openai_url) for name in ROLES}
    roles = Roles(configs, "writer", "reader", ("judge",))
    return BuildSpec(find_sources([labels]), selection, amounts or GenerationConfig(), roles)


def begun_build(folder: Path, spec: BuildSpec, executor: Executor | None = None) -> Build:
    """Return a build in a folder, by default in this process."""
    begun = RunDirectory.begin(str(folder), job="build_benchmark", config={}, versions={})
    return Build(run=begun, executor=executor or LocalExecutor(), progress=_silent, spec=spec)


def _silent(*_: Any) -> None:
    return


def print_stages(made: LoopbackBuild, show: int) -> None:
    print("| stage | in | rejected | out |\n|---|--:|--:|--:|")
    for row in made.info["stages"]:
        print(f"| {row['stage']} | {row['rows_in']:,} | {row['rejected']:,} | {row['rows_out']:,} |")
    print(f"\nquestions: {made.info['questions']}")
    written = {one.id: one for one in made.rows("candidates", QuestionAnswer)}
    rejects = [one for one in made.rows("rejects", Reject) if one.stage not in ("read", "identify", "select")]
    by_reason: dict[tuple[str, str, str], list[Reject]] = {}
    for one in rejects:
        kind = written[one.id].type if one.id in written else ""
        by_reason.setdefault((one.stage, kind, one.reason), []).append(one)
    for (stage, kind, reason), found in sorted(by_reason.items()):
        print(f"\n{stage} {kind} {reason}: {len(found):,}")
        for one in found[:show] if found[0].id in written else []:
            print(f"    {written[one.id].question}\n      {written[one.id].answer[:200]}\n      {one.detail[:200]}")


def print_refusals(made: LoopbackBuild) -> bool:
    """Print how well refusals are told from the question alone; return whether the audit passes."""
    print("\n| refusals from the question alone | masked | F1 | interval | accuracy | interval |")
    print("|---|---|--:|---|--:|---|")
    figures = made.info["audit"]["figures"]
    for one in figures:
        if one["metric"] == "refusal_f1":
            keys = one["keys"]
            other = next(row for row in figures if row["metric"] == "refusal_accuracy" and row["keys"] == keys)
            print(f"| {keys['features']} | {keys['masked']} | {_figure(one)} | {_figure(other)} |")
    print(
        "\n".join(made.info["audit"]["failed"])
        or f"the artifact audit passes; the bound of F1 is {REFUSAL_F1_BOUND:.2f}"
    )
    return not made.info["audit"]["failed"]


def _figure(one: Mapping[str, Any]) -> str:
    return "– | –" if one["value"] is None else f"{one['value']:.3f} | {one['low']:.3f} to {one['high']:.3f}"


def print_requests(made: LoopbackBuild) -> bool:
    """Print the requests by task; return whether all are as planned."""
    print("\n| task | planned | sent | off |\n|---|--:|--:|--:|")
    kept = True
    for task, off in made.deviations().items():
        planned, sent = (
            sum(counts.values()) if task == "all" else counts.get(task, 0) for counts in (made.planned, made.sent)
        )
        kept &= off is not None and abs(off) <= TOLERANCE
        print(f"| {task} | {planned:,} | {sent:,} | {'–' if off is None else f'{off:+.1%}'} |")
    return kept


def main(
    *,
    labels: str = str(PRESCRIPTION_LABELS),
    part: Part = "all",
    sample: int | None = 100,
    per_drug: int | None = 2,
    out: Path | None = None,
    show: int = 3,
) -> int:
    """Print the tables."""
    half = frozenset(one.set_id for one in read_part([labels], part, None, 0)) if part != "all" else frozenset()
    with tempfile.TemporaryDirectory() as folder:
        made = measure(labels, out or Path(folder), Selection(set_ids=half, per_drug=per_drug, sample=sample))
        print_stages(made, show)
    kept = [print_refusals(made), print_requests(made)]
    return int(not all(kept))


if __name__ == "__main__":
    run(main)
