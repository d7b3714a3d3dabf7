"""One stage as a streaming Ray Data flow: parts move from operator to operator, and none waits for all the others."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import ray.data

from fdarx_core.llm import AskingStopped, Baseline
from fdarx_core.pipeline.asking import AskSession, ClientPool
from fdarx_core.pipeline.control import WorkerControl, beside_driver
from fdarx_core.pipeline.executor import PartResult, Work
from fdarx_core.pipeline.metrics import AskMetrics
from fdarx_core.pipeline.steps import Answer, AskStep, Part, Stage, Step, cut_steps, run_steps, step_name
from fdarx_core.storage import Location

Operator: TypeAlias = Callable[[ray.data.Dataset], ray.data.Dataset]

_BLOCKS_IN_PROGRESS = 16
"""Parts that the asking operator has at once: enough to keep some hundred requests in flight to the last one."""


def stream_parts(work: Work, stage: Stage[Any], parts: Sequence[Part], control: str) -> Iterator[PartResult]:
    """Run a stage over its parts; yields each part once it is written.

    Steps from the first to the last that ask a model are one operator with one actor, so that limits hold for the whole
    run; `control` is the name of its line to the driver. The other steps are tasks, which Ray fuses where they follow
    each other. Raises what a step raised, with Ray's own error as a second class and the first as its `cause`.
    """
    if not parts:
        return
    before, asking, after = cut_steps(stage.steps, work.clients.models)
    read: Operator = _tasks("read", lambda number, inputs: stage.read(Part(number, inputs)))
    operators = [read, *_groups(before, work.answer)]
    if asking:
        arguments = (asking, work.clients, work.store.root, work.rules, control)
        operators.append(lambda dataset: _ask(dataset, arguments))
    operators += _groups(after, work.answer)
    operators.append(_tasks("write", stage.write))
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.raise_original_map_exception = True  # else a place that can't be written looks like a fault of the program
    dataset: ray.data.Dataset = ray.data.from_arrow([_pack(part.number, part.inputs) for part in parts])
    for operator in operators:
        dataset = operator(dataset)
    for row in dataset.iter_rows():
        yield PartResult(stage.name, row["part"], pickle.loads(row["states"]))


class Ask:
    """The operator that asks models, of which a run has one actor: limits, retries and the store are its own."""

    def __init__(
        self, steps: Sequence[Step[Any]], clients: ClientPool, responses: Location, rules: Baseline, control: str
    ) -> None:
        self._steps, self._control = steps, WorkerControl(control)
        watch = AskMetrics(responses.parent.name)
        self._session = AskSession(clients, responses, rules, self._control, _no_resource, watch)

    async def __call__(self, block: pa.Table) -> pa.Table:
        """Take the parts of a block through the steps; many blocks are in progress. Raises AskingStopped."""
        return pa.concat_tables([await self._run(row) for row in block.to_pylist()])

    async def _run(self, row: Mapping[str, Any]) -> pa.Table:
        states = pickle.loads(row["states"])
        if ended := await self._session.run(self._steps, states):
            await self._control.note_end(ended)
            raise AskingStopped(ended)
        return _pack(row["part"], states)


async def _no_resource(name: str, method: str, *arguments: Any) -> Any:
    raise KeyError(f"a streamed stage has no resource {name}")


def _ask(dataset: ray.data.Dataset, arguments: tuple[Any, ...]) -> ray.data.Dataset:
    strategy = ray.data.ActorPoolStrategy(
        size=1,
        max_tasks_in_flight_per_actor=_BLOCKS_IN_PROGRESS,
        max_concurrent_calls_per_actor=_BLOCKS_IN_PROGRESS,
    )
    return dataset.map_batches(
        Ask,
        fn_constructor_args=arguments,
        compute=strategy,
        batch_format="pyarrow",
        batch_size=None,
        num_cpus=0,
        label_selector=beside_driver(),
    )


def _groups(steps: Sequence[Step[Any]], answer: Answer) -> list[Operator]:
    """Return an operator for each asking step with the plain steps that follow it, under the names of the steps."""
    groups: list[list[Step[Any]]] = []
    for step in steps:
        if isinstance(step, AskStep) or not groups:
            groups.append([])
        groups[-1].append(step)
    return [_group(group, answer) for group in groups]


def _group(steps: Sequence[Step[Any]], answer: Answer) -> Operator:
    return _tasks("+".join(map(step_name, steps)), lambda _, states: run_steps(steps, states, answer))


def _tasks(name: str, function: Callable[[int, Any], Any]) -> Operator:
    """Return an operator of plain tasks that applies `function(part, states)`; Ray shows it as MapBatches(name)."""

    def apply(block: pa.Table) -> pa.Table:
        rows = block.to_pylist()
        return pa.concat_tables(
            [_pack(row["part"], function(row["part"], pickle.loads(row["states"]))) for row in rows]
        )

    apply.__name__ = name
    return lambda dataset: dataset.map_batches(apply, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)


def _pack(part: int, states: Any) -> pa.Table:
    """Return a block of one row, whose size Ray knows. Columns by the records' schemas cost more: see
    `benchmarks.pipeline`."""
    return pa.table({"part": [part], "states": pa.array([pickle.dumps(states, protocol=5)], pa.large_binary())})
