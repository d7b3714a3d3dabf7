"""What the service lists is read, whatever it sends, and all pages of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdarx_core.dailymed import Client, Site, is_set_id
from fdarx_core.dailymed.listing import Found, day, list_labels, read_listing
from fdarx_core.dailymed.refusals import Refused, Trouble
from tests.dailymed.dailymed_server import Call, DailyMedServer, Fault
from tests.labels.spl import FIELDS, SET_ID, document

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


@settings(max_examples=60)
@given(
    st.binary(max_size=60)
    | st.builds(lambda data, about: orjson.dumps({"data": data, "metadata": about}), *2 * [ANY_JSON])
)
def test_anything_is_read_or_refused(data: bytes) -> None:
    try:
        read_listing(data)
    except Trouble as trouble:
        assert trouble.reason == "not_a_listing"


@settings(max_examples=40)
@given(ROWS, st.integers(0, 10**6), st.booleans())
def test_every_row_is_a_label_or_a_bad_id(rows: list[dict[str, Any]], total: int, as_text: bool) -> None:
    count = str(total) if as_text else total
    listing = read_listing(orjson.dumps({"data": rows, "metadata": {"total_elements": count, "total_pages": count}}))
    assert (listing.total, listing.pages) == (total, total)
    assert len(listing.labels) + len(listing.bad_ids) == len(rows)
    assert all(is_set_id(one.set_id) and one.version >= 0 for one in listing.labels)


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
    assert day(text) == date


def many(number: int) -> list[bytes]:
    fields = (FIELDS.replace(SET_ID, f"0a1b2c3d-0000-4000-8000-{index:012}") for index in range(number))
    return [document(fields=one).encode() for one in fields]


def found(server: DailyMedServer, query: Mapping[str, str], limit: int | None = None) -> Found:
    async def ask() -> Found:
        async with Client(Site(server.url), "fdarx tests", rate=1000) as client:
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
    assert [reject.reason for reject in listed.rejects] == ["listing_incomplete"]
    assert len(service.calls) == 6


def test_a_set_id_that_is_a_path_is_never_asked_for(service: DailyMedServer) -> None:
    rows = [{"setid": "../../etc/passwd"}, {"setid": SET_ID.upper()}]
    service.faults = changed({"data": rows, "metadata": {"total_elements": 2, "total_pages": 1}})
    listed = found(service, {"labeler": "x"})
    assert list(listed.labels) == [SET_ID]
    assert [(reject.id, reject.reason) for reject in listed.rejects] == [("../../etc/passwd", "bad_set_id")]


def test_nothing_that_matches_is_told(service: DailyMedServer) -> None:
    [reject] = found(service, {"drug_name": "no such drug"}).rejects
    assert (reject.id, reject.reason) == ("drug_name=no+such+drug", "no_match")


def test_a_page_that_is_no_list_is_asked_for_twice(service: DailyMedServer) -> None:
    service.faults = lambda call: Fault(body=b"<html>maintenance</html>")
    with pytest.raises(Refused, match="not_a_listing"):
        found(service, {"drug_name": "invented"})
    assert len(service.calls) == 2
