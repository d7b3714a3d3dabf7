"""A file of an index that is gone or is not what was written is named, whatever it is."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from fdarx_core.retrieval.index import Index, IndexDamaged, IndexStore, Manifest
from fdarx_core.retrieval.index.kinds import Limits
from fdarx_core.storage import StorageError
from tests.retrieval.index_chunks import ENCODER, document, embed

CHUNKS = [chunk for at in range(50) for chunk in document(f"d{at}", [f"text {at}"])]


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    store = IndexStore(str(tmp_path), limits=Limits(10, 1000))
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
@pytest.mark.parametrize("name", ["chunks.parquet", "*.faiss", "0001-*.json"])
def test_any_file_but_the_pointer(tmp_path: Path, manifest: Manifest, name: str, harm: Callable[[Path], None]) -> None:
    [file] = tmp_path.rglob(name)
    harm(file)
    with pytest.raises(IndexDamaged) as caught:
        Index.open(str(tmp_path))
    assert str(file) in str(caught.value)
    assert "delete the index and build it again: fdarx index" in str(caught.value)
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy)) == (IndexDamaged, str(caught.value))


@pytest.mark.parametrize("harm", [flip, cut, empty, Path.unlink])
def test_vectors_of_an_index_that_is_searched_exactly(tmp_path: Path, harm: Callable[[Path], None]) -> None:
    store = IndexStore(str(tmp_path))
    store.commit([store.write_segment(CHUNKS, embed(CHUNKS), ENCODER)])
    [file] = tmp_path.rglob("vectors.parquet")
    harm(file)
    with pytest.raises(IndexDamaged, match=r"vectors.parquet"):
        Index.open(str(tmp_path))


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
        Index.open(str(tmp_path))
    assert len(Index.open(str(tmp_path), version=manifest.version)) == 50


def test_a_version_that_someone_edited(tmp_path: Path, manifest: Manifest) -> None:
    file = tmp_path / f"versions/{manifest.version}.json"
    file.write_text(file.read_text().replace(manifest.created, "1999-12-31"))
    with pytest.raises(IndexDamaged, match="other content than was written"):
        Index.open(str(tmp_path))


def test_a_newer_format(tmp_path: Path, manifest: Manifest) -> None:
    file = tmp_path / f"versions/{manifest.version}.json"
    file.write_bytes(orjson.dumps({**json.loads(file.read_bytes()), "format": 2}))
    with pytest.raises(IndexDamaged, match="another format; update fdarx"):
        Index.open(str(tmp_path))


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
        Index.open(str(tmp_path))
    assert not isinstance(caught.value, IndexDamaged)
