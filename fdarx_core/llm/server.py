"""What an asker needs of whoever answers over a network: a model (`HttpEndpoint`), or anything else that is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fdarx_core.llm.limits import Limits
from fdarx_core.llm.tries import Counters
from fdarx_core.records import Request, Response


class Server(Protocol):
    """Answers requests one by one, within limits that hold for all who use it. Belongs to one event loop."""

    @property
    def name(self) -> str: ...

    @property
    def counters(self) -> Counters:
        """What it has been asked so far."""
        ...

    @property
    def limits(self) -> Limits:
        """`limits.stop` ends its asking."""
        ...

    async def ask(self, request: Request, admit: Callable[[], None] = ...) -> Response:
        """The response to a request; where asking failed, its reason says how.

        `admit` is called once, before anything is sent, and may raise. Raises EndpointStopped where no request can
        succeed, and whatever stopped `limits`.
        """
        ...

    async def close(self) -> None: ...
