"""Ingredients of drugs by names that no label has (brands, mostly), asked of RxNav, the server of RxNorm.

Source: FAS (seed 002) §3.2 (RxNorm); the RxNorm API of RxNav: /REST/rxcui.json and /REST/rxcui/ID/related.json.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from yarl import URL

from fdarx_core.dailymed.politeness import Turns
from fdarx_core.factuality.safety.drugs import Drugs
from fdarx_core.llm.store import ResponseStore
from fdarx_core.records import CheckedAnswer, Response, content_id
from fdarx_core.storage.retry_after import retry_after

ADDRESS = "https://rxnav.nlm.nih.gov"
TASK = "rxnav"
RATE = 5.0
"""Requests a second; RxNav allows 20."""
MOST_NAMES = 500

_TRIES = 3
_LONGEST_WAIT_S = 30.0
_AGENT = "fdarx (safety checks of drug answers)"
_CAPITALISED = re.compile(r"(?<=[\w,;:] )[A-Z][a-z]{3,}(?:-[A-Z]?[a-z]+)?\b")
_FAULTS = (aiohttp.ClientError, asyncio.TimeoutError, OSError, ValueError)


class _Unreachable(Exception):
    """RxNav gives nothing: why, in a few words."""


@dataclass(slots=True)
class Found:
    """Names of ingredients by the names asked for, those alone that RxNorm knows; `notice`, for the run, in a line."""

    names: dict[str, list[str]] = field(default_factory=dict)
    notice: str = ""


def unknown_names(answers: Iterable[CheckedAnswer], drugs: Drugs) -> list[str]:
    """Names of drugs, it may be, that no label has: those of the answers, and words with a capital in their questions.

    At most `MOST_NAMES`, the most frequent first.
    """
    counts: dict[str, int] = {}
    for answer in answers:
        for name in dict.fromkeys([answer.drug.strip(), *_CAPITALISED.findall(answer.question)]):
            if name and not drugs.named(name):
                counts[name] = counts.get(name, 0) + 1
    return sorted(counts, key=lambda name: (-counts[name], name))[:MOST_NAMES]


async def ingredients_of(
    names: Iterable[str],
    store: ResponseStore,
    address: str = ADDRESS,
    *,
    rate: float = RATE,
    timeout_s: float = 10.0,
) -> Found:
    """What RxNorm says of the names, one after the other; what it answered is read back from the store and not asked.

    Where it can't be reached, what was answered stands and the notice says so; nothing is raised for it. Raises
    `StorageError` where answers can't be kept.
    """
    asking = _Asking(store, URL(address), Turns(rate), timeout_s)
    wanted = list(names)
    found: dict[str, list[str]] = {}
    trouble = ""
    try:
        async with asking:
            for name in wanted:
                if ingredients := await asking.ingredients(name):
                    found[name] = ingredients
    except _Unreachable as reason:
        trouble = f"; {address} gives no more ({reason}), so drugs by other names stay unknown"
    return Found(found, f"RxNav: {len(found)} of {len(wanted)} names are drugs of RxNorm{trouble}")


class _Asking:
    """One session with RxNav; what it answers is stored when the session ends."""

    def __init__(self, store: ResponseStore, address: URL, turns: Turns, timeout_s: float) -> None:
        self._store, self._address, self._turns, self._timeout_s = store, address, turns, timeout_s
        self._new: list[Response] = []

    async def __aenter__(self) -> _Asking:
        self._session = aiohttp.ClientSession(
            timeout=aiohttp.ClientTimeout(total=self._timeout_s), headers={"User-Agent": _AGENT}, trust_env=True
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        self._store.put(self._new)

    async def ingredients(self, name: str) -> list[str]:
        """The ingredients' names, none for a name that RxNorm does not know."""
        known = await self._get((self._address / "REST/rxcui.json").with_query(name=name, search="2"))
        ids = _ids(known)
        if not ids:
            return []
        related = await self._get((self._address / f"REST/rxcui/{ids[0]}/related.json").with_query(tty="IN"))
        return list(dict.fromkeys(_names(related)))

    async def _get(self, url: URL) -> Any:
        key = content_id(TASK, str(url))
        kept = self._store.get([key]).get(key)
        text = kept.text if kept else await self._ask(url)
        try:
            answer = json.loads(text)
        except ValueError:
            raise _Unreachable(f"{url.path} answers no JSON") from None
        if kept is None:
            self._new.append(Response(key, TASK, 1, TASK, text))
        return answer

    async def _ask(self, url: URL) -> str:
        reason = ""
        for attempt in range(_TRIES):
            await self._turns.turn()
            try:
                async with self._session.get(url) as reply:
                    if reply.status == 200:
                        return await reply.text()
                    if reply.status == 404:
                        return "{}"
                    reason = f"HTTP {reply.status}"
                    if reply.status != 429 and reply.status < 500:
                        break
                    wait = retry_after(reply.headers.get("Retry-After"))
            except _FAULTS as error:
                reason, wait = " ".join(str(error).split())[:200] or type(error).__name__, None
            if attempt + 1 < _TRIES:
                self._turns.hold(min(_LONGEST_WAIT_S, 0.5 * 2.0**attempt if wait is None else wait))
        raise _Unreachable(reason)


def _ids(answer: Any) -> list[str]:
    found = [
        one for group in _dicts(answer) for key in _dicts(group.get("idGroup")) for one in key.get("rxnormId") or ()
    ]
    return [one for one in found if isinstance(one, str) and one.isdigit()]


def _names(answer: Any) -> Iterator[str]:
    for group in (inner for outer in _dicts(answer) for inner in _dicts(outer.get("relatedGroup"))):
        for concepts in _dicts(group.get("conceptGroup")):
            names = (concept.get("name") for concept in _dicts(concepts.get("conceptProperties")))
            yield from (name for name in names if isinstance(name, str))


def _dicts(value: Any) -> list[dict[str, Any]]:
    """RxNav leaves out what is empty, or sends null."""
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
