"""One stage as a streaming Ray Data flow: parts move from operator to operator, and none waits for all the others.

Blocks have a row per state, and a column per field of the states' class. A field that holds a record, or a list of
records, is a column of structs by the record's Arrow schema; any other is a column of pickled values.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache, partial
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import ray.data

from fdarx_core.llm import AskingStopped
from fdarx_core.pipeline.asking import ClientPool
from fdarx_core.pipeline.control import AskWorker, on_driver_node
from fdarx_core.pipeline.executor import PartResult, Work, part_span
from fdarx_core.pipeline.steps import Answer, Part, Stage, Step, cut_steps, run_steps, step_name
from fdarx_core.records.arrow import arrow_schema, from_table, to_table
from fdarx_core.storage import Location
from fdarx_core.telemetry import flush

PART = "part"
_STATE = "state"

with suppress(pa.ArrowKeyError):  # it is gone already where this module is loaded again
    # Ray Data registers a type whose values Arrow unpickles; blocks of FDARx have none, so that it is not needed.
    pa.unregister_extension_type("ray.data.arrow_pickled_object")


def to_block(part: int, states: Sequence[Any], kind: type | None) -> pa.Table:
    """Return the states of a part as a table.

    Args:
        part: the number of the part, the same in each row of the column `part`.
        states: one at least, of the dataclass `kind`, or of any class where `kind` is None; these are pickled whole.
    """
    if not states:
        raise ValueError(f"part {part} has no states, and so no row in a block")
    parts = pa.array([part] * len(states), pa.int64())
    if kind is None:
        return pa.table({PART: parts, _STATE: _pickled(states)})
    columns = {PART: parts}
    for name, (record, listed) in _layout(kind).items():
        values = [getattr(state, name) for state in states]
        if record is None:
            columns[name] = _pickled(values)
        else:
            columns[name] = _structs(values if listed else [[] if one is None else [one] for one in values], record)
    return pa.table(columns)


def from_block(block: pa.Table, kind: type | None) -> Iterator[tuple[int, list[Any]]]:
    """Yield each part of a block with its states, the inverse of `to_block`."""
    states: Iterable[Any]
    if kind is None:
        states = map(pickle.loads, block[_STATE].to_pylist())
    else:
        columns = []
        for name, (record, listed) in _layout(kind).items():
            if record is None:
                columns.append(list(map(pickle.loads, block[name].to_pylist())))
            else:
                rows = _records(block[name].combine_chunks(), record)
                columns.append(rows if listed else [one[0] if one else None for one in rows])
        states = (kind(*values) for values in zip(*columns, strict=True))
    for part, group in groupby(zip(block[PART].to_pylist(), states, strict=True), key=itemgetter(0)):
        yield part, [state for _, state in group]


@cache
def _layout(kind: type) -> dict[str, tuple[type | None, bool]]:
    """Return, by field, the record that it holds (None where it is pickled), and whether it holds a list of them."""
    hints = get_type_hints(kind)
    return {field.name: _column(hints[field.name]) for field in fields(kind)}


def _column(hint: Any) -> tuple[type | None, bool]:
    listed = get_origin(hint) is list
    if get_origin(hint) not in (None, list, Union, UnionType):
        return None, False
    for record in (hint, *get_args(hint)):
        if isinstance(record, type) and is_dataclass(record):
            try:
                arrow_schema(record)
            except TypeError:  # it holds what a schema can't say
                return None, False
            return record, listed
    return None, False


def _pickled(values: Sequence[Any]) -> pa.Array:
    return pa.array([pickle.dumps(value, protocol=5) for value in values], pa.large_binary())


def _structs(rows: Sequence[Sequence[Any]], record: type) -> pa.Array:
    table = to_table([row for listed in rows for row in listed], record)
    offsets = pa.array(list(accumulate(map(len, rows), initial=0)), pa.int64())
    columns = [column.combine_chunks() for column in table.columns]
    return pa.LargeListArray.from_arrays(offsets, pa.StructArray.from_arrays(columns, fields=list(table.schema)))


def _records(column: pa.Array, record: type) -> list[list[Any]]:
    structs = column.flatten()
    rows: list[Any] = list(from_table(pa.Table.from_arrays(structs.flatten(), schema=arrow_schema(record)), record))
    first = column.offsets[0].as_py()
    return [rows[start - first : end - first] for start, end in pairwise(column.offsets.to_pylist())]


_VALUE = "value"
_BLOCKS_IN_PROGRESS = 16
"""Parts that the asking operator has at once: enough to keep some hundred requests in flight to the last one."""


def stream_parts(work: Work, stage: Stage[Any], parts: Sequence[Part], control: str) -> Iterator[PartResult]:
    """Run a stage that asks models over its parts; yields each part once it is written.

    Steps from the first to the last that ask a model are one operator with one actor, so that limits hold for the whole
    run; `control` is the name of the control actor. The steps before them and those after them are tasks. Raises what a
    step raised, with Ray's own error as a second class and the first as its `cause`.
    """
    if not parts:
        return
    before, asking, after = cut_steps(stage.steps, work.clients.models)
    inputs = [_one_row(part.number, part.inputs) for part in parts]
    arguments = (asking, stage.kind, work.clients, work.store.root, control)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    context.raise_original_map_exception = True  # else a place that can't be written looks like a fault of the program
    context.target_max_block_size = None  # a part stays in one block
    begun = _tasks(ray.data.from_arrow(inputs), stage, before, work.answer, reads=True)
    ended = _tasks(_ask(begun, arguments), stage, after, work.answer, reads=False)
    for row in ended.iter_rows():
        yield PartResult(stage.name, row[PART], pickle.loads(row[_VALUE]))


class Ask:
    """The operator that asks models, of which a run has one actor: limits, retries and the store are its own."""

    def __init__(
        self, steps: Sequence[Step[Any]], kind: type | None, clients: ClientPool, responses: Location, control: str
    ) -> None:
        self._steps, self._kind, self._worker = steps, kind, AskWorker(clients, responses, {}, control)

    async def __call__(self, block: pa.Table) -> pa.Table:
        """Take the parts of a block through the steps; many blocks are in progress. Raises AskingStopped."""
        return pa.concat_tables([await self._run(*part) for part in from_block(block, self._kind)])

    async def _run(self, part: int, states: Sequence[Any]) -> pa.Table:
        made, ended = await self._worker.run(self._steps, states)
        if ended:
            raise AskingStopped(ended)
        return to_block(part, made, self._kind)


def _ask(dataset: ray.data.Dataset, arguments: tuple[Any, ...]) -> ray.data.Dataset:
    strategy = ray.data.ActorPoolStrategy(
        size=1, max_tasks_in_flight_per_actor=_BLOCKS_IN_PROGRESS, max_concurrent_calls_per_actor=_BLOCKS_IN_PROGRESS
    )
    return dataset.map_batches(
        Ask,
        fn_constructor_args=arguments,
        compute=strategy,
        batch_format="pyarrow",
        batch_size=None,
        num_cpus=0,
        label_selector=on_driver_node(),
    )


def _tasks(
    dataset: ray.data.Dataset, stage: Stage[Any], steps: Sequence[Step[Any]], answer: Answer, *, reads: bool
) -> ray.data.Dataset:
    """Take parts through plain steps: those before asking, which the stage `reads`, or those after it, which it writes.

    Ray shows the operator by the names of the steps. States stay objects from step to step.
    """

    def run(block: pa.Table) -> pa.Table:
        states_of = map(partial(_read, stage), block.to_pylist()) if reads else from_block(block, stage.kind)
        rows = []
        for part, states in states_of:
            with part_span("+".join(names), stage, part):
                made = run_steps(steps, states, answer)
                rows.append(to_block(part, made, stage.kind) if reads else _one_row(part, stage.write(part, made)))
        flush()  # Ray ends workers without letting them send what they have left
        return pa.concat_tables(rows)

    names = ["read", *map(step_name, steps)] if reads else [*map(step_name, steps), "write"]
    run.__name__ = "+".join(names)
    return dataset.map_batches(run, batch_format="pyarrow", batch_size=None, zero_copy_batch=True)


def _read(stage: Stage[Any], row: dict[str, Any]) -> tuple[int, Sequence[Any]]:
    return row[PART], stage.read(Part(row[PART], pickle.loads(row[_VALUE])))


def _one_row(part: int, value: Any) -> pa.Table:
    """Return a block for a part whose value is no list of states: its inputs, or its account."""
    return pa.table({PART: [part], _VALUE: pa.array([pickle.dumps(value, protocol=5)], pa.large_binary())})
