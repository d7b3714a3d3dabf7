"""An index on a real S3 server."""

from __future__ import annotations

import threading
import time
from uuid import uuid4

import pytest

from fdarx_core.retrieval.index import IndexDamaged, IndexReader, IndexStore
from fdarx_core.storage import Location, StorageError
from tests.retrieval.index_chunks import ENCODER, document, embed
from tests.retrieval.index_writer import run_writers

pytestmark = pytest.mark.s3


def test_building_adding_reading_and_damage(bucket: Location) -> None:
    place = bucket / uuid4().hex
    with pytest.raises(StorageError):
        IndexReader.open(place)
    store = IndexStore(place)
    first = document("a", ["renal dose", "liver"])
    old = store.commit([store.write_segment(first, embed(first), ENCODER)])
    more = document("b", ["heart"])
    store.commit([store.write_segment(more, embed(more), ENCODER)])
    index = IndexReader.open(str(place))
    assert [index.chunk(at) for at in range(3)] == [*first, *more]
    [[(position, _)]] = index.search(["heart"], 1, retriever="hybrid", vectors=embed(more).rows)
    assert position == 2
    assert len(IndexReader.open(place, version=old.version)) == 2
    (place / f"segments/{old.segments[0].name}/vectors.parquet").delete()
    with pytest.raises(IndexDamaged, match=r"vectors.parquet is missing"):
        IndexReader.open(place)


def test_writers_at_once_lose_nothing(bucket: Location) -> None:
    place = bucket / uuid4().hex
    start = threading.Barrier(3)

    def write(number: int) -> None:
        store = IndexStore(place)
        chunks = document(f"d{number}", [f"word{number}"])
        name = store.write_segment(chunks, embed(chunks), ENCODER)
        start.wait()
        store.commit([name])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    manifest = IndexStore(place).current()
    assert manifest is not None
    assert sorted(manifest.entries) == ["d0", "d1", "d2"]


@pytest.mark.nightly  # threads, and processes on a disk, show the same
def test_processes_that_write_at_once_lose_nothing(bucket: Location) -> None:
    run_writers(str(bucket / uuid4().hex), 3)


def test_a_pointer_that_another_has_replaced_is_not_written(bucket: Location) -> None:
    """Swift checks that an object is new, but not that it is an old one: there only the lock helps."""
    file = bucket / uuid4().hex
    assert file.tag() == "" and file.replace(b"one", "")
    assert not file.replace(b"two", "")
    assert file.read_bytes() == b"one" and file.tag()
    assert file.replace(b"three", file.tag()) and file.read_bytes() == b"three"


def test_the_pointer_can_be_read_while_it_is_replaced(bucket: Location) -> None:
    store = IndexStore(bucket / uuid4().hex)
    chunks = document("a", ["renal dose"])
    manifest = store.commit([store.write_segment(chunks, embed(chunks), ENCODER)])
    pointer = store.place / "index.json"
    data = pointer.read_bytes()

    def replace() -> None:
        for spaces in range(8):
            pointer.write_bytes(data + b" " * spaces)
            time.sleep(0.1)

    writing = threading.Thread(target=replace)
    writing.start()
    while writing.is_alive():
        assert store.current() == manifest
    writing.join()
