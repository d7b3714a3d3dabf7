"""Writing an index, and damage to its files."""

from __future__ import annotations

import json
import pickle
import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import orjson
import pytest

from fdarx_core.records import Chunk
from fdarx_core.retrieval.encoders import EncoderInfo, WindowVectors
from fdarx_core.retrieval.index import IndexDamaged, IndexReader, IndexStore, Manifest
from fdarx_core.retrieval.index import store as store_module
from fdarx_core.retrieval.index.segments import document_digest, group_by_document
from fdarx_core.storage import Location, StorageError, run_lock
from fdarx_core.storage.run_lock import folder_lock
from tests.retrieval.index_chunks import ENCODER, document, embed, label, single_windows
from tests.retrieval.index_writer import run_writers

FIRST = [*document("a", ["renal dose", "liver"]), *document("b", ["heart failure"])]


def add(store: IndexStore, chunks: list[Chunk], chunking: dict[str, int] | None = None) -> Manifest:
    """Add documents as a build does: only missing chunks are embedded and written."""
    base = store.current()
    digests = {id: entry.digest for id, entry in base.entries.items()} if base else {}
    documents = [one for one in group_by_document(chunks) if digests.get(one[0].document_id) != document_digest(one)]
    new = [chunk for one in documents for chunk in one]
    names = [store.write_segment(new, embed(new), ENCODER)] if new else []
    return store.commit(names, inputs={chunk.document_id: chunk.source for chunk in chunks}, chunking=chunking)


def files(folder: Path) -> dict[str, bytes]:
    return {str(one.relative_to(folder)): one.read_bytes() for one in folder.rglob("*") if one.is_file()}


def texts(index: IndexReader) -> list[str]:
    return [index.chunk(position).text for position in range(len(index))]


def test_adding_a_document_writes_its_chunks_alone(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    assert store.current() is None
    first = add(store, FIRST)
    assert (first.chunks, first.documents, first.encoder, first.parent) == (3, 2, ENCODER, "")
    before = files(tmp_path)
    more = document("c", ["skin", "eye"])
    second = add(store, [*FIRST, *more])
    assert second.version.startswith("0002-")
    assert second.parent == first.version
    changed = {name for name, data in files(tmp_path).items() if before.get(name) != data}
    folder = f"segments/{second.segments[1].name}"
    new = {f"{folder}/{name}" for name in ("chunks.parquet", "windows.parquet", "vectors.parquet", "segment.json")}
    assert changed == {"index.json", f"versions/{second.version}.json"} | new
    assert texts(IndexReader.open(str(tmp_path))) == ["renal dose", "liver", "heart failure", "skin", "eye"]


def test_the_same_build_again_makes_no_version_and_elsewhere_the_same_segments(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path / "one"))
    first = add(store, FIRST)
    before = files(tmp_path / "one")
    assert add(store, FIRST).version == first.version
    name = store.write_segment(FIRST, embed(FIRST), ENCODER)
    assert store.commit([name]).version == first.version
    assert files(tmp_path / "one") == before
    add(IndexStore(str(tmp_path / "two")), FIRST)
    segments = {name: data for name, data in before.items() if name.startswith("segments")}
    assert {name: data for name, data in files(tmp_path / "two").items() if name.startswith("segments")} == segments


