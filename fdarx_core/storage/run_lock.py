"""The lock of a run: one job at a time writes it."""

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
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

from fdarx_core.storage.errors import RunConflict, StorageError, Unreachable
from fdarx_core.storage.location import Location
from fdarx_core.storage.retry import retry_limit

HEARTBEAT_S = 3.0
"""Seconds between two signs of life."""

HEARTBEAT_TIMEOUT_S = 4 * HEARTBEAT_S
"""Whoever has given none for so long, as the one who watches counts, is dead."""

_LOOK_S = 0.5
_LEAVING_S = 3.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LockOwner:
    """A job that writes a run. `since` is the time of its own clock."""

    job: str = "a job"
    host: str = "?"
    pid: int = 0
    since: str = "?"

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, data: bytes) -> LockOwner:
        """Nobody in particular where it can't be read."""
        try:
            return cls(**json.loads(data))
        except (ValueError, TypeError):
            return cls()

    def __str__(self) -> str:
        return f"{self.job} on {self.host}, process {self.pid}, since {self.since}"

    def conflict(self, root: Location) -> RunConflict:
        remedy = "wait until it ends, stop it, or choose another --out"
        return RunConflict(f"{root} is being written by another job ({self}); {remedy}")


@dataclass(frozen=True, slots=True)
class _Sign:
    """What stands in a claim. `held`: its job writes; until then it looks who else is there. `over`: the dead."""

    token: str
    who: LockOwner
    beat: int = 0
    held: bool = False
    over: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, data: bytes) -> _Sign | None:
        """None where it is no claim, or one that was given up."""
        try:
            read: dict[str, Any] = json.loads(data)
            return cls(read["token"], LockOwner(**read["who"]), read["beat"], read["held"], tuple(read["over"]))
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(slots=True)
class _Seen:
    """Another's claim as it was found first."""

    sign: _Sign
    at: float = field(default_factory=time.monotonic)


class Heartbeat:
    """This process's claim on a folder, and the thread that keeps it alive."""

    def __init__(self, root: Location, who: LockOwner) -> None:
        self._root = root
        self._sign = _Sign(uuid4().hex, who)
        self._place = self._place_of(self._sign)
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._lost = ""

    def start(self) -> None:
        """Returns once the folder is this process's. Raises RunConflict where it is another's, who lives."""
        self._write()
        threading.Thread(target=self._beat_on, name="claim", daemon=True).start()
        try:
            self._await_others()
            self._write(held=True)
        except BaseException:
            self.stop()
            raise

    def check(self) -> None:
        """Raises RunConflict where another has taken the folder over."""
        if self._lost:
            raise RunConflict(f"{self._root}: {self._lost}; this job has stopped")

    def stop(self) -> None:
        """Gives the folder up. Where the server does not answer, the claim dies by itself."""
        self._ended.set()
        if self._writing.acquire(timeout=_LEAVING_S):
            with suppress(StorageError), retry_limit(_LEAVING_S):
                _remove(self._place)

    def _await_others(self) -> None:
        watched: dict[str, _Seen] = {}
        while others := self._others(self._standing()):
            for other in others:
                if other.token not in watched:
                    watched[other.token] = _Seen(other)
                    _LOG.warning(
                        "%s: looking, for up to %.0f s, whether %s still lives",
                        self._root,
                        HEARTBEAT_TIMEOUT_S,
                        other.who,
                    )
                self._judge(other, watched[other.token])
            time.sleep(_LOOK_S)

    def _judge(self, other: _Sign, seen: _Seen) -> None:
        """Of two that have just begun, the one with the lower token goes on."""
        lives = other.beat != seen.sign.beat
        if lives and (other.held or other.token < self._sign.token):
            raise other.who.conflict(self._root)
        if not lives and time.monotonic() - seen.at > HEARTBEAT_TIMEOUT_S:
            _LOG.warning("%s: it does not, going on", self._root)
            self._write(over=(*self._sign.over, other.token))
            _remove(self._place_of(other))

    def _beat_on(self) -> None:
        while not self._ended.wait(HEARTBEAT_S):
            with suppress(StorageError):  # a server that is away is so for others too
                if self._sign.held:
                    self._look()
                self._write()
            if self._lost:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
                return

    def _look(self) -> None:
        """Notes whether another has taken over."""
        places = self._standing()
        others = self._others(places)
        taken = [one for one in others if self._sign.token in one.over or (one.held and one.token < self._sign.token)]
        if taken:
            self._lost = f"another job ({taken[0].who}) has taken the run over, as this one had given no sign of life"
        elif self._place not in places and not self._place.exists():
            self._lost = "another job has taken the run over, as this one had given no sign of life"

    def _standing(self) -> list[Location]:
        return (self._root / ".claims").list()

    def _others(self, places: list[Location]) -> list[_Sign]:
        """The claims of others, but for those of the dead."""
        signs = [_read(place) for place in places if place != self._place]
        return [sign for sign in signs if sign is not None and sign.token not in self._sign.over]

    def _write(self, **changes: Any) -> None:
        with self._writing:
            if not self._ended.is_set() and not self._lost:
                self._sign = replace(self._sign, beat=self._sign.beat + 1, **changes)
                self._place.write_bytes(self._sign.to_bytes())

    def _place_of(self, sign: _Sign) -> Location:
        return self._root / f".claims/{sign.token}.json"


def _read(place: Location) -> _Sign | None:
    """None where the claim was given up since it was listed."""
    try:
        return _Sign.parse(place.read_bytes())
    except Unreachable:
        raise
    except StorageError:
        return None


def _remove(place: Location) -> None:
    """Who may not delete writes what is no claim."""
    try:
        place.delete()
    except StorageError:
        place.write_bytes(b"{}\n")


_LOCK = ".lock"


class RunLock:
    """What a job holds while it alone writes: given up by `release`, or when nobody refers to it, or at exit.

    `check` raises RunConflict where another job has taken the run over.
    """

    def __init__(self, check: Callable[[], None], release: Callable[[], None]) -> None:
        self.check = check
        self.release = weakref.finalize(self, release)


def acquire_run_lock(root: Location, job: str) -> RunLock:
    """Returns once no other job writes the run. Raises RunConflict, which names the other, where one does.

    After a job on S3 that was killed this takes a dozen seconds, and says so.
    """
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    who = LockOwner(job, socket.gethostname(), os.getpid(), since)
    held = None if root.is_remote else _locked(root, who)
    if held is not None:
        return RunLock(lambda: None, held.close)
    beating = Heartbeat(root, who)
    beating.start()
    return RunLock(beating.check, beating.stop)


@contextmanager
def folder_lock(place: Location) -> Iterator[None]:
    """On a disk the block waits until no other process holds the place, as no killed one does; on S3 it just begins."""
    if place.is_remote:
        yield
        return
    with _opened(place) as stream:
        _flock(stream, wait=True)
        yield


def _locked(root: Location, who: LockOwner) -> BinaryIO | None:
    """None where files can't be locked, as on some shared file systems."""
    stream = _opened(root)
    try:
        _flock(stream, wait=False)
    except BlockingIOError:
        with stream:
            stream.seek(0)
            raise LockOwner.parse(stream.read()).conflict(root) from None
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
