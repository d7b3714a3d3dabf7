"""Single labels by set id and by query: whole, fetched once, updated, with a reason for each that is missing."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.dailymed.client import DailyMedClient, FetchError, is_set_id, iso_date
from fdarx_core.dailymed.fetching import FetchRequest, LabelListing, list_labels, read_listing
from fdarx_core.labels import find_sources
from fdarx_core.records import Reject
from fdarx_core.storage import Location, read_records
from tests.dailymed.conftest import Fetch
from tests.dailymed.dailymed_server import Call, DailyMedServer, Fault
from tests.labels.spl import FIELDS, SET_ID, document

QUERY = FetchRequest(query={"drug_name": "tablets"})
UNKNOWN = "99999999-0000-4000-8000-000000000000"


def manifest(out: Path) -> dict[str, dict[str, object]]:
    rows = map(json.loads, (out / "manifest.jsonl").read_text().splitlines())
    return {row["file"]: row for row in rows}


def reasons(out: Path) -> dict[str, str]:
    return {reject.id: reject.reason for reject in read_records(Location(out / "rejects.parquet"), Reject)}


def only(path: str, fault: Fault, attempts: int = 99) -> object:
    return lambda call: fault if path in call.path and call.attempt <= attempts else None


@pytest.fixture
def one(server: DailyMedServer) -> str:
    return next(iter(server.labels))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_a_query_brings_labels_that_a_build_can_read(server: DailyMedServer, fetch: Fetch, out: Path) -> None:
    outcome = fetch(QUERY)
    files = manifest(out)
    assert len(outcome.fetched) == len(files) > 2
    for file, row in files.items():
        data = (out / file).read_bytes()
        assert data == server.labels[str(row["set_id"])]
        assert (row["bytes"], row["sha256"]) == (len(data), sha256(data).hexdigest())
        assert row["published"] == "2026-05-21" and row["version"] and row["title"] and row["fetched_at"]
    found = find_sources([str(out)])
    assert {Path(source.location).name for source in found.sources} == {Path(file).name for file in files}
    assert not found.rejects and not (out / "rejects.parquet").exists()
    assert {call.headers["User-Agent"] for call in server.calls} == {"fdarx tests"}


def test_again_fetches_only_what_is_newer_missing_or_cut(server: DailyMedServer, fetch: Fetch, out: Path) -> None:
    count = len(fetch(QUERY).fetched)
    server.forget()
    again = fetch(QUERY)
    assert (again.fetched, again.unchanged, server.names) == ([], count, ["spls.json"])
    newer, missing, cut, *_ = sorted((out / "labels").iterdir())
    document = server.labels[newer.stem]
    server.labels[newer.stem] = document.replace(b'<versionNumber value="', b'<versionNumber value="9')
    missing.unlink()
    cut.write_bytes(cut.read_bytes()[:100])
    assert {one.set_id for one in fetch(QUERY).fetched} == {newer.stem, missing.stem, cut.stem}
    assert all(file.read_bytes() == server.labels[file.stem] for file in (newer, missing, cut))


def test_set_ids_bring_their_labels_or_a_reason(server: DailyMedServer, fetch: Fetch, out: Path, one: str) -> None:
    outcome = fetch(FetchRequest(set_ids=(one, UNKNOWN)))
    assert [fetched.set_id for fetched in outcome.fetched] == [one]
    assert reasons(out) == {UNKNOWN: "not_found"}
    again = fetch(FetchRequest(set_ids=(one,)))
    assert (again.unchanged, again.fetched) == (1, [])
    assert not (out / "rejects.parquet").exists()


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (Fault(body=b"<html><body>An error occurred</body></html>"), "not_spl"),
        (Fault(body=b""), "not_spl"),
        (Fault(body=b"<?xml version='1.0'?><!DOCTYPE a [<!ENTITY b 'c'>]><document>&b;</document>"), "not_spl"),
        (Fault(cut=2000), "no_answer"),
        (Fault(headers={"Content-Encoding": "gzip"}), "no_answer"),
        (Fault(status=500), "http_500"),
        (Fault(status=403), "http_403"),
        (Fault(status=410), "not_found"),
        (Fault(status=302, headers={"Location": "http://elsewhere.example/label.xml"}), "bad_address"),
        (Fault(status=302, headers={"Location": "ftp://elsewhere.example/label.xml"}), "bad_address"),
        (Fault(status=302, headers={"Location": "/dailymed/services/v2/spls/loop.xml"}), "redirected"),
        (Fault(status=302), "redirected"),
    ],
)
def test_bad_answers_leave_nothing_but_a_reason(
    server: DailyMedServer, fetch: Fetch, out: Path, one: str, fault: Fault, reason: str
) -> None:
    loop = fault.status == 302
    server.faults = lambda call: fault if one in call.path or (loop and "loop" in call.path) else None
    other = list(server.labels)[1]
    outcome = fetch(FetchRequest(set_ids=(one, other)))
    assert [fetched.set_id for fetched in outcome.fetched] == [other]
    assert reasons(out) == {one: reason}
    assert [file.stem for file in (out / "labels").iterdir()] == [other]
    assert not outcome.stopped


def test_what_passes_is_tried_again(server: DailyMedServer, fetch: Fetch, one: str) -> None:
    faults = [Fault(status=503), Fault(cut=2000), Fault(status=429, headers={"Retry-After": "0"}), Fault(status=502)]
    server.faults = lambda call: faults[call.attempt - 1] if one in call.path and call.attempt < 5 else None
    assert fetch(FetchRequest(set_ids=(one,))).fetched[0].bytes == len(server.labels[one])


def test_an_error_page_that_is_gone_the_second_time(server: DailyMedServer, fetch: Fetch, one: str) -> None:
    server.faults = lambda call: Fault(body=b"<html>") if one in call.path and call.attempt == 1 else None
    assert fetch(FetchRequest(set_ids=(one,))).fetched[0].set_id == one


def test_another_label_than_asked_for_is_refused(server: DailyMedServer, fetch: Fetch, out: Path, one: str) -> None:
    other = list(server.labels.values())[1]
    server.faults = lambda call: Fault(body=other) if one in call.path else None
    assert not fetch(FetchRequest(set_ids=(one,))).fetched
    assert reasons(out) == {one: "wrong_label"}


def test_what_is_there_stays_when_the_newer_one_is_bad(
    server: DailyMedServer, fetch: Fetch, out: Path, one: str
) -> None:
    fetch(FetchRequest(set_ids=(one,)))
    before = (out / f"labels/{one}.xml").read_bytes()
    server.labels[one] = before.replace(b'<versionNumber value="', b'<versionNumber value="9')
    server.faults = lambda call: Fault(body=b"<html>") if one in call.path else None
    [reject] = fetch(FetchRequest(set_ids=(one,))).rejects
    assert (out / f"labels/{one}.xml").read_bytes() == before
    assert "kept" in reject.detail


def test_gzip_and_redirects_of_the_same_host_are_followed(server: DailyMedServer, fetch: Fetch, one: str) -> None:
    data = server.labels[one]

    def moved(call: Call) -> Fault | None:
        if call.name == "moved.xml":
            return Fault(body=gzip.compress(data), headers={"Content-Encoding": "gzip"})
        return Fault(status=301, headers={"Location": "moved.xml"}) if one in call.path else None

    server.faults = moved
    assert fetch(FetchRequest(set_ids=(one,))).fetched[0].sha256 == sha256(data).hexdigest()


@pytest.mark.parametrize("fault", [Fault(endless=True), Fault(body=gzip.compress(b" " * (1 << 22)))])
def test_a_body_without_end_is_left(
    server: DailyMedServer, fetch: Fetch, out: Path, one: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fdarx_core.dailymed.fetching.MAX_DOCUMENT", 1 << 20)
    fault.headers = {} if fault.endless else {"Content-Encoding": "gzip"}
    server.faults = lambda call: fault if one in call.path else None
    fetch(FetchRequest(set_ids=(one,)))
    assert reasons(out) == {one: "too_large"}


@pytest.mark.parametrize(("fault", "reason"), [(Fault(drip=True), "too_slow"), (Fault(silent=True), "no_answer")])
def test_a_body_that_drips_or_never_comes_is_left(
    server: DailyMedServer,
    fetch: Fetch,
    out: Path,
    one: str,
    fault: Fault,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fdarx_core.dailymed.client._CONNECT_S", 0.1)
    server.faults = lambda call: fault if one in call.path else None
    fetch(FetchRequest(set_ids=(one,)), timeout_s=0.1)
    assert reasons(out) == {one: reason}


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 10**6) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
ROWS = st.lists(
    st.fixed_dictionaries(
        {"setid": st.uuids().map(str) | ANY_JSON},
        optional={"spl_version": st.integers(0, 99) | ANY_JSON, "published_date": ANY_JSON, "title": ANY_JSON},
    )
)


@given(
    st.binary(max_size=60)
    | st.builds(lambda data, about: orjson.dumps({"data": data, "metadata": about}), *2 * [ANY_JSON])
)
def test_anything_is_read_or_refused(data: bytes) -> None:
    try:
        read_listing(data)
    except FetchError as trouble:
        assert trouble.reason == "not_a_listing"


@given(ROWS, st.integers(0, 10**6), st.booleans())
def test_every_row_is_a_label_or_a_bad_id(rows: list[dict[str, Any]], total: int, as_text: bool) -> None:
    count = str(total) if as_text else total
    listing = read_listing(orjson.dumps({"data": rows, "metadata": {"total_elements": count, "total_pages": count}}))
    assert listing.total == total
    assert listing.size == len({str(row["setid"]).strip().lower()[:80] for row in rows})
    assert all(is_set_id(one.set_id) and one.version >= 0 for one in listing.labels.values())


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("May 21, 2026", "2026-05-21"),
        ("Sept 3, 2020", "2020-09-03"),
        ("February 30, 2020", ""),
        ("21.05.2026", ""),
        ("Foo 1, 2020", ""),
        ("", ""),
    ],
)
def test_dates_are_read_whatever_the_locale(text: str, date: str) -> None:
    assert iso_date(text) == date


def many(number: int) -> list[bytes]:
    fields = (FIELDS.replace(SET_ID, f"0a1b2c3d-0000-4000-8000-{index:012}") for index in range(number))
    return [document(fields=one).encode() for one in fields]


def found(server: DailyMedServer, query: Mapping[str, str], limit: int | None = None) -> LabelListing:
    async def ask() -> LabelListing:
        async with DailyMedClient(server.url, "fdarx tests", rate=1000) as client:
            return await list_labels(client, query, limit, lambda *_: None)

    return asyncio.run(ask())


@pytest.fixture(scope="module")
def catalogue() -> list[bytes]:
    return many(230)


@pytest.fixture
def service(catalogue: list[bytes], monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("fdarx_core.dailymed.client._FIRST_WAIT_S", 0.01)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with DailyMedServer(catalogue) as server:
        yield server


def test_all_pages_are_read_and_no_more_than_needed(service: DailyMedServer) -> None:
    assert list(found(service, {"drug_name": "invented"}).labels) == list(service.labels)
    assert [call.query["page"] for call in service.calls] == ["1", "2", "3"]
    assert {call.query["pagesize"] for call in service.calls} == {"100"}
    service.forget()
    assert list(found(service, {"drug_name": "invented"}, 150).labels) == list(service.labels)[:150]
    assert len(service.calls) == 2


def test_labels_that_move_between_pages_are_not_lost(service: DailyMedServer) -> None:
    def withdrawn(call: Call) -> None:
        if call.query["page"] == "2" and call.attempt == 1:
            del service.labels[next(iter(service.labels))]

    service.faults = withdrawn
    listed = found(service, {"drug_name": "invented"})
    assert list(service.labels) == list(listed.labels)
    assert not listed.rejects
    assert len(service.calls) == 6


def changed(page: dict[str, Any]) -> Callable[[Call], Fault]:
    return lambda call: Fault(body=orjson.dumps(page))


def test_a_list_that_never_ends_is_left(service: DailyMedServer) -> None:
    row = {"setid": SET_ID, "spl_version": 3, "title": "a", "published_date": "May 1, 2026"}
    service.faults = changed({"data": [row], "metadata": {"total_elements": 10**9, "total_pages": 10**7}})
    listed = found(service, {"drug_name": "invented"})
    assert list(listed.labels) == [SET_ID]
    assert [reject.reason for reject in listed.rejects.values()] == ["listing_incomplete"]
    assert len(service.calls) == 6


def test_a_set_id_that_is_a_path_is_never_asked_for(service: DailyMedServer) -> None:
    rows = [{"setid": "../../etc/passwd"}, {"setid": SET_ID.upper()}]
    service.faults = changed({"data": rows, "metadata": {"total_elements": 2, "total_pages": 1}})
    listed = found(service, {"labeler": "x"})
    assert list(listed.labels) == [SET_ID]
    assert [(reject.id, reject.reason) for reject in listed.rejects.values()] == [("../../etc/passwd", "bad_set_id")]


def test_nothing_that_matches_is_told(service: DailyMedServer) -> None:
    [reject] = found(service, {"drug_name": "no such drug"}).rejects.values()
    assert (reject.id, reject.reason) == ("drug_name=no+such+drug", "no_match")


def test_a_page_that_is_no_list_is_asked_for_twice(service: DailyMedServer) -> None:
    service.faults = lambda call: Fault(body=b"<html>maintenance</html>")
    with pytest.raises(FetchError, match="not_a_listing"):
        found(service, {"drug_name": "invented"})
    assert len(service.calls) == 2
