r"""A build whose writer, reader and judge are loopback models that follow the prompts, over HTTP.

    python -m benchmarks.loopback_build [--labels PATH] [--part all] [--sample 100] [--per-drug 2] \
        [--pilot 30] [--out FOLDER] [--show 3]

The models are those of `loopback_writer` and `loopback_readers`. Prints what each stage kept, the reasons of rejects
with examples, how well refusals can be told from the question alone, and the requests that `fdarx build --plan` expects
and `--plan --pilot` expect against those that were sent, by task. The pilot is a build of the labels of another sample.
`--part dev` or `test` takes the labels of one half of the drugs, as `benchmarks.drug_search` does; amounts were chosen
on `dev`. Exits 1 where the artifact audit fails, or the requests that were sent differ by more than a tenth from the
expected ones, in all.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from benchmarks import PRESCRIPTION_LABELS, run
from benchmarks.drug_search import is_test
from benchmarks.loopback_prompts import JUDGING, READING, TASKS, WRITING, ShownPrompt
from benchmarks.loopback_readers import READERS
from benchmarks.loopback_writer import write
from fdarx_core.evaluation.artifact_classifiers import REFUSAL_AUC_BOUNDS
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.labels import Identity, Selection, find_sources, identify_sources, select
from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.build import Build, BuildSpec
from fdarx_core.pipeline.build_steps import Roles, parse
from fdarx_core.pipeline.executor import Executor
from fdarx_core.pipeline.label_state import LabelState
from fdarx_core.pipeline.local import LocalExecutor
from fdarx_core.pipeline.pilot import expected_plan
from fdarx_core.records import QuestionAnswer, Reject, content_id
from fdarx_core.storage import RunDirectory, read_records
from tests.llm.loopback_server import LoopbackServer

TOLERANCE = 0.1
"""By how much the requests that are sent may differ from the expected ones, as a share of these."""
_PILOT_SEED = 1
"""Another seed than that of the build, so that the pilot has other labels."""
Part = Literal["dev", "test", "all"]
ROLES = {"writer": WRITING, "reader": READING[:1], "judge": (*JUDGING, *READING[1:])}
"""The models, each with the tasks that it is asked."""


def read_part(paths: Sequence[str], part: Part, most: int | None, seed: int) -> list[Identity]:
    """Return the labels whose moieties are all in a part, in an order by a hash; `all` has every label."""
    _, found, _ = identify_sources(find_sources(list(paths)).sources)
    chosen, _ = select(found, Selection())
    within: list[Identity] = []
    for identity in sorted(chosen, key=lambda one: content_id(str(seed), one.set_id)):
        state = LabelState(identity)
        parse(state)
        moieties = [one for product in state.label.products for one in product.moieties] if state.label else []
        if moieties and (part == "all" or all(is_test(one) == (part == "test") for one in moieties)):
            within.append(identity)
    return within[:most]


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
    """A finished build: its run, run.json, and by task the requests that were planned, expected and sent."""

    run: RunDirectory
    info: dict[str, Any]
    planned: Mapping[str, int]
    expected: Mapping[str, int]
    sent: Mapping[str, int]

    def requests(self) -> dict[str, tuple[int, int, int]]:
        """Return the planned, expected and sent requests by task, and of all."""
        counts = (self.planned, self.expected, self.sent)
        found = {task: (*(one.get(task, 0) for one in counts),) for task in TASKS}
        found["all"] = (*(sum(one.values()) for one in counts),)
        return {task: (a, b, c) for task, (a, b, c) in found.items() if a or b or c}

    def rows(self, kind: str, record: type[Any]) -> list[Any]:
        return [row for part in self.run.parts(kind) for row in read_records(part, record)]


def measure(
    labels: str, folder: Path, selection: Selection, amounts: GenerationConfig | None = None, pilot: int = 30
) -> LoopbackBuild:
    """Make a pilot of so many labels, plan a build, and make it, in folders below `folder`."""
    models = LoopbackModels()
    with LoopbackServer(models, keep_calls=False) as server:
        spec = loopback_spec(labels, server, selection, amounts)
        fewer = replace(spec, selection=replace(selection, sample=pilot, seed=_PILOT_SEED))
        first = begun_build(folder / "pilot", fewer)
        first.run_all()
        models.sent.clear()
        rows = begun_build(folder / "plan", spec).plan()
        assert not models.sent, "a plan must not ask"
        expected = expected_plan(rows, RunDirectory.open(str(first.run.root)), WRITING, spec.models)
        made = begun_build(folder / "build", spec)
        info = made.run_all()
    planned, likely = ({row.task: row.requests for row in listed} for listed in (rows, expected))
    return LoopbackBuild(made.run, info, planned, likely, models.sent)


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
    print("\n| refusals from the question alone | masked | AUC | interval |")
    print("|---|---|--:|---|")
    figures = made.info["audit"]["figures"]
    for one in figures:
        if one["metric"] == "refusal_auc":
            print(f"| {one['keys']['features']} | {one['keys']['masked']} | {_figure(one)} |")
        if one["metric"] == "reading_auc":
            print(f"| {one['keys']['reader']} | | {_figure(one)} |")
    low, high = REFUSAL_AUC_BOUNDS
    print(
        "\n".join(made.info["audit"]["failed"]) or f"the artifact audit passes; the bounds are {low:.2f} and {high:.2f}"
    )
    return not made.info["audit"]["failed"]


def _figure(one: Mapping[str, Any]) -> str:
    return "– | –" if one["value"] is None else f"{one['value']:.3f} | {one['low']:.3f} to {one['high']:.3f}"


def print_requests(made: LoopbackBuild) -> bool:
    """Print the requests by task; return whether their number is as expected by the pilot."""
    print("\n| task | planned at most | sent less that | expected by the pilot | sent | sent less expected |")
    print("|---|--:|--:|--:|--:|--:|")
    for task, (planned, expected, sent) in made.requests().items():
        print(f"| {task} | {planned:,} | {_off(sent, planned)} | {expected:,} | {sent:,} | {_off(sent, expected)} |")
    _, expected, sent = made.requests()["all"]
    return abs(sent - expected) <= TOLERANCE * expected


def _off(sent: int, planned: int) -> str:
    return f"{sent / planned - 1:+.1%}" if planned else "–"


def main(
    *,
    labels: str = str(PRESCRIPTION_LABELS),
    part: Part = "all",
    sample: int | None = 100,
    per_drug: int | None = 2,
    pilot: int = 30,
    out: Path | None = None,
    show: int = 3,
) -> int:
    """Print the tables."""
    half = frozenset(one.set_id for one in read_part([labels], part, None, 0)) if part != "all" else frozenset()
    with tempfile.TemporaryDirectory() as folder:
        selection = Selection(set_ids=half, per_drug=per_drug, sample=sample)
        made = measure(labels, out or Path(folder), selection, pilot=pilot)
        print_stages(made, show)
    kept = [print_refusals(made), print_requests(made)]
    return int(not all(kept))


if __name__ == "__main__":
    run(main)
