"""Who may ask: keys are shown once, when they are made; what is kept is their hash."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from pathlib import Path

_LINE = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,63}):([0-9a-f]{64})")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class KeysError(ValueError):
    """A keys file, or a name for a key, that can't be used."""


class Keys:
    """The hashes of the keys that are let in, by name."""

    def __init__(self, hashes: Mapping[str, str]) -> None:
        self._entries = [(name, digest.encode()) for name, digest in hashes.items()]

    @classmethod
    def load(cls, file: Path) -> Keys:
        """Raises KeysError, naming the line, where the file can't be read or holds anything but NAME:HASH lines."""
        return cls(_hashes(file))

    def holder(self, key: bytes) -> str | None:
        """The name of a key. Takes as long for a wrong key as for a right one."""
        given, found = hashlib.sha256(key).hexdigest().encode(), None
        for name, digest in self._entries:
            if hmac.compare_digest(digest, given):
                found = name
        return found


def given_key(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The key in a request's headers, `Authorization: Bearer KEY` or `X-API-Key: KEY`; empty where there is none."""
    found = dict(reversed([*headers]))
    scheme, _, key = found.get(b"authorization", b"").partition(b" ")
    return key.strip() if scheme.lower() == b"bearer" else found.get(b"x-api-key", b"").strip()


def add_key(file: Path, name: str) -> str:
    """Makes a key of 32 random bytes, adds its hash to the file, and returns the key, which nothing else holds.

    Raises KeysError for a name that is taken or holds other than letters, digits, ".", "_" and "-".
    """
    if not _NAME.fullmatch(name):
        raise KeysError(f"{name!r} can't name a key: take up to 64 letters, digits, '.', '_' and '-'")
    if file.exists() and name in _hashes(file):
        raise KeysError(f"{file} has a key named {name}: take another name, or delete its line to revoke it")
    key = secrets.token_urlsafe(32)
    line = f"{name}:{hashlib.sha256(key.encode()).hexdigest()}\n"
    glued = file.exists() and file.stat().st_size and not file.read_bytes().endswith(b"\n")
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w") as lines:
        lines.write("\n" + line if glued else line)
    return key


def _hashes(file: Path) -> dict[str, str]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise KeysError(f"{file}: the keys can't be read ({type(error).__name__}): check keys_file") from None
    hashes: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.fullmatch(line.strip())
        if match is None:  # the line may hold a key that was written here by mistake: it is not shown
            raise KeysError(f"{file}:{number}: no NAME:SHA-256 line; make keys with add_key")
        if match[1] in hashes:
            raise KeysError(f"{file}:{number}: a second key named {match[1]}: delete one of the two lines")
        hashes[match[1]] = match[2]
    return hashes
