"""Bulk releases: whole and checked, resumed after any interruption, never visible half done."""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.dailymed.client import BASE_URL, DailyMedClient, FetchError
from fdarx_core.dailymed.downloads import FetchedFile, read_release_page, release_and_part
from fdarx_core.dailymed.fetching import FetchRequest
from fdarx_core.labels import find_sources, read_source
from fdarx_core.records import Reject
from fdarx_core.storage import Location, StorageError
from tests.dailymed.conftest import Fetch, examples, zipped
from tests.dailymed.dailymed_server import Call, DailyMedServer, Fault
from tests.dailymed.test_fetching import manifest, reasons

NAME = "dm_spl_release_human_rx_part1.zip"
RX = FetchRequest(releases=("human_rx",))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def target(out: Path) -> Path:
    return out / "releases" / NAME


def interrupted(server: DailyMedServer, fetch: Fetch, at: int) -> None:
    """A job that was stopped when so much was there: the server cuts the body, and says it is busy for long."""
    server.faults = lambda call: (
        None
        if call.name != NAME
        else Fault(cut=at)
        if call.attempt == 1
        else Fault(429, headers={"Retry-After": "9999"})
    )
    assert fetch(RX).stopped
    server.faults = lambda call: None
    server.forget()


def test_a_release_is_fetched_whole_and_can_be_read(
    server: DailyMedServer, fetch: Fetch, out: Path, target: Path
) -> None:
    [fetched] = fetch(RX).fetched
    assert target.read_bytes() == server.files[NAME]
    assert fetched.md5 == hashlib.md5(target.read_bytes()).hexdigest() and fetched.etag and fetched.last_modified
    assert fetched.sha256 == hashlib.sha256(target.read_bytes()).hexdigest()
    found = find_sources([str(out)])
    read = [one for source in found.sources for one in read_source(source)]
    assert sorted(one[1] for one in read if not isinstance(one, Reject)) == sorted(examples())
    assert not [*(out.parent / "scratch").iterdir()]


def test_again_nothing_is_asked_but_the_page(server: DailyMedServer, fetch: Fetch, target: Path) -> None:
    fetch(RX)
    server.forget()
    assert fetch(RX).unchanged == 1
    assert server.names == ["spl-resources-all-drug-labels.cfm"]
    target.write_bytes(target.read_bytes()[:-1])
    assert len(fetch(RX).fetched) == 1
    assert target.read_bytes() == server.files[NAME]


def test_without_a_checksum_the_server_is_asked_whether_it_changed(server: DailyMedServer, fetch: Fetch) -> None:
    server.md5.clear()
    fetch(RX)
    assert fetch(RX).unchanged == 1
    assert server.calls[-1].headers["If-None-Match"] and server.calls[-1].name == NAME
    server.files[NAME] = zipped({"prescription/new.zip": zipped({"a.xml": b"<a/>"})})
    [fetched] = fetch(RX).fetched
    assert fetched.bytes == len(server.files[NAME])


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
def test_an_interrupted_download_goes_on(server: DailyMedServer, fetch: Fetch, target: Path, share: float) -> None:
    at = int(share * len(server.files[NAME]))
    interrupted(server, fetch, at)
    assert not target.exists()
    assert len(fetch(RX).fetched) == 1
    assert target.read_bytes() == server.files[NAME]
    [asked] = [call for call in server.calls if call.name == NAME]
    assert asked.headers["Range"] == f"bytes={at}-"
    assert asked.headers["If-Range"].startswith('"')


def test_what_only_had_to_be_put_in_its_place_is_not_fetched_again(
    server: DailyMedServer, fetch: Fetch, out: Path, target: Path
) -> None:
    out.mkdir()
    (out / "releases").write_text("a file where the folder should be")
    with pytest.raises(StorageError):
        fetch(RX)
    (out / "releases").unlink()
    assert len(fetch(RX).fetched) == 1
    assert server.calls[-1].headers["Range"] == f"bytes={len(server.files[NAME]) - 1}-"
    assert target.read_bytes() == server.files[NAME]


