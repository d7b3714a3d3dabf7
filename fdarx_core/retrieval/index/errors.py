"""What a user of an index is told when it can't be used."""

from __future__ import annotations

from fdarx_core.storage import Location, StorageError


class IndexMissing(StorageError):
    """There is no index, or not the version that was asked for."""


class IndexDamaged(StorageError):
    """A file of the index is gone or is not what was written."""

    def __init__(self, file: Location, what: str) -> None:
        super().__init__(f"{file} {what}; delete the index and build it again: fdarx index --documents … --out INDEX")
        self.file = file
        self._what = what

    def __reduce__(self) -> tuple[type[IndexDamaged], tuple[Location, str]]:
        return IndexDamaged, (self.file, self._what)


class IndexConflict(StorageError):
    """What is to be added, or asked, was made with another encoder or another chunking than the index."""
