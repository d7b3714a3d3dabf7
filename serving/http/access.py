"""API keys, rate limits per client, and a limit of concurrent requests."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fdarx_core.specs.serve import ServiceSettings
from fdarx_core.storage import Location, StorageError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
UPLOAD = "upload"
"""The right of a key to add documents."""
_LINE = re.compile(rf"({_NAME.pattern}):([0-9a-f]{{64}})(?::({UPLOAD}))?")
_MAX_CLIENTS = 10_000


@dataclass(frozen=True, slots=True)
class ApiKeys:
    """The API keys of a service.

    Attributes:
        hashes: the SHA-256 hash of each key by its name; None where no key is required.
        uploaders: the names of the keys that may add documents; "" where all clients may without a key.
    """

    hashes: Mapping[str, str] | None
    uploaders: frozenset[str]

    @classmethod
    def of(cls, settings: ServiceSettings) -> ApiKeys:
        """Return the keys of a service. Raises ValueError as `read_keys` does."""
        if settings.keys_file is None:
            return cls(None, frozenset([""] if settings.upload else []))
        return read_keys(settings.keys_file)

    def name_of(self, key: bytes) -> str | None:
        """Return the name of a key, None where it is unknown. The time that this takes does not depend on the key."""
        digest, found = hashlib.sha256(key).hexdigest(), None
        for name, known in (self.hashes or {}).items():
            if hmac.compare_digest(known, digest):
                found = name
        return found


def read_keys(file: Path) -> ApiKeys:
    """Read the API keys of a file.

    Raises ValueError, with the number of the line, where the file can't be read or has a line that is neither NAME:HASH
    nor NAME:HASH:upload.
    """
    try:
        lines = Location(file).read_text().splitlines()
    except StorageError as error:
        raise ValueError(f"keys_file: {error}") from None
    hashes, uploaders = dict[str, str](), set[str]()
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:  # do not show the line: it may be a key that was pasted by mistake
            raise ValueError(
                f"{file}:{number}: not a line NAME:SHA-256 or NAME:SHA-256:{UPLOAD}; create keys with "
                "`fdarx serve --new-key`"
            )
        if match[1] in hashes:
            raise ValueError(f"{file}:{number}: a second key named {match[1]}: delete one of the two lines")
        hashes[match[1]] = match[2]
        uploaders.update([match[1]] if match[3] else [])
    return ApiKeys(hashes, frozenset(uploaders))


def key_of_request(headers: Mapping[str, str]) -> bytes:
    """Return the key in `Authorization: Bearer KEY` or `X-API-Key: KEY`, empty where there is none."""
    scheme, _, key = headers.get("authorization", "").partition(" ")
    found = key if scheme.lower() == "bearer" else headers.get("x-api-key", "")
    return found.strip().encode("latin-1")


def add_key(file: Path, name: str, *, upload: bool = False) -> str:
    """Create a key of 32 random bytes, append its hash to the file, and return the key, which is stored nowhere.

    With `upload`, the key may add documents.

    Raises ValueError for a name that is taken or has characters other than letters, digits, ".", "_" and "-".
    """
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} can't name a key: use up to 64 letters, digits, '.', '_' and '-'")
    if file.exists() and name in (read_keys(file).hashes or {}):
        raise ValueError(f"{file} has a key named {name}: choose another name, or delete its line to revoke it")
    key = secrets.token_urlsafe(32)
    right = f":{UPLOAD}" if upload else ""
    line = f"{name}:{hashlib.sha256(key.encode()).hexdigest()}{right}\n"
    unfinished = file.exists() and file.stat().st_size and not file.read_bytes().endswith(b"\n")
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w") as lines:
        lines.write("\n" + line if unfinished else line)
    return key


class ClientRateLimiter:
    """One token bucket for each client, for the 10,000 clients with the most recent requests."""

    def __init__(self, per_minute: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.per_minute, self._burst, self._clock = per_minute, float(burst), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def acquire(self, client: str) -> float:
        """Take a token and return 0, or return the seconds until there will be one."""
        now = self._clock()
        tokens, updated = self._buckets.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - updated) * self.per_minute / 60)
        granted = tokens >= 1
        self._buckets[client] = (tokens - granted, now)
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if granted else (1 - tokens) * 60 / self.per_minute


class ConcurrencyLimiter:
    """A limit of concurrent requests that clients share, with a bounded queue.

    A client gets another place only if it has fewer places than are free, and a request waits only if fewer of the
    client's requests wait than the queue has free entries. So a single client gets at most half of the places, and some
    stay free for others. A place that becomes free goes to the client with the fewest places, or of several to the one
    that got its last place the longest time ago. `on_change` gets 1 for a place that is taken, -1 for one that is free.

    Source: Choudhury and Hahne, Dynamic Queue Length Thresholds for Shared-Memory Packet Switches, 1998, with factor 1.
    """

    def __init__(self, limit: int, max_waiting: int, wait_s: float, on_change: Callable[[int], None]) -> None:
        self._limit, self._max_waiting, self._wait_s, self._on_change = limit, max_waiting, wait_s, on_change
        self._active: Counter[str] = Counter()
        self._waiting: list[tuple[str, asyncio.Future[None]]] = []
        self._starts, self._last_start = 0, dict[str, int]()

    async def acquire(self, client: str) -> bool:
        """Take a place, to be given back by `release`; return False if the queue is full or the wait was too long."""
        own_waiting = sum(name == client for name, _ in self._waiting)
        if not own_waiting and self._may_start(client):
            self._start(client)
            return True
        if own_waiting >= self._max_waiting - len(self._waiting):
            return False
        entry = client, asyncio.get_running_loop().create_future()
        self._waiting.append(entry)
        try:
            await asyncio.wait([entry[1]], timeout=self._wait_s)
        except asyncio.CancelledError:
            if entry[1].done():
                self.release(client)
            raise
        finally:
            if not entry[1].done():
                self._waiting.remove(entry)
                self._forget(client)
        return entry[1].done()

    def release(self, client: str) -> None:
        """Give back the place of a client's request, so that waiting requests can start."""
        self._active[client] -= 1
        self._on_change(-1)
        while startable := [entry for entry in self._waiting if self._may_start(entry[0])]:
            entry = min(startable, key=lambda waiting: (self._active[waiting[0]], self._last_start.get(waiting[0], 0)))
            self._waiting.remove(entry)
            self._start(entry[0])
            entry[1].set_result(None)
        self._forget(client)

    def _may_start(self, client: str) -> bool:
        return self._active[client] < self._limit - self._active.total()

    def _start(self, client: str) -> None:
        self._active[client] += 1
        self._starts += 1
        self._last_start[client] = self._starts
        self._on_change(1)

    def _forget(self, client: str) -> None:
        """Drop what is kept of a client that has no requests."""
        if not self._active[client] and not any(name == client for name, _ in self._waiting):
            self._active.pop(client, None)
            self._last_start.pop(client, None)
