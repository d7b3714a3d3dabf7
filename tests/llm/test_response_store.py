"""Responses are read back as they were stored, whatever else the folder holds; the ledger counts them."""

from __future__ import annotations

import asyncio
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.llm import TRANSIENT, ModelConfig, Prices, ResponseStore, ledger
from fdarx_core.llm.asker import ResponseWriter
from fdarx_core.records import Response
from fdarx_core.storage import Location, StorageError


def response(number: int, task: str = "spell", text: str = "", reason: str = "") -> Response:
    return Response(f"{number:032x}", task, 1, "baseline", text or f"text {number}", reason, latency_s=0.25)


@pytest.fixture
def root(tmp_path: Path) -> Location:
    return Location(tmp_path / "responses")


def files(root: Location) -> list[Path]:
    return sorted(Path(str(root)).rglob("*.parquet"))


def test_an_empty_store_has_nothing(root: Location) -> None:
    assert ResponseStore(root).get(["a"]) == {}
    assert ResponseStore(root).index() == {}


def test_what_was_put_is_read_back(root: Location) -> None:
    rows = [response(number, task) for number in range(40) for task in ("spell",)] + [response(99, "count", "9 lives")]
    store = ResponseStore(root)
    store.put(rows[:20])
    store.put(rows[20:])
    wanted = {row.key: row for row in rows}
    assert store.get(wanted) == wanted
    assert ResponseStore(root).get(wanted) == wanted
    assert [file.parent.name for file in files(root)] == ["count", "spell", "spell"]


@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=20))
def test_any_text_comes_back(tmp_path_factory: pytest.TempPathFactory, texts: list[str]) -> None:
    root = Location(tmp_path_factory.mktemp("store"))
    rows = [Response(str(number), "t", 1, "e", text) for number, text in enumerate(texts)]
    ResponseStore(root).put(rows)
    assert list(ResponseStore(root).get(map(str, range(len(texts)))).values()) == sorted(rows, key=lambda row: row.key)


def test_transient_failures_are_not_kept_but_final_ones_are(root: Location) -> None:
    rows = [response(1, reason=f"{TRANSIENT}timeout"), response(2, reason="baseline_error"), response(3)]
    ResponseStore(root).put(rows)
    assert sorted(ResponseStore(root).index()) == [rows[1].key, rows[2].key]


def test_the_same_batch_is_the_same_file(root: Location) -> None:
    rows = [response(number) for number in range(5)]
    ResponseStore(root).put(rows)
    [file] = files(root)
    before = file.read_bytes()
    ResponseStore(root).put(reversed(rows))
    assert files(root) == [file]
    assert file.read_bytes() == before


def test_of_two_answers_to_one_request_all_processes_read_the_same(root: Location) -> None:
    ResponseStore(root).put([response(1, text="one"), response(2)])
    ResponseStore(root).put([response(1, text="another"), response(3)])
    key = response(1).key
    first = files(root)[0]
    assert ResponseStore(root).get([key])[key].text == pq.read_table(first).to_pylist()[0]["text"]


def test_files_that_are_no_segments_are_named_and_left_alone(root: Location) -> None:
    ResponseStore(root).put([response(1)])
    folder = Path(str(root)) / "spell"
    (folder / "notes.txt").write_text("mine")
    (folder / "empty.parquet").write_bytes(b"")
    (folder / "noise.parquet").write_bytes(b"PAR1 nothing of the kind PAR1")
    pq.write_table(pa.table({"name": ["a"]}), folder / "foreign.parquet")
    store = ResponseStore(root)
    assert list(store.index()) == [response(1).key]
    assert sorted(store.ignored) == [
        f"spell/{name}" for name in ("empty.parquet", "foreign.parquet", "noise.parquet", "notes.txt")
    ]
    assert all(store.ignored.values())
    assert (folder / "noise.parquet").exists()


def test_a_segment_torn_at_any_byte_is_asked_again_and_mended(root: Location) -> None:
    rows = [response(number, text="word " * 50) for number in range(30)]
    ResponseStore(root).put(rows)
    [file] = files(root)
    whole = file.read_bytes()
    for length in range(0, len(whole), 97):
        file.write_bytes(whole[:length])
        store = ResponseStore(root)
        assert store.get([rows[0].key]) == {}
        assert store.ignored
    file.write_bytes(whole[:100])
    store = ResponseStore(root)
    store.index()
    store.put(rows)
    assert len(ResponseStore(root).get(row.key for row in rows)) == 30


