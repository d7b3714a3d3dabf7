"""Bulk releases of DailyMed: the page that lists them, resumed and checked downloads, and the folder's manifest."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import aiohttp
import orjson
from lxml import etree, html
from pydantic import TypeAdapter, ValidationError
from yarl import URL

from fdarx_core.dailymed.client import TRIES, DailyMedClient, FetchError, iso_date
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.tables import read_json_lines

RELEASES = ("human_rx", "human_otc", "homeopathic", "animal", "remainder", "daily", "weekly", "monthly")
"""The full releases, and the updates, of which the page lists several."""

_MANIFEST = "manifest.jsonl"
_SAVE_EVERY = 100
_MAX_ZIP_BYTES = 32 << 30
"""DailyMed splits its releases into parts of about 3 GB."""
_PROGRESS_BYTES = 1 << 20
"""An attempt that brought so many bytes does not count as failed."""
_CHUNK_BYTES = 1 << 20
_ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, RuntimeError)
_FULL = re.compile(r"dm_spl_release_(human_rx|human_otc|homeopathic|animal|remainder)(?:_part(\d{1,3}))?\.zip")
_UPDATE = re.compile(r"dm_spl_(daily|weekly|monthly)_update_[a-z0-9_]{1,40}\.zip")
_MD5 = re.compile(r"\bmd5\b[^0-9a-f]{0,40}?(?:checksum\W{0,10})?\b([0-9a-f]{32})\b", re.IGNORECASE)
_MODIFIED = re.compile(r"last modified:?\s*([A-Za-z]{3,9}\.? \d{1,2}, \d{4})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """One entry of the manifest: `file` is the path in the folder, `bytes` and `sha256` describe its content.

    Beside a partly downloaded file, `bytes` is the size that the server announced, 0 where it did not.

    `set_id`, `version`, `published` (ISO 8601) and `title` belong to a label; `md5`, `etag` and `last_modified` are
    what was published about a bulk release, "" where nothing was.
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
    def validator(self) -> str:
        """The value of If-Range: a strong ETag, otherwise the date of the last change."""
        return self.etag if self.etag.startswith('"') else self.last_modified


_ENTRY = TypeAdapter(FetchedFile)


class DownloadManifest:
    """The folder's `manifest.jsonl`: one JSON object a file, sorted, written whole."""

    def __init__(self, folder: Location) -> None:
        """Raises StorageError. An unreadable line is skipped, and its file is fetched again."""
        self._folder, self._unsaved = folder, 0
        self._entries: dict[str, FetchedFile] = {}
        if (folder / _MANIFEST).exists():
            for line in read_json_lines(folder / _MANIFEST):
                try:
                    entry = _ENTRY.validate_python(line.row)
                except ValidationError:
                    continue
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
            rows = (orjson.dumps(dataclasses.asdict(self._entries[file])) + b"\n" for file in sorted(self._entries))
            (self._folder / _MANIFEST).write_bytes(b"".join(rows))
            self._unsaved = 0


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """One zip on the page. `part` is 0 where a release has a single file; `md5` and `modified` (ISO 8601) may be ""."""

    name: str
    release: str
    part: int
    url: str
    md5: str = ""
    modified: str = ""

    @property
    def file(self) -> str:
        """Its path in the folder."""
        return f"releases/{self.name}"


def read_release_page(data: bytes, client: DailyMedClient) -> list[ReleaseFile]:
    """Return the page's release files, each once, in order. Raises FetchError where it lists none.

    A file is a link to a zip with a release's name. Its checksum and date are searched in the text up to the next link,
    whatever the markup. Links that may not be followed (ftp) are skipped.
    """
    files: dict[str, ReleaseFile] = {}
    for link, text in _links(data):
        name = link.rpartition("/")[2].partition("?")[0]
        full, update = _FULL.fullmatch(name), _UPDATE.fullmatch(name)
        match = full or update
        if name not in files and match:
            try:
                url = client.follow(client.releases_url, link)
            except FetchError:
                continue
            files[name] = ReleaseFile(name, match[1], int((full and full[2]) or 0), str(url))
        if file := files.get(name):
            md5, modified = _MD5.search(text), _MODIFIED.search(text)
            files[name] = dataclasses.replace(
                file,
                md5=file.md5 or (md5[1].lower() if md5 else ""),
                modified=file.modified or (iso_date(modified[1]) if modified else ""),
            )
    if not files:
        raise FetchError("not_a_release_page", f"{client.releases_url} lists no bulk release", tries=2)
    return list(files.values())


