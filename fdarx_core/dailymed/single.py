"""One label by its set id."""

from __future__ import annotations

import asyncio
from hashlib import sha256

from fdarx_core.dailymed.client import Client
from fdarx_core.dailymed.listing import Listed, list_page
from fdarx_core.dailymed.manifest import Fetched, now
from fdarx_core.dailymed.refusals import Trouble
from fdarx_core.labels import BadDocument
from fdarx_core.labels.header import Header, read_header
from fdarx_core.labels.xml import parse_xml
from fdarx_core.storage import Location
from fdarx_core.storage.archives import MAX_DOCUMENT


def label_file(set_id: str) -> str:
    """Where a label stands in the folder."""
    return f"labels/{set_id}.xml"


async def find_label(client: Client, set_id: str) -> Listed:
    """What DailyMed says of one label, of which it may know nothing. Raises Refused, and Stopped."""
    listing = await list_page(client, {"setid": set_id}, 1)
    known = [one for one in listing.labels if one.set_id == set_id]
    return max(known, key=lambda one: one.version, default=Listed(set_id))


async def fetch_label(client: Client, place: Location, listed: Listed) -> Fetched:
    """The label's current version into its place, where it appears once it is known to be the label asked for.

    Raises Refused (not_found, not_spl, wrong_label, too_large …), Stopped, and StorageError.
    """
    url = client.site.label(listed.set_id)

    async def attempt() -> tuple[bytes, Header]:
        data = await client.read(url, MAX_DOCUMENT)
        return data, await asyncio.to_thread(_checked, data, listed.set_id)

    data, header = await client.persist(attempt)
    file = label_file(listed.set_id)
    await asyncio.to_thread((place / file).write_bytes, data)
    return Fetched(
        file=file,
        url=str(url),
        bytes=len(data),
        sha256=sha256(data).hexdigest(),
        fetched_at=now(),
        set_id=listed.set_id,
        version=header.version,
        published=listed.published,
        title=listed.title or header.title,
    )


def _checked(data: bytes, set_id: str) -> Header:
    try:
        header = read_header(parse_xml(data))
    except BadDocument as bad:
        raise Trouble("not_spl", f"{bad.reason}: {bad.detail}", tries=2) from None
    if header.set_id != set_id:
        raise Trouble("wrong_label", f"the document's set id is {header.set_id[:80]}", tries=2)
    return header
