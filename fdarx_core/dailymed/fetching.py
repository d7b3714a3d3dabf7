"""All that one job asks of DailyMed, into one folder: what is new or newer is fetched, and nothing vanishes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import TypeVar

from fdarx_core.dailymed.bulk import Bulk, release_file
from fdarx_core.dailymed.client import Client
from fdarx_core.dailymed.listing import MOST_LISTED, Listed, list_labels
from fdarx_core.dailymed.manifest import Fetched, Manifest
from fdarx_core.dailymed.refusals import Refused, Stopped
from fdarx_core.dailymed.release_page import ReleaseFile, read_release_page
from fdarx_core.dailymed.single import fetch_label, find_label, label_file
from fdarx_core.records import Reject
from fdarx_core.storage import Location, write_records

REJECTS = "rejects.parquet"

T = TypeVar("T")
Tell = Callable[[str, int, int, str], None]
"""Hears the phase (list, label, release), how many of how many, and what of."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is asked for: bulk releases (all parts where none is named, none older than `since`), labels by set id, and
    labels that match a query, at most `limit` of them."""

    releases: tuple[str, ...] = ()
    parts: tuple[int, ...] = ()
    since: date | None = None
    set_ids: tuple[str, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None


@dataclass(slots=True)
class Outcome:
    """What became of it: files fetched, files that were there already, and what could not be had.

    `stopped` says why nothing more was asked of the server, "" where all was.
    """

    fetched: list[Fetched] = field(default_factory=list)
    unchanged: int = 0
    rejects: list[Reject] = field(default_factory=list)
    stopped: str = ""


class Fetching:
    """Into `place`: `labels/SETID.xml`, `releases/NAME.zip`, `manifest.jsonl`, and in `rejects.parquet` the rest.

    However it ends, the manifest tells of all whole files. `outcome` holds what has become of the wish so far.
    """

    def __init__(self, client: Client, place: Location, scratch: Path, tell: Tell) -> None:
        """`scratch` is a local folder for bulk files that are half there. Raises StorageError."""
        self._client, self._place, self._scratch, self._tell = client, place, scratch, tell
        self._manifest = Manifest(place)
        self.outcome = Outcome()

    async def run(self, wish: Wish) -> None:
        """Raises StorageError; what the server does ends up in the outcome."""
        try:
            if wish.releases:
                await self._releases(wish)
            if wish.set_ids or wish.query:
                await self._labels(wish)
        except Stopped as stopped:
            self.outcome.stopped = str(stopped)
        finally:
            self._manifest.save()
            self._write_rejects()

    async def _releases(self, wish: Wish) -> None:
        """One after the other: one connection is enough for each, and no more than one is half there."""
        listed = await self._needed("the page of bulk releases", self._client.persist(self._release_page))
        files = self._chosen(wish, listed)
        for number, file in enumerate(files, 1):
            try:
                await self._release(file, f"{file.name}, {number} of {len(files)}")
            except Stopped as stopped:
                self._leave(stopped, (file.name for file in files[number - 1 :]))
                raise

    async def _release_page(self) -> list[ReleaseFile]:
        site = self._client.site
        return read_release_page(await self._client.read(site.releases, MOST_LISTED), site)

    def _chosen(self, wish: Wish, listed: list[ReleaseFile]) -> list[ReleaseFile]:
        named = [file for file in listed if file.release in wish.releases]
        for release in wish.releases:
            parts = {file.part for file in named if file.release == release}
            missing = [*(set(wish.parts) - parts)] if parts else [0]
            for part in sorted(missing):
                name = f"{release} part {part}" if part else release
                detail = f"DailyMed lists {', '.join(map(str, sorted(parts - {0}))) or 'no'} parts of {release}"
                self._reject(name, "not_found", detail)
        since = wish.since.isoformat() if wish.since else ""
        return [
            file
            for file in named
            if (not wish.parts or file.part in wish.parts) and (not file.modified or file.modified >= since)
        ]

    async def _release(self, file: ReleaseFile, note: str) -> None:
        held = await asyncio.to_thread(self._manifest.held, release_file(file.name))
        bulk = Bulk(
            self._client,
            self._place,
            self._scratch,
            file,
            lambda done, total: self._tell("release", done // 10**6, total // 10**6, note),
        )
        await self._settle(file.name, bulk.fetch(held), held)
        self._manifest.save()

    async def _labels(self, wish: Wish) -> None:
        wanted: dict[str, Listed | None] = dict.fromkeys(wish.set_ids)
        if wish.query:
            listing = list_labels(
                self._client, wish.query, wish.limit, lambda done, total: self._tell("list", done, total, "")
            )
            found = await self._needed("the list of labels", listing)
            wanted |= found.labels
            self.outcome.rejects += found.rejects
        open_ids = dict.fromkeys(wanted)
        done = 0

        async def one(set_id: str) -> None:
            nonlocal done
            await self._label(set_id, wanted[set_id])
            del open_ids[set_id]
            done += 1
            self._tell("label", done, len(wanted), "")

        try:
            await self._each(wanted, one)
        except Stopped as stopped:
            self._leave(stopped, open_ids)
            raise

    async def _label(self, set_id: str, listed: Listed | None) -> None:
        held = await asyncio.to_thread(self._manifest.held, label_file(set_id))
        await self._settle(set_id, self._newer_label(set_id, listed, held), held)

    async def _newer_label(self, set_id: str, listed: Listed | None, held: Fetched | None) -> Fetched | None:
        """None where the version that is held is the one that DailyMed lists."""
        listed = listed or await find_label(self._client, set_id)
        if held and held.version and held.version == listed.version:
            return None
        return await fetch_label(self._client, self._place, listed)

    async def _settle(self, name: str, fetching: Awaitable[Fetched | None], held: Fetched | None) -> None:
        try:
            fetched = await fetching
        except Refused as refused:
            kept = " (what was there before is kept)" if held else ""
            self._reject(name, refused.reason, refused.detail + kept)
            return
        if fetched is None:
            self.outcome.unchanged += 1
        else:
            self.outcome.fetched.append(fetched)
            self._manifest.add(fetched)

    async def _needed(self, what: str, asking: Awaitable[T]) -> T:
        try:
            return await asking
        except Refused as refused:
            raise Stopped(f"{what} can't be had: {refused}; check the query, --base-url and the network") from None

    async def _each(self, items: Iterable[str], do: Callable[[str], Awaitable[None]]) -> None:
        """As many at once as there are connections; the first error ends all."""
        pending = iter(items)

        async def work() -> None:
            for item in pending:
                await do(item)

        workers = [asyncio.create_task(work()) for _ in range(self._client.connections)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    def _leave(self, stopped: Stopped, names: Iterable[str]) -> None:
        for name in names:
            self._reject(name, "not_asked", f"the job stopped before: {stopped}")

    def _reject(self, name: str, reason: str, detail: str) -> None:
        self.outcome.rejects.append(Reject(id=name, stage="fetch", reason=reason, detail=detail))

    def _write_rejects(self) -> None:
        """Of this run alone: what an earlier one could not have, this one may have had."""
        if self.outcome.rejects:
            write_records(self._place / REJECTS, self.outcome.rejects, Reject)
        else:
            (self._place / REJECTS).delete()
