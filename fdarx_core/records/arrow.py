"""Conversion of dataclass records to and from Arrow; the schema comes from the annotations of the record."""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
from pydantic import TypeAdapter

Record = TypeVar("Record")

_PRIMITIVES: dict[type, pa.DataType] = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


def _arrow_type(hint: Any) -> pa.DataType:
    if hint in _PRIMITIVES:
        return _PRIMITIVES[hint]
    origin, args = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return _arrow_type(next(arg for arg in args if arg is not type(None)))
    if origin is list:
        return pa.list_(_arrow_type(args[0]))
    if origin is dict and args[0] is str and args[1] in _PRIMITIVES:
        return pa.map_(pa.string(), _PRIMITIVES[args[1]])
    if dataclasses.is_dataclass(hint):
        return pa.struct(list(arrow_schema(hint)))  # type: ignore[arg-type]
    raise TypeError(f"no Arrow type for {hint!r}; records hold str, int, float, bool, lists of them and flat records")


@cache
def _hints(record: type) -> dict[str, Any]:
    """Return the annotations of a record, cached, because reading them takes longer than a small table."""
    return get_type_hints(record)


@cache
def _column(hint: Any) -> TypeAdapter[list[Any]]:
    """Return what converts the values of a column between records, which may be in lists, and dicts of their fields."""
    return TypeAdapter(list[hint])


@cache
def arrow_schema(record: type) -> pa.Schema:
    """Return the Arrow schema of a record class, with a column for each field in order."""
    hints = _hints(record)
    return pa.schema([(field.name, _arrow_type(hints[field.name])) for field in dataclasses.fields(record)])


def to_table(rows: Iterable[Any], record: type) -> pa.Table:
    """Return records of one class as an Arrow table; an empty iterable gives an empty table with the right columns.

    A record with `to_row` and `from_row` decides on its columns itself; those that the class lacks hold text.
    """
    kept = list(rows)
    schema = arrow_schema(record)
    if hasattr(record, "to_row"):
        keyed = [row.to_row() for row in kept]
        types = {field.name: field.type for field in schema if not pa.types.is_map(field.type)}
        names = dict.fromkeys((*(name for row in keyed for name in row), *types))
        texts = pa.string()
        return pa.table({name: pa.array([row.get(name) for row in keyed], types.get(name, texts)) for name in names})
    columns: list[pa.Array] = []
    for field in schema:
        values: Any = [getattr(row, field.name) for row in kept]
        if pa.types.is_nested(field.type):
            values = _column(_hints(record)[field.name]).dump_python(values, warnings=False)
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def from_table(table: pa.Table, record: type[Record]) -> Iterator[Record]:
    """Yield the records of a table of `to_table`. Unknown columns are ignored; missing ones get their defaults."""
    if hasattr(record, "from_row"):
        yield from map(record.from_row, table.to_pylist())  # type: ignore[attr-defined]
        return
    hints = _hints(record)  # type: ignore[arg-type]
    names = [field.name for field in dataclasses.fields(record) if field.name in table.column_names]  # type: ignore[arg-type]
    columns = [table.column(name).to_pylist(maps_as_pydicts="strict") for name in names]
    for place, name in enumerate(names):
        if pa.types.is_nested(table.column(name).type):
            columns[place] = _column(hints[name]).validate_python(columns[place])
    for values in zip(*columns, strict=True):
        yield record(**dict(zip(names, values, strict=True)))
