"""A claim on a folder where nothing can be locked: a small object of one's own that changes every few seconds.

Why it holds, on any server on which an object that was put is there to be read and listed:

- Each job first puts its claim and then lists, so of two that begin at once at least one sees the other, whatever the
  order. Nothing is put on a condition, renamed, or read from the order of a listing.
- A claim that changes belongs to a job that lives. Only the watcher's clock is asked how long one has not.
- A job that was taken for dead while it only slept finds its token among those that another has taken over from, or
  its claim gone, and stops before it writes `run.json` again.
"""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import uuid4

from fdarx_core.storage.errors import RunConflict, StorageError, Unreachable
from fdarx_core.storage.location import Location
from fdarx_core.storage.patience import hurried

BEAT_S = 3.0
"""Seconds between two signs of life."""

DEAD_S = 4 * BEAT_S
"""Whoever has given none for so long, as the one who watches counts, is dead."""

_LOOK_S = 0.5
_LEAVING_S = 3.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Who:
    """A job that writes a run. `since` is the time of its own clock."""

    job: str = "a job"
    host: str = "?"
    pid: int = 0
    since: str = "?"

    def to_bytes(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def parse(cls, data: bytes) -> Who:
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
    who: Who
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
            return cls(read["token"], Who(**read["who"]), read["beat"], read["held"], tuple(read["over"]))
        except (ValueError, KeyError, TypeError):
            return None


@dataclass(slots=True)
class _Seen:
    """Another's claim as it was found first."""

    sign: _Sign
    at: float = field(default_factory=time.monotonic)


class Heartbeat:
    """This process's claim on a folder, and the thread that keeps it alive."""

    def __init__(self, root: Location, who: Who) -> None:
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
            with suppress(StorageError), hurried(_LEAVING_S):
                _remove(self._place)

    def _await_others(self) -> None:
        watched: dict[str, _Seen] = {}
        while others := self._others(self._standing()):
            for other in others:
                if other.token not in watched:
                    watched[other.token] = _Seen(other)
                    _LOG.warning("%s: looking, for up to %.0f s, whether %s still lives", self._root, DEAD_S, other.who)
                self._judge(other, watched[other.token])
            time.sleep(_LOOK_S)

    def _judge(self, other: _Sign, seen: _Seen) -> None:
        """Of two that have just begun, the one with the lower token goes on."""
        lives = other.beat != seen.sign.beat
        if lives and (other.held or other.token < self._sign.token):
            raise other.who.conflict(self._root)
        if not lives and time.monotonic() - seen.at > DEAD_S:
            _LOG.warning("%s: it does not, going on", self._root)
            self._write(over=(*self._sign.over, other.token))
            _remove(self._place_of(other))

    def _beat_on(self) -> None:
        while not self._ended.wait(BEAT_S):
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
