"""Replies in pieces, whoever answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator

from fdarx_core.llm.endpoints import Baseline
from fdarx_core.llm.http_endpoint import HttpEndpoint
from fdarx_core.records import Request, Response

_WORDS = re.compile(r"\s*\S+|\s+$")


def stream(endpoint: HttpEndpoint | Baseline, request: Request) -> AsyncGenerator[str | Response, None]:
    """The pieces of a reply in plain text, and last the response as a whole, as `HttpEndpoint.stream` says.

    The baseline's text, which is there at once, comes word by word; one that failed has no pieces.
    """
    return _by_rules(endpoint, request) if isinstance(endpoint, Baseline) else endpoint.stream(request)


async def _by_rules(baseline: Baseline, request: Request) -> AsyncGenerator[str | Response, None]:
    # rules compute for milliseconds: in a thread, so that other streams go on meanwhile
    [response] = await asyncio.to_thread(baseline.answer, [request])
    for word in [] if response.reason else _WORDS.findall(response.text):
        yield word
    yield response