def test_a_changed_file_replaces_its_document_and_leaves_the_others(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    add(store, FIRST)
    changed = document("a2", ["renal dose halved"], source="a.txt")
    manifest = add(store, changed)
    assert sorted(manifest.entries) == ["a2", "b"]
    index = IndexReader.open(str(tmp_path))
    assert texts(index) == ["heart failure", "renal dose halved"]
    assert index.search(["liver"], 5) == [[]]
    [[(position, score)]] = index.search([""], 1, retriever="cosine", vectors=embed(changed).rows)
    assert index.chunk(position) == changed[0]
    assert score == pytest.approx(1)


def test_documents_that_left_a_file_of_many_go_and_those_still_in_it_stay(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    rows = {id: document(id, [f"text of {id}"], source="rows.jsonl") for id in "abcd"}
    add(store, [*rows["a"], *rows["b"], *document("x", ["other"])])
    assert sorted(add(store, [*rows["b"], *rows["c"]]).entries) == ["b", "c", "x"]
    copied = document("b", ["text of b"], source="copy.txt")
    assert sorted(add(store, copied).entries) == ["b", "c", "x"]


def test_a_label_is_replaced_by_its_set_id_alone(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    add(store, label("s1", "Aspirin", [("1 USES", "pain")]))
    add(store, label("s2", "Ibuprofen", [("1 USES", "fever")]))
    assert store.current().documents == 2  # type: ignore[union-attr]
    add(store, label("s1", "Aspirin", [("1 USES", "pain and fever")]))
    assert texts(IndexReader.open(str(tmp_path))) == ["fever", "pain and fever"]


def test_removing(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    add(store, FIRST)
    manifest = store.commit([], remove=["a", "unknown"])
    assert texts(IndexReader.open(str(tmp_path))) == ["heart failure"]
    assert store.commit([], remove=["a"]).version == manifest.version
    store.commit([], remove=["b"])
    empty = IndexReader.open(str(tmp_path))
    assert len(empty) == 0
    assert empty.search(["heart"], 3) == [[]]
    assert empty.names("", 5) == []


def test_a_pinned_version_stays_readable_while_newer_ones_land(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    first = add(store, FIRST)
    store.commit([], remove=["a"])
    assert len(IndexReader.open(str(tmp_path), version=first.version)) == 3
    with pytest.raises(StorageError, match=f"no version 0009-x; it has {first.version}, 0002-"):
        IndexReader.open(str(tmp_path), version="0009-x")


def test_no_index(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"has no index.json; make one: fdarx index"):
        IndexReader.open(str(tmp_path / "none"))
    with pytest.raises(ValueError, match="no document to index"):
        IndexStore(str(tmp_path)).commit([])


def test_a_writer_that_dies_before_the_pointer_leaves_the_old_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = IndexStore(str(tmp_path))
    first = add(store, FIRST)

    def die(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Location, "replace", die)
        add(store, document("c", ["skin"]))
    assert IndexReader.open(str(tmp_path)).version == first.version
    assert add(store, document("c", ["skin"])).documents == 3


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    """Each has a store of its own, as processes have; a lock is held by an open file, so threads vie for it alike."""
    start = threading.Barrier(6)

    def write(number: int) -> None:
        store = pickle.loads(pickle.dumps(IndexStore(str(tmp_path))))
        chunks = document(f"d{number}", [f"word{number}"])
        name = store.write_segment(chunks, embed(chunks), ENCODER)
        start.wait()
        store.commit([name])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    manifest = IndexStore(str(tmp_path)).current()
    assert manifest is not None
    assert sorted(manifest.entries) == [f"d{number}" for number in range(6)]
    assert manifest.version.startswith("0006-")


def test_on_a_disk_a_writer_waits_for_the_one_before(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    first = add(store, FIRST)
    name = store.write_segment(document("c", ["skin"]), embed(document("c", ["skin"])), ENCODER)
    waiting = threading.Thread(target=store.commit, args=([name],))
    with folder_lock(store.place):
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        assert IndexReader.open(str(tmp_path)).version == first.version
    waiting.join()
    assert IndexReader.open(str(tmp_path)).manifest.documents == 3


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    run_writers(str(tmp_path), 2)


def test_without_locks_processes_take_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on S3 or on a file system without locks: by claims in the folder, also where a process died with one."""
    monkeypatch.setattr(run_lock, "_flock", lambda stream, wait: False)
    monkeypatch.setattr(run_lock, "HEARTBEAT_S", 0.2)
    monkeypatch.setattr(run_lock, "HEARTBEAT_TIMEOUT_S", 4.0)
    (tmp_path / ".claims").mkdir(parents=True)
    (tmp_path / ".claims/dead.json").write_bytes(orjson.dumps({"token": "dead", "owner": "a", "number": 1}))
    held: list[int] = []

    def write(number: int) -> None:
        with folder_lock(Location(str(tmp_path))) as is_held:
            held.append(number)
            time.sleep(0.05)
            assert held[-1] == number and is_held()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(held) == [0, 1, 2, 3] and not list((tmp_path / ".claims").iterdir())


def test_a_writer_taken_for_dead_commits_again_with_what_it_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stands still before it writes the pointer, while two others commit, of whom one removes a document."""
    store = IndexStore(str(tmp_path))
    add(store, FIRST)
    write = Location.replace

    def overtaken(pointer: Location, data: bytes, tag: str) -> bool:
        monkeypatch.setattr(Location, "replace", write)
        add(store, document("c", ["skin"]))
        store.commit([], remove=["a"])
        return write(pointer, data, tag)

    monkeypatch.setattr(Location, "replace", overtaken)
    answers = iter([True, *[True] * 4, False])
    monkeypatch.setattr(store_module, "folder_lock", lambda place: nullcontext(lambda: next(answers, True)))
    manifest = add(store, document("d", ["eye"]))
    assert sorted(manifest.entries) == ["b", "c", "d"]
    assert IndexReader.open(str(tmp_path)).version == manifest.version


def test_another_encoder_is_refused_unless_all_is_given_again(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    add(store, FIRST)
    other = EncoderInfo("other", "beef", 8)
    more = document("c", ["skin"])
    name = store.write_segment(more, embed(more), other)
    with pytest.raises(StorageError, match="embedded with hashing, and is now to get some with other"):
        store.commit([name])
    with pytest.raises(StorageError, match="no embedding model"):
        store.commit([store.write_segment(more)])
    assert store.commit([store.write_segment(FIRST, embed(FIRST), other)]).encoder == other


def test_another_chunking_is_refused_unless_all_is_given_again(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    add(store, FIRST, {"size": 10})
    assert add(store, FIRST).chunking == {"size": 10}
    with pytest.raises(StorageError, match=r"2 documents cut with \{'size': 10\}.*cut with \{'size': 20\}"):
        add(store, document("c", ["skin"]), {"size": 20})
    again = [*document("a", ["renal dose liver"]), *document("b", ["heart failure indeed"])]
    assert add(store, again, {"size": 20}).chunking == {"size": 20}


def test_segments_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    store = IndexStore(str(tmp_path))
    vectors = embed(FIRST)
    with pytest.raises(ValueError, match="at least one chunk"):
        store.write_segment([])
    with pytest.raises(ValueError, match="together, or neither"):
        store.write_segment(FIRST, vectors)
    with pytest.raises(ValueError, match=r"3 chunks of 8 dimensions have vectors of \(2, 8\) for 2"):
        store.write_segment(FIRST, vectors.select(slice(2)), ENCODER)
    with pytest.raises(ValueError, match=r"3 chunks of 8 dimensions have vectors of \(3, 8\) for 3"):
        store.write_segment(FIRST, WindowVectors(vectors.rows, np.array([2, 0, 1])), ENCODER)
    with pytest.raises(ValueError, match="not numbers"):
        store.write_segment(FIRST, single_windows(vectors.rows * float("nan")), ENCODER)
    with pytest.raises(ValueError, match="document a comes twice"):
        store.write_segment([FIRST[0], FIRST[2], FIRST[1]])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StorageError, match=r"segment.json is missing"):
        store.commit(["nothere"])


CHUNKS = [chunk for at in range(50) for chunk in document(f"d{at}", [f"text {at}"])]


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    store = IndexStore(str(tmp_path))
    return store.commit([store.write_segment(CHUNKS, embed(CHUNKS), ENCODER)])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-7])


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize("harm", [flip, cut, empty, Path.unlink])
@pytest.mark.parametrize("name", ["chunks.parquet", "vectors.parquet", "0001-*.json"])
def test_any_file_but_the_pointer(tmp_path: Path, manifest: Manifest, name: str, harm: Callable[[Path], None]) -> None:
    [file] = tmp_path.rglob(name)
    harm(file)
    with pytest.raises(IndexDamaged) as caught:
        IndexReader.open(str(tmp_path))
    assert str(file) in str(caught.value)
    assert "delete the index and build it again: fdarx index" in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy)) == (IndexDamaged, str(caught.value))


@pytest.mark.parametrize("harm", [flip, cut, empty, Path.unlink])
@pytest.mark.parametrize("name", ["vectors.parquet", "windows.parquet"])
def test_vectors_of_an_index_that_is_searched_exactly(tmp_path: Path, name: str, harm: Callable[[Path], None]) -> None:
    store = IndexStore(str(tmp_path))
    store.commit([store.write_segment(CHUNKS, embed(CHUNKS), ENCODER)])
    [file] = tmp_path.rglob(name)
    harm(file)
    with pytest.raises(IndexDamaged, match=name):
        IndexReader.open(str(tmp_path))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "can't be read"),
        (b"[]", "can't be read"),
        (b"{}", "can't be read"),
        (b'{"version": "0007-none"}', "0007-none.json is missing"),
    ],
)
def test_the_pointer(tmp_path: Path, manifest: Manifest, content: bytes, said: str) -> None:
    (tmp_path / "index.json").write_bytes(content)
    with pytest.raises(IndexDamaged, match=said):
        IndexReader.open(str(tmp_path))
    assert len(IndexReader.open(str(tmp_path), version=manifest.version)) == 50


