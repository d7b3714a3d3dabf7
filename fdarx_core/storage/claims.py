"""One job at a time writes a run.

On a disk it holds a lock, which the system takes from a process that dies. S3 has no lock, and not every server writes
on conditions: there each job puts down a claim of its own and shows that it lives.
"""

from __future__ import annotations

import os
import socket
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import BinaryIO

from fdarx_core.storage.heartbeat import Heartbeat, Who
from fdarx_core.storage.location import Location

_LOCK = ".lock"


class Claim:
    """What a job holds while it alone writes: given up by `release`, or when nobody refers to it, or at exit.

    `check` raises RunConflict where another job has taken the run over.
    """

    def __init__(self, check: Callable[[], None], release: Callable[[], None]) -> None:
        self.check = check
        self.release = weakref.finalize(self, release)


def claim_run(root: Location, job: str) -> Claim:
    """Returns once no other job writes the run. Raises RunConflict, which names the other, where one does.

    After a job on S3 that was killed this takes a dozen seconds, and says so.
    """
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    who = Who(job, socket.gethostname(), os.getpid(), since)
    held = None if root.is_remote else _locked(root, who)
    if held is not None:
        return Claim(lambda: None, held.close)
    beating = Heartbeat(root, who)
    beating.start()
    return Claim(beating.check, beating.stop)


@contextmanager
def alone(place: Location) -> Iterator[None]:
    """On a disk the block waits until no other process holds the place, as no killed one does; on S3 it just begins."""
    if place.is_remote:
        yield
        return
    with _opened(place) as stream:
        _flock(stream, wait=True)
        yield


def _locked(root: Location, who: Who) -> BinaryIO | None:
    """None where files can't be locked, as on some shared file systems."""
    stream = _opened(root)
    try:
        _flock(stream, wait=False)
    except BlockingIOError:
        with stream:
            stream.seek(0)
            raise Who.parse(stream.read()).conflict(root) from None
    except (ImportError, OSError):
        stream.close()
        return None
    with suppress(OSError):  # a full disk: who holds it is a courtesy
        stream.truncate(0)
        stream.write(who.to_bytes())
        stream.flush()
    return stream


def _opened(place: Location) -> BinaryIO:
    place.check_writable()
    return (Path(place.address) / _LOCK).open("a+b")


def _flock(stream: BinaryIO, *, wait: bool) -> None:
    import fcntl  # not on every system, and reading runs needs none

    fcntl.flock(stream, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
