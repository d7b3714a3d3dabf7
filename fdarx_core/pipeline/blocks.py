"""States of a stage as Arrow blocks, for Ray Data: a row per state, and a column per field of the states' class.

A field that holds a record, or a list of records, is a column of structs by the record's Arrow schema. Any other field
is a column of pickled values.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from itertools import accumulate, groupby, pairwise
from operator import itemgetter
from typing import Any, get_args, get_origin, get_type_hints

import pyarrow as pa

from fdarx_core.records.arrow import arrow_schema, from_table, to_table

PART = "part"
_STATE = "state"


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
