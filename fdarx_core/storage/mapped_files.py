"""Arrays and tables in files that are mapped into memory.

Processes of a machine share the pages of a mapped file, and only those that are touched are read. The files are Arrow's
IPC format without compression, so that nothing has to be decoded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy.typing as npt
import pyarrow as pa

from fdarx_core.storage.arrow_files import open_ipc, undamaged
from fdarx_core.storage.location import Location

Arrays: TypeAlias = Mapping[str, pa.Array]
"""Arrays of any lengths by name."""


def write_arrays(location: Location, arrays: Mapping[str, pa.Array | npt.NDArray[Any]]) -> None:
    """Write named arrays, each of any length. The file appears whole or not at all."""
    lists = {name: pa.array(values) if not isinstance(values, pa.Array) else values for name, values in arrays.items()}
    columns = {name: pa.LargeListArray.from_arrays([0, len(values)], values) for name, values in lists.items()}
    write_mappable(location, pa.table(columns))


def write_mappable(location: Location, table: pa.Table) -> None:
    """Write a table that `map_table` can map. The file appears whole or not at all."""
    with location.open_output() as stream, pa.ipc.new_file(stream, table.schema) as writer:
        writer.write_table(table.combine_chunks())


def map_arrays(file: Path) -> Arrays:
    """Map the arrays of a file. Raises StorageError where it is damaged."""
    return _arrays(map_table(file))


def map_table(file: Path) -> pa.Table:
    """Map a table, which has one chunk. Raises StorageError where the file is damaged."""
    with undamaged(file):
        table = open_ipc(pa.memory_map(str(file)), file).read_all()
        table.validate()  # the sizes of buffers: Arrow would read beyond the end of those that are too short
        return table


def read_arrays(location: Location, names: Sequence[str]) -> Arrays:
    """Read some of the arrays of a file; from S3, only their bytes are fetched. Raises StorageError."""
    with location.open_input() as stream, undamaged(location):
        return _arrays(open_ipc(stream, location, names).read_all())


def _arrays(table: pa.Table) -> Arrays:
    return {name: table[name].chunk(0).values for name in table.column_names}