def _links(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield every link to a zip, with the text after it up to the next one."""
    try:
        root = html.document_fromstring(data) if data.strip() else None
    except (etree.ParserError, etree.XMLSyntaxError, ValueError):
        root = None
    link, texts = "", list[str]()
    for event, element in etree.iterwalk(root, events=("start", "end", "comment")) if root is not None else ():
        target = str(element.get("href") or "").strip() if (event, element.tag) == ("start", "a") else ""
        if target.lower().partition("?")[0].endswith(".zip"):
            yield link, " ".join(texts)
            link, texts = target, []
        texts.append((element.text if event == "start" else element.tail) or "")
    yield link, " ".join(texts)


class ReleaseDownload:
    """Downloads one zip of a bulk release into `scratch`, a local folder, checks it, and copies it to `folder`.

    The partial file NAME in `scratch` has its version in `NAME.json`, so that it can be resumed. `progress` is called
    with the bytes so far and in all, 0 where the size is unknown. All methods raise StorageError.
    """

    def __init__(
        self,
        client: DailyMedClient,
        folder: Location,
        scratch: Path,
        file: ReleaseFile,
        progress: Callable[[int, int], None],
    ) -> None:
        self._client, self._folder, self._file, self._progress = client, folder, file, progress
        self._partial, self._version_file = scratch / file.name, scratch / f"{file.name}.json"
        self._version = FetchedFile(file.file, file.url)
        self._resumed_at = 0

    async def fetch(self, existing: FetchedFile | None) -> FetchedFile | None:
        """Return the new file, or None where the existing one is still current.

        Raises FetchError (not_found, wrong_checksum, damaged_zip …), FetchStopped, and StorageError.
        """
        if existing and existing.md5 and existing.md5 == self._file.md5:
            return None
        try:
            sha256 = await self._client.retry(lambda: self._attempt(existing))
            if not sha256:
                return None
            size = self._size
            await asyncio.to_thread(self._publish, self._folder / self._file.file)
            self._discard()
        except OSError as error:  # of the partial file; the client turns those of the network into FetchErrors
            reason, remedy = error.strerror or error, "free some space, or choose another --scratch"
            raise StorageError(f"cannot use {self._partial}: {reason}; {remedy}") from error
        new = dataclasses.replace(self._version, bytes=size, sha256=sha256)
        return dataclasses.replace(new, published=self._file.modified, fetched_at=utc_now())

    async def _attempt(self, existing: FetchedFile | None) -> str:
        """Return the SHA-256 of the whole file; "" where it has not changed."""
        size_before = self._size
        known = self._known_version()
        headers = {"Accept-Encoding": "identity", **self._conditions(known, existing)}
        try:
            async with self._client.open(URL(self._file.url, encoded=True), headers) as reply:
                if reply.status == 304:
                    return ""
                size = self._resumed_at = self._start(reply, known)
                with self._partial.open("r+b") as stream:
                    stream.truncate(size)
                    stream.seek(size)
                    async for chunk in self._client.chunks(reply, _MAX_ZIP_BYTES - size):
                        stream.write(chunk)
                        size += len(chunk)
                        self._progress(size, self._version.bytes)
            if self._version.bytes not in (0, size):
                detail = f"{self._file.url} sent {size:,} bytes of {self._version.bytes:,}"
                raise FetchError("wrong_length", detail, tries=TRIES)
        except FetchError as error:
            error.progress = self._size - size_before >= _PROGRESS_BYTES
            raise
        return await asyncio.to_thread(self._check)

    def _conditions(self, known: FetchedFile | None, existing: FetchedFile | None) -> dict[str, str]:
        """Return the headers that resume a file.

        A complete file is resumed from its last byte, to check its version.
        """
        if known:
            start = min(self._size, known.bytes - 1) if known.bytes else self._size
            return {"Range": f"bytes={start}-", "If-Range": known.validator}
        if not existing:
            return {}
        conditions = {"If-None-Match": existing.etag, "If-Modified-Since": existing.last_modified}
        return {name: value for name, value in conditions.items() if value}

    def _start(self, reply: aiohttp.ClientResponse, known: FetchedFile | None) -> int:
        """Return the first byte of the body, and prepare the partial file for it."""
        headers = reply.headers
        if headers.get("Content-Encoding", "identity") != "identity":
            detail = f"{reply.url} comes as {headers['Content-Encoding']}, which was not requested"
            raise FetchError("unexpected_encoding", detail)
        if reply.status == 200:
            self._version = FetchedFile(
                file=self._file.file,
                url=self._file.url,
                bytes=reply.content_length or 0,
                md5=self._file.md5,
                etag=headers.get("ETag", ""),
                last_modified=headers.get("Last-Modified", ""),
            )
            # The version is written before any bytes: bytes without one are never resumed.
            self._discard()
            self._version_file.parent.mkdir(parents=True, exist_ok=True)
            self._version_file.write_bytes(orjson.dumps(dataclasses.asdict(self._version)))
            self._partial.touch()
            return 0
        span = re.fullmatch(r"bytes (\d{1,15})-\d{1,15}/(\d{1,15})", headers.get("Content-Range", ""))
        if reply.status == 206 and known and span:
            start, length = int(span[1]), int(span[2])
            if known.bytes in (0, length) and start <= self._size:
                self._version = known
                return start
        self._discard()
        detail = f"{reply.url} answers {reply.status} to a request for the rest; the download starts again"
        raise FetchError("bad_range", detail, tries=TRIES)

    def _check(self) -> str:
        """Return the file's SHA-256 if it is whole: by the published MD5, otherwise by the CRCs in the zip."""
        sha256, md5 = hashlib.sha256(), hashlib.md5(usedforsecurity=False)
        with self._partial.open("rb") as stream:
            while chunk := stream.read(_CHUNK_BYTES):
                sha256.update(chunk)
                md5.update(chunk)
        fault: tuple[str, str] | None = None
        try:
            with zipfile.ZipFile(self._partial) as archive:
                if broken := None if self._file.md5 else archive.testzip():
                    fault = "damaged_zip", f"{broken} in {self._file.url} is damaged"
        except _ZIP_ERRORS as error:
            fault = "damaged_zip", f"{self._file.url} is no complete zip: {error}"
        if self._file.md5 not in ("", md5.hexdigest()):
            fault = "wrong_checksum", f"its MD5 is {md5.hexdigest()}, DailyMed lists {self._file.md5}"
        if fault:
            self._discard()
            # A resumed file may be made of two versions; a file sent in one piece would come again as it is.
            raise FetchError(*fault, tries=2 if self._resumed_at else 1)
        return sha256.hexdigest()

    def _publish(self, target: Location) -> None:
        with self._partial.open("rb") as stream, target.open_output() as output:
            shutil.copyfileobj(stream, output, _CHUNK_BYTES)

    @property
    def _size(self) -> int:
        """The bytes in the partial file."""
        return self._partial.stat().st_size if self._partial.exists() else 0

    def _known_version(self) -> FetchedFile | None:
        """Return the version of the partial file, None where it cannot be resumed for this address and checksum."""
        try:
            version = _ENTRY.validate_json(self._version_file.read_bytes())
        except (OSError, ValidationError):
            return None
        same = (version.url, version.md5) == (self._file.url, self._file.md5)
        return version if same and self._size and version.validator else None

    def _discard(self) -> None:
        self._partial.unlink(missing_ok=True)
        self._version_file.unlink(missing_ok=True)


def utc_now() -> str:
    """Return the time in UTC, ISO 8601 to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")
