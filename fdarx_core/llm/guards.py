"""Guards against replies without end: a model in a loop of white space, a server that goes on sending."""

from __future__ import annotations

import re

import aiohttp

from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.exchange import Answer, Failure

_MOST_BYTES = 8 << 20
MOST_STREAMED = 64 << 20
"""Of a reply in pieces: each few letters of its text come in some hundred bytes."""
_BLANK_BYTES = 64 << 10
BLANK_CHARACTERS = 4096
_LOOP = re.compile(rf"\s{{{BLANK_CHARACTERS},}}")
_BLANK = b" \t\r\n\\nrt"
"""White space as it stands in a JSON body: plain around values, escaped within them."""


class Bound:
    """How much of one body is taken: no more than `most` bytes, nor 64 KiB in a row of nothing but white space."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._size = self._blank = 0

    def take(self, chunk: bytes) -> bytes:
        """The chunk. Raises Failure whitespace_loop or transient_reply_too_large."""
        self._size += len(chunk)
        self._blank = 0 if chunk.strip(_BLANK) else self._blank + len(chunk)
        if self._blank > _BLANK_BYTES:
            raise Failure(
                "whitespace_loop", f"gave up after {self._size} bytes, the last {self._blank} all white space"
            )
        if self._size > self._most:
            raise Failure(f"{TRANSIENT}reply_too_large", f"gave up after {self._size} bytes")
        return chunk


async def read_body(stream: aiohttp.StreamReader) -> bytes:
    """A whole body of at most 8 MiB. Raises as `Bound`; the rest is neither awaited nor kept."""
    bound = Bound(_MOST_BYTES)
    return b"".join([bound.take(chunk) async for chunk in stream.iter_any()])


def cut_whitespace_loop(answer: Answer) -> None:
    """Where a text holds 4,096 white spaces in a row, it ends before them, with the reason whitespace_loop."""
    loop = _LOOP.search(answer.text) if len(answer.text) >= BLANK_CHARACTERS else None
    if loop:
        answer.text, answer.reason = answer.text[: loop.start()], "whitespace_loop"
