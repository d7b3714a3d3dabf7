"""PubMed as an endpoint of `Asker`: searched for each claim, within what NCBI allows, each answer kept."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from fdarx_core.factuality.evidence.pubmed.entrez import Entrez
from fdarx_core.factuality.evidence.pubmed.settings import NAME, PubMedSettings
from fdarx_core.factuality.evidence.pubmed.task import answer_text
from fdarx_core.factuality.evidence.pubmed.window import Window
from fdarx_core.llm import response_to
from fdarx_core.llm.endpoints import TRANSIENT
from fdarx_core.llm.exchange import Failure
from fdarx_core.llm.limits import Limits
from fdarx_core.llm.patience import Patience
from fdarx_core.llm.tries import Asking, Tries
from fdarx_core.records import Request, Response

Reply = TypeVar("Reply")

_RATE, _RATE_WITH_KEY = 3, 10
"""Requests a second. Source: NCBI's E-utilities, usage guidelines."""
_GIVEN_UP_IN_VAIN = 8
_REMEDY = "check its address and the network; what was found is kept, run again to go on"


class PubMed:
    """Answers requests of `task.search_request`; the rate holds for all of them together. Belongs to one event loop.

    A search takes two requests of Entrez, and one more for each time that its query is broadened. That nothing is
    found is an answer. Failures that may pass are tried again; eight searches given up on in a row end all asking.
    Raises ValueError where the key's variable holds no key.
    """

    name = NAME

    def __init__(self, settings: PubMedSettings) -> None:
        key = settings.key()
        self._settings, self._entrez = settings, Entrez(settings, key)
        self._tries = _Tries(settings, _RATE_WITH_KEY if key else _RATE)
        self.counters, self.limits = self._tries.counters, self._tries.limits

    async def ask(self, request: Request, admit: Callable[[], None] = lambda: None) -> Response:
        """See `Server`. The response's text is that of `task.answer_text`."""
        search = Asking(request, Patience(request.key, self._settings.max_tries, self._settings.max_wait_s), admit)
        with self._tries.counted():
            try:
                response = response_to(request, await self._found(search))
            except Failure as failure:
                response = response_to(request, failure.detail, failure.reason)
        response.attempts, response.latency_s = 1 + search.retries, search.latency_s
        self._tries.count(response)
        return response

    async def close(self) -> None:
        await self._entrez.close()

    async def _found(self, search: Asking) -> str:
        slots = search.request.slots
        first, last = slots["years"]
        pmids: list[str] = []
        for term in slots["query"]:
            if len(pmids) < slots["k"]:
                more = await self._reply(search, self._entrez.search, term, (first, last), slots["k"])
                pmids = list(dict.fromkeys([*pmids, *more]))[: slots["k"]]
        articles = await self._reply(search, self._entrez.fetch, pmids) if pmids else []
        return answer_text(articles, pmids)

    async def _reply(self, search: Asking, call: Callable[..., Awaitable[Reply]], *arguments: object) -> Reply:
        """What the call returns, tried again while that may help. Raises Failure where it does not."""
        while True:
            try:
                async with self._tries.slot(search), self._tries.window.place():
                    search.send()
                    started = time.monotonic()
                    reply = await call(*arguments)
                    search.latency_s = time.monotonic() - started
                self._tries.answered()
                return reply
            except Failure as failure:
                await self._tries.wait_after(search, failure)


class _Tries(Tries[Asking]):
    """No more than `rate` a second."""

    def __init__(self, settings: PubMedSettings, rate: int) -> None:
        super().__init__(Limits(rate, None, None))
        self.window = Window(rate, self.limits)
        self._settings, self._given_up = settings, 0

    def answered(self) -> None:
        self._given_up = 0

    def seconds_after(self, asking: Asking, failure: Failure) -> float:
        seconds = asking.patience.seconds_after(failure)
        if seconds is None:
            self._given_up += failure.transient
            if self._given_up >= _GIVEN_UP_IN_VAIN:
                raise self.stopped(failure) from None
            raise failure
        if failure.told_to_wait:
            self.window.hold(seconds)
        return seconds

    def complaint(self, failure: Failure) -> str:
        reason = failure.reason.removeprefix(TRANSIENT)
        remedy = f"check the key in {self._settings.key_env}" if reason == "no_access" else _REMEDY
        return f"PubMed at {self._settings.base_url}: {reason}: {failure.detail}; {remedy}"
