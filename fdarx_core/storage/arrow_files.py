"""Opening of Parquet files: the only place that does, so that no file of somebody else runs code.

Arrow converts the values of an extension type with the Python class that some library has registered for it. Ray Data
registers one, `ray.data.arrow_pickled_object`, that unpickles its values, which runs any code that the author of the
file wanted. FDARx writes plain types alone; hence a file with an extension type is refused before a value is converted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from fdarx_core.storage.errors import StorageError

_EXTENSION_NAME = b"ARROW:extension:name"
"""The key under which the metadata of a field names its extension type where no class is registered for it."""


class UnsafeFile(StorageError):
    """A column of the file has an extension type, whose values may run code when they are converted."""


def open_parquet(source: BinaryIO | pa.Buffer | bytes, name: object, **options: Any) -> pq.ParquetFile:
    """Open a Parquet file.

    Args:
        source: a stream, or the bytes of the file.
        name: the place of the file, for error messages.
        options: further arguments of `pyarrow.parquet.ParquetFile`.

    Raises:
        UnsafeFile: a column has an extension type, at any depth.
        pyarrow.ArrowException: the content is not Parquet.
    """
    file = pq.ParquetFile(pa.BufferReader(source) if isinstance(source, (bytes, pa.Buffer)) else source, **options)
    schema = file.schema_arrow
    if _EXTENSION_NAME in schema.serialize().to_pybytes():  # takes a quarter of the time that the fields take
        for field in schema:
            for column, extension in _extension_types(field):
                raise UnsafeFile(
                    f"{name} is not read: its column {column} has the extension type {extension}, whose values can run "
                    "code; write the file with text, numbers, lists and structs alone, and do not trust who made it"
                )
    return file


@contextmanager
def undamaged(name: object) -> Iterator[None]:
    """Turn Arrow's errors in the block into a StorageError that names the file and says what to do."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        message = " ".join(str(error).split())
        raise StorageError(f"{name} is damaged ({message}); delete it and run the job again") from error


def _extension_types(field: pa.Field, above: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the name of each extension type of a field and of the fields below it."""
    path, kind, metadata = f"{above}{field.name}", field.type, field.metadata
    if isinstance(kind, pa.BaseExtensionType):
        yield path, kind.extension_name
    elif metadata is not None and _EXTENSION_NAME in metadata:
        yield path, metadata[_EXTENSION_NAME].decode(errors="replace")
    elif pa.types.is_dictionary(kind):  # Arrow says that it has no fields
        yield from _extension_types(pa.field(field.name, kind.value_type), above)
    else:
        children: Any = (kind.field(at) for at in range(kind.num_fields))
        for child in children:
            yield from _extension_types(child, f"{path}.")
