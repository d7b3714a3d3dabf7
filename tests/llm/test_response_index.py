"""Key files: a store has the same responses with them, without them, with damaged ones, and while others write."""

from __future__ import annotations

import logging
import pickle
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdarx_core.llm import ResponseStore, ledger
from fdarx_core.llm.response_index import KeyTable, merge_usage, open_key_file, write_key_file
from fdarx_core.records import Response
from fdarx_core.storage import Location, StorageError, read_table
from fdarx_core.storage.s3_client import client

SEGMENTS, ROWS = 18, 5
"""Enough segments for a key file."""


def key(number: int) -> str:
    return f"{number * 0x9E3779B97F4A7C15 % 2**64:032x}"


def response(number: int, *, task: str = "spell", text: str = "") -> Response:
    return Response(
        key(number), task, 1, "m", text or f"text {number}", "", "stop", 100, 10, 0.25 + number % 7, 40, 2, 3
    )


def fill(root: Location, numbers: range = range(SEGMENTS * ROWS)) -> dict[str, Response]:
    """Store responses in segments of a few rows; return them by key."""
    rows = [response(number) for number in numbers]
    for start in range(0, len(rows), ROWS):
        ResponseStore(root).put(rows[start : start + ROWS])
    return {row.key: row for row in rows}


@pytest.fixture
def root(tmp_path: Path) -> Location:
    return Location(tmp_path / "responses")


def key_files(root: Location) -> list[Path]:
    return sorted((Path(root.address) / ".index").glob("*.parquet"))


def compacted(root: Location) -> ResponseStore:
    store = ResponseStore(root)
    store.compact()
    return store


def assert_same(root: Location, wanted: dict[str, Response]) -> None:
    """A new process finds just these responses."""
    store = ResponseStore(root)
    assert store.get([*wanted, key(10**9), "not a hash"]) == wanted
    assert dict(store.index()).keys() == wanted.keys()


def test_the_index_of_an_old_store_is_written_once_and_no_segment_is_changed(root: Location) -> None:
    wanted = fill(root)
    assert_same(root, wanted)
    assert not key_files(root)
    before = {file: file.read_bytes() for file in root.list(recursive=True)}
    compacted(root)
    [file] = key_files(root)
    content = file.read_bytes()
    compacted(root)
    assert key_files(root) == [file]
    assert file.read_bytes() == content
    assert {file: file.read_bytes() for file in root.list(recursive=True)} == before
    assert_same(root, wanted)


def test_a_small_store_needs_no_index(root: Location) -> None:
    wanted = fill(root, range(3 * ROWS))
    compacted(root)
    assert not key_files(root)
    assert_same(root, wanted)


def test_segments_with_a_key_file_are_not_opened_to_find_what_is_missing(root: Location) -> None:
    wanted = fill(root)
    compacted(root)
    for file in root.list(recursive=True):
        file.write_bytes(b"")  # only their names are left
    store = ResponseStore(root)
    assert store.find([*wanted, key(-1)]).keys() == wanted.keys()
    assert store.ignored == {}


def test_segments_that_were_written_later_are_found_too(root: Location) -> None:
    wanted = fill(root)
    compacted(root)
    wanted |= fill(root, range(10_000, 10_000 + 2 * ROWS))
    assert_same(root, wanted)
    for begin in range(20_000, 50_000, 10_000):
        wanted |= fill(root, range(begin, begin + 17 * ROWS))
        compacted(root)
        assert_same(root, wanted)


def test_key_files_are_merged_and_those_that_were_merged_go_later(root: Location) -> None:
    wanted = fill(root)
    compacted(root)
    [first] = key_files(root)
    reader = pickle.loads(pickle.dumps(compacted(root)))
    wanted |= fill(root, range(1000, 1000 + SEGMENTS * ROWS))
    compacted(root)
    assert len(key_files(root)) == 2
    assert first in key_files(root)  # another process may be about to open it
    ResponseStore(root).compact(prune=True)
    [merged] = key_files(root)
    assert merged != first
    assert_same(root, wanted)
    open_key_file.cache_clear()  # as in another process
    assert reader.get(wanted) == wanted  # it finds its key file gone, and reads the index anew


def test_a_big_key_file_is_not_written_again_for_a_few_segments(root: Location) -> None:
    ResponseStore(root).put([response(number) for number in range(5000)])
    compacted(root)
    [big] = key_files(root)
    fill(root, range(10_000, 10_000 + SEGMENTS * ROWS))
    ResponseStore(root).compact(prune=True)
    ResponseStore(root).compact(prune=True)
    assert big in key_files(root)
    assert len(key_files(root)) == 2