def test_another_version_is_not_glued_to_the_old_one(server: DailyMedServer, fetch: Fetch, target: Path) -> None:
    interrupted(server, fetch, 9000)
    server.files[NAME] = zipped({f"{number}.xml": os.urandom(5000) for number in range(5)})
    assert len(fetch(RX).rejects) == 1  # the page still has the old checksum
    server.md5[NAME] = hashlib.md5(server.files[NAME]).hexdigest()
    assert fetch(RX).fetched[0].md5 == server.md5[NAME]
    assert target.read_bytes() == server.files[NAME]


def test_what_is_there_of_an_older_release_is_not_asked_on_for(
    server: DailyMedServer, fetch: Fetch, target: Path
) -> None:
    interrupted(server, fetch, 9000)
    server.files[NAME] = zipped({"a.xml": os.urandom(20_000)})
    server.md5[NAME] = hashlib.md5(server.files[NAME]).hexdigest()
    assert len(fetch(RX).fetched) == 1
    assert ["Range" in call.headers for call in server.calls if call.name == NAME] == [False]
    assert target.read_bytes() == server.files[NAME]


def test_a_server_without_marks_is_asked_for_all_of_it(server: DailyMedServer, fetch: Fetch, target: Path) -> None:
    server.tagged = False
    interrupted(server, fetch, 9000)
    fetch(RX)
    assert "Range" not in server.calls[-1].headers
    assert target.read_bytes() == server.files[NAME]


@pytest.mark.parametrize(
    "answer",
    [
        Fault(206, b"x" * 50, {"Content-Range": "bytes 0-49/50"}),
        Fault(206, b"x" * 50, {"Content-Range": "bytes 9000-9049/9050"}),
        Fault(206, b"x" * 50),
        Fault(206, b"x" * 50, {"Content-Range": "bytes 99999999-99999999/100000000"}),
        Fault(416, b"", {"Content-Range": "bytes */10"}),
    ],
)
def test_a_wrong_range_begins_anew(server: DailyMedServer, fetch: Fetch, target: Path, answer: Fault) -> None:
    interrupted(server, fetch, 9000)
    server.faults = lambda call: answer if call.headers.get("Range") else None
    assert len(fetch(RX).fetched) == 1
    assert target.read_bytes() == server.files[NAME]


