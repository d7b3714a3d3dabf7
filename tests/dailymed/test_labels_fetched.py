"""Single labels by set id and by query: whole, once, newer ones again, and a reason for each that is not had."""

from __future__ import annotations

import gzip
import json
from hashlib import sha256
from pathlib import Path

import pytest

from fdarx_core.dailymed import Wish
from fdarx_core.labels import find_sources
from fdarx_core.records import Reject
from fdarx_core.storage import Location, read_records
from tests.dailymed.conftest import Fetch
from tests.dailymed.dailymed_server import Call, DailyMedServer, Fault

QUERY = Wish(query={"drug_name": "tablets"})
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
    outcome = fetch(Wish(set_ids=(one, UNKNOWN)))
    assert [fetched.set_id for fetched in outcome.fetched] == [one]
    assert reasons(out) == {UNKNOWN: "not_found"}
    again = fetch(Wish(set_ids=(one,)))
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
    outcome = fetch(Wish(set_ids=(one, other)))
    assert [fetched.set_id for fetched in outcome.fetched] == [other]
    assert reasons(out) == {one: reason}
    assert [file.stem for file in (out / "labels").iterdir()] == [other]
    assert not outcome.stopped


def test_what_passes_is_tried_again(server: DailyMedServer, fetch: Fetch, one: str) -> None:
    faults = [
        Fault(status=503),
        Fault(cut=2000),
        Fault(status=429, headers={"Retry-After": "0"}),
        Fault(status=502),
    ]
    server.faults = lambda call: faults[call.attempt - 1] if one in call.path and call.attempt < 5 else None
    assert fetch(Wish(set_ids=(one,))).fetched[0].bytes == len(server.labels[one])


def test_an_error_page_that_is_gone_the_second_time(server: DailyMedServer, fetch: Fetch, one: str) -> None:
    server.faults = lambda call: Fault(body=b"<html>") if one in call.path and call.attempt == 1 else None
    assert fetch(Wish(set_ids=(one,))).fetched[0].set_id == one


def test_another_label_than_asked_for_is_refused(server: DailyMedServer, fetch: Fetch, out: Path, one: str) -> None:
    other = list(server.labels.values())[1]
    server.faults = lambda call: Fault(body=other) if one in call.path else None
    assert not fetch(Wish(set_ids=(one,))).fetched
    assert reasons(out) == {one: "wrong_label"}


def test_what_is_there_stays_when_the_newer_one_is_bad(
    server: DailyMedServer, fetch: Fetch, out: Path, one: str
) -> None:
    fetch(Wish(set_ids=(one,)))
    before = (out / f"labels/{one}.xml").read_bytes()
    server.labels[one] = before.replace(b'<versionNumber value="', b'<versionNumber value="9')
    server.faults = lambda call: Fault(body=b"<html>") if one in call.path else None
    [reject] = fetch(Wish(set_ids=(one,))).rejects
    assert (out / f"labels/{one}.xml").read_bytes() == before
    assert "kept" in reject.detail


def test_gzip_and_redirects_of_the_same_host_are_followed(server: DailyMedServer, fetch: Fetch, one: str) -> None:
    data = server.labels[one]

    def moved(call: Call) -> Fault | None:
        if call.name == "moved.xml":
            return Fault(body=gzip.compress(data), headers={"Content-Encoding": "gzip"})
        return Fault(status=301, headers={"Location": "moved.xml"}) if one in call.path else None

    server.faults = moved
    assert fetch(Wish(set_ids=(one,))).fetched[0].sha256 == sha256(data).hexdigest()


@pytest.mark.parametrize("fault", [Fault(endless=True), Fault(body=gzip.compress(b" " * (1 << 22)))])
def test_a_body_without_end_is_left(
    server: DailyMedServer, fetch: Fetch, out: Path, one: str, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fdarx_core.dailymed.single.MAX_DOCUMENT", 1 << 20)
    fault.headers = {} if fault.endless else {"Content-Encoding": "gzip"}
    server.faults = lambda call: fault if one in call.path else None
    fetch(Wish(set_ids=(one,)))
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
    fetch(Wish(set_ids=(one,)), timeout_s=0.1)
    assert reasons(out) == {one: reason}