@pytest.mark.parametrize("place", ["first entries", "last entries", "footer", "cut short", "empty"])
def test_a_damaged_key_file_is_set_aside_and_replaced(
    root: Location, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [response(number) for number in range(5000)]
    wanted = fill(root, range(5000, 5000 + 2 * ROWS)) | {row.key: row for row in rows}
    ResponseStore(root).put(rows)
    carried = pickle.loads(pickle.dumps(compacted(root)))
    [file] = key_files(root)
    whole = file.read_bytes()
    entries = 12 * len(wanted)
    at = {"first entries": 100, "last entries": entries - 50, "footer": len(whole) - 8}.get(place)
    if at is None:
        file.write_bytes(whole[: len(whole) // 2 if place == "cut short" else 0])
    else:
        file.write_bytes(whole[:at] + bytes(byte ^ 0xFF for byte in whole[at : at + 8]) + whole[at + 8 :])
    open_key_file.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert carried.get(wanted) == wanted
    assert list(carried.ignored) == [f".index/{file.name}"]
    assert file.name in caplog.text
    assert_same(root, wanted)
    ResponseStore(root).compact(prune=True)
    ResponseStore(root).compact(prune=True)
    assert_same(root, wanted)
    assert ResponseStore(root).ignored == {}
    assert [one.read_bytes() for one in key_files(root)] == [whole]


def test_a_damaged_segment_of_the_index_is_asked_again_and_then_found(root: Location) -> None:
    wanted = fill(root)
    compacted(root)
    damaged = next(file for file in root.list(recursive=True))
    lost = [row.key for row in wanted.values() if row.key not in without(root, damaged, wanted)]
    assert len(lost) == ROWS
    again = [response(number, text="asked again") for number in range(SEGMENTS * ROWS) if key(number) in lost]
    ResponseStore(root).put([*again, response(10**6)])
    found = ResponseStore(root).get(wanted)
    assert found == wanted | {row.key: row for row in again}


def without(root: Location, segment: Location, wanted: dict[str, Response]) -> dict[str, Response]:
    """Damage a segment; return what is still found of the responses."""
    segment.write_bytes(segment.read_bytes()[:-20])
    store = ResponseStore(root)
    found = store.get(wanted)
    assert list(store.ignored) == [str(segment).removeprefix(f"{root}/")]
    return found


def test_a_segment_that_was_deleted_is_asked_again(root: Location) -> None:
    wanted = fill(root)
    compacted(root)
    gone = next(file for file in root.list(recursive=True))
    lost = set(read_table(gone)["key"].to_pylist())
    gone.delete()
    assert_same(root, {key: row for key, row in wanted.items() if key not in lost})


def test_processes_that_write_and_compact_at_once_lose_nothing(root: Location) -> None:
    def work(begin: int) -> dict[str, Response]:
        wanted: dict[str, Response] = {}
        for step in range(2):
            start = begin + step * 1000
            wanted |= fill(root, range(start, start + SEGMENTS * ROWS))
            ResponseStore(root).compact(prune=step == 1)
            store = ResponseStore(root)
            assert store.get(wanted) == wanted
        return wanted

    with ThreadPoolExecutor(3) as workers:
        made = list(workers.map(work, range(0, 300_000, 100_000)))
    wanted = {key: row for part in made for key, row in part.items()}
    assert_same(root, wanted)
    assert ledger(ResponseStore(root), {})[0]["requests"] == len(wanted)


def test_keys_of_one_store_that_agree_in_their_last_digits_are_told_apart(root: Location) -> None:
    wanted = fill(root)
    twins = [Response(f"{number:016x}{key(number)[16:]}", "spell", 1, "m", "a twin") for number in range(1, 9)]
    ResponseStore(root).put(twins)
    compacted(root)
    assert_same(root, wanted | {row.key: row for row in twins})
    assert ResponseStore(root).get([f"{99:016x}{key(3)[16:]}"]) == {}


@settings(max_examples=10)
@given(
    keys=st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40), unique=True, max_size=30)
)
def test_keys_of_any_form_are_found(tmp_path_factory: pytest.TempPathFactory, keys: Sequence[str]) -> None:
    root = Location(tmp_path_factory.mktemp("store"))
    listed = [*keys, *(key(number) for number in range(4200)), *(f"{number:x}" for number in range(20))]
    rows = [Response(one, "t", 1, "e", one) for one in dict.fromkeys(listed)]
    ResponseStore(root).put(rows)
    compacted(root)
    assert key_files(root)
    assert ResponseStore(root).get(listed) == {row.key: row for row in rows}


@settings(max_examples=20)
@given(data=st.data())
def test_a_file_finds_what_a_table_in_memory_finds(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    near = st.integers(0, 40) | st.integers(2**63, 2**63 + 40) | st.integers(2**64 - 40, 2**64 - 1)
    keys = st.lists(near | st.integers(0, 2**64 - 1), min_size=1, max_size=200)
    segments = [(f"t/{name}.parquet", np.array(data.draw(keys), np.uint64)) for name in "abc"]
    table = KeyTable.of(segments, merge_usage([]))
    written = write_key_file(Location(tmp_path_factory.mktemp("index")), [table])
    read = open_key_file(written.location)
    wanted = np.array(sorted({*data.draw(keys), *table.keys.tolist()}), np.uint64)
    found = [sorted(source.find(wanted)) for source in (table, written, read)]
    assert found[0] == found[1] == found[2]


def test_a_pickled_store_is_small_and_carries_its_key_files(root: Location) -> None:
    wanted = fill(root)
    rows = [response(number) for number in range(10**6, 10**6 + 20_000)]
    ResponseStore(root).put(rows)
    wanted |= {row.key: row for row in rows}
    unindexed = ResponseStore(root)
    unindexed.index()
    writing = ResponseStore(root)
    writing.put(rows)
    assert len(pickle.dumps(unindexed)) + len(pickle.dumps(writing)) < 2000
    pickled = pickle.dumps(compacted(root))
    assert len(pickled) < 1000
    shutil.rmtree(Path(root.address) / "spell")  # a worker lists no folder, so it does not see this
    assert pickle.loads(pickled).find(wanted).keys() == wanted.keys()


def test_a_writer_of_many_responses_forgets_the_keys_that_it_has_indexed(
    root: Location, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fdarx_core.llm.response_store._MOST_OWN", 300)
    store = ResponseStore(root)
    rows = [response(number) for number in range(700)]
    for start in range(0, len(rows), 10):
        store.put(rows[start : start + 10])
        assert store.find([row.key for row in rows]).keys() == {row.key for row in rows[: start + 10]}
    assert key_files(root)
    assert len(store._own) <= 310
    assert_same(root, {row.key: row for row in rows})


def test_the_ledger_is_the_same_with_and_without_an_index(root: Location) -> None:
    fill(root)
    ResponseStore(root).put(
        [response(7_000 + number, task="count") for number in range(30)]
        + [Response(key(8_000), "spell", 1, "m", "", "baseline_error")]
    )
    other = Location(f"{root}-other")
    fill(other, range(50_000, 50_000 + 3 * ROWS))
    ResponseStore(root).take_over(ResponseStore(other))
    rows = ledger(ResponseStore(root), {})
    assert ledger(compacted(root), {}) == rows
    assert ledger(ResponseStore(root), {}) == rows
    count, spell = rows
    assert (count["task"], count["requests"], count["retries"], count["failed"]) == ("count", 30, 30, 0)
    assert (spell["requests"], spell["failed"], spell["prompt_tokens"]) == (91, 1, 9_000)  # without the other store's
    latencies = [row.latency_s for row in map(response, range(SEGMENTS * ROWS))] + [0.0]
    assert spell["latency_p50"] == pytest.approx(np.quantile(latencies, 0.5), abs=0.001)
    assert spell["latency_p95"] == pytest.approx(np.quantile(latencies, 0.95), rel=0.005)


def test_segments_that_were_taken_over_are_copied_once(root: Location) -> None:
    other = Location(f"{root}-other")
    wanted = fill(other)
    compacted(other)
    store = ResponseStore(root)
    store.take_over(ResponseStore(other))
    copies = root.list(recursive=True)
    copies[0].write_bytes(b"mine")
    ResponseStore(root).take_over(ResponseStore(other))
    assert copies[0].read_bytes() == b"mine"
    assert len(ResponseStore(root).get(wanted)) == len(wanted) - ROWS


@pytest.mark.s3
def test_on_s3_a_worker_reads_key_files_and_lists_nothing(bucket: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    root = bucket / "run" / "responses"
    wanted = {row.key: row for row in (response(number) for number in range(30_000))}
    rows = list(wanted.values())
    for start in range(0, len(rows), 1500):
        ResponseStore(root).put(rows[start : start + 1500])
    assert len(ResponseStore(root).get(list(wanted)[:50])) == 50  # without an index
    pickled = pickle.dumps(compacted(root))
    requested: list[str] = []
    client().meta.events.register("before-send.s3", lambda request, **_: requested.append(request.method + request.url))
    some = [row.key for row in rows[3000:3010]]
    store = pickle.loads(pickled)
    assert store.get(some) == {one: wanted[one] for one in some}
    assert not [one for one in requested if "list-type" in one]
    assert len([one for one in requested if one.startswith("GET")]) <= 2 + 2  # key file, segment
    store.put([response(10**7)])
    [key_file] = (root / ".index").list()
    key_file.delete()
    assert ResponseStore(root).get([*some, key(10**7)]).keys() == {*some, key(10**7)}
    with pytest.raises(StorageError):
        ResponseStore(Location("s3://no-such-bucket-here/responses")).find(some)
