"""Requests, tokens and GPU-hours of a build and of an evaluation, from their plans on real labels.

    python -m benchmarks.sizing [--labels PATH] [--sample 700] [--write docs/cluster.md] [--models FILE ...]

The plans are those of `fdarx build --plan` with one model in all roles, and of `fdarx evaluate --plan` for one model in
all four settings, on the benchmark that the built-in rules make. The build with the built-in rules is run. Exits 1 if
its requests differ from the plan. GPU-hours are computed from the throughput of each served model. Figures for more
labels are scaled. With --write, the table replaces the text between `<!-- sizing -->` and `<!-- /sizing -->` in that
file.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt
from pathlib import Path
from statistics import mean, stdev
from textwrap import fill
from typing import Any

from jinja2 import Environment, StrictUndefined

from benchmarks import PRESCRIPTION_LABELS, run
from fdarx_core.evaluation.settings import SETTINGS
from fdarx_core.labels import Selection, find_sources
from fdarx_core.llm import ModelConfig, ResponseStore
from fdarx_core.pipeline.asking import PlanRow, add_up
from fdarx_core.pipeline.build import LABELS_PER_PART, Build, BuildSpec
from fdarx_core.pipeline.build_steps import Roles
from fdarx_core.pipeline.evaluation import Evaluation, check_benchmark
from fdarx_core.pipeline.evaluation_steps import EvaluationSpec
from fdarx_core.pipeline.ray_executor import RayExecutor
from fdarx_core.storage import RunDirectory
from fdarx_core.storage.benchmark_reader import read_benchmark
from jobs.ray_session import ray_session
from jobs.session import versions
from serving.served_model import ServedModel, load_served

NAME = "model"
"""The name of the model in the plans. No request is sent to it."""
SAMPLE = 700
_JUDGED = "grade_answer"
CONTEXT = 40_960
"""Tokens of a prompt and its reply together, as all of serving/models/*-a100.yaml have it."""
MORE = (5_000, 50_000)
"""Labels that the sample is scaled to; of prescription labels DailyMed has some 50,000."""
BEGIN, END = "<!-- sizing -->", "<!-- /sizing -->"


@dataclass(slots=True)
class Load:
    """The requests and tokens of one kind of work for `labels` labels; `parts` has the prompt tokens of each part."""

    name: str
    labels: int
    requests: float = 0
    prompt: float = 0
    shared: float = 0
    completion: float = 0
    parts: list[int] = field(default_factory=list)

    def scaled(self, labels: int) -> Load:
        by = labels / self.labels
        return Load(self.name, labels, self.requests * by, self.prompt * by, self.shared * by, self.completion * by)

    def error(self, labels: int) -> str:
        """Return half of the 95 % interval for `labels` other labels of the same kind, as a share of their tokens."""
        if len(self.parts) < 2:
            return "?"
        spread = stdev(self.parts) / mean(self.parts)
        return f"{1.96 * spread * sqrt(1 / len(self.parts) + LABELS_PER_PART / labels):.0%}"

    def gpu_hours(self, model: ServedModel, *, cached: bool) -> float:
        """Return the GPU-hours, summed over the GPUs of a replica."""
        assert model.throughput is not None
        read = self.prompt - self.shared if cached else self.prompt
        seconds = read / model.throughput.prefill + self.completion / model.throughput.decode
        return seconds * model.tensor_parallel / 3600


def table(loads: Sequence[Load], models: Sequence[ServedModel]) -> str:
    """Return two Markdown tables and notes on their assumptions."""
    longer = [replace(load, prompt=0.0, shared=0.0, completion=load.requests * 100) for load in loads]
    environment = Environment(trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined)
    environment.filters.update(count="{:,.0f}".format, tokens=_short, hours=_figures, wrapped=_wrapped)
    return environment.from_string(Path(__file__).with_suffix(".md.j2").read_text(encoding="utf-8")).render(
        loads=loads,
        models=models,
        sizes=(loads[0].labels, *MORE),
        context=CONTEXT,
        longer=[sum(load.gpu_hours(model, cached=True) for load in longer) for model in models],
    )


def _figures(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _short(value: float) -> str:
    return f"{value / 1e9:,.2f} G" if value >= 1e9 else f"{value / 1e6:,.1f} M"


def _wrapped(paragraph: str) -> str:
    return fill(" ".join(paragraph.split()), 120)


def written(text: str, between: str) -> str:
    """Return the text with `between` between its marks. Raises ValueError if it has no marks."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"there is no {BEGIN} … {END}; add both where the table belongs")
    return f"{before}{BEGIN}\n{between}\n{END}{after}"


@dataclass(slots=True)
class WorkPlans:
    """The plans of a build and of an evaluation, and the distinct requests of the build by rules, by task."""

    labels: int
    questions: int
    build: list[list[PlanRow]]
    sweep: list[list[PlanRow]]
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


def rows(parts: Iterable[Sequence[PlanRow]]) -> list[PlanRow]:
    return add_up(parts, stand_in())


def stand_in(base_url: str = "http://localhost:8000/v1") -> dict[str, ModelConfig]:
    return {NAME: ModelConfig(name=NAME, model=NAME, base_url=base_url, context_length=CONTEXT)}


def _load(name: str, labels: int, parts: Sequence[Sequence[PlanRow]]) -> Load:
    load = Load(name, labels)
    for row in rows(parts):
        load.requests += row.requests
        load.prompt += row.prompt_tokens
        load.shared += row.shared_tokens
        load.completion += row.completion_tokens
    load.parts = [sum(one.prompt_tokens for one in part) for part in parts]
    return load


def measure(labels: str, sample: int | None, folder: Path) -> WorkPlans:
    """Plan a build and an evaluation, and run the build. Ray must be running."""
    inputs, selection = find_sources([labels]), Selection(sample=sample)
    roles = Roles(stand_in(), NAME, NAME, (NAME,))
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


def sweep_parts(benchmark: Path, folder: Path) -> list[list[PlanRow]]:
    """Plan the requests to one model, which also grades, in all settings."""
    spec = EvaluationSpec(stand_in(), [NAME], NAME, list(SETTINGS), ["bm25"])
    run = RunDirectory.begin(str(folder / "sweep"), job="evaluate", config={}, versions=versions())
    given = read_benchmark(str(benchmark))
    check_benchmark(run, given.about["digest"], {})
    job = Evaluation(run=run, executor=RayExecutor(), progress=silent, benchmark=given, spec=spec)
    return list(job.planned_parts())


def silent(*_: Any) -> None:
    pass


def main(
    *,
    labels: str = str(PRESCRIPTION_LABELS),
    sample: int = SAMPLE,
    models: tuple[Path, ...] = (),
    write: Path | None = None,
) -> int:
    """Print the table, and the differences between plan and build."""
    served = [load_served(file) for file in models or sorted(Path("serving/models").glob("*-a100.yaml"))]
    if unstated := [model.name for model in served if model.throughput is None]:
        raise SystemExit(f"--models: {unstated[0]} has no throughput; add it to its file")
    with tempfile.TemporaryDirectory() as folder, ray_session():
        measured = measure(labels, sample, Path(folder))
    made = table(measured.loads, served)
    print(made)
    if write:
        write.write_text(written(write.read_text(encoding="utf-8"), made), encoding="utf-8")
    differences = measured.differences()
    asked = sum(measured.asked.values())
    print(f"\n{measured.questions:,} questions of {measured.labels:,} labels; {asked:,} distinct requests of the build")
    print("\n".join(differences) if differences else "for each task, the number of requests is as planned")
    for row in rows(measured.sweep):
        print(f"planned for the sweep: {row.requests:,} {row.task}")
    return int(bool(differences))


if __name__ == "__main__":
    run(main)
