"""What a server turns out to understand, learned from what it refuses."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

from fdarx_core.llm.exchange import Failure, Mode
from fdarx_core.llm.faults import refuses_structure
from fdarx_core.llm.models import Structured
from fdarx_core.records import Request

_LOG = logging.getLogger(__name__)
_WEAKER: dict[Mode, Mode] = {"json_schema": "json_object", "json_object": "text"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How replies are held to their schema, what the limit of their tokens is called, and whether `stream_options`,
    by which streams are asked for their usage, are known."""

    mode: Mode
    token_limit: str = "max_tokens"
    stream_options: bool = True


class Dialects:
    """The dialect of each task: a server may refuse one task's schema and take another's."""

    def __init__(self, structured: Structured) -> None:
        self._may_weaken = structured == "auto"
        self._first = Dialect("json_schema" if structured == "auto" else structured)
        self._learned: dict[str, Dialect] = {}

    def of(self, request: Request) -> Dialect:
        """A request without a schema is asked for plain text."""
        return self._learned.get(request.task) or (self._first if request.schema else Dialect("text"))

    def learn(self, request: Request, used: Dialect, failure: Failure) -> bool:
        """True where the request that failed in the dialect `used` is worth asking in the one that now holds."""
        task = request.task
        if failure.reason != "refused_request":
            return False
        if self.of(request) != used:  # learned from another request meanwhile
            return True
        if "max_completion_tokens" in failure.detail and used.token_limit == "max_tokens":
            return self._turn_to(task, replace(used, token_limit="max_completion_tokens"), failure)
        if "stream_options" in failure.detail and used.stream_options:
            return self._turn_to(task, replace(used, stream_options=False), failure)
        if self._may_weaken and used.mode in _WEAKER and refuses_structure(failure):
            return self._turn_to(task, replace(used, mode=_WEAKER[used.mode]), failure)
        return False

    def _turn_to(self, task: str, dialect: Dialect, failure: Failure) -> bool:
        self._learned[task] = dialect
        _LOG.warning("task %s: asking with %s from now on: %s", task, dialect, failure)
        return True
