"""Of the requests that share a long prefix, the first goes alone: a vendor's cache holds it once that is answered."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from hashlib import blake2b

from fdarx_core.llm.tokens import count_messages, estimated
from fdarx_core.records import Request

SHORTEST = 1024
"""Tokens, by estimate: what is shorter most vendors don't cache."""
KEPT_S = 240.0
"""Vendors keep a prefix for five minutes from its last use."""


@dataclass(slots=True)
class _Prefix:
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    cached_until: float = 0.0
    under_way: int = 0


class FirstAlone:
    """Turns of requests by their prefix: all messages but the last. Belongs to one event loop.

    Until one is answered, one at a time is let through; one that fails leaves its turn to the next, and stands in line
    again for its next try. Other prefixes, and short ones, don't wait. Whoever waits here should hold no slot.
    """

    def __init__(self, *, wanted: bool) -> None:
        self._wanted = wanted
        self._prefixes: OrderedDict[bytes, _Prefix] = OrderedDict()

    @asynccontextmanager
    async def turn(self, request: Request) -> AsyncIterator[bool]:
        """Gives whether the request had to wait; left without an error, its prefix counts as cached."""
        if not self._wanted or count_messages(request.messages[:-1], estimated) < SHORTEST:
            yield False
            return
        prefix = self._prefix(_digest(request))
        prefix.under_way += 1
        try:
            async with _in_line(prefix) as waited:
                yield waited
                prefix.cached_until = _now() + KEPT_S
        finally:
            prefix.under_way -= 1

    def _prefix(self, digest: bytes) -> _Prefix:
        """The prefix, now the one used last; those used longest ago are forgotten once no cache holds them."""
        while self._prefixes and _forgotten(next(iter(self._prefixes.values()))):
            self._prefixes.popitem(last=False)
        prefix = self._prefixes.setdefault(digest, _Prefix())
        self._prefixes.move_to_end(digest)
        return prefix


@asynccontextmanager
async def _in_line(prefix: _Prefix) -> AsyncIterator[bool]:
    """Holds the block back while another goes alone; gives whether it did. The block goes alone unless it need not."""
    if _cached(prefix):
        yield False
        return
    waited = prefix.alone.locked()
    async with prefix.alone:
        if not _cached(prefix):
            yield waited
            return
    yield waited


def _cached(prefix: _Prefix) -> bool:
    return prefix.cached_until >= _now()


def _forgotten(prefix: _Prefix) -> bool:
    return not (prefix.under_way or _cached(prefix))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _digest(request: Request) -> bytes:
    digest = blake2b(digest_size=16)
    for message in request.messages[:-1]:
        digest.update(f"{message['role']}\0{message['content']}\0".encode("utf-8", "replace"))
    return digest.digest()
