"""What makes two requests the same request."""

from __future__ import annotations

from dataclasses import fields
from hashlib import blake2b
from importlib import import_module
from pathlib import Path

import orjson

from fdarx_core.records import Request

_KEYED = tuple(field.name for field in fields(Request) if field.name != "key")


def request_key(request: Request) -> str:
    """32 hexadecimal digits (BLAKE2b, 128 bits) of every field of a request but its key, in canonical JSON.

    A field added to Request joins the key by itself: a key that leaves out what changes an answer reads back wrong
    answers. The order of keys in slots, schema and sampling does not matter.
    """
    content = {name: getattr(request, name) for name in _KEYED}
    try:
        canonical = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    except TypeError as error:
        raise ValueError(f"task {request.task}: its slots or sampling hold what JSON can't: {error}") from error
    return blake2b(canonical, digest_size=16).hexdigest()


def source_digest(*packages: str) -> str:
    """16 hexadecimal digits of all .py and .yaml files in these packages.

    It stands for the baseline's rules in its requests' keys: who changes a rule has no version to remember, and old
    answers are not read back for new rules.
    """
    digest = blake2b(digest_size=8)
    for package in packages:
        root = Path(import_module(package).__path__[0])
        for file in sorted(path for path in root.rglob("*") if path.suffix in (".py", ".yaml")):
            digest.update(f"{package}/{file.relative_to(root).as_posix()}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()
