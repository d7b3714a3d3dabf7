"""One zip of a bulk release: downloaded, gone on with after a break, checked, and put in its place whole."""

from __future__ import annotations

import asyncio
import re
import shutil
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import aiohttp
from yarl import URL

from fdarx_core.dailymed.client import Client
from fdarx_core.dailymed.manifest import Fetched, now
from fdarx_core.dailymed.partial import Mark, Partial
from fdarx_core.dailymed.refusals import Refused, Trouble
from fdarx_core.dailymed.release_page import ReleaseFile
from fdarx_core.storage import Location

_MOST = 32 << 30
"""Bytes of one zip; DailyMed cuts its releases into parts of about 3 GB."""
_PROGRESS = 1 << 20
_CHUNK = 1 << 20
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError, RuntimeError)


def release_file(name: str) -> str:
    """Where a zip stands in the folder."""
    return f"releases/{name}"


class Bulk:
    """The way of one zip. What has come of it is kept in `scratch`, a local folder, until all of it is in its place."""

    def __init__(
        self, client: Client, place: Location, scratch: Path, file: ReleaseFile, tell: Callable[[int, int], None]
    ) -> None:
        """`tell` hears how many bytes of how many (0 where not known) are there."""
        self._client, self._place, self._file, self._tell = client, place, file, tell
        self._partial = Partial(scratch, file.name)
        self._mark = Mark(file.url)
        self._began = 0

    async def fetch(self, held: Fetched | None) -> Fetched | None:
        """None where `held`, what stands in its place, is what DailyMed still has.

        Raises Refused (not_found, wrong_checksum, damaged_zip …), Stopped, and StorageError.
        """
        if held and held.md5 and held.md5 == self._file.md5:
            return None
        sha256 = await self._client.persist(lambda: self._attempt(held))
        if not sha256:
            return None
        file = release_file(self._file.name)
        size = self._partial.size
        await asyncio.to_thread(self._put, self._place / file)
        self._partial.discard()
        mark = self._mark
        return Fetched(
            file=file,
            url=mark.url,
            bytes=size,
            sha256=sha256,
            fetched_at=now(),
            published=self._file.modified,
            md5=mark.md5,
            etag=mark.etag,
            last_modified=mark.last_modified,
        )

    async def _attempt(self, held: Fetched | None) -> str:
        """The SHA-256 of the whole file; "" where it is as it was."""
        before = self._partial.size
        try:
            if not await self._download(held):
                return ""
        except Trouble as trouble:
            trouble.progress = self._partial.size - before >= _PROGRESS
            raise
        return await asyncio.to_thread(self._checked)

    async def _download(self, held: Fetched | None) -> bool:
        known = self._partial.mark(self._file.url, self._file.md5)
        headers = {"Accept-Encoding": "identity", **self._conditions(known, held)}
        async with self._client.open(URL(self._file.url, encoded=True), headers) as reply:
            if reply.status == 304:
                return False
            size = self._began = self._start(reply, known)
            with self._partial.appending(size) as write:
                async for chunk in self._client.chunks(reply, _MOST - size):
                    write(chunk)
                    size += len(chunk)
                    self._tell(size, self._mark.length)
        if self._mark.length not in (0, size):
            raise Trouble("wrong_length", f"{self._file.url} sent {size:,} bytes of {self._mark.length:,}")
        return True

    def _conditions(self, known: Mark | None, held: Fetched | None) -> dict[str, str]:
        """All of it goes on from its last byte: that tells whether it is still the current version."""
        if known:
            start = min(self._partial.size, known.length - 1) if known.length else self._partial.size
            return {"Range": f"bytes={start}-", "If-Range": known.validator}
        conditions = {"If-None-Match": held.etag, "If-Modified-Since": held.last_modified} if held else {}
        return {name: value for name, value in conditions.items() if value}

    def _start(self, reply: aiohttp.ClientResponse, known: Mark | None) -> int:
        """The byte that the body begins with; the partial file is made ready for it."""
        if reply.headers.get("Content-Encoding", "identity") != "identity":
            raise Refused("unexpected_encoding", f"{reply.url} comes as {reply.headers['Content-Encoding']}, unasked")
        if reply.status == 200:
            headers = reply.headers
            etag, modified = headers.get("ETag", ""), headers.get("Last-Modified", "")
            self._mark = Mark(self._file.url, self._file.md5, etag, modified, reply.content_length or 0)
            self._partial.begin(self._mark)
            return 0
        span = re.fullmatch(r"bytes (\d{1,15})-\d{1,15}/(\d{1,15})", reply.headers.get("Content-Range", ""))
        if reply.status != 206 or not known or not span or not self._continues(known, int(span[1]), int(span[2])):
            self._partial.discard()
            raise Trouble(
                "bad_range", f"{reply.url} answers {reply.status} to a request for the rest; it is begun anew"
            )
        self._mark = known
        return int(span[1])

    def _continues(self, known: Mark, start: int, length: int) -> bool:
        return known.length in (0, length) and start <= self._partial.size

    def _checked(self) -> str:
        """The file's SHA-256, once it is known to be whole: by the published MD5, else by the zip's own CRCs."""
        sha256, md5 = self._partial.digests()
        fault = self._zip_fault()
        if self._file.md5 not in ("", md5):
            fault = "wrong_checksum", f"its MD5 is {md5}, DailyMed lists {self._file.md5}"
        if fault:
            self._partial.discard()
            # What came in one piece would come again as it is; what was pieced together may have been two versions.
            raise Trouble(*fault, tries=2 if self._began else 1)
        return sha256

    def _zip_fault(self) -> tuple[str, str] | None:
        try:
            with zipfile.ZipFile(self._partial.path) as archive:
                broken = None if self._file.md5 else archive.testzip()
        except _BROKEN as error:
            return "damaged_zip", f"{self._file.url} is no whole zip: {error}"
        return ("damaged_zip", f"{broken} in {self._file.url} is damaged") if broken else None

    def _put(self, target: Location) -> None:
        with self._partial.path.open("rb") as stream, target.open_output() as output:
            shutil.copyfileobj(stream, output, _CHUNK)
