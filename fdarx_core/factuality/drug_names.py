"""Finds the drugs that an answer is about, by the names of labels, and by RxNav's ingredients of other names."""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import aiohttp
from yarl import URL

from fdarx_core.baseline.safety_advice import without_salts
from fdarx_core.baseline.tokens import normalize_words
from fdarx_core.llm.response_store import ResponseStore
from fdarx_core.records import CheckedAnswer, Label, Response, content_id
from fdarx_core.storage.retry import RateLimiter, parse_retry_after

_LEAST_LETTERS = 4


class DrugNameIndex:
    """The names of all labels. `synonyms` (RxNorm's, say) give ingredients' names for names that no label has."""

    def __init__(self, labels: Iterable[Label], synonyms: Mapping[str, Sequence[str]] | None = None) -> None:
        self._labels = {label.set_id: label for label in labels}
        self._by_name: dict[str, list[str]] = defaultdict(list)
        for label in self._labels.values():
            for name in _names(label):
                self._by_name[name].append(label.set_id)
        self._synonyms = {normalize_words(name): list(others) for name, others in (synonyms or {}).items()}
        self._longest = max((name.count(" ") for name in (*self._by_name, *self._synonyms)), default=1)

    def of(self, answer: CheckedAnswer) -> list[list[str]]:
        """Return the drugs that an answer is about, each as the set ids of its labels.

        That of its own label, else its drug by name, else those named in the question, else in the answer.
        """
        if answer.set_id in self._labels:
            return [[answer.set_id]]
        if answer.drug and (found := self.named(answer.drug)):
            return [found]
        for text in (answer.question, answer.answer):
            if drugs := dict.fromkeys(tuple(self.named(name)) for name in self.names_in(text)):
                return [list(set_ids) for set_ids in drugs if set_ids]
        return []

    def named(self, name: str) -> list[str]:
        """Return the labels of a drug: those with no other active ingredient, or with this name."""
        wanted = [normalize_words(name), *map(normalize_words, self._synonyms.get(normalize_words(name), ()))]
        found = [set_id for one in wanted for set_id in self._by_name.get(one, ())]
        bare = {normalize_words(without_salts(one)) for one in wanted}
        return [set_id for set_id in dict.fromkeys(found) if self._is_of(self._labels[set_id], bare, wanted)]

    def names_in(self, text: str) -> list[str]:
        """Return the names and synonyms in a text that belong to a label; of overlapping names the longest."""
        words = normalize_words(text).split()
        found: dict[str, None] = {}
        at = 0
        while at < len(words):
            sizes = range(min(self._longest, len(words) - at), 0, -1)
            candidates = (" ".join(words[at : at + size]) for size in sizes)
            name = next((one for one in candidates if self._knows(f" {one} ")), "")
            if name:
                found[name] = None
            at += name.count(" ") + 1
        return list(found)

    def _knows(self, name: str) -> bool:
        return len(name) > _LEAST_LETTERS + 1 and (name in self._by_name or name in self._synonyms)

    def _is_of(self, label: Label, bare: set[str], wanted: Sequence[str]) -> bool:
        if normalize_words(label.drug_name) in wanted:
            return True
        return all(normalize_words(without_salts(one)) in bare for one in label.substances)


def _names(label: Label) -> set[str]:
    names = {normalize_words(name) for name in (label.drug_name, *label.aliases, *label.substances)}
    return (names | {normalize_words(without_salts(name)) for name in label.substances}) - {"  "}


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


def unknown_names(answers: Iterable[CheckedAnswer], drugs: DrugNameIndex) -> list[str]:
    """Return possible drug names that no label has: the drugs of answers, and capitalized words of questions.

    At most `MOST_NAMES` are returned, the most frequent first.
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
) -> tuple[dict[str, list[str]], str]:
    """Ask RxNorm for the ingredients of the names, one by one; stored answers are read back.

    Returns the ingredients by name, of those names alone that RxNorm knows, and a notice for the run, in a line. Where
    RxNorm can't be reached, what was answered stands and the notice says so; nothing is raised for it. Raises
    `StorageError` where answers can't be kept.
    """
    asking = _Asking(store, URL(address), RateLimiter(rate), timeout_s)
    wanted = list(names)
    found: dict[str, list[str]] = {}
    trouble = ""
    try:
        async with asking:
            for name in wanted:
                if ingredients := await asking.ingredients(name):
                    found[name] = ingredients
    except ConnectionError as reason:
        trouble = f"; {address} gives no more ({reason}), so drugs by other names stay unknown"
    return found, f"RxNav: {len(found)} of {len(wanted)} names are drugs of RxNorm{trouble}"


class _Asking:
    """A session with RxNav; its replies are stored when the session ends."""

    def __init__(self, store: ResponseStore, address: URL, limiter: RateLimiter, timeout_s: float) -> None:
        self._store, self._address, self._limiter, self._timeout_s = store, address, limiter, timeout_s
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
        """Return the names of the ingredients, none for a name that RxNorm does not know."""
        known = await self._get((self._address / "REST/rxcui.json").with_query(name=name, search="2"))
        ids = _ids(known)
        if not ids:
            return []
        related = await self._get((self._address / f"REST/rxcui/{ids[0]}/related.json").with_query(tty="IN"))
        return list(dict.fromkeys(_names_rxnav(related)))

    async def _get(self, url: URL) -> Any:
        key = content_id(TASK, str(url))
        kept = self._store.get([key]).get(key)
        text = kept.text if kept else await self._ask(url)
        try:
            answer = json.loads(text)
        except ValueError:
            raise ConnectionError(f"{url.path} answers no JSON") from None
        if kept is None:
            self._new.append(Response(key, TASK, 1, TASK, text))
        return answer

    async def _ask(self, url: URL) -> str:
        reason = ""
        for attempt in range(_TRIES):
            await self._limiter.wait()
            try:
                async with self._session.get(url) as reply:
                    if reply.status == 200:
                        return await reply.text()
                    if reply.status == 404:
                        return "{}"
                    reason = f"HTTP {reply.status}"
                    if reply.status != 429 and reply.status < 500:
                        break
                    wait = parse_retry_after(reply.headers.get("Retry-After"))
            except _FAULTS as error:
                reason, wait = " ".join(str(error).split())[:200] or type(error).__name__, None
            if attempt + 1 < _TRIES:
                self._limiter.hold(min(_LONGEST_WAIT_S, 0.5 * 2.0**attempt if wait is None else wait))
        raise ConnectionError(reason)


def _ids(answer: Any) -> list[str]:
    found = [
        one for group in _dicts(answer) for key in _dicts(group.get("idGroup")) for one in key.get("rxnormId") or ()
    ]
    return [one for one in found if isinstance(one, str) and one.isdigit()]


def _names_rxnav(answer: Any) -> Iterator[str]:
    for group in (inner for outer in _dicts(answer) for inner in _dicts(outer.get("relatedGroup"))):
        for concepts in _dicts(group.get("conceptGroup")):
            names = (concept.get("name") for concept in _dicts(concepts.get("conceptProperties")))
            yield from (name for name in names if isinstance(name, str))


def _dicts(value: Any) -> list[dict[str, Any]]:
    """Return the list of a reply as dictionaries. RxNav omits empty values or sends null."""
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]
