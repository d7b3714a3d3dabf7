"""Errors of reading and writing. Each message is one line: the fault, its place, and the remedy."""

from __future__ import annotations

from importlib.resources import files

import yaml

REMEDIES: dict[str, dict[str, str]] = yaml.safe_load(files(__package__).joinpath("remedies.yaml").read_text("utf-8"))
"""What a user can do about an error of a `disk` or of `s3`, by the name of the error."""


class StorageError(Exception):
    """Reading or writing failed, and another attempt would fail as well."""


class Unreachable(StorageError):
    """The server or disk as a whole cannot be used now. The fault is not that of one file, so no file is skipped."""


class RunConflict(StorageError):
    """The output folder holds something other than the requested run, or another job writes it."""


class InputError(Exception):
    """Content that cannot be used. `reason` is a fixed name to count by, `detail` describes this case."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
