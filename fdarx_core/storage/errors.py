"""Errors of reading and writing. Each message is one line: what is wrong, where, and what to do."""

from __future__ import annotations


class StorageError(Exception):
    """Reading or writing failed, and trying again does not help."""


class Unreachable(StorageError):
    """The server or disk as a whole cannot be used now. This says nothing about a single file, so none is skipped."""


class RunConflict(StorageError):
    """The output folder holds something else than the requested run, or another job writes it."""


class MissingInput(StorageError):
    """An input that the user named does not exist."""


class InputError(Exception):
    """Content that cannot be used: `reason` is a fixed name to count by, `detail` says what was found."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class BadSource(InputError):
    """A file or archive that cannot be read."""
