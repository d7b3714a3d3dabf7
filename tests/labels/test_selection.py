from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import struct
import time
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.labels import Selection, Source, find_sources, read_document, read_source
from fdarx_core.labels.selection import HUMAN_PRESCRIPTION, Identity, select
from fdarx_core.records import Reject, arrow_schema, to_table
from fdarx_core.storage import Location, StorageError
from fdarx_core.storage.errors import InputError
from fdarx_core.storage.sources import Inputs

XML = b'<?xml version="1.0"?><document xmlns="urn:hl7-org:v3"/>'
DATA = Path(os.environ.get("FDARX_DATA", "../shared/data"))


def make_zip(members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def put(path: Path, data: bytes = XML) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def everything(inputs: Inputs) -> tuple[dict[str, bytes], dict[str, str]]:
    """Documents by name and reasons by id, of all sources."""
    documents: dict[str, bytes] = {}
    reasons = {reject.id: reject.reason for reject in inputs.rejects}
    for source in inputs.sources:
        for found in read_source(source):
            if isinstance(found, Reject):
                reasons[found.id] = found.reason
            else:
                documents[found[0].name] = found[1]
                assert read_document(found[0]) == found[1]
    return documents, reasons


def read_zip(path: Path, data: bytes) -> tuple[dict[str, bytes], dict[str, str]]:
    """As `everything`, for one archive, with its own path cut off the names."""
    cut = len(put(path, data)) + 1
    documents, reasons = everything(find_sources([str(path)]))
    return {name[cut:]: text for name, text in documents.items()}, {name[cut:]: why for name, why in reasons.items()}


def test_every_kind_of_input(tmp_path: Path) -> None:
    bulk = make_zip({"rx/a.zip": make_zip({"a.xml": b"<a/>", "a.jpg": b"x"}), "b.XML": b"<b/>", "notes.txt": b"x"})
    put(tmp_path / "bulk.zip", bulk)
    put(tmp_path / "folder/deep/c.xml", b"<c/>")
    put(tmp_path / "folder/d.zip", make_zip({"d.xml": b"<d/>"}))
    put(tmp_path / "folder/readme.md")
    put(tmp_path / "e1.xml", b"<e/>")
    put(tmp_path / "no-suffix", b"<f/>")
    inputs = find_sources([f"{tmp_path}/{name}" for name in ("bulk.zip", "folder", "e?.xml", "no-suffix")])
    documents, reasons = everything(inputs)
    assert {name[len(str(tmp_path)) + 1 :]: text for name, text in documents.items()} == {
        "bulk.zip!rx/a.zip!a.xml": b"<a/>",
        "bulk.zip!b.XML": b"<b/>",
        "folder/deep/c.xml": b"<c/>",
        "folder/d.zip!d.xml": b"<d/>",
        "e1.xml": b"<e/>",
        "no-suffix": b"<f/>",
    }
    assert reasons == {}
    assert inputs.ignored == 2
    assert [source.name for source in inputs.sources] == sorted(source.name for source in inputs.sources)


def test_the_order_of_inputs_and_repetition_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "a/x.xml")
    put(tmp_path / "b.zip", make_zip({"y.xml": XML}))
    paths = ["a", "a/x.xml", "./a/x.xml", f"{tmp_path}/a", "b.zip", "*.zip"]
    found = find_sources(paths)
    assert found == find_sources(paths[::-1])
    assert len(found.sources) == 2
    assert find_sources(["b.zip"]).sources[0].name == "b.zip!y.xml"


def test_a_file_named_outright_is_taken_even_where_a_glob_passes_it_over(tmp_path: Path) -> None:
    path = put(tmp_path / "label.txt")
    assert find_sources([f"{tmp_path}/*"]) == Inputs([], [], 1)
    assert find_sources([f"{tmp_path}/*", path]).sources == [Source(path)]


def test_hidden_files_are_passed_over(tmp_path: Path) -> None:
    put(tmp_path / ".git/a.xml")
    put(tmp_path / "b.zip", make_zip({"__MACOSX/._b.xml": b"junk", "b.xml": XML}))
    inputs = find_sources([str(tmp_path)])
    assert [source.members for source in inputs.sources] == [("b.xml",)]