def test_a_segment_damaged_inside_is_not_there(root: Location) -> None:
    ResponseStore(root).put([response(number, text=f"{number} words " * 50) for number in range(30)])
    [file] = files(root)
    whole = bytearray(file.read_bytes())
    column = pq.ParquetFile(file).metadata.row_group(0).column(4)
    start = column.dictionary_page_offset or column.data_page_offset
    whole[start : start + 60] = bytes(60)
    file.write_bytes(whole)
    store = ResponseStore(root)
    assert len(store.index()) == 30
    assert store.get([response(3).key]) == {}
    assert list(store.ignored) == [f"spell/{file.name}"]


def test_a_parquet_file_with_our_keys_but_other_columns_is_not_there(root: Location) -> None:
    folder = Path(str(root)) / "spell"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"key": [response(1).key]}), folder / "foreign.parquet")
    assert ResponseStore(root).get([response(1).key]) == {}


def test_a_store_travels_with_its_index(root: Location) -> None:
    ResponseStore(root).put([response(1)])
    store = ResponseStore(root)
    store.index()
    sent = pickle.loads(pickle.dumps(store))
    ResponseStore(root).put([response(2)])
    assert sent.get([response(1).key, response(2).key]) == {response(1).key: response(1)}


def test_many_segments_are_read_back_through_the_few_kept(root: Location) -> None:
    store = ResponseStore(root)
    rows = [response(number) for number in range(30)]
    for row in rows:
        store.put([row])
    fresh = ResponseStore(root)
    assert [fresh.get([row.key]) for row in rows * 2] == [{row.key: row} for row in rows * 2]


def test_a_place_that_can_not_be_reached_stops_the_run(root: Location) -> None:
    ResponseStore(root).put([response(1)])
    store = ResponseStore(root)
    store.index()
    files(root)[0].unlink()
    with pytest.raises(StorageError, match="spell"):
        store.get([response(1).key])


def segment_response(number: int) -> Response:
    return Response(f"{number:032x}", "spell", 1, "m", f"text {number}")


def test_flushing_waits_only_for_what_was_added_before(tmp_path: Path) -> None:
    async def run() -> int:
        store = ResponseStore(Location(tmp_path))
        writer = ResponseWriter(store)
        await writer.open()

        async def add_for_ever() -> None:
            for number in range(10**9):
                writer.add(segment_response(number))
                await asyncio.sleep(0.001)

        adding = asyncio.create_task(add_for_ever())
        await asyncio.sleep(0.01)
        for _ in range(3):
            last = len(store.index())
            await asyncio.wait_for(writer.flush(), 30)
            assert len(store.index()) > last
        adding.cancel()
        await writer.flush()
        writer.close()
        return len(store.index())

    assert asyncio.run(run()) == len(ResponseStore(Location(tmp_path)).index())


def test_all_is_readable_before_it_is_written_and_written_without_flushing(tmp_path: Path) -> None:
    async def run() -> None:
        store = ResponseStore(Location(tmp_path))
        writer = ResponseWriter(store)
        await writer.open()
        for number in range(300):
            writer.add(segment_response(number))
        keys = [segment_response(number).key for number in range(300)]
        assert await writer.held(keys) == set(keys)
        assert await writer.read([segment_response(299).key]) == {segment_response(299).key: segment_response(299)}
        while len(store.index()) < 300:
            await asyncio.sleep(0.01)
        assert await writer.read([segment_response(299).key]) == {segment_response(299).key: segment_response(299)}
        writer.close()

    asyncio.run(asyncio.wait_for(run(), 30))


def test_a_failed_write_is_heard_of(tmp_path: Path) -> None:
    (tmp_path / "spell").write_text("a file where a folder is to be")

    async def run() -> None:
        writer = ResponseWriter(ResponseStore(Location(tmp_path)))
        await writer.open()
        with pytest.raises(StorageError):
            for number in range(3000):
                writer.add(segment_response(number))
                await asyncio.sleep(0.01)
        with pytest.raises(StorageError):
            await writer.flush()
        writer.close()

    asyncio.run(run())


def ledger_response(key: str, written: int) -> Response:
    return Response(key, "t", 1, "m", "yes", "", "stop", 1000, 10, 0.5, 100, 2, written)


def test_tokens_written_to_a_cache_are_paid_for(tmp_path: Path) -> None:
    store = ResponseStore(Location(tmp_path))
    store.put([ledger_response("a", 0)])
    store.put([ledger_response("b", 800)])
    model = ModelConfig(
        name="m", model="m", base_url="http://localhost", prices=Prices(input=10, cache_write=20, output=0)
    )
    [row] = ledger(ResponseStore(store.root), {"m": model})
    assert (row["requests"], row["retries"]) == (2, 2)
    assert row["cost"] == pytest.approx(2000 * 10e-6 + 800 * 10e-6)
