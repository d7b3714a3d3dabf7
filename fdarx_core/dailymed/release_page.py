"""The page that lists the bulk releases, with an MD5 checksum each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from lxml import etree, html

from fdarx_core.dailymed.addresses import Site
from fdarx_core.dailymed.listing import day
from fdarx_core.dailymed.refusals import Refused, Trouble

RELEASES = ("human_rx", "human_otc", "homeopathic", "animal", "remainder", "daily", "weekly", "monthly")
"""The full releases, then the updates, of which the page lists several."""

_FULL = re.compile(r"dm_spl_release_(human_rx|human_otc|homeopathic|animal|remainder)(?:_part(\d{1,3}))?\.zip")
_UPDATE = re.compile(r"dm_spl_(daily|weekly|monthly)_update_[a-z0-9_]{1,40}\.zip")
_MD5 = re.compile(r"\bmd5\b[^0-9a-f]{0,40}?(?:checksum\W{0,10})?\b([0-9a-f]{32})\b", re.IGNORECASE)
_MODIFIED = re.compile(r"last modified:?\s*([A-Za-z]{3,9}\.? \d{1,2}, \d{4})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ReleaseFile:
    """One zip of the page. `part` is 0 where a release has one alone; `md5` and `modified` (ISO 8601) may be ""."""

    name: str
    release: str
    part: int
    url: str
    md5: str = ""
    modified: str = ""


def read_release_page(data: bytes, site: Site) -> list[ReleaseFile]:
    """The page's release files, each once, in its order. Raises Trouble not_a_release_page where it lists none.

    A file is what is linked under the name of one; its checksum and date are looked for in the text from there to the
    next, so that they are found whatever the markup. Links that are not followed (ftp) are passed over.
    """
    files: dict[str, ReleaseFile] = {}
    for link, text in _links(data):
        name = link.rpartition("/")[2].partition("?")[0]
        full, update = _FULL.fullmatch(name), _UPDATE.fullmatch(name)
        if name in files:
            files[name] = _described(files[name], text)
        elif full or update:
            file = _file(name, full or update, link, site)
            if file:
                files[name] = _described(file, text)
    if not files:
        raise Trouble("not_a_release_page", f"{site.releases} lists no bulk release", tries=2)
    return list(files.values())


def _links(data: bytes) -> Iterator[tuple[str, str]]:
    """Every link to a zip, with the text that follows it up to the next one."""
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


def _file(name: str, found: re.Match[str] | None, link: str, site: Site) -> ReleaseFile | None:
    assert found is not None
    try:
        url = site.followed(site.releases, link)
    except Refused:
        return None
    part = found[2] if found.re is _FULL else None
    return ReleaseFile(name, found[1], int(part or 0), str(url))


def _described(file: ReleaseFile, text: str) -> ReleaseFile:
    md5, modified = _MD5.search(text), _MODIFIED.search(text)
    return ReleaseFile(
        file.name,
        file.release,
        file.part,
        file.url,
        file.md5 or (md5[1].lower() if md5 else ""),
        file.modified or (day(modified[1]) if modified else ""),
    )
