"""Files on a disk or on s3:// alike, tables in them, and the folder of a run. An output appears whole or not at all."""

from fdarx_core.storage.errors import RunConflict, StorageError
from fdarx_core.storage.location import Location
from fdarx_core.storage.run_directory import RunDirectory
from fdarx_core.storage.tables import read_records, read_table, read_where, write_records, write_table

__all__ = [
    "Location",
    "RunConflict",
    "RunDirectory",
    "StorageError",
    "read_records",
    "read_table",
    "read_where",
    "write_records",
    "write_table",
]
