"""The service's lists of labels: one page read, and all pages of a query."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any
from urllib.parse import urlencode

import orjson

from fdarx_core.dailymed.addresses import is_set_id
from fdarx_core.dailymed.client import Client
from fdarx_core.dailymed.refusals import Trouble
from fdarx_core.records import Reject

MOST_LISTED = 8 << 20
"""Bytes of one page; a hundred labels take about 30 KB."""

_MOST_PAGES = 5_000
_MOST_READINGS = 3
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]


@dataclass(frozen=True, slots=True)
class Listed:
    """A label as DailyMed lists it. `version` is 0 and the others "" where it does not say; `published` is ISO 8601."""

    set_id: str
    version: int = 0
    published: str = ""
    title: str = ""


@dataclass(slots=True)
class Listing:
    """One page: its labels, ids that are none, and what the service says of the whole list."""

    labels: list[Listed]
    bad_ids: list[str]
    total: int
    pages: int


@dataclass(slots=True)
class Found:
    """All labels of a query by set id, each at its newest version, and what is amiss with the list."""

    labels: dict[str, Listed] = field(default_factory=dict)
    rejects: list[Reject] = field(default_factory=list)


def read_listing(data: bytes) -> Listing:
    """One page of `spls.json`, whose numbers come as numbers or as texts. Raises Trouble not_a_listing."""
    try:
        whole = orjson.loads(data)
        rows, about = whole["data"], whole["metadata"]
        total, pages = _number(about["total_elements"]), _number(about["total_pages"])
        ids = [str(row["setid"]).strip().lower() for row in rows]
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        detail = f"no list of labels but {data[:80]!r} ({type(error).__name__})"
        raise Trouble("not_a_listing", detail, tries=2) from None
    listed = [_listed(set_id, row) for set_id, row in zip(ids, rows, strict=True) if is_set_id(set_id)]
    return Listing(listed, [set_id[:80] for set_id in ids if not is_set_id(set_id)], total, pages)


def day(text: str) -> str:
    """`May 21, 2026` as `2026-05-21`; "" where it is no such date."""
    found = re.fullmatch(r"([A-Za-z]{3})[a-z]*\.? (\d{1,2}), (\d{4})", text.strip())
    if not found or found[1].lower() not in _MONTHS:
        return ""
    try:
        return date(int(found[3]), _MONTHS.index(found[1].lower()) + 1, int(found[2])).isoformat()
    except ValueError:
        return ""


async def list_page(client: Client, query: Mapping[str, str], page: int) -> Listing:
    """Raises Refused, and Stopped."""

    async def attempt() -> Listing:
        return read_listing(await client.read(client.site.listing(query, page), MOST_LISTED))

    return await client.persist(attempt)


async def list_labels(
    client: Client, query: Mapping[str, str], limit: int | None, tell: Callable[[int, int], None]
) -> Found:
    """The labels that match, in the service's order, no more than `limit`; `tell` hears how many of how many.

    Where labels come or go while the pages are read, others move to pages read already: all is then read anew, up to
    three times. Raises as `list_page`.
    """
    for _ in range(_MOST_READINGS):
        found, totals = await _read_pages(client, query, limit, tell)
        missing = min(totals[-1], limit or totals[-1]) - len(found.labels) - len(found.rejects)
        if missing <= 0 and len(set(totals)) == 1:
            break
    if missing > 0:
        detail = f"the service counts {totals[-1]:,} labels, {missing:,} more than it lists; run the same command again"
        found.rejects.append(_reject(urlencode(query), "listing_incomplete", detail))
    if not found.labels and not found.rejects:
        found.rejects.append(_reject(urlencode(query), "no_match", "no label matches; loosen the query"))
    found.labels = dict(list(found.labels.items())[:limit])
    return found


async def _read_pages(
    client: Client, query: Mapping[str, str], limit: int | None, tell: Callable[[int, int], None]
) -> tuple[Found, list[int]]:
    """What the pages list, and how many labels there are by each. A page of nothing new ends the list."""
    found, totals = Found(), list[int]()
    for page in range(1, _MOST_PAGES + 1):
        listing = await list_page(client, query, page)
        before = len(found.labels) + len(found.rejects)
        _take(listing, found)
        totals.append(listing.total)
        tell(len(found.labels), min(listing.total, limit or listing.total))
        nothing_new = len(found.labels) + len(found.rejects) == before
        if nothing_new or page >= listing.pages or (limit and len(found.labels) >= limit):
            break
    return found, totals


def _take(listing: Listing, found: Found) -> None:
    for listed in listing.labels:
        known = found.labels.get(listed.set_id, listed)
        found.labels[listed.set_id] = max(known, listed, key=lambda one: one.version)
    known_bad = {reject.id for reject in found.rejects}
    for bad in dict.fromkeys(listing.bad_ids):
        if bad not in known_bad:
            found.rejects.append(_reject(bad, "bad_set_id", "DailyMed lists a label under what is no set id"))


def _listed(set_id: str, row: Mapping[str, Any]) -> Listed:
    title = row.get("title")
    try:
        version = _number(row.get("spl_version"))
    except TypeError:
        version = 0
    return Listed(set_id, version, day(str(row.get("published_date"))), title if isinstance(title, str) else "")


def _number(value: Any) -> int:
    """A count; 0 for a text that is none."""
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise TypeError(f"{value!r} is no number")
    if isinstance(value, str):
        return int(value) if value.isdecimal() and len(value) < 12 else 0
    return max(0, value)


def _reject(name: str, reason: str, detail: str) -> Reject:
    return Reject(id=name, stage="list", reason=reason, detail=detail)
