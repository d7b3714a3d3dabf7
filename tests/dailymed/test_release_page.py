"""The page of bulk releases is read for what it says, not for how it is marked up."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdarx_core.dailymed import Site
from fdarx_core.dailymed.refusals import Trouble
from fdarx_core.dailymed.release_page import ReleaseFile, read_release_page

SITE = Site()
DATA = "https://dailymed-data.nlm.nih.gov/public-release-files/"
MD5 = "0123456789abcdef0123456789abcdef"
NAMES = st.one_of(
    st.builds("dm_spl_release_{}_part{}.zip".format, st.sampled_from(["human_rx", "human_otc"]), st.integers(1, 12)),
    st.sampled_from(
        ["dm_spl_release_animal.zip", "dm_spl_release_homeopathic.zip", "dm_spl_daily_update_10312025.zip"]
    ),
    st.sampled_from(["dm_spl_weekly_update_102725_103125.zip", "dm_spl_monthly_update_oct2025.zip"]),
)
MARKUPS = [
    "<li>{name} [<a href='{url}'>HTTPS</a>] [<a href='ftp://x/{name}'>FTP</a>]<i>MD5 checksum: {md5}</i></li>",
    "<tr><td><a href='{url}'>{name}</a></td><td>MD5</td><td>{md5}</td></tr>",
    "<p><b><a href='{url}'>{name}</a></b><!-- x --> (md5 <code>{md5}</code>)</p>",
]


@settings(max_examples=40)
@given(st.binary(max_size=200) | st.text("<>a/= \"'!-.zip&;", max_size=80).map(str.encode))
def test_anything_is_read_or_refused(data: bytes) -> None:
    with pytest.raises(Trouble, match="not_a_release_page"):
        read_release_page(data, SITE)


@settings(max_examples=40)
@given(
    st.dictionaries(NAMES, st.binary(min_size=16, max_size=16).map(bytes.hex), min_size=1, max_size=8),
    st.sampled_from(MARKUPS),
)
def test_each_file_has_its_own_checksum(files: dict[str, str], markup: str) -> None:
    items = "".join(markup.format(name=name, url=DATA + name, md5=md5) for name, md5 in files.items())
    read = read_release_page(f"<html><body>{items}</body></html>".encode(), SITE)
    assert [(file.name, file.url, file.md5) for file in read] == [
        (name, DATA + name, md5) for name, md5 in files.items()
    ]


def test_names_say_release_and_part() -> None:
    links = (
        f"<a href='{DATA}{name}'>x</a>" for name in ("dm_spl_release_human_rx_part3.zip", "dm_spl_release_animal.zip")
    )
    rx, animal = read_release_page("".join(links).encode(), SITE)
    assert rx == ReleaseFile(
        "dm_spl_release_human_rx_part3.zip", "human_rx", 3, f"{DATA}dm_spl_release_human_rx_part3.zip"
    )
    assert (animal.release, animal.part) == ("animal", 0)


def test_what_is_not_published_is_left_open() -> None:
    name = "dm_spl_monthly_update_oct2025.zip"
    [file] = read_release_page(f"<a href='{name}'>x</a> Last Modified: Nov 1, 2025 MD5 checksum: n/a".encode(), SITE)
    assert (file.md5, file.modified) == ("", "2025-11-01")
    assert file.url == f"https://dailymed.nlm.nih.gov/dailymed/{name}"


@pytest.mark.parametrize(
    "link", ["ftp://public.nlm.nih.gov/", "http://elsewhere.example/", "file:///etc/", "http://[x/"]
)
def test_links_that_are_not_safe_are_passed_over(link: str) -> None:
    name = "dm_spl_release_animal.zip"
    page = f"<a href='{link}{name}'>a</a> <a href='{DATA}{name}'>b</a> MD5 checksum: {MD5}"
    [file] = read_release_page(page.encode(), SITE)
    assert (file.url, file.md5) == (DATA + name, MD5)


def test_a_name_never_leads_out_of_the_folder() -> None:
    page = f"<a href='{DATA}..%2f..%2fdm_spl_release_animal.zip'>a</a><a href='{DATA}dm_spl_daily_update_..zip'>b</a>"
    with pytest.raises(Trouble):
        read_release_page(page.encode(), SITE)
