"""One stage as a streaming Ray Data flow: parts move from operator to operator, and none waits for all the others."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import ray.data

from fdarx_core.llm import AskingStopped, Baseline
from fdarx_core.pipeline.asking import AskSession, ClientPool
from fdarx_core.pipeline.blocks import PART, from_block, to_block
from fdarx_core.pipeline.control import WorkerControl, beside_driver
from fdarx_core.pipeline.executor import PartResult, Work
from fdarx_core.pipeline.metrics import AskMetrics
from fdarx_core.pipeline.steps import Answer, AskStep, Part, Stage, Step, cut_steps, run_steps, step_name
from fdarx_core.storage import Location

Operator: TypeAlias = Callable[[ray.data.Dataset], ray.data.Dataset]

_VALUE = "value"
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
    inputs = [_one_row(part.number, part.inputs) for part in parts]
    operators = [_tasks("read", lambda block: _read(stage, block)), *_groups(before, work.answer, stage.kind)]
    if asking:
        arguments = (asking, stage.kind, work.clients, work.store.root, work.rules, control)
        operators.append(lambda dataset: _ask(dataset, arguments))
    operators += _groups(after, work.answer, stage.kind)
    operators.append(_tasks("write", lambda block: _write(stage, block)))
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.raise_original_map_exception = True  # else a place that can't be written looks like a fault of the program
    context.target_max_block_size = None  # a part stays in one block
    dataset: ray.data.Dataset = ray.data.from_arrow(inputs)
    for operator in operators:
        dataset = operator(dataset)
    for row in dataset.iter_rows():
        yield PartResult(stage.name, row[PART], pickle.loads(row[_VALUE]))


class Ask:
    """The operator that asks models, of which a run has one actor: limits, retries and the store are its own."""

    def __init__(
        self,
        steps: Sequence[Step[Any]],
        kind: type | None,
        clients: ClientPool,
        responses: Location,
        rules: Baseline,
        control: str,
    ) -> None:
        self._steps, self._kind, self._control = steps, kind, WorkerControl(control)
        watch = AskMetrics(responses.parent.name)
        self._session = AskSession(clients, responses, rules, self._control, _no_resource, watch)

    async def __call__(self, block: pa.Table) -> pa.Table:
        """Take the parts of a block through the steps; many blocks are in progress. Raises AskingStopped."""
        return pa.concat_tables([await self._run(*part) for part in from_block(block, self._kind)])

    async def _run(self, part: int, states: Sequence[Any]) -> pa.Table:
        if ended := await self._session.run(self._steps, states):
            await self._control.note_end(ended)
            raise AskingStopped(ended)
        return to_block(part, states, self._kind)


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


def _groups(steps: Sequence[Step[Any]], answer: Answer, kind: type | None) -> list[Operator]:
    """Return an operator for each asking step with the plain steps that follow it, under the names of the steps."""
    groups: list[list[Step[Any]]] = []
    for step in steps:
        if isinstance(step, AskStep) or not groups:
            groups.append([])
        groups[-1].append(step)
    return [_group(group, answer, kind) for group in groups]


def _group(steps: Sequence[Step[Any]], answer: Answer, kind: type | None) -> Operator:
    def run(block: pa.Table) -> pa.Table:
        parts = from_block(block, kind)
        return pa.concat_tables([to_block(part, run_steps(steps, states, answer), kind) for part, states in parts])

    return _tasks("+".join(map(step_name, steps)), run)


def _tasks(name: str, function: Callable[[pa.Table], pa.Table]) -> Operator:
    """Return an operator of plain tasks that applies a function to blocks; Ray shows it as MapBatches(name)."""
    function.__name__ = name
    return lambda dataset: dataset.map_batches(function, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)


def _read(stage: Stage[Any], block: pa.Table) -> pa.Table:
    parts = [Part(row[PART], pickle.loads(row[_VALUE])) for row in block.to_pylist()]
    return pa.concat_tables([to_block(part.number, stage.read(part), stage.kind) for part in parts])


def _write(stage: Stage[Any], block: pa.Table) -> pa.Table:
    parts = from_block(block, stage.kind)
    return pa.concat_tables([_one_row(part, stage.write(part, states)) for part, states in parts])


def _one_row(part: int, value: Any) -> pa.Table:
    """Return a block for a part whose value is no list of states: its inputs, or its account."""
    return pa.table({PART: [part], _VALUE: pa.array([pickle.dumps(value, protocol=5)], pa.large_binary())})
