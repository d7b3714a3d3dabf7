"""Guards against replies without end: a model in a loop of white space, a server that goes on sending."""

from __future__ import annotations

import re

import aiohttp

from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.exchange import Answer, Failure

_MOST_BYTES = 8 << 20
_BLANK_BYTES = 64 << 10
_BLANK_CHARACTERS = 4096
_LOOP = re.compile(rf"\s{{{_BLANK_CHARACTERS},}}")
_BLANK = b" \t\r\n\\nrt"
"""White space as it stands in a JSON body: plain around values, escaped within them."""


async def read_body(stream: aiohttp.StreamReader) -> bytes:
    """A whole body. Raises Failure whitespace_loop after 64 KiB of nothing but white space, and
    transient_reply_too_large after 8 MiB; the rest is neither awaited nor kept."""
    chunks: list[bytes] = []
    size = blank = 0
    async for chunk in stream.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        blank = 0 if chunk.strip(_BLANK) else blank + len(chunk)
        if blank > _BLANK_BYTES:
            raise Failure("whitespace_loop", f"gave up after {size} bytes, the last {blank} all white space")
        if size > _MOST_BYTES:
            raise Failure(f"{TRANSIENT}reply_too_large", f"gave up after {size} bytes")
    return b"".join(chunks)


def cut_whitespace_loop(answer: Answer) -> None:
    """Where a text holds 4,096 white spaces in a row, it ends before them, with the reason whitespace_loop."""
    loop = _LOOP.search(answer.text) if len(answer.text) >= _BLANK_CHARACTERS else None
    if loop:
        answer.text, answer.reason = answer.text[: loop.start()], "whitespace_loop"
