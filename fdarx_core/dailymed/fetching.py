"""Fetches what one job requests from DailyMed: bulk releases, labels by set id, and labels that match a query."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode

import orjson

from fdarx_core.dailymed.client import DailyMedClient, FetchError, is_set_id, iso_date
from fdarx_core.dailymed.downloads import (
    RELEASES_PAGE,
    DownloadManifest,
    FetchedFile,
    ProgressCallback,
    ReleaseDownload,
    read_release_page,
    release_and_part,
)
from fdarx_core.labels import BadDocument
from fdarx_core.labels.metadata import Header, read_header
from fdarx_core.labels.xml import parse_xml
from fdarx_core.records import Reject
from fdarx_core.storage import Location, write_records
from fdarx_core.storage.run_directory import utc_now
from fdarx_core.storage.sources import MAX_DOCUMENT

REJECTS_FILE = "rejects.parquet"

T = TypeVar("T")
FetchFunction = Callable[[FetchedFile | None], Awaitable[FetchedFile | None]]

_MAX_PAGE_BYTES = 8 << 20
"""Maximum size of one page; a listing of a hundred labels has about 30 KB."""
_PAGE_SIZE = 100
"""Number of labels on one page of a listing, the maximum that the service allows."""
_MAX_LISTING_READS = 3


@dataclass(frozen=True, slots=True)
class FetchRequest:
    """A selection of labels: bulk releases, labels by set id, and at most `limit` labels that match a query; and the
    address of a zip with names of drugs. `parts` empty means all parts; parts published before `since` are skipped.
    """

    releases: tuple[str, ...] = ()
    parts: tuple[int, ...] = ()
    since: date | None = None
    set_ids: tuple[str, ...] = ()
    query: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None
    drug_names_url: str = ""


@dataclass(slots=True)
class FetchResult:
    """New files, the number of files that were current already, and what could not be fetched.

    `stopped` is the reason for stopping early, "" if every request was sent.
    """

    fetched: list[FetchedFile] = field(default_factory=list)
    unchanged: int = 0
    rejects: list[Reject] = field(default_factory=list)
    stopped: str = ""


@dataclass(slots=True)
class LabelListing:
    """Labels by set id, and what is wrong with the listing, of one page or of all pages.

    The labels have no content yet; `version` is 0 and the texts are "" where the listing does not say. `total` is the
    service's count for the whole listing, on one page of it.
    """

    labels: dict[str, FetchedFile] = field(default_factory=dict)
    rejects: dict[str, Reject] = field(default_factory=dict)
    total: int = 0

    @property
    def size(self) -> int:
        return len(self.labels) + len(self.rejects)

    def reject(self, name: str, reason: str, detail: str) -> None:
        self.rejects.setdefault(name, Reject(id=name, stage="list", reason=reason, detail=detail))


class Fetcher:
    """Fetches into a folder: `labels/SETID.xml`, `releases/NAME.zip`, `manifest.jsonl`, and `rejects.parquet`.

    However it ends, the manifest lists every complete file, and `result` holds what was done so far. `scratch` is a
    local folder for partly downloaded releases. Raises StorageError.
    """

    def __init__(self, client: DailyMedClient, folder: Location, scratch: Path, progress: ProgressCallback) -> None:
        self._client, self._folder, self._scratch, self._progress = client, folder, scratch, progress
        self._manifest = DownloadManifest(folder)
        self.result = FetchResult()

    async def run(self, request: FetchRequest) -> None:
        """Fetch all that is new. Raises StorageError; failures of the server become part of the result."""
        try:
            await self._fetch_zips(request)
            if request.set_ids or request.query:
                await self._fetch_labels(request)
        finally:
            self.result.stopped = self._client.stopped
            self._manifest.save()
            if self.result.rejects:
                write_records(self._folder / REJECTS_FILE, self.result.rejects, Reject)
            else:  # Delete rejects of an earlier run.
                (self._folder / REJECTS_FILE).delete()

    async def _fetch_zips(self, request: FetchRequest) -> None:
        """Fetch the releases and the names one after another, so that only one file is incomplete at a time."""
        files = list[FetchedFile]()
        if request.releases:
            url = self._client.base_url / RELEASES_PAGE
            page = self._client.fetch(url, _MAX_PAGE_BYTES, lambda data: read_release_page(data, self._client))
            listed = await self._fetch_or_stop("the page of bulk releases", "--base-url and the network", page)
            files = self._select_releases(request, listed or [])
        if request.drug_names_url:
            files.append(FetchedFile(f"releases/{request.drug_names_url.rpartition('/')[2]}", request.drug_names_url))
        for number, file in enumerate(files, 1):
            note = f"{file.name}, {number} of {len(files)}"
            download = ReleaseDownload(self._client, self._folder, self._scratch, file, note, self._progress)
            await self._record(file, download.fetch)
            self._manifest.save()

    def _select_releases(self, request: FetchRequest, listed: list[FetchedFile]) -> list[FetchedFile]:
        """Return the listed files that were requested; what is requested and not listed becomes a reject."""
        since = request.since.isoformat() if request.since else ""
        selected, parts = list[FetchedFile](), {release: set[int]() for release in request.releases}
        for file in listed:
            release, part = release_and_part(file.name)
            if release in parts:
                parts[release].add(part)
                if part in (request.parts or [part]) and (file.published or since) >= since:
                    selected.append(file)
        if not listed:  # The page could not be fetched.
            return []
        for release, listed_parts in parts.items():
            missing = sorted(set(request.parts) - listed_parts) if listed_parts else [0]
            for part in missing:
                name = f"{release} part {part}" if part else release
                detail = f"DailyMed lists {', '.join(map(str, sorted(listed_parts - {0}))) or 'no'} parts of {release}"
                self._reject(name, "not_found", detail)
        return selected

    async def _fetch_labels(self, request: FetchRequest) -> None:
        requested = {set_id: FetchedFile(f"labels/{set_id}.xml", set_id=set_id) for set_id in request.set_ids}
        if request.query:
            listing = list_labels(
                self._client, request.query, request.limit, lambda done, total: self._progress("list", done, total, "")
            )
            found = await self._fetch_or_stop("the list of labels", "the query, --base-url and the network", listing)
            if found:
                requested |= found.labels
                self.result.rejects += found.rejects.values()
        pending = iter(enumerate(requested.values(), 1))  # All workers share it, so that each label is fetched once.

        async def fetch_pending() -> None:
            for number, label in pending:
                await self._record(label, partial(self._fetch_label, label))
                self._progress("label", number, len(requested), "")

        await asyncio.gather(*(fetch_pending() for _ in range(self._client.connections)))

    async def _fetch_label(self, listed: FetchedFile, existing: FetchedFile | None) -> FetchedFile | None:
        """Write a label's current version, once it is known to be the requested label.

        Return its entry, or None where the existing version is the one that DailyMed lists. Raises FetchError
        (not_found, not_spl, wrong_label, too_large …) and StorageError.
        """
        set_id = listed.set_id
        if not listed.version:
            page = await _list_page(self._client, {"setid": set_id}, 1)
            listed = page.labels.get(set_id, listed)
        if existing and existing.version and existing.version == listed.version:
            return None
        url = self._client.base_url / "services/v2/spls" / f"{set_id}.xml"
        data, header = await self._client.fetch(url, MAX_DOCUMENT, lambda data: (data, _read_header(data, set_id)))
        await asyncio.to_thread((self._folder / listed.file).write_bytes, data)
        return replace(
            listed,
            url=str(url),
            bytes=len(data),
            sha256=sha256(data).hexdigest(),
            fetched_at=utc_now(),
            version=header.version,
            title=listed.title or header.title,
        )

    async def _record(self, file: FetchedFile, fetch: FetchFunction) -> None:
        """Fetch a file, and add the outcome to the result. `fetch` gets the existing entry, None if there is none."""
        existing = await asyncio.to_thread(self._manifest.entry, file.file)
        try:
            fetched = await fetch(existing)
        except FetchError as error:
            kept_note = " (the existing file is kept)" if existing else ""
            self._reject(file.set_id or file.name, error.reason, error.detail + kept_note)
            return
        if fetched is None:
            self.result.unchanged += 1
        else:
            self.result.fetched.append(fetched)
            self._manifest.add(fetched)

    async def _fetch_or_stop(self, description: str, causes: str, fetching: Awaitable[T]) -> T | None:
        """Return what was fetched; None after a failure, which stops the job and tells the user to check `causes`."""
        try:
            return await fetching
        except FetchError as error:
            self._client.stop(f"{description} cannot be fetched: {error}; check {causes}")
            return None

    def _reject(self, name: str, reason: str, detail: str) -> None:
        self.result.rejects.append(Reject(id=name, stage="fetch", reason=reason, detail=detail))


async def list_labels(
    client: DailyMedClient, query: Mapping[str, str], limit: int | None, progress: Callable[[int, int], None]
) -> LabelListing:
    """Return the labels that match, in the service's order, at most `limit`. Raises FetchError.

    Labels that are added or removed while the pages are read move others to pages that were read already. The listing
    is then read again, up to three times in all.
    """
    for _ in range(_MAX_LISTING_READS):
        listing, totals = LabelListing(), set[int]()
        for page_number in itertools.count(1):
            page, size_before = await _list_page(client, query, page_number), listing.size
            listing.labels |= page.labels
            listing.rejects |= page.rejects
            totals.add(page.total)
            expected_count = min(page.total, limit or page.total)
            progress(len(listing.labels), expected_count)
            if listing.size == size_before or listing.size >= expected_count:
                break
        missing = expected_count - listing.size
        if missing <= 0 and len(totals) == 1:
            break
    if missing > 0:
        detail = f"the service's list lacks {missing:,} of {expected_count:,} labels; run the same command again"
        listing.reject(urlencode(query), "listing_incomplete", detail)
    if not listing.size:
        listing.reject(urlencode(query), "no_match", "no label matches; use fewer conditions")
    listing.labels = dict(list(listing.labels.items())[:limit])
    return listing


async def _list_page(client: DailyMedClient, query: Mapping[str, str], page_number: int) -> LabelListing:
    url = (client.base_url / "services/v2/spls.json").with_query({**query, "pagesize": _PAGE_SIZE, "page": page_number})
    return await client.fetch(url, _MAX_PAGE_BYTES, read_listing)


def read_listing(data: bytes) -> LabelListing:
    """Parse one page of `spls.json`, in which numbers may be JSON strings. Raises FetchError not_a_listing."""
    try:
        content = orjson.loads(data)
        page = LabelListing(total=_number(content["metadata"]["total_elements"]))
        rows = [(str(row["setid"]).strip().lower(), row) for row in content["data"]]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        detail = f"expected a list of labels, got {data[:80]!r} ({type(error).__name__})"
        raise FetchError("not_a_listing", detail, tries=2) from None
    for set_id, row in rows:
        if is_set_id(set_id):
            page.labels[set_id] = FetchedFile(
                f"labels/{set_id}.xml",
                set_id=set_id,
                version=_number(row.get("spl_version")),
                published=iso_date(str(row.get("published_date"))),
                title=str(row.get("title") or ""),
            )
        else:
            page.reject(set_id[:80], "bad_set_id", "DailyMed lists a label under an invalid set id")
    return page


def _number(value: Any) -> int:
    """Return a count that may be a JSON string; 0 for anything else."""
    return int(value) if str(value).isdecimal() else 0


def _read_header(data: bytes, set_id: str) -> Header:
    """Return the header of a label. Raises FetchError unless it is an SPL document with this set id."""
    try:
        root, _ = parse_xml(data)
        header = read_header(root)
    except BadDocument as bad:
        raise FetchError("not_spl", f"{bad.reason}: {bad.detail}", tries=2) from None
    if header.set_id != set_id:
        raise FetchError("wrong_label", f"the document's set id is {header.set_id[:80]}", tries=2)
    return header
