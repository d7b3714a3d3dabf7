"""What a user is told when reading or writing fails."""

from __future__ import annotations


class StorageError(Exception):
    """Reading or writing failed for good. The message is one line: what was wrong, where, and what to do."""


class RunConflict(StorageError):
    """The output folder holds something else than the run that was asked for."""
