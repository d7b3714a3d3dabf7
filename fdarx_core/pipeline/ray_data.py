"""Flows of Ray Data: items stream from operator to operator, and none waits for all the others.

Ray shows an operator by the names of its steps. Steps that need CPUs alone are tasks; the steps of a stage from the
first to the last that asks a model are an operator of asynchronous actors. A block has a row per state of a part.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
import ray.data
from ray.data import ExecutionResources

from fdarx_core.llm import AskingStopped
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.control import AskWorker, off_gpu_machines, on_driver_node
from fdarx_core.pipeline.executor import Demand, Work, part_span
from fdarx_core.pipeline.steps import Answer, AskStep, Part, Resource, Stage, Step, asking_spans, run_steps, step_name
from fdarx_core.storage import Location
from fdarx_core.telemetry import flush

PART = "part"
_VALUE = "value"

_OPERATOR = re.compile(
    r"^Operator \d+ (?P<name>MapBatches[^:\n]*): (?P<tasks>\d+) tasks executed, \d+ blocks produced in "
    r"(?P<seconds>[\d.]+)s[\s\S]*?Total output num rows: (?P<rows>\d+)",
    re.MULTILINE,
)
_FUSED = re.compile(r"MapBatches\((.*?)\)")

_PARTS_PER_ACTOR = 16
"""Parts that an asking actor has at once: enough to keep some hundred requests in flight to the last part."""

_BLOCKS_PER_BACKLOG = 8
"""Blocks of a flow that asks no model, for each task that waits: 8 or 16 for each CPU. Ray Data starts a task up to 0.2
s after the one before has ended, so that many small blocks leave CPUs idle; few large ones do so at the end."""

with suppress(pa.ArrowKeyError):  # it is gone already where this module is loaded again
    # Ray Data registers a type whose values Arrow unpickles; blocks of FDARx have none, so that it is not needed.
    pa.unregister_extension_type("ray.data.arrow_pickled_object")


def to_block(part: int, states: Sequence[Any]) -> pa.Table:
    """Return the states of a part as a table. Raises ValueError where there are none."""
    if not states:
        raise ValueError(f"part {part} has no states, and so no row in a block")
    values = [pickle.dumps(state, protocol=5) for state in states]
    return pa.table({PART: pa.array([part] * len(states), pa.int64()), _VALUE: pa.array(values, pa.large_binary())})


def from_block(block: pa.Table) -> Iterator[tuple[int, list[Any]]]:
    """Yield each part of a block with its states, the inverse of `to_block`."""
    rows = zip(block[PART].to_pylist(), map(pickle.loads, block[_VALUE].to_pylist()), strict=True)
    for part, group in groupby(rows, key=itemgetter(0)):
        yield part, [state for _, state in group]


class Flow:
    """Operators one after the other, through which items stream.

    Args:
        items: The items with their numbers.
        demand: The CPUs and GPUs that the operators may use together, where the cluster may add machines.
        blocks: The most blocks that the items are divided into; None: a block for each.
    """

    def __init__(self, items: Iterable[tuple[int, Any]], demand: Demand, blocks: int | None = None) -> None:
        context = ray.data.DataContext.get_current()
        context.enable_progress_bars = False
        context.print_on_execution_start = False
        context.raise_original_map_exception = True  # else an unwritable place looks like a fault of the program
        context.target_max_block_size = None  # a part stays in one block
        limits = demand if demand.on_cluster else Demand()
        context.execution_options.resource_limits = ExecutionResources.for_limits(cpu=limits.cpus, gpu=limits.gpus)
        # Not from tables, for each of which Ray would start a task that looks at it.
        rows = [{PART: number, _VALUE: pickle.dumps(item, protocol=5)} for number, item in items]
        self._dataset: ray.data.Dataset = ray.data.from_items(
            rows, override_num_blocks=min(len(rows), blocks or len(rows)) or None
        )

    def compute(self, names: Sequence[str], function: Callable[[int, list[Any]], Sequence[Any]]) -> None:
        """Add an operator of tasks. The function takes the number and the states of a part, and returns its states."""

        def run(block: pa.Table) -> pa.Table:
            made = pa.concat_tables([to_block(part, function(part, states)) for part, states in from_block(block)])
            flush()  # Ray ends workers without letting them send what they have left
            return made

        run.__name__ = "+".join(names)
        self._dataset = self._dataset.map_batches(
            run, batch_format="pyarrow", batch_size=None, zero_copy_batch=True, label_selector=off_gpu_machines()
        )

    def ask(
        self, steps: Sequence[Step[Any]], workers: int, clients: ClientPool, responses: Location, control: str
    ) -> None:
        """Add an operator of actors that ask, each with an equal share of the limits of the models that are asked."""
        asked = frozenset[str]().union(*(step.endpoints for step in steps if isinstance(step, AskStep)))
        strategy = ray.data.ActorPoolStrategy(
            size=workers,
            max_tasks_in_flight_per_actor=_PARTS_PER_ACTOR,
            max_concurrent_calls_per_actor=_PARTS_PER_ACTOR,
        )
        self._dataset = self._dataset.map_batches(
            type("+".join(map(step_name, steps)), (_Asking,), {}),
            fn_constructor_args=(steps, clients.share(workers, asked), responses, control),
            compute=strategy,
            batch_format="pyarrow",
            batch_size=None,
            num_cpus=0,
            label_selector=on_driver_node(),
        )

    def call(self, resource: Resource, method: str) -> None:
        """Add an operator of actors that hold a resource, of which a method is called with each item."""
        self._dataset = self._dataset.map_batches(
            type(method, (_Holding,), {}),
            fn_constructor_args=(resource, method),
            compute=ray.data.ActorPoolStrategy(size=resource.size),
            batch_format="pyarrow",
            batch_size=1,
            num_cpus=resource.cpus,
            num_gpus=resource.gpus,
        )

    def run(self) -> Iterator[tuple[int, Any]]:
        """Yield what the last operator makes of each item, with its number, in the order of completion.

        Raises what an operator raised, with Ray's own error as a second class and the first as its `cause`.
        """
        for row in self._dataset.iter_rows():
            yield row[PART], pickle.loads(row[_VALUE])

    def statistics(self) -> list[dict[str, Any]]:
        """Return the tasks, the rows that came out, and the seconds of each operator, in their order."""
        return [
            {"operator": _FUSED.sub(r"\1", name), "tasks": int(tasks), "rows": int(rows), "seconds": float(seconds)}
            for name, tasks, seconds, rows in _OPERATOR.findall(self._dataset.stats())
        ]


def stage_flow(
    work: Work, stage: Stage[Any], parts: Sequence[Part], workers: int, control: str, demand: Demand, backlog: int
) -> Flow:
    """Return a stage as a flow over some of its parts, which yields their accounts once they are written.

    Args:
        work: The work that has the stage.
        stage: The stage, whose steps use no resources.
        parts: The parts to make.
        workers: The number of actors that ask.
        control: The name of the control actor.
        demand: As in `Flow`.
        backlog: The number of tasks that the executor keeps waiting.
    """
    clients, steps = work.clients, stage.steps
    spans = asking_spans(steps, clients.models)
    if clients.has_budget and spans:  # one actor keeps it
        spans = [(spans[0][0], spans[-1][1])]
    blocks = None if spans else _BLOCKS_PER_BACKLOG * backlog  # an actor that asks takes the parts of a block in turn
    flow = Flow(((part.number, part.inputs) for part in parts), demand, blocks)
    ends = [0, *(end for _, end in spans)]
    for number, start in enumerate([*(start for start, _ in spans), len(steps)]):
        plain = steps[ends[number] : start]
        reads, writes = number == 0, number == len(spans)
        names = [*(["read"] if reads else []), *map(step_name, plain), *(["write"] if writes else [])]
        if names:
            flow.compute(names, partial(_compute, stage, plain, work.answer, reads, writes))
        if not writes:
            asking = steps[start : ends[number + 1]]
            flow.ask(asking, workers, clients, work.store.root, control)
    return flow


def _compute(
    stage: Stage[Any],
    steps: Sequence[Step[Any]],
    answer: Answer,
    reads: bool,
    writes: bool,
    part: int,
    states: Sequence[Any],
) -> Sequence[Any]:
    """Take a part through plain steps, and read it before the first or write it after the last."""
    with part_span("part", stage, part):
        made = run_steps(steps, stage.read(Part(part, *states)) if reads else states, answer)
        return [stage.write(part, made)] if writes else made


class _Asking:
    """Asks models. Limits, retries and the open response store are those of an actor."""

    def __init__(self, steps: Sequence[Step[Any]], clients: ClientPool, responses: Location, control: str) -> None:
        self._steps, self._worker = steps, AskWorker(clients, responses, {}, control)

    async def __call__(self, block: pa.Table) -> pa.Table:
        """Take the parts of a block through the steps; many blocks are in progress. Raises AskingStopped."""
        tables = []
        for part, states in from_block(block):
            made, ended = await self._worker.run(self._steps, states)
            if ended:
                await self._worker.stop_all()  # else Ray kills the other actors before they have stored what they asked
                raise AskingStopped(ended)
            tables.append(to_block(part, made))
        return pa.concat_tables(tables)


class _Holding:
    """Holds a resource."""

    def __init__(self, resource: Resource, method: str) -> None:
        self._method = getattr(resource.factory(*resource.arguments), method)

    def __call__(self, block: pa.Table) -> pa.Table:
        """Call the method with each item of a block."""
        return pa.concat_tables([to_block(number, [self._method(item)]) for number, [item] in from_block(block)])