def test_a_version_that_someone_edited(tmp_path: Path, manifest: Manifest) -> None:
    file = tmp_path / f"versions/{manifest.version}.json"
    file.write_text(file.read_text().replace(manifest.created, "1999-12-31"))
    with pytest.raises(IndexDamaged, match="other content than was written"):
        IndexReader.open(str(tmp_path))


def test_a_newer_format(tmp_path: Path, manifest: Manifest) -> None:
    file = tmp_path / f"versions/{manifest.version}.json"
    file.write_bytes(orjson.dumps({**json.loads(file.read_bytes()), "format": 99}))
    with pytest.raises(IndexDamaged, match="another format; update fdarx"):
        IndexReader.open(str(tmp_path))


def test_a_damaged_segment_is_written_anew_and_its_listing_is_checked(tmp_path: Path, manifest: Manifest) -> None:
    [file] = tmp_path.rglob("vectors.parquet")
    data = file.read_bytes()
    cut(file)
    name = IndexStore(str(tmp_path)).write_segment(CHUNKS, embed(CHUNKS), ENCODER)
    assert name == manifest.segments[0].name
    assert file.read_bytes() == data
    (file.parent / "segment.json").write_bytes(b'{"segment": {}}')
    with pytest.raises(IndexDamaged, match=r"segment.json can't be read"):
        IndexStore(str(tmp_path)).commit([name])


def test_a_missing_place_is_no_damage(tmp_path: Path) -> None:
    (tmp_path / "index.json").mkdir()
    with pytest.raises(StorageError) as caught:
        IndexReader.open(str(tmp_path))
    assert not isinstance(caught.value, IndexDamaged)
