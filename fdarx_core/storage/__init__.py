"""Files on a disk or on s3:// alike, tables in them, and the folder of a run. An output appears whole or not at all."""

from fdarx_core.storage.errors import RunConflict as RunConflict
from fdarx_core.storage.errors import StorageError as StorageError
from fdarx_core.storage.location import Location as Location
from fdarx_core.storage.run_directory import RunDirectory as RunDirectory
from fdarx_core.storage.run_directory import version_of as version_of
from fdarx_core.storage.tables import read_records as read_records
from fdarx_core.storage.tables import read_table as read_table
from fdarx_core.storage.tables import read_tables as read_tables
from fdarx_core.storage.tables import read_where as read_where
from fdarx_core.storage.tables import write_records as write_records
from fdarx_core.storage.tables import write_table as write_table
