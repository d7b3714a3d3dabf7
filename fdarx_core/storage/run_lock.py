"""The locks of a run, which one job at a time writes, and of a folder, which writers lock in turn.

On a disk the lock is an advisory file lock, which the system releases when the process ends. On S3, and on file systems
without locks, each job writes a claim under `.claims/` and changes it every few seconds (a heartbeat). A claim whose
heartbeat stops belongs to a dead job, and is removed. Whoever takes a run ends the epoch of the job before, since that
job may only be suspended, or have workers that live on (see `epoch`).
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from fdarx_core.storage.errors import RunConflict, StorageError, Unreachable
from fdarx_core.storage.location import Epoch, Location, clear_staged, remove
from fdarx_core.storage.retry import retry_limit

HEARTBEAT_S = 3.0
"""Seconds between two heartbeats."""
HEARTBEAT_TIMEOUT_S = 4 * HEARTBEAT_S
"""A job without a heartbeat for so many seconds, by the clock of the observer, is dead."""

_LOCK_FILE = ".lock"
_POLL_S = 0.2
_RELEASE_TIMEOUT_S = 3.0
_LOG = logging.getLogger(__name__)


class RunLock:
    """The right to write a run, until `release`, until no reference to this object is left, or until the process ends.

    `epoch` is to be checked by each commit.
    """

    def __init__(self, epoch: Epoch, release: Callable[[], None]) -> None:
        self.epoch = epoch
        self.release = weakref.finalize(self, release)


def acquire_run_lock(root: Location, job: str) -> RunLock:
    """Return the lock of a run once no other job has it, and no earlier one can write any more.

    After a job on S3 was killed, this takes about twelve seconds, and logs that it waits. Raises RunConflict, which
    names the other job.
    """
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    owner = f"{job} on {socket.gethostname()}, process {os.getpid()}, since {since}"
    epoch = Epoch(root.address, uuid4().hex)
    file = None if root.is_remote else _lock_file(root, owner, epoch)
    if file is None:
        heartbeat = Heartbeat(root, owner, epoch)
        heartbeat.start()
    lock = RunLock(epoch, heartbeat.stop if file is None else file.close)
    clear_staged(root)
    return lock


@contextmanager
def folder_lock(place: Location) -> Iterator[Callable[[], bool]]:
    """Wait for the lock of a folder, and hold it in this context; give a function that returns whether it still holds.

    On S3, and on file systems without locks, it is lost where this process stands still for so long that others take
    it for dead.
    """
    with ExitStack() as stack:
        if not place.is_remote and _flock(stack.enter_context(_open_lock_file(place)), wait=True):
            yield lambda: True
            return
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        claim = Heartbeat(place, owner, Epoch(place.address, uuid4().hex), of_run=False)
        claim.start()
        try:
            yield claim.is_held
        finally:
            claim.stop()


def _conflict(root: Location, owner: str) -> RunConflict:
    remedy = "wait until it ends, stop it, or choose another --out"
    return RunConflict(f"{root} is being written by another job ({owner}); {remedy}")


def _lock_file(root: Location, owner: str, epoch: Epoch) -> BinaryIO | None:
    """Lock the file, end the epoch that it names, and write owner and epoch into it.

    Returns None where the file system has no locks.
    """
    stream = _open_lock_file(root)
    try:
        locked = _flock(stream, wait=False)
    except BlockingIOError:
        with stream:
            raise _conflict(root, _lines(stream)[0]) from None
    if not locked:
        stream.close()
        return None
    for token in _lines(stream)[1:]:  # workers of an ended job may live on
        Epoch(root.address, token).end(f"another job ({owner}) has taken the run over")
    with suppress(OSError):  # on a full disk the lock holds without the name of its owner
        stream.truncate(0)
        stream.write(f"{owner}\n{epoch.token}\n".encode())
        stream.flush()
    return stream


def _lines(stream: BinaryIO) -> list[str]:
    stream.seek(0)
    return stream.read().decode(errors="replace").splitlines() or ["unknown"]


def _open_lock_file(place: Location) -> BinaryIO:
    place.check_writable()
    return (Path(place.address) / _LOCK_FILE).open("a+b")


def _flock(stream: BinaryIO, *, wait: bool) -> bool:
    """Lock a file; return False where there are no locks. Raises BlockingIOError where another process has it."""
    try:
        import fcntl  # absent on some systems, where runs can still be read

        fcntl.flock(stream, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except (ImportError, OSError):
        return False
    return True


@dataclass(frozen=True, slots=True)
class _Claim:
    """The content of a claim's file.

    `token` is that of the job's epoch. `beat` grows with each heartbeat. `number` is the place in the queue, 0 before
    there is one. `holds` says that the turn of this claim has come.
    """

    token: str
    owner: str
    beat: int = 0
    holds: bool = False
    number: int = 0


class Heartbeat:
    """The claim of this process on a folder, and the thread that renews it.

    Claims take numbers and are served in their order. This needs no atomic writes, only that others see a claim once it
    is written. Source: Lamport, A new solution of Dijkstra's concurrent programming problem, 1974 (the bakery
    algorithm).

    `of_run`: the folder is a run, which does not wait for a job that lives, and whose outputs are committed by epochs.
    """

    def __init__(self, root: Location, owner: str, epoch: Epoch, *, of_run: bool = True) -> None:
        self._root, self._epoch, self._of_run = root, epoch, of_run
        self._claim = _Claim(epoch.token, owner)
        self._file = self._file_of(self._claim)
        self._writing = threading.Lock()
        self._stopped = threading.Event()

    def start(self) -> None:
        """Return once this process holds the folder. Raises RunConflict where another living job has the run."""
        self._write()
        threading.Thread(target=self._renew, name="claim", daemon=True).start()
        try:
            self._await_turn()
            self._write(holds=True)
            self._epoch.check()  # this process may have been suspended, and taken for dead, before it held the folder
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Remove the claim. Where the server does not answer, the claim expires."""
        self._stopped.set()
        if self._writing.acquire(timeout=_RELEASE_TIMEOUT_S):
            with suppress(StorageError), retry_limit(_RELEASE_TIMEOUT_S):
                if self._of_run and not self._epoch.has_ended():
                    # The next job finds no claim by which it could end the epoch, and workers may live on.
                    self._epoch.end(f"the job that wrote it ({self._claim.owner}) has released it")
                remove(self._file)

    def _await_turn(self) -> None:
        """Return when all claims with lower numbers are gone or dead."""
        self._write(number=1 + max((other.number for other in self._others()), default=0))
        own = self._claim.number, self._claim.token
        seen: dict[str, tuple[int, float]] = {}
        while ahead := [other for other in self._others() if (other.number, other.token) < own]:
            for other in ahead:
                if other.token not in seen and self._of_run:
                    message = "%s: looking, for up to %.0f s, whether %s still lives"
                    _LOG.warning(message, self._root, HEARTBEAT_TIMEOUT_S, other.owner)
                beat, seen_at = seen.setdefault(other.token, (other.beat, time.monotonic()))
                if other.beat != beat and self._of_run:
                    raise _conflict(self._root, other.owner)
                if other.beat != beat:
                    seen[other.token] = other.beat, time.monotonic()
                elif time.monotonic() - seen_at > HEARTBEAT_TIMEOUT_S:
                    _LOG.warning("%s: %s has ended without releasing it, going on", self._root, other.owner)
                    why = "because this one had not renewed its claim"
                    self._epoch_of(other).end(f"another job ({self._claim.owner}) has taken the run over, {why}")
                    remove(self._file_of(other))
            time.sleep(_POLL_S)

    def _renew(self) -> None:
        """Write a heartbeat every few seconds; interrupt the main thread when another job has taken over."""
        while not self._stopped.wait(HEARTBEAT_S):
            with suppress(StorageError):  # a server that does not answer is unreachable for other jobs too
                if self._claim.holds and not self.is_held():
                    if self._of_run and not self._stopped.is_set():  # else this process has released the run
                        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                    return
                self._write()

    def is_held(self) -> bool:
        """Return whether no other job has taken the folder; of two that hold it, that with the lower token goes on."""
        if self._epoch.has_ended():
            return False
        for other in self._others():
            if other.holds and other.token < self._claim.token:
                if not self._epoch.has_ended():  # it may have, while this process was suspended in these lines
                    self._epoch.end(f"another job ({other.owner}) has taken the run over at the same time")
                return False
        return True

    def _others(self) -> list[_Claim]:
        """Read the claims of other jobs whose epoch has not ended: one that slept may write its old claim anew."""
        claims = [_read(file) for file in (self._root / ".claims").list() if file != self._file]
        return [claim for claim in claims if claim is not None and not self._epoch_of(claim).has_ended()]

    def _epoch_of(self, claim: _Claim) -> Epoch:
        return Epoch(self._root.address, claim.token)

    def _write(self, **changes: Any) -> None:
        with self._writing:
            if not self._stopped.is_set():
                self._claim = replace(self._claim, beat=self._claim.beat + 1, **changes)
                self._file.write_text(json.dumps(asdict(self._claim)))

    def _file_of(self, claim: _Claim) -> Location:
        return self._root / f".claims/{claim.token}.json"


def _read(file: Location) -> _Claim | None:
    """Return None for a file that is no claim, and for a claim that was removed since the files were listed."""
    try:
        found = json.loads(file.read_bytes())
        return _Claim(**{part.name: found[part.name] for part in fields(_Claim) if part.name in found})
    except Unreachable:
        raise
    except (StorageError, ValueError, TypeError):
        return None
