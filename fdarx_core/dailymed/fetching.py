"""Fetches what one job requests from DailyMed: bulk releases, labels by set id, and labels that match a query."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import orjson

from fdarx_core.dailymed.client import DailyMedClient, FetchError, FetchStopped, is_set_id, iso_date
from fdarx_core.dailymed.downloads import (
    DownloadManifest,
    FetchedFile,
    ReleaseDownload,
    ReleaseFile,
    read_release_page,
    utc_now,
)
from fdarx_core.labels import BadDocument
from fdarx_core.labels.metadata import Header, read_header
from fdarx_core.labels.xml import parse_xml
from fdarx_core.records import Reject
from fdarx_core.storage import Location, write_records
from fdarx_core.storage.sources import MAX_DOCUMENT

REJECTS = "rejects.parquet"

T = TypeVar("T")
ProgressCallback = Callable[[str, int, int, str], None]
"""Called with the phase (list, label, release), how many are done, how many there are, and a note."""

_MAX_PAGE_BYTES = 8 << 20
"""Maximum size of one page; a listing of a hundred labels has about 30 KB."""
_MAX_PAGES = 5_000
_MAX_READINGS = 3


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A selection of labels: bulk releases (all parts where none is named, none older than `since`), labels by set id,
    and labels that match a query, at most `limit` of them; and the address of a zip with names of drugs.
    """

    releases: tuple[str, ...] = ()
    parts: tuple[int, ...] = ()
    since: date | None = None
    set_ids: tuple[str, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    names_url: str = ""


@dataclass(slots=True)
class FetchResult:
    """New files, the number of files that were current already, and what could not be fetched.

    `stopped` says why no more requests were sent, "" where all were.
    """

    fetched: list[FetchedFile] = field(default_factory=list)
    unchanged: int = 0
    rejects: list[Reject] = field(default_factory=list)
    stopped: str = ""


@dataclass(slots=True)
class LabelListing:
    """Labels by set id, each at its newest version, and what is wrong with the listing, of one page or of all pages.

    The labels have no content yet; `version` is 0 and the texts are "" where the listing does not say. `total` and
    `pages` are the service's counts for the whole listing.
    """

    labels: dict[str, FetchedFile] = field(default_factory=dict)
    rejects: dict[str, Reject] = field(default_factory=dict)
    total: int = 0
    pages: int = 0

    @property
    def size(self) -> int:
        return len(self.labels) + len(self.rejects)

    def add(self, labels: Iterable[FetchedFile]) -> None:
        for label in labels:
            known = self.labels.get(label.set_id, label)
            self.labels[label.set_id] = max(known, label, key=lambda listed: listed.version)

    def reject(self, name: str, reason: str, detail: str) -> None:
        self.rejects.setdefault(name, Reject(id=name, stage="list", reason=reason, detail=detail))


class Fetcher:
    """Fetches into a folder: `labels/SETID.xml`, `releases/NAME.zip`, `manifest.jsonl`, and `rejects.parquet`.

    However it ends, the manifest lists all whole files, and `result` holds what was done so far. `scratch` is a local
    folder for partly downloaded releases. Raises StorageError.
    """

    def __init__(self, client: DailyMedClient, folder: Location, scratch: Path, progress: ProgressCallback) -> None:
        self._client, self._folder, self._scratch, self._progress = client, folder, scratch, progress
        self._manifest = DownloadManifest(folder)
        self.result = FetchResult()

    async def run(self, request: FetchRequest) -> None:
        """Fetch all that is new. Raises StorageError; failures of the server become part of the result."""
        try:
            if request.releases:
                await self._fetch_releases(request)
            if request.set_ids or request.query:
                await self._fetch_labels(request)
            if request.names_url:
                name = request.names_url.rpartition("/")[2]
                await self._fetch_release(ReleaseFile(name, "names", 0, request.names_url), name)
        except FetchStopped as stopped:
            self.result.stopped = str(stopped)
        finally:
            self._manifest.save()
            # An earlier run may have left rejects that this one could fetch.
            if self.result.rejects:
                write_records(self._folder / REJECTS, self.result.rejects, Reject)
            else:
                (self._folder / REJECTS).delete()

    async def _fetch_releases(self, request: FetchRequest) -> None:
        """Fetch the releases one after another, so that only one file is incomplete at a time."""

        async def release_page() -> list[ReleaseFile]:
            return read_release_page(await self._client.read(self._client.releases_url, _MAX_PAGE_BYTES), self._client)

        listed = await self._required("the page of bulk releases", self._client.retry(release_page))
        files = self._selected(request, listed)
        for number, file in enumerate(files, 1):
            try:
                await self._fetch_release(file, f"{file.name}, {number} of {len(files)}")
            except FetchStopped as stopped:
                self._reject_rest(stopped, (file.name for file in files[number - 1 :]))
                raise

    def _selected(self, request: FetchRequest, listed: list[ReleaseFile]) -> list[ReleaseFile]:
        files = [file for file in listed if file.release in request.releases]
        for release in request.releases:
            parts = {file.part for file in files if file.release == release}
            missing = [*(set(request.parts) - parts)] if parts else [0]
            for part in sorted(missing):
                name = f"{release} part {part}" if part else release
                detail = f"DailyMed lists {', '.join(map(str, sorted(parts - {0}))) or 'no'} parts of {release}"
                self._reject(name, "not_found", detail)
        since = request.since.isoformat() if request.since else ""
        return [
            file
            for file in files
            if (not request.parts or file.part in request.parts) and (not file.modified or file.modified >= since)
        ]

    async def _fetch_release(self, file: ReleaseFile, note: str) -> None:
        def progress(done: int, total: int) -> None:
            self._progress("release", done // 10**6, total // 10**6, note)

        existing = await asyncio.to_thread(self._manifest.entry, file.file)
        download = ReleaseDownload(self._client, self._folder, self._scratch, file, progress)
        await self._record(file.name, download.fetch(existing), existing)
        self._manifest.save()

    async def _fetch_labels(self, request: FetchRequest) -> None:
        wanted: dict[str, FetchedFile | None] = dict.fromkeys(request.set_ids)
        if request.query:
            listing = list_labels(
                self._client, request.query, request.limit, lambda done, total: self._progress("list", done, total, "")
            )
            found = await self._required("the list of labels", listing)
            wanted |= found.labels
            self.result.rejects += found.rejects.values()
        remaining, pending = dict.fromkeys(wanted), iter(wanted)

        async def fetch() -> None:
            for set_id in pending:
                existing = await asyncio.to_thread(self._manifest.entry, _label_file(set_id))
                await self._record(set_id, self._newer_label(set_id, wanted[set_id], existing), existing)
                del remaining[set_id]
                self._progress("label", len(wanted) - len(remaining), len(wanted), "")

        workers = [asyncio.create_task(fetch()) for _ in range(self._client.connections)]
        try:
            await asyncio.gather(*workers)
        except FetchStopped as stopped:
            self._reject_rest(stopped, remaining)
            raise
        finally:
            for task in workers:
                task.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    async def _newer_label(
        self, set_id: str, listed: FetchedFile | None, existing: FetchedFile | None
    ) -> FetchedFile | None:
        """Return the new file, or None where the existing version is the one that DailyMed lists."""
        if listed is None:
            page = await _list_page(self._client, {"setid": set_id}, 1)
            listed = page.labels.get(set_id) or FetchedFile(_label_file(set_id), set_id=set_id)
        if existing and existing.version and existing.version == listed.version:
            return None
        return await fetch_label(self._client, self._folder, listed)

    async def _record(self, name: str, fetching: Awaitable[FetchedFile | None], existing: FetchedFile | None) -> None:
        try:
            fetched = await fetching
        except FetchError as error:
            kept = " (the existing file is kept)" if existing else ""
            self._reject(name, error.reason, error.detail + kept)
            return
        if fetched is None:
            self.result.unchanged += 1
        else:
            self.result.fetched.append(fetched)
            self._manifest.add(fetched)

    async def _required(self, what: str, fetching: Awaitable[T]) -> T:
        try:
            return await fetching
        except FetchError as error:
            remedy = "check the query, --base-url and the network"
            raise FetchStopped(f"{what} cannot be fetched: {error}; {remedy}") from None

    def _reject_rest(self, stopped: FetchStopped, names: Iterable[str]) -> None:
        for name in names:
            self._reject(name, "not_asked", f"the job stopped before: {stopped}")

    def _reject(self, name: str, reason: str, detail: str) -> None:
        self.result.rejects.append(Reject(id=name, stage="fetch", reason=reason, detail=detail))


async def list_labels(
    client: DailyMedClient, query: Mapping[str, str], limit: int | None, progress: Callable[[int, int], None]
) -> LabelListing:
    """Return the labels that match, in the service's order, at most `limit`. Raises FetchError and FetchStopped.

    Labels that are added or removed while the pages are read move others to pages that were read already. The listing
    is then read again, up to three times in all.
    """
    for _ in range(_MAX_READINGS):
        listing, totals = await _read_pages(client, query, limit, progress)
        missing = min(totals[-1], limit or totals[-1]) - listing.size
        if missing <= 0 and len(set(totals)) == 1:
            break
    if missing > 0:
        detail = f"the service counts {totals[-1]:,} labels, {missing:,} more than it lists; run the same command again"
        listing.reject(urlencode(query), "listing_incomplete", detail)
    if not listing.size:
        listing.reject(urlencode(query), "no_match", "no label matches; loosen the query")
    listing.labels = dict(list(listing.labels.items())[:limit])
    return listing


async def _read_pages(
    client: DailyMedClient, query: Mapping[str, str], limit: int | None, progress: Callable[[int, int], None]
) -> tuple[LabelListing, list[int]]:
    """Return the pages' labels, and the total that each page gives. A page without new labels ends the listing."""
    listing, totals = LabelListing(), list[int]()
    for number in range(1, _MAX_PAGES + 1):
        page = await _list_page(client, query, number)
        size_before = listing.size
        listing.add(page.labels.values())
        listing.rejects |= page.rejects
        totals.append(page.total)
        progress(len(listing.labels), min(page.total, limit or page.total))
        if listing.size == size_before or number >= page.pages or (limit and len(listing.labels) >= limit):
            break
    return listing, totals


async def _list_page(client: DailyMedClient, query: Mapping[str, str], number: int) -> LabelListing:
    async def attempt() -> LabelListing:
        return read_listing(await client.read(client.listing_url(query, number), _MAX_PAGE_BYTES))

    return await client.retry(attempt)


def read_listing(data: bytes) -> LabelListing:
    """Parse one page of `spls.json`, whose numbers are numbers or texts. Raises FetchError not_a_listing."""
    try:
        content = orjson.loads(data)
        rows, metadata = content["data"], content["metadata"]
        page = LabelListing(total=_number(metadata["total_elements"]), pages=_number(metadata["total_pages"]))
        ids = [str(row["setid"]).strip().lower() for row in rows]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        detail = f"no list of labels but {data[:80]!r} ({type(error).__name__})"
        raise FetchError("not_a_listing", detail, tries=2) from None
    for set_id, row in zip(ids, rows, strict=True):
        if not is_set_id(set_id):
            page.reject(set_id[:80], "bad_set_id", "DailyMed lists a label under an invalid set id")
            continue
        title = row.get("title")
        try:
            version = _number(row.get("spl_version"))
        except TypeError:
            version = 0
        published = iso_date(str(row.get("published_date")))
        title = title if isinstance(title, str) else ""
        page.add([FetchedFile(_label_file(set_id), set_id=set_id, version=version, published=published, title=title)])
    return page


async def fetch_label(client: DailyMedClient, folder: Location, listed: FetchedFile) -> FetchedFile:
    """Write a label's current version into the folder, once it is known to be the requested label.

    Raises FetchError (not_found, not_spl, wrong_label, too_large …), FetchStopped, and StorageError.
    """
    url = client.label_url(listed.set_id)

    async def attempt() -> tuple[bytes, Header]:
        data = await client.read(url, MAX_DOCUMENT)
        return data, await asyncio.to_thread(_checked_header, data, listed.set_id)

    data, header = await client.retry(attempt)
    await asyncio.to_thread((folder / listed.file).write_bytes, data)
    return replace(
        listed,
        url=str(url),
        bytes=len(data),
        sha256=sha256(data).hexdigest(),
        fetched_at=utc_now(),
        version=header.version,
        title=listed.title or header.title,
    )


def _label_file(set_id: str) -> str:
    return f"labels/{set_id}.xml"


def _checked_header(data: bytes, set_id: str) -> Header:
    try:
        root, _ = parse_xml(data)
        header = read_header(root)
    except BadDocument as bad:
        raise FetchError("not_spl", f"{bad.reason}: {bad.detail}", tries=2) from None
    if header.set_id != set_id:
        raise FetchError("wrong_label", f"the document's set id is {header.set_id[:80]}", tries=2)
    return header


def _number(value: Any) -> int:
    """Return a count; 0 for a text that is none. Raises TypeError for other values."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"{value!r} is no number")
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 12 else 0
    return max(0, value)