def test_the_rest_may_come_in_pieces(server: DailyMedServer, fetch: Fetch, target: Path) -> None:
    interrupted(server, fetch, 9000)
    data = server.files[NAME]

    def piece(call: Call) -> Fault | None:
        asked = call.headers.get("Range")
        if not asked:
            return None
        start = int(asked[6:-1])
        stop = min(start + 40_000, len(data))
        return Fault(206, data[start:stop], {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"})

    server.faults = piece
    assert len(fetch(RX).fetched) == 1
    assert target.read_bytes() == data
    assert server.names.count(NAME) == 3


def test_a_range_of_other_bytes_is_seen_by_the_checksum(server: DailyMedServer, fetch: Fetch, target: Path) -> None:
    interrupted(server, fetch, 9000)
    size = len(server.files[NAME])
    headers = {"Content-Range": f"bytes 9000-{size - 1}/{size}"}
    server.faults = lambda call: Fault(206, bytes(size - 9000), headers) if call.headers.get("Range") else None
    assert len(fetch(RX).fetched) == 1
    assert target.read_bytes() == server.files[NAME]


def test_tries_that_bring_much_do_not_count(
    server: DailyMedServer, fetch: Fetch, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fdarx_core.dailymed.downloads._PROGRESS_BYTES", 10_000)
    server.faults = lambda call: Fault(cut=12_000) if call.name == NAME and call.attempt < 8 else None
    assert len(fetch(RX).fetched) == 1
    assert target.read_bytes() == server.files[NAME]


def test_a_transfer_that_stops_short_goes_on(server: DailyMedServer, fetch: Fetch, target: Path) -> None:
    server.faults = lambda call: Fault(cut=9000, stalls=True) if call.name == NAME and call.attempt == 1 else None
    assert len(fetch(RX, timeout_s=0.2).fetched) == 1
    assert server.calls[-1].headers["Range"] == "bytes=9000-"
    assert target.read_bytes() == server.files[NAME]


@pytest.mark.parametrize(
    ("fault", "published", "reason"),
    [
        (Fault(body=b"<html>Service unavailable</html>"), True, "wrong_checksum"),
        (Fault(body=b"<html>Service unavailable</html>"), False, "damaged_zip"),
        (Fault(body=b""), False, "damaged_zip"),
        (Fault(status=404), True, "not_found"),
        (Fault(status=500), True, "http_500"),
        (Fault(headers={"Content-Encoding": "gzip"}), True, "no_answer"),
        (Fault(status=302, headers={"Location": "http://elsewhere.example/a.zip"}), True, "bad_address"),
    ],
)
def test_what_is_not_the_release_leaves_a_reason(
    server: DailyMedServer, fetch: Fetch, out: Path, fault: Fault, published: bool, reason: str
) -> None:
    if not published:
        server.md5.clear()
    server.faults = lambda call: fault if call.name == NAME else None
    assert not fetch(RX).fetched
    assert reasons(out) == {NAME: reason}
    assert not (out / "releases").exists()
    assert len([name for name in server.names if name == NAME]) <= 5


def test_a_damaged_member_is_found_without_a_checksum(server: DailyMedServer, fetch: Fetch, out: Path) -> None:
    data = bytearray(zipped({"a.zip": os.urandom(4000)}))
    data[2000] ^= 1
    server.files[NAME] = bytes(data)
    server.md5.clear()
    fetch(RX)
    assert reasons(out) == {NAME: "damaged_zip"}


def test_what_was_there_stays_when_the_newer_one_is_bad(server: DailyMedServer, fetch: Fetch, target: Path) -> None:
    fetch(RX)
    before = target.read_bytes()
    server.files[NAME], server.md5[NAME] = b"not a zip", "0" * 32
    assert [reject.reason for reject in fetch(RX).rejects] == ["wrong_checksum"]
    assert target.read_bytes() == before


def test_a_body_without_end_is_left(
    server: DailyMedServer, fetch: Fetch, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fdarx_core.dailymed.downloads._MAX_ZIP_BYTES", 1 << 20)
    server.faults = lambda call: Fault(endless=True) if call.name == NAME else None
    fetch(RX)
    assert reasons(out) == {NAME: "too_large"}


def test_parts_and_dates_choose(server: DailyMedServer, fetch: Fetch, out: Path) -> None:
    data = server.files[NAME]
    names = ["dm_spl_release_human_rx_part2.zip", "dm_spl_release_animal.zip", "dm_spl_daily_update_10312025.zip"]
    server.files |= dict.fromkeys(names, data)
    server.md5 |= dict.fromkeys(names, hashlib.md5(data).hexdigest())
    outcome = fetch(FetchRequest(releases=("human_rx", "homeopathic"), parts=(2, 7)))
    assert [Path(one.file).name for one in outcome.fetched] == names[:1]
    assert reasons(out) == {"human_rx part 7": "not_found", "homeopathic": "not_found"}

    assert not fetch(FetchRequest(releases=("daily",), since=date(2025, 11, 1))).fetched
    assert len(fetch(FetchRequest(releases=("daily", "animal"), since=date(2025, 10, 31))).fetched) == 2


def test_no_space_is_said_in_one_line(server: DailyMedServer, fetch: Fetch, tmp_path: Path) -> None:
    (tmp_path / "scratch").write_text("a file where the folder should be")
    with pytest.raises(StorageError, match="--scratch"):
        fetch(RX)


def test_a_note_from_elsewhere_is_not_believed(
    server: DailyMedServer, fetch: Fetch, target: Path, tmp_path: Path
) -> None:
    interrupted(server, fetch, 9000)
    note = tmp_path / "scratch" / f"{NAME}.json"
    note.write_text(json.dumps(json.loads(note.read_text()) | {"bytes": "much"}))
    assert len(fetch(RX).fetched) == 1
    assert target.read_bytes() == server.files[NAME]


def test_a_damaged_manifest_costs_one_more_fetch(server: DailyMedServer, fetch: Fetch, out: Path) -> None:
    fetch(RX)
    (out / "manifest.jsonl").write_text('{"file": 3}\nnot json\n')
    assert len(fetch(RX).fetched) == 1
    assert list(manifest(out)) == [f"releases/{NAME}"]


@pytest.mark.s3
def test_to_s3_and_on_from_the_scratch_folder(server: DailyMedServer, fetch: Fetch, bucket: Location) -> None:
    place = bucket / "labels"
    wish = FetchRequest(releases=("human_rx",), query={"drug_name": "tablets"})
    server.faults = lambda call: (
        None
        if call.name != NAME
        else Fault(cut=9000)
        if call.attempt == 1
        else Fault(429, headers={"Retry-After": "9999"})
    )
    assert fetch(wish, place).stopped
    assert not (place / f"releases/{NAME}").exists()
    server.faults = lambda call: None
    outcome = fetch(wish, place)
    assert [call.headers.get("Range") for call in server.calls if call.name == NAME][-1] == "bytes=9000-"
    assert (place / f"releases/{NAME}").read_bytes() == server.files[NAME]
    assert {one.file for one in outcome.fetched} == {
        file.address.removeprefix(f"{place}/") for file in place.list(recursive=True) if file.name != "manifest.jsonl"
    }
    again = fetch(wish, place)
    assert (again.fetched, again.unchanged) == ([], len(outcome.fetched))
    with zipfile.ZipFile((place / f"releases/{NAME}").open_input()) as archive:
        assert archive.testzip() is None


CLIENT = DailyMedClient(BASE_URL, "fdarx tests")
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


@given(st.binary(max_size=200) | st.text("<>a/= \"'!-.zip&;", max_size=80).map(str.encode))
def test_anything_is_read_or_refused(data: bytes) -> None:
    with pytest.raises(FetchError, match="not_a_release_page"):
        read_release_page(data, CLIENT)


@given(
    st.dictionaries(NAMES, st.binary(min_size=16, max_size=16).map(bytes.hex), min_size=1, max_size=8),
    st.sampled_from(MARKUPS),
)
def test_each_file_has_its_own_checksum(files: dict[str, str], markup: str) -> None:
    items = "".join(markup.format(name=name, url=DATA + name, md5=md5) for name, md5 in files.items())
    read = read_release_page(f"<html><body>{items}</body></html>".encode(), CLIENT)
    assert [(file.name, file.url, file.md5) for file in read] == [
        (name, DATA + name, md5) for name, md5 in files.items()
    ]


def test_names_say_release_and_part() -> None:
    links = (
        f"<a href='{DATA}{name}'>x</a>" for name in ("dm_spl_release_human_rx_part3.zip", "dm_spl_release_animal.zip")
    )
    rx, animal = read_release_page("".join(links).encode(), CLIENT)
    assert rx == FetchedFile("releases/dm_spl_release_human_rx_part3.zip", f"{DATA}dm_spl_release_human_rx_part3.zip")
    assert release_and_part(rx.name) == ("human_rx", 3)
    assert release_and_part(animal.name) == ("animal", 0)


def test_what_is_not_published_is_left_open() -> None:
    name = "dm_spl_monthly_update_oct2025.zip"
    [file] = read_release_page(f"<a href='{name}'>x</a> Last Modified: Nov 1, 2025 MD5 checksum: n/a".encode(), CLIENT)
    assert (file.md5, file.published) == ("", "2025-11-01")
    assert file.url == f"https://dailymed.nlm.nih.gov/dailymed/{name}"


@pytest.mark.parametrize(
    "link", ["ftp://public.nlm.nih.gov/", "http://elsewhere.example/", "file:///etc/", "http://[x/"]
)
def test_links_that_are_not_safe_are_passed_over(link: str) -> None:
    name = "dm_spl_release_animal.zip"
    page = f"<a href='{link}{name}'>a</a> <a href='{DATA}{name}'>b</a> MD5 checksum: {MD5}"
    [file] = read_release_page(page.encode(), CLIENT)
    assert (file.url, file.md5) == (DATA + name, MD5)


def test_a_name_never_leads_out_of_the_folder() -> None:
    page = f"<a href='{DATA}..%2f..%2fdm_spl_release_animal.zip'>a</a><a href='{DATA}dm_spl_daily_update_..zip'>b</a>"
    with pytest.raises(FetchError):
        read_release_page(page.encode(), CLIENT)