@pytest.mark.parametrize("name", ["gone.xml", "gone/*.xml", "gone"])
def test_missing_inputs_are_named(tmp_path: Path, name: str) -> None:
    put(tmp_path / "here.xml")
    with pytest.raises(StorageError, match="gone"):
        find_sources([f"{tmp_path}/here.xml", f"{tmp_path}/{name}"])


def test_names_with_glob_characters_are_files_first(tmp_path: Path) -> None:
    path = put(tmp_path / "a[1].xml")
    assert find_sources([path]).sources == [Source(path)]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty_file"),
        (b"<html>404</html>", "not_a_zip"),
        (make_zip({"a.xml": XML})[:-30], "damaged_archive"),
        (make_zip({}), "no_document"),
        (make_zip({"a.jpg": XML}), "no_document"),
    ],
)
def test_archives_that_give_nothing(tmp_path: Path, data: bytes, reason: str) -> None:
    assert read_zip(tmp_path / "top.zip", data) == ({}, {"": reason})
    inside = make_zip({"bad.zip": data, "good.xml": XML})
    assert read_zip(tmp_path / "bulk.zip", inside) == ({"good.xml": XML}, {"bad.zip": reason})


def test_an_archive_three_deep_is_refused(tmp_path: Path) -> None:
    inner = make_zip({"third.zip": make_zip({"a.xml": XML}), "b.xml": XML})
    documents, reasons = read_zip(tmp_path / "top.zip", make_zip({"second.zip": inner}))
    assert documents == {"second.zip!b.xml": XML}
    assert reasons == {"second.zip!third.zip": "archive_too_deep"}


@pytest.mark.parametrize(
    "name",
    ["/etc/a.xml", "../a.xml", "x/../../a.xml", "C:/a.xml", "C:a.xml", "..\\a.xml", "x\\..\\a.xml", "\\\\h\\a.xml"],
)
def test_member_paths_that_lead_out(tmp_path: Path, name: str) -> None:
    data = make_zip({name: XML, "good.xml": XML})
    assert read_zip(tmp_path / "top.zip", data) == ({"good.xml": XML}, {name: "unsafe_member_path"})
    documents, reasons = read_zip(tmp_path / "bulk.zip", make_zip({"in.zip": data}))
    assert documents == {"in.zip!good.xml": XML}
    assert reasons == {f"in.zip!{name}": "unsafe_member_path"}


def test_a_damaged_member_spares_its_neighbours(tmp_path: Path) -> None:
    text = os.urandom(5000)
    data = make_zip({"bad.xml": text, "good.xml": XML}, zipfile.ZIP_STORED)
    broken = data.replace(text[:100], bytes(100))
    assert read_zip(tmp_path / "top.zip", broken) == ({"good.xml": XML}, {"bad.xml": "damaged_member"})


def test_an_encrypted_member(tmp_path: Path) -> None:
    data = bytearray(make_zip({"a.xml": XML}))
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    assert read_zip(tmp_path / "top.zip", bytes(data)) == ({}, {"a.xml": "encrypted_member"})


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_that_cannot_be_bounded(tmp_path: Path, method: int) -> None:
    data = make_zip({"a.xml": bytes(20_000_000 if method == zipfile.ZIP_BZIP2 else 1000)}, method)
    assert read_zip(tmp_path / "top.zip", data) == ({}, {"a.xml": "damaged_member"})


