"""Requests, tokens and GPU-hours of a build and of an evaluation, from their plans on real labels.

    python -m benchmarks.sizing [--labels PATH] [--sample 700] [--write docs/cluster.md] [--models FILE ...]

The plans are those of `fdarx build --plan` with one model in all roles, and of `fdarx evaluate --plan` for one model in
all four settings, on the benchmark that the built-in rules make. The build by rules is run. Exits 1 where its requests
are not those of the plan. GPU-hours are computed from the throughput of each served model. Figures for more labels are
scaled. With --write, the table replaces the text between `<!-- sizing -->` and `<!-- /sizing -->` in that file.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks import PRESCRIPTION_LABELS, command_line
from benchmarks.sizing_table import CONTEXT, Load, table, written
from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.labels import Selection, find_sources
from fdarx_core.llm import ModelConfig, ResponseStore
from fdarx_core.pipeline.build import Build, BuildSpec
from fdarx_core.pipeline.build_steps import Roles
from fdarx_core.pipeline.evaluation import Evaluation, check_benchmark
from fdarx_core.pipeline.evaluation_steps import EvaluationSpec
from fdarx_core.pipeline.planning import Planned, PlanRow, add_up
from fdarx_core.pipeline.ray_executor import RayExecutor
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.benchmark_reader import read_benchmark
from jobs.ray_session import ray_session
from jobs.session import versions
from serving.served_model import load_served

NAME = "model"
"""The name of the model in the plans. No request is sent to it."""
SAMPLE = 700
_JUDGED = "grade_answer"


@dataclass(slots=True)
class WorkPlans:
    """The plans of a build and of an evaluation, and the distinct requests of the build by rules, by task."""

    labels: int
    questions: int
    build: list[list[Planned]]
    sweep: list[list[Planned]]
    asked: Mapping[str, int]

    @property
    def loads(self) -> list[Load]:
        answers = [[one for one in part if one.task != _JUDGED] for part in self.sweep]
        grades = [[one for one in part if one.task == _JUDGED] for part in self.sweep]
        work = {"build": self.build, "answers": answers, "grades": grades}
        return [_load(name, self.labels, parts) for name, parts in work.items()]

    def differences(self) -> list[str]:
        """Return the tasks of which the build sent other numbers of requests than planned."""
        planned = {row.task: row.requests for row in rows(self.build)}
        tasks = sorted(planned.keys() | self.asked.keys())
        return [
            f"{task}: planned {planned.get(task, 0)}, asked {self.asked.get(task, 0)}"
            for task in tasks
            if planned.get(task) != self.asked.get(task)
        ]


def rows(parts: Iterable[Sequence[Planned]]) -> list[PlanRow]:
    return add_up(parts, stand_in())


def stand_in(base_url: str = "http://localhost:8000/v1") -> dict[str, ModelConfig]:
    return {NAME: ModelConfig(name=NAME, model=NAME, base_url=base_url, context_length=CONTEXT)}


def _load(name: str, labels: int, parts: Sequence[Sequence[Planned]]) -> Load:
    load = Load(name, labels)
    for row in rows(parts):
        load.requests += row.requests
        load.prompt += row.prompt_tokens
        load.shared += row.shared_tokens
        load.completion += row.completion_tokens
    load.parts = [sum(one.prompt_tokens for one in part) for part in parts]
    return load


def measure(labels: str, sample: int | None, folder: Path) -> WorkPlans:
    """Plan both, and run the build. Ray must be running."""
    inputs, selection = find_sources([labels]), Selection(sample=sample)
    roles = Roles(stand_in(), NAME, NAME, NAME)
    executor = RayExecutor()
    run = RunDirectory.begin(str(folder / "plan"), job="build_benchmark", config={}, versions=versions())
    planned = BuildSpec(inputs, selection, roles=roles)
    build = list(Build(run=run, executor=executor, progress=silent, spec=planned).planned_parts())
    run = RunDirectory.begin(str(folder / "build"), job="build_benchmark", config={}, versions=versions())
    made = Build(run=run, executor=executor, progress=silent, spec=BuildSpec(inputs, selection)).run_all()
    asked = _asked(ResponseStore(run.file("responses")))
    taken = next(stage["rows_in"] for stage in made["stages"] if stage["stage"] == "passages")
    return WorkPlans(taken, sum(made["questions"].values()), build, sweep_parts(folder / "build", folder), asked)


def _asked(store: ResponseStore) -> Counter[str]:
    """Count distinct requests by task. Processes may send the same request to the rules, but not to a model."""
    rows = (row for table in store.tables(["key", "task"]) for row in table.to_pylist())
    return Counter(task for _, task in {(row["key"], row["task"]) for row in rows})


def sweep_parts(benchmark: Path, folder: Path) -> list[list[Planned]]:
    """Plan the requests to one model, which also grades, in all settings."""
    spec = EvaluationSpec(stand_in(), [NAME], NAME, list(SETTINGS), ["bm25"])
    run = RunDirectory.begin(str(folder / "sweep"), job="evaluate", config={}, versions=versions())
    given = read_benchmark(str(benchmark))
    check_benchmark(run, given.about["digest"], {})
    job = Evaluation(run=run, executor=RayExecutor(), progress=silent, benchmark=given, spec=spec)
    return list(job.planned_parts())


def silent(*_: Any) -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = command_line(__doc__)
    parser.add_argument("--labels", default=str(PRESCRIPTION_LABELS))
    parser.add_argument("--sample", type=int, default=SAMPLE)
    parser.add_argument("--models", nargs="*", type=Path, default=sorted(Path("serving/models").glob("*-a100.yaml")))
    parser.add_argument("--write", type=Path, help="the file whose table to replace")
    options = parser.parse_args(arguments)
    models = [load_served(file) for file in options.models]
    if unstated := [model.name for model in models if model.throughput is None]:
        parser.error(f"--models: {unstated[0]} states no throughput; give it in its file")
    with tempfile.TemporaryDirectory() as folder, ray_session():
        measured = measure(options.labels, options.sample, Path(folder))
    made = table(measured.loads, models)
    print(made)
    if options.write:
        options.write.write_text(written(options.write.read_text(encoding="utf-8"), made), encoding="utf-8")
    differences = measured.differences()
    asked = sum(measured.asked.values())
    print(f"\n{measured.questions:,} questions of {measured.labels:,} labels; {asked:,} distinct requests of the build")
    print("\n".join(differences) if differences else "as often as planned, task by task")
    for row in rows(measured.sweep):
        print(f"planned for the sweep: {row.requests:,} {row.task}")
    return int(bool(differences))


if __name__ == "__main__":
    sys.exit(main())
