"""The storage room and the label sources on a real S3 server."""

from __future__ import annotations

import io
import os
import pickle
import subprocess
import sys
import zipfile
from uuid import uuid4

import pyarrow as pa
import pytest

from fdarx_core.labels import find_sources, read_document, read_source
from fdarx_core.records import Reject
from fdarx_core.storage import (
    Location,
    RunConflict,
    RunDirectory,
    StorageError,
    read_records,
    read_table,
    write_records,
    write_table,
)
from tests.storage.swift_server import PAGE

pytestmark = pytest.mark.s3


@pytest.fixture
def folder(bucket: Location) -> Location:
    return bucket / uuid4().hex


def run_elsewhere(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a process of its own, with other AWS settings."""
    return subprocess.run(
        [sys.executable, "-c", f"from fdarx_core.storage import *\n{code}"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def make_zip(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def test_objects_come_back(folder: Location) -> None:
    location = folder / "a b+c&é/%41.txt"
    assert not location.exists()
    location.write_text("größer")
    assert location.exists()
    assert not location.is_dir()
    assert folder.is_dir()
    assert location.size() == 8
    assert location.read_text() == "größer"
    assert folder.list(recursive=True) == [location]
    location.write_text("new")
    assert pickle.loads(pickle.dumps(location)).read_text() == "new"
    location.delete()
    location.delete()
    assert not location.exists()
    assert not folder.exists()


def test_a_missing_object_and_a_missing_bucket(folder: Location) -> None:
    with pytest.raises(StorageError, match="there is no such object"):
        (folder / "none").read_bytes()
    with pytest.raises(StorageError, match="the bucket does not exist"):
        Location("s3://nobodys-bucket/x").exists()
    with pytest.raises(StorageError, match="the bucket does not exist"):
        Location("s3://nobodys-bucket/x").check_writable()
    with pytest.raises(StorageError, match="the bucket does not exist"):
        Location("s3://nobodys-bucket").list()


def test_large_objects_go_in_parts_and_are_read_in_ranges(folder: Location) -> None:
    data = os.urandom(2**20) * 21 + b"end"
    location = folder / "large.bin"
    location.write_bytes(data)
    assert location.size() == len(data)
    with location.open_input() as stream:
        stream.seek(-3, os.SEEK_END)
        assert stream.read() == b"end"
        stream.seek(2**20 - 5)
        assert stream.read(700_000) == data[2**20 - 5 : 2**20 - 5 + 700_000]
        assert stream.tell() == 2**20 - 5 + 700_000
    assert location.read_bytes() == data


def test_an_empty_object(folder: Location) -> None:
    (folder / "empty").write_bytes(b"")
    assert (folder / "empty").read_bytes() == b""


@pytest.mark.parametrize("size", [100, 20_000_000])
def test_output_that_fails_writes_nothing(folder: Location, size: int) -> None:
    with pytest.raises(KeyboardInterrupt), (folder / "a").open_output() as stream:
        stream.write(bytes(size))
        raise KeyboardInterrupt
    assert folder.list(recursive=True) == []


def test_an_object_replaced_while_it_is_read(folder: Location) -> None:
    location = folder / "a.bin"
    location.write_bytes(b"1" * 2_000_000)
    with location.open_input() as stream:
        assert stream.read(10) == b"1" * 10
        location.write_bytes(b"2" * 2_000_000)
        with pytest.raises(StorageError, match="overwritten while it was read"):
            stream.read()


def test_list_and_glob(folder: Location) -> None:
    for name in ["b.xml", "a.xml", "sub/c.xml", "sub/deep/d.xml", ".hidden/x.xml", "sub/.tmp"]:
        (folder / name).write_bytes(b"x")

    def names(found: list[Location]) -> list[str]:
        return [str(location)[len(str(folder)) + 1 :] for location in found]

    assert names(folder.list()) == ["a.xml", "b.xml"]
    assert names(folder.list(recursive=True)) == ["a.xml", "b.xml", "sub/c.xml", "sub/deep/d.xml"]
    assert (folder / "none").list(recursive=True) == []
    assert (folder / "su").list() == []
    assert names(Location.glob(f"{folder}/*.xml")) == ["a.xml", "b.xml"]
    assert names(Location.glob(f"{folder}/**/[cd].xml")) == ["sub/c.xml", "sub/deep/d.xml"]
    assert names(Location.glob(f"{folder}/s?b")) == ["sub/.tmp", "sub/c.xml", "sub/deep/d.xml"]


def test_more_objects_than_one_page_lists(folder: Location) -> None:
    numbers = list(range(2 * PAGE + 3))
    for number in numbers:
        (folder / f"part-{number:06d}").write_bytes(b"")
    assert [int(location.name[5:]) for location in folder.list()] == numbers


def test_tables_and_records(folder: Location) -> None:
    table = pa.table({"id": [str(n) for n in range(100_000)], "n": range(100_000)})
    write_table(folder / "t.parquet", table)
    assert read_table(folder / "t.parquet", ["n"]).equals(table.select(["n"]))
    rows = [Reject(str(n), "read", "empty_file") for n in range(5000)]
    assert write_records(folder / "r.parquet", rows, Reject) == 5000
    assert list(read_records(folder / "r.parquet", Reject)) == rows


def test_a_run(folder: Location) -> None:
    def begin(**config: int) -> RunDirectory:
        return RunDirectory.begin(str(folder), job="build_benchmark", config=config, versions={})

    run = begin(seed=0)
    run.part("labels", 0).write_bytes(b"x")
    assert [part.name for part in run.parts("labels")] == ["part-000000.parquet"]
    run.stop("interrupted")
    run.release()
    assert begin(seed=0).resumed
    with pytest.raises(RunConflict, match="seed: was 0, now 1"):
        begin(seed=1)
    begin(seed=0).finish({"questions": 3})
    assert begin(seed=0).complete
    assert RunDirectory.open(str(folder)).info()["questions"] == 3
    with pytest.raises(RunConflict, match=r"did not write"):
        RunDirectory.begin(str(folder.parent), job="build_benchmark", config={}, versions={})


def test_sources(folder: Location) -> None:
    bulk = {f"rx/{n}.zip": make_zip({f"{n}.xml": b"<a/>" * 1000, "p.jpg": os.urandom(9000)}) for n in range(60)}
    (folder / "bulk.zip").write_bytes(make_zip({**bulk, "bad.zip": b"junk"}))
    (folder / "sub" / "b.xml").write_bytes(b"<b/>")
    (folder / "notes.txt").write_bytes(b"x")
    for inputs in (find_sources([str(folder)]), find_sources([f"{folder}/*.zip", f"{folder}/sub", f"{folder}/n*"])):
        assert len(inputs.sources) == 62
        assert inputs.ignored == 1
        found = [item for source in inputs.sources for item in read_source(source)]
        rejects = [item for item in found if isinstance(item, Reject)]
        assert [reject.reason for reject in rejects] == ["not_a_zip"]
        documents = [item for item in found if not isinstance(item, Reject)]
        assert len(documents) == 61
        assert all(read_document(source) == data for source, data in documents)
        assert documents[0][0].name.startswith(f"{folder}/bulk.zip!rx/0.zip!0.xml")
    for missing in ("gone.xml", "gone/*.xml"):
        with pytest.raises(StorageError, match="gone"):
            find_sources([f"{folder}/{missing}"])


def test_an_archive_replaced_on_the_server(folder: Location) -> None:
    def write(text: bytes) -> None:
        pad = os.urandom(600_000)
        (folder / "a.zip").write_bytes(make_zip({"near.xml": text, "pad": pad, "far.xml": text}))

    write(b"<old/>")
    far, near = find_sources([str(folder / "a.zip")]).sources
    assert read_document(near) == b"<old/>"
    write(b"<new/>")
    first, second = ([*read_source(far)] for _ in range(2))
    assert isinstance(first[0], Reject)
    assert first[0].reason == "unreadable"
    assert second == [(far, b"<new/>")]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "secret key"),
        ({"AWS_ACCESS_KEY_ID": "nobody"}, "set AWS_ACCESS_KEY_ID"),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "check AWS_ENDPOINT_URL"),
        ({"AWS_ENDPOINT_URL": "not a url"}, "check AWS_ENDPOINT_URL"),
        ({"AWS_PROFILE": "no-such-profile"}, "AWS_PROFILE"),
        (
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_EC2_METADATA_DISABLED": "true"},
            "set AWS_ACCESS_KEY_ID",
        ),
    ],
)
def test_wrong_settings_are_one_clear_line(bucket: Location, settings: dict[str, str], said: str) -> None:
    code = f"""
for use in (Location.check_writable, Location.read_bytes, Location.exists, Location.list):
    try:
        use(Location("{bucket}/x"))
    except StorageError as error:
        print(error)
    else:
        print("nothing was said")
"""
    lines = run_elsewhere(code, **settings).stdout.splitlines()
    assert len(lines) == 4
    assert all(said in line or "access was denied" in line for line in lines), lines
    assert said in lines[0]


def test_a_killed_writer_leaves_nothing(folder: Location) -> None:
    code = f"""
import os, threading
def kill():
    os._exit(9)
with Location("{folder}/a").open_output() as stream:
    stream.write(bytes(200_000_000))
    threading.Timer(0.3, kill).start()
"""
    assert run_elsewhere(code).returncode in (0, 9)
    assert [file.size() for file in folder.list(recursive=True)] in ([], [200_000_000])