def test_two_members_of_one_name(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("a.xml", b"<old/>")
        archive.writestr("a.xml", b"<new/>")
    assert read_zip(tmp_path / "top.zip", buffer.getvalue()) == ({"a.xml": b"<new/>"}, {"a.xml": "duplicate_member"})


def test_bombs_and_oversized_members_are_cut_off(tmp_path: Path) -> None:
    zeros = bytes(20 * 2**20)
    random = os.urandom(2**20)
    data = make_zip({"bomb.xml": zeros, "blank.xml": bytes(2**20), "big.xml": random * 65})
    documents, reasons = read_zip(tmp_path / "top.zip", data)
    assert list(documents) == ["blank.xml"]
    assert reasons == {"bomb.xml": "compression_bomb", "big.xml": "oversized_member"}
    assert read_zip(tmp_path / "bulk.zip", make_zip({"in.zip": zeros}))[1] == {"in.zip": "compression_bomb"}


@pytest.mark.parametrize(("said", "reason"), [(100, "damaged_member"), (2**31, "compression_bomb")])
def test_a_bomb_that_lies_about_its_size(tmp_path: Path, said: int, reason: str) -> None:
    data = bytearray(make_zip({"bomb.xml": bytes(100 * 2**20)}))
    struct.pack_into("<I", data, 22, said)
    struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 24, said)
    assert read_zip(tmp_path / "top.zip", bytes(data))[1] == {"bomb.xml": reason}


def test_a_bomb_that_lies_about_its_packed_size_still_ends(tmp_path: Path) -> None:
    data = bytearray(make_zip({"bomb.xml": bytes(100 * 2**20)}))
    struct.pack_into("<I", data, data.index(b"PK\x01\x02") + 20, 2**31)
    reasons = read_zip(tmp_path / "top.zip", bytes(data))[1]
    assert reasons["bomb.xml"] in ("oversized_member", "damaged_member")


def test_too_many_inner_members(tmp_path: Path) -> None:
    data = make_zip({f"{n}.xml": b"x" for n in range(10_001)}, zipfile.ZIP_STORED)
    assert read_zip(tmp_path / "bulk.zip", make_zip({"in.zip": data})) == ({}, {"in.zip": "too_many_members"})


def test_an_oversized_plain_file(tmp_path: Path) -> None:
    path = tmp_path / "a.xml"
    with path.open("wb") as stream:
        stream.truncate(65 * 2**20)
    assert everything(find_sources([str(path)]))[1] == {str(path): "oversized_member"}


def test_files_that_go_away_are_rejects(tmp_path: Path) -> None:
    paths = [put(tmp_path / "a.xml"), put(tmp_path / "b.zip", make_zip({"b.xml": XML}))]
    inputs = find_sources(paths)
    for path in paths:
        Path(path).unlink()
    assert set(everything(inputs)[1].values()) == {"unreadable"}


def test_a_replaced_archive_is_read_anew(tmp_path: Path) -> None:
    path = Path(put(tmp_path / "a.zip", make_zip({"a.xml": b"<old/>"})))
    (source,) = find_sources([str(path)]).sources
    assert read_document(source) == b"<old/>"
    time.sleep(0.02)
    put(path, make_zip({"x.xml": b"<x/>", "a.xml": b"<newer/>"}))
    assert read_document(source) == b"<newer/>"
    with pytest.raises(InputError, match="damaged_archive"):
        read_document(Source(str(path), ("gone.xml",)))


def test_a_file_name_that_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "ok.xml").write_bytes(XML)
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.xml")).write_bytes(XML)
    inputs = find_sources([str(tmp_path)])
    assert [reject.reason for reject in inputs.rejects] == ["unreadable"]
    assert to_table(inputs.rejects, Reject).schema == arrow_schema(Reject)
    assert len(inputs.sources) == 1


def test_rejects_name_file_and_stage(tmp_path: Path) -> None:
    path = put(tmp_path / "top.zip", make_zip({"a.zip": b"junk"}))
    ((reject,),) = [list(read_source(source)) for source in find_sources([path]).sources]
    assert isinstance(reject, Reject)
    assert (reject.id, reject.stage, reject.source) == (f"{path}!a.zip", "read", f"{path}!a.zip")
    assert reject.detail


def _read_all(sources: list[Source]) -> int:
    return sum(len(read_document(source)) for source in sources)


