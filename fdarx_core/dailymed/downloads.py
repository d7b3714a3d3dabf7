"""Bulk releases of DailyMed: the page that lists them, resumed and checked downloads, and the folder's manifest."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import re
import shutil
import zipfile
import zlib
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from lxml import etree, html
from pydantic import TypeAdapter, ValidationError
from yarl import URL

from fdarx_core.dailymed.client import TRIES, DailyMedClient, FetchError, iso_date, may_follow
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.run_directory import utc_now

RELEASES_PAGE = "spl-resources-all-drug-labels.cfm"
RELEASES = ("human_rx", "human_otc", "homeopathic", "animal", "remainder", "daily", "weekly", "monthly")
"""The full releases, and the updates, of which the page lists several."""

ProgressCallback = Callable[[str, int, int, str], None]
"""Called with the phase (list, label, release), how many are done, how many there are (0 if unknown), and a note."""

_SAVE_EVERY = 100
_MAX_ZIP_BYTES = 32 << 30
"""DailyMed splits its releases into parts of about 3 GB."""
_PROGRESS_BYTES = 1 << 20
"""An attempt that brought so many bytes does not count as failed."""
_CHUNK_BYTES = 1 << 20
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, RuntimeError)
_NAME = re.compile(
    r"dm_spl_(?:release_([a-z_]+?)(?:_part(\d{1,3}))?|(daily|weekly|monthly)_update_[a-z0-9_]{1,40})\.zip"
)
_MD5 = re.compile(r"\bmd5\b[^0-9a-f]{0,40}?(?:checksum\W{0,10})?\b([0-9a-f]{32})\b", re.IGNORECASE)
_MODIFIED = re.compile(r"last modified:?\s*([A-Za-z]{3,9}\.? \d{1,2}, \d{4})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """One entry of the manifest: `file` is the path in the folder, `bytes` and `sha256` describe its content.

    A file that is listed but not fetched yet has neither. Beside a partly downloaded file, `bytes` is the size that the
    server announced, 0 where it did not.

    `published` is a day, ISO 8601. `set_id`, `version` and `title` belong to a label; `md5`, `etag` and `last_modified`
    are what was published about a bulk release, "" where nothing was.
    """

    file: str
    url: str = ""
    bytes: int = 0
    sha256: str = ""
    fetched_at: str = ""
    set_id: str = ""
    version: int = 0
    published: str = ""
    title: str = ""
    md5: str = ""
    etag: str = ""
    last_modified: str = ""

    @property
    def name(self) -> str:
        return self.file.rpartition("/")[2]

    @property
    def validator(self) -> str:
        """The value of If-Range: a strong ETag, otherwise the date of the last change."""
        return self.etag if self.etag.startswith('"') else self.last_modified


_ENTRY = TypeAdapter(FetchedFile)


class DownloadManifest:
    """The folder's `manifest.jsonl`: one JSON object a file, sorted, written whole."""

    def __init__(self, folder: Location) -> None:
        """Raises StorageError. An unreadable line is skipped, and its file is fetched again."""
        self._folder, self._file, self._unsaved = folder, folder / "manifest.jsonl", 0
        self._entries: dict[str, FetchedFile] = {}
        for line in self._file.read_bytes().splitlines() if self._file.exists() else ():
            with suppress(ValidationError):
                entry = _ENTRY.validate_json(line)
                self._entries[entry.file] = entry

    def entry(self, file: str) -> FetchedFile | None:
        """Return the entry of a file that exists with the recorded size."""
        entry = self._entries.get(file)
        try:
            return entry if entry and (self._folder / file).size() == entry.bytes else None
        except StorageError:
            return None

    def add(self, entry: FetchedFile) -> None:
        """Add an entry. The manifest is saved after each hundred entries or each tenth of them, whichever is more."""
        self._entries[entry.file] = entry
        self._unsaved += 1
        if self._unsaved >= max(_SAVE_EVERY, len(self._entries) // 10):
            self.save()

    def save(self) -> None:
        if self._unsaved:
            rows = (orjson.dumps(entry) + b"\n" for _, entry in sorted(self._entries.items()))
            self._file.write_bytes(b"".join(rows))
            self._unsaved = 0


def release_and_part(name: str) -> tuple[str, int]:
    """Return the release that a zip belongs to, "" for other files, and its part, 0 where it is a single file."""
    match = _NAME.fullmatch(name)
    return (match[1] or match[3], int(match[2] or 0)) if match else ("", 0)


def read_release_page(data: bytes, client: DailyMedClient) -> list[FetchedFile]:
    """Return the page's release files, each once, in order. Raises FetchError where it lists none.

    A file is a link to a zip with a release's name. Its checksum and date are searched in the text up to the next zip,
    whatever the markup. Links that may not be followed (ftp) are skipped.
    """
    page_url = client.base_url / RELEASES_PAGE
    urls, texts, name = dict[str, str](), defaultdict[str, str](str), ""
    try:
        pieces: Any = html.document_fromstring(data).xpath("//a/@href | //text()")  # in the order of the page
    except etree.LxmlError:
        pieces = ()
    for piece in pieces:
        address = piece.strip().partition("?")[0]
        if not piece.is_attribute:
            texts[name] += f" {piece}"
        elif address.lower().endswith(".zip"):
            name = address.rpartition("/")[2]
            with suppress(ValueError):  # no address
                url = page_url.join(URL(piece.strip()))
                if release_and_part(name)[0] and may_follow(url, page_url):
                    urls.setdefault(name, str(url))
    if not urls:
        raise FetchError("not_a_release_page", f"{page_url} lists no bulk release", tries=2)
    files = []
    for name, address in urls.items():
        md5, modified = _MD5.search(texts[name]), _MODIFIED.search(texts[name])
        published = iso_date(modified[1]) if modified else ""
        files.append(FetchedFile(f"releases/{name}", address, published=published, md5=md5[1].lower() if md5 else ""))
    return files


@dataclass
class ReleaseDownload:
    """Downloads one zip of a bulk release into `scratch`, a local folder, checks it, and copies it to `folder`.

    `file` has what was published about it. The partial file NAME in `scratch` has its version in `NAME.json`, so that
    it can be resumed. `note` is for the progress, which is counted in MB.
    """

    client: DailyMedClient
    folder: Location
    scratch: Path
    file: FetchedFile
    note: str
    progress: ProgressCallback

    def __post_init__(self) -> None:
        self._partial = self.scratch / self.file.name
        self._version_file = self.scratch / f"{self.file.name}.json"

    async def fetch(self, existing: FetchedFile | None) -> FetchedFile | None:
        """Return the entry of the new file, or None where the existing one is still current.

        Raises FetchError (not_found, wrong_checksum, damaged_zip …) and StorageError.
        """
        if existing and existing.md5 and existing.md5 == self.file.md5:
            return None
        try:
            version = await self.client.retry(lambda: self._attempt(existing))
            return await asyncio.to_thread(self._publish, version) if version else None
        except OSError as error:  # of the partial file; the client turns those of the network into FetchErrors
            reason, remedy = error.strerror or error, "free some space, or choose another --scratch"
            raise StorageError(f"cannot use {self._partial}: {reason}; {remedy}") from error

    async def _attempt(self, existing: FetchedFile | None) -> FetchedFile | None:
        """Complete and check the partial file, and return its version; None where the existing file is current."""
        version, size_before = self._partial_version(), self._size
        start, headers = 0, {"Accept-Encoding": "identity"}
        if version:
            start = min(size_before, version.bytes - 1)  # the last byte of a complete file, to check its version
            headers |= {"Range": f"bytes={start}-", "If-Range": version.validator}
        elif existing:
            conditions = {"If-None-Match": existing.etag, "If-Modified-Since": existing.last_modified}
            headers |= {name: value for name, value in conditions.items() if value}
        try:
            async with self.client.open(URL(self.file.url), headers) as reply:
                if reply.status == 304:
                    return None
                content_range = reply.headers.get("Content-Range", "")
                if reply.status == 200:
                    version, start = self._begin(reply), 0
                elif not (version and re.fullmatch(rf"bytes {start}-\d+/{version.bytes}", content_range)):
                    self._discard()
                    detail = f"{reply.url} does not continue the file at {start:,} bytes; the download starts again"
                    raise FetchError("bad_range", detail, TRIES)
                await self._receive(reply, version, start)
        except FetchError as error:
            error.progress = self._size - size_before >= _PROGRESS_BYTES
            raise
        await asyncio.to_thread(self._check, start > 0)
        return version

    def _begin(self, reply: aiohttp.ClientResponse) -> FetchedFile:
        """Return the version that the reply has the whole of, and prepare an empty partial file for it."""
        version = dataclasses.replace(
            self.file,
            bytes=reply.content_length or 0,
            etag=reply.headers.get("ETag", ""),
            last_modified=reply.headers.get("Last-Modified", ""),
        )
        # The version is written before any bytes: bytes without one are never resumed.
        self._discard()
        self.scratch.mkdir(parents=True, exist_ok=True)
        self._version_file.write_bytes(orjson.dumps(version))
        self._partial.touch()
        return version

    async def _receive(self, reply: aiohttp.ClientResponse, version: FetchedFile, size: int) -> None:
        """Write the body after the first `size` bytes of the partial file."""
        with self._partial.open("r+b") as stream:
            stream.truncate(size)
            stream.seek(size)
            async for chunk in self.client.chunks(reply, _MAX_ZIP_BYTES - size):
                stream.write(chunk)
                size += len(chunk)
                self.progress("release", size // 10**6, version.bytes // 10**6, self.note)
        if version.bytes not in (0, size):
            raise FetchError("wrong_length", f"{reply.url} sent {size:,} bytes of {version.bytes:,}", TRIES)

    def _check(self, resumed: bool) -> None:
        """Raise FetchError unless the file is whole: by the published MD5, otherwise by the CRCs in the zip."""
        reason, fault = "damaged_zip", ""
        try:
            if not self.file.md5:
                with zipfile.ZipFile(self._partial) as archive:
                    broken = archive.testzip()
                fault = f"{broken} in {self.file.url} is damaged" if broken else ""
            elif (md5 := self._digest("md5")) != self.file.md5:
                reason, fault = "wrong_checksum", f"its MD5 is {md5}, DailyMed lists {self.file.md5}"
        except _ZIP_ERRORS as error:
            fault = f"{self.file.url} is no complete zip: {error}"
        if fault:
            self._discard()
            # A resumed file may be made of two versions; a file sent in one piece would come again as it is.
            raise FetchError(reason, fault, tries=2 if resumed else 1)

    def _publish(self, version: FetchedFile) -> FetchedFile:
        """Copy the complete file to the folder, and return its entry."""
        digest = self._digest("sha256")
        entry = dataclasses.replace(version, bytes=self._size, sha256=digest, fetched_at=utc_now())
        with self._partial.open("rb") as stream, (self.folder / self.file.file).open_output() as output:
            shutil.copyfileobj(stream, output, _CHUNK_BYTES)
        self._discard()
        return entry

    def _digest(self, algorithm: str) -> str:
        with self._partial.open("rb") as stream:
            return hashlib.file_digest(stream, algorithm).hexdigest()

    @property
    def _size(self) -> int:
        """The bytes in the partial file."""
        return self._partial.stat().st_size if self._partial.exists() else 0

    def _partial_version(self) -> FetchedFile | None:
        """Return the version of the partial file, None where it cannot be resumed for this address and checksum."""
        try:
            version = _ENTRY.validate_json(self._version_file.read_bytes())
        except (OSError, ValidationError):
            return None
        same = (version.url, version.md5) == (self.file.url, self.file.md5)
        return version if same and self._size and version.bytes and version.validator else None

    def _discard(self) -> None:
        self._partial.unlink(missing_ok=True)
        self._version_file.unlink(missing_ok=True)
