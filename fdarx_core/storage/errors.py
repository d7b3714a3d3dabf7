"""What a user is told when reading or writing fails."""

from __future__ import annotations


class StorageError(Exception):
    """Reading or writing failed for good. The message is one line: what was wrong, where, and what to do."""


class Unreachable(StorageError):
    """The place as a whole can't be used now, which says nothing of any file in it: no reason to pass one over."""


class RunConflict(StorageError):
    """The output folder holds something else than the run that was asked for, or another job writes it."""
