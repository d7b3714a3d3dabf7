"""PubMed as an endpoint of `Asker`: searched for each claim, within what NCBI allows, each answer kept."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

from fdarx_core.factuality.evidence.pubmed.entrez import Entrez
from fdarx_core.factuality.evidence.pubmed.settings import NAME, PubMedSettings
from fdarx_core.factuality.evidence.pubmed.task import answer_text
from fdarx_core.factuality.evidence.pubmed.window import Window
from fdarx_core.llm import Counters, EndpointStopped, response_to
from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.exchange import Failure
from fdarx_core.llm.limits import Limits
from fdarx_core.llm.patience import Patience
from fdarx_core.records import Request, Response

Reply = TypeVar("Reply")

_RATE, _RATE_WITH_KEY = 3, 10
"""Requests a second. Source: NCBI's E-utilities, usage guidelines."""
_GIVEN_UP_IN_VAIN = 8
_REMEDY = "check its address and the network; what was found is kept, run again to go on"


@dataclass(slots=True)
class _Search:
    """One claim's search on its way."""

    request: Request
    patience: Patience
    admit: Callable[[], None]
    retries: int = 0
    latency_s: float = 0.0


class PubMed:
    """Answers requests of `task.search_request`; the rate holds for all of them together. Belongs to one event loop.

    A search takes two requests of Entrez, and one more for each time that its query is broadened. That nothing is
    found is an answer. Failures that may pass are tried again; eight searches given up on in a row end all asking.
    Raises ValueError where the key's variable holds no key.
    """

    name = NAME

    def __init__(self, settings: PubMedSettings) -> None:
        self.counters = Counters()
        self._settings = settings
        key = settings.key()
        self._entrez = Entrez(settings, key)
        rate = _RATE_WITH_KEY if key else _RATE
        self.limits = Limits(rate, None, None)
        self._window = Window(rate, self.limits)
        self._given_up = 0

    async def ask(self, request: Request, admit: Callable[[], None] = lambda: None) -> Response:
        """See `Server`. The response's text is that of `task.answer_text`."""
        self.counters.asked += 1
        patience = Patience(request.key, self._settings.max_tries, self._settings.max_wait_s)
        search = _Search(request, patience, admit)
        try:
            response = response_to(request, await self._found(search))
        except Failure as failure:
            response = response_to(request, failure.detail, failure.reason)
        except BaseException:
            self.counters.abandoned += 1
            raise
        response.attempts, response.latency_s = 1 + search.retries, search.latency_s
        self.counters.done += 1
        self.counters.failed += bool(response.reason)
        return response

    async def close(self) -> None:
        await self._entrez.close()

    async def _found(self, search: _Search) -> str:
        slots = search.request.slots
        first, last = slots["years"]
        pmids: list[str] = []
        for term in slots["query"]:
            if len(pmids) < slots["k"]:
                more = await self._reply(search, self._entrez.search, term, (first, last), slots["k"])
                pmids = list(dict.fromkeys([*pmids, *more]))[: slots["k"]]
        articles = await self._reply(search, self._entrez.fetch, pmids) if pmids else []
        return answer_text(articles, pmids)

    async def _reply(self, search: _Search, call: Callable[..., Awaitable[Reply]], *arguments: object) -> Reply:
        """What the call returns, tried again while that may help. Raises Failure where it does not."""
        while True:
            try:
                async with self._slot(search):
                    reply = await call(*arguments)
                self._given_up = 0
                return reply
            except Failure as failure:
                await self._wait_after(search, failure)

    @asynccontextmanager
    async def _slot(self, search: _Search) -> AsyncIterator[None]:
        """A slot and a place for one request, given back however the block ends."""
        entered_at = await self.limits.enter(again=search.patience.sent > 0)
        self.counters.in_flight += 1
        try:
            async with self._window.place():
                if not search.patience.sent:
                    search.admit()
                search.patience.sent += 1
                sent_at = time.monotonic()
                yield
                search.latency_s = time.monotonic() - sent_at
        except Failure as failure:
            if failure.fatal:  # before the slot goes to one who would ask in vain
                raise self._stopped(failure) from None
            if failure.told_to_wait:
                self.limits.refused(entered_at, failure.retry_after)
            raise
        finally:
            self.counters.in_flight -= 1
            self.limits.leave()
        self.limits.accepted()

    async def _wait_after(self, search: _Search, failure: Failure) -> None:
        """Returns when the next try is due. Raises the failure where none is."""
        seconds = search.patience.seconds_after(failure)
        if seconds is None:
            self._given_up += failure.transient
            if self._given_up >= _GIVEN_UP_IN_VAIN:
                raise self._stopped(failure) from None
            raise failure
        if failure.told_to_wait:
            self._window.hold(seconds)
        await self.limits.pause(seconds)
        search.retries += 1
        self.counters.retries += 1

    def _stopped(self, failure: Failure) -> EndpointStopped:
        reason = failure.reason.removeprefix(TRANSIENT)
        remedy = f"check the key in {self._settings.key_env}" if reason == "no_access" else _REMEDY
        error = EndpointStopped(f"PubMed at {self._settings.base_url}: {reason}: {failure.detail}; {remedy}")
        self.limits.stop(error)
        return error
