"""API keys, rate limits per client, and a limit of concurrent requests."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
UPLOAD = "upload"
"""The right of a key to add documents."""
_LINE = re.compile(rf"({_NAME.pattern}):([0-9a-f]{{64}})(?::({UPLOAD}))?")
_MAX_CLIENTS = 10_000


def load_keys(file: Path) -> dict[str, str]:
    """Read the SHA-256 hashes of the API keys, by name. Raises ValueError as `load_rights` does."""
    return {name: digest for name, (digest, _) in load_rights(file).items()}


def load_rights(file: Path) -> dict[str, tuple[str, bool]]:
    """Read the API keys by name: the SHA-256 hash of each, and whether it may add documents.

    Raises ValueError, with the number of the line, where the file can't be read or has a line that is neither NAME:HASH
    nor NAME:HASH:upload.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{file}: the keys can't be read ({type(error).__name__}): check keys_file") from None
    keys: dict[str, tuple[str, bool]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:  # do not show the line: it may be a key that was pasted by mistake
            raise ValueError(
                f"{file}:{number}: not a line NAME:SHA-256 or NAME:SHA-256:{UPLOAD}; create keys with "
                "`fdarx serve --new-key`"
            )
        if match[1] in keys:
            raise ValueError(f"{file}:{number}: a second key named {match[1]}: delete one of the two lines")
        keys[match[1]] = match[2], match[3] is not None
    return keys


def name_of_key(key: bytes, hashes: Mapping[str, str]) -> str | None:
    """Return the name of a key, None where it is unknown. The time that this takes does not depend on the key."""
    digest, found = hashlib.sha256(key).hexdigest(), None
    for name, known in hashes.items():
        if hmac.compare_digest(known, digest):
            found = name
    return found


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
    if file.exists() and name in load_keys(file):
        raise ValueError(f"{file} has a key named {name}: choose another name, or delete its line to revoke it")
    key = secrets.token_urlsafe(32)
    right = f":{UPLOAD}" if upload else ""
    line = f"{name}:{hashlib.sha256(key.encode()).hexdigest()}{right}\n"
    unfinished = file.exists() and file.stat().st_size and not file.read_bytes().endswith(b"\n")
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w") as lines:
        lines.write("\n" + line if unfinished else line)
    return key


class ClientRateLimiter:
    """One token bucket per client. Of more than 10,000 clients, the least recently seen are forgotten."""

    def __init__(self, per_minute: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._burst, self._clock = per_minute / 60, float(burst), clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def acquire(self, client: str) -> float:
        """Take a token and return 0, or return the seconds until there will be one."""
        now = self._clock()
        tokens, updated = self._buckets.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - updated) * self._per_second)
        granted = tokens >= 1
        self._buckets[client] = (tokens - granted, now)
        if len(self._buckets) > _MAX_CLIENTS:
            self._buckets.popitem(last=False)
        return 0.0 if granted else (1 - tokens) / self._per_second


class ConcurrencyLimiter:
    """A limit of concurrent requests, with a bounded queue. `on_change` gets the number of requests in progress."""

    def __init__(self, limit: int, max_waiting: int, wait_s: float, on_change: Callable[[int], None]) -> None:
        self._places, self._active, self._waiting = asyncio.Semaphore(limit), 0, 0
        self._max_waiting, self._wait_s, self._on_change = max_waiting, wait_s, on_change

    async def acquire(self) -> bool:
        """Take a place, to be given back by `release`; return False if the queue is full or the wait was too long."""
        if self._places.locked() and self._waiting >= self._max_waiting:
            return False
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_s):
                await self._places.acquire()
        except TimeoutError:
            return False
        finally:
            self._waiting -= 1
        self._active += 1
        self._on_change(self._active)
        return True

    def release(self) -> None:
        """End a request: the request that has waited longest can start."""
        self._active -= 1
        self._on_change(self._active)
        self._places.release()