def test_archives_are_shared_by_threads_and_survive_a_fork(tmp_path: Path) -> None:
    bulk = {f"{n}.xml": os.urandom(20_000) for n in range(200)}
    sources = find_sources([put(tmp_path / f"{n}.zip", make_zip(bulk)) for n in range(10)]).sources
    sources = pickle.loads(pickle.dumps(sources))
    want = 10 * 200 * 20_000
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(_read_all, [sources[n::8] for n in range(8)])) == want
    fork = multiprocessing.get_context("fork")
    with fork.Pool(2) as workers:
        results = workers.map_async(_read_all, [sources[n::2] for n in range(2)])
        assert _read_all(sources) == want
        assert sum(results.get(60)) == want


def test_a_bulk_release_is_not_opened_for_each_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = put(tmp_path / "bulk.zip", make_zip({f"{n}.xml": XML for n in range(50)}))
    opened: list[str] = []
    monkeypatch.setattr(Location, "open_input", _counted(Location.open_input, opened))
    assert _read_all(find_sources([path]).sources) == 50 * len(XML)
    assert opened == [path]


def _counted(open_input: Callable[[Location], BinaryIO], opened: list[str]) -> Callable[[Location], BinaryIO]:
    def counting(location: Location) -> BinaryIO:
        opened.append(str(location))
        return open_input(location)

    return counting


BULK = make_zip(
    {
        "rx/a.zip": make_zip({"a.xml": XML * 20, "a.jpg": b"x"}),
        "b.xml": XML * 20,
        "c.zip": make_zip({"c.xml": XML}, zipfile.ZIP_STORED),
    }
)


@given(
    edits=st.lists(st.tuples(st.integers(0, len(BULK) - 1), st.integers(0, 255)), max_size=12),
    end=st.integers(0, len(BULK)) | st.just(len(BULK)),
)
def test_no_damage_makes_it_raise(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int]], end: int
) -> None:
    data = bytearray(BULK)
    for place, value in edits:
        data[place] = value
    path = tmp_path_factory.mktemp("fuzz") / "bulk.zip"
    path.write_bytes(data[:end])
    inputs = find_sources([str(path)])
    found = [list(read_source(source)) for source in inputs.sources]
    assert all(found), "every source gives a document or a Reject"
    assert inputs.sources or inputs.rejects


@given(data=st.binary(max_size=200))
def test_any_bytes_as_an_inner_archive(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = put(tmp_path_factory.mktemp("any") / "bulk.zip", make_zip({"in.zip": data, "ok.xml": XML}))
    documents, reasons = everything(find_sources([path]))
    assert len(documents) == 1
    assert len(reasons) == 1


def test_real_release() -> None:
    bulk = DATA / "spl" / "dm_spl_release_human_rx.zip"
    if not bulk.exists():
        pytest.skip("the real labels are not here; FDARX_DATA says where")
    inputs = find_sources([str(bulk)])
    documents, reasons = everything(Inputs(inputs.sources[::10]))
    assert len(inputs.sources) == 823
    assert len(documents) == 83
    assert reasons == {}
    assert all(zlib.crc32(text) and b"urn:hl7-org:v3" in text for text in documents.values())


def test_labels_of_each_drug_are_drawn() -> None:
    """Labels of one drug have the same moieties, whatever their salts; a label without any is a drug of its own."""

    def identity(number: int, drug: str) -> Identity:
        return Identity(f"{number:04d}", 1, "", HUMAN_PRESCRIPTION, "", "", "", [], drug, "", Source("labels.zip"))

    found = [identity(number, ("A", "A+B", "")[number % 3]) for number in range(60)]
    kept, rejects = select(found, Selection(per_drug=4, seed=3))
    assert Counter(one.drug for one in kept) == {"A": 4, "A+B": 4, "": 20}
    assert {one.reason for one in rejects} == {"not_sampled"} and len(kept) + len(rejects) == len(found)
    assert "not among the 4 drawn from 20 labels of the drug A" in rejects[0].detail + rejects[-1].detail
    again, _ = select(reversed(found), Selection(per_drug=4, seed=3))
    fewer, _ = select(found[:30], Selection(per_drug=4, sample=5, seed=3))
    other, _ = select(found, Selection(per_drug=4, seed=4))
    assert again == kept and len(fewer) == 5 and other != kept
