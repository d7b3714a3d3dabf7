"""The epochs of a run, by which a job that was suspended cannot change a run that another job has taken over.

An epoch is the time in which one job writes a run. A job that takes a run ends all earlier epochs first: for each it
writes a file under `.epochs/`, which is never changed. Every output of a job, also of its workers on other machines,
is committed in three steps:

1. The whole output is written under `.staged/`.
2. The process checks that no file under `.epochs/` ends its epoch.
3. The staged file is moved to its place: renamed on a disk; on S3 copied by the server, in one request.

The next job ends the epoch (a), then deletes all files under `.staged/` (b), and only then reads and writes (c). A
process that is suspended may go on at any moment: before step 2, it finds that its epoch has ended. Between steps 2
and 3, its check was before (a), thus its staged file was there before (a) and was deleted in (b), and step 3 fails as
there is nothing to move. If step 3 was before (b), the output was there when the next job began to read the run.
So after (c) no output of an earlier epoch appears, however long the process, its network or its requests stood still.

This needs files that can be read and listed once they are written, and no conditional writes, no order of two writers,
and no clock: clocks decide only when a silent job is taken for dead (see `run_lock`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import uuid4

from fdarx_core.storage.errors import RunConflict, StorageError
from fdarx_core.storage.location import Location

_ENDED = ".epochs"
_STAGED = ".staged"


@dataclass(frozen=True, slots=True)
class Epoch:
    """The right of one job to commit outputs to the run in the folder `root`, until another job takes the run.

    All locations derived from `RunDirectory.root` carry it, also to other processes. `token` is unique for each start
    of a job.
    """

    root: str
    token: str

    def check(self) -> None:
        """Raise RunConflict if the epoch has ended."""
        if self.has_ended():
            reason = json.loads(self._end.read_bytes())["reason"]
            raise RunConflict(f"{self.root}: {reason}; this job has stopped")

    def has_ended(self) -> bool:
        """Return whether another job has taken the run, or this one has released it."""
        return self._end.is_file()

    def end(self, reason: str) -> None:
        """End the epoch for all processes. `reason` is for the error message of those that commit later."""
        self._end.write_text(json.dumps({"reason": reason}) + "\n")

    def stage(self) -> Location:
        """Return a new place to which an output is written before it is committed."""
        return Location(f"{self.root}/{_STAGED}/{uuid4().hex}")

    @property
    def _end(self) -> Location:
        return Location(f"{self.root}/{_ENDED}/{self.token}.json")


def clear_staged(root: Location) -> None:
    """Delete what earlier epochs have staged, so that it cannot be committed any more; end these epochs before."""
    for file in (root / _STAGED).list():
        remove(file)


def remove(file: Location) -> None:
    """Delete a file, or replace its content where this process may not delete."""
    try:
        file.delete()
    except StorageError:
        file.write_bytes(b"{}\n")
