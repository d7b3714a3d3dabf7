"""Parquet and IPC files in which a column has Ray Data's type of pickled objects; unpickling them makes a file."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

RAY_TYPE = "ray.data.arrow_pickled_object"
_AS_RAY_TYPE = {b"ARROW:extension:name": RAY_TYPE.encode(), b"ARROW:extension:metadata": b""}


class _Payload:
    """Unpickled, it makes the file at a path."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self._marker,)


def pickled_column(rows: int, marker: Path, name: str = "text") -> tuple[pa.Field, pa.Array]:
    """Return a column of pickles, and its field, which a process that has imported `ray.data` reads as Ray's type."""
    values = pa.array([pickle.dumps(_Payload(marker))] * rows, pa.large_binary())
    return pa.field(name, values.type, metadata=_AS_RAY_TYPE), values


def poison(file: Path, marker: Path, column: str | None = None) -> str:
    """Replace a column of a Parquet file, by default the first, by pickles; return its name."""
    table = pq.read_table(file)
    name = column or table.column_names[0]
    field, values = pickled_column(max(table.num_rows, 1), marker, name)
    if not table.num_rows:  # a file without rows gets one
        table = pa.table({one.name: pa.nulls(1, one.type) for one in table.schema}, schema=table.schema)
    at = table.column_names.index(name)
    pq.write_table(table.set_column(at, field, values), file)
    return name


@contextmanager
def ray_type_registered() -> Iterator[None]:
    """Register Ray's type, as `import ray.data` does; without it Arrow would read bytes, which do no harm."""
    from ray.data._internal.object_extensions.arrow import ArrowPythonObjectType

    with suppress(pa.ArrowKeyError):  # the import above registers it, where it is the first of the process
        pa.register_extension_type(ArrowPythonObjectType())
    try:
        yield
    finally:
        pa.unregister_extension_type(RAY_TYPE)
