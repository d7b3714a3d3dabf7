"""Locations on a disk, and tables in files."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from fdarx_core.records import Highlight, Label, QuestionAnswer, Reject, Section
from fdarx_core.storage import Location, StorageError, read_records, read_table, write_records, write_table


def test_addresses_are_values(tmp_path: Path) -> None:
    location = Location(tmp_path) / "labels" / "a.xml"
    assert str(location) == f"{tmp_path}/labels/a.xml"
    assert (location.name, location.suffix, location.parent.name) == ("a.xml", ".xml", "labels")
    assert pickle.loads(pickle.dumps(location)) == location
    assert len({location, Location(str(location))}) == 1


def test_remote_addresses_need_no_server() -> None:
    location = Location("s3://bucket/runs/1/")
    assert location.is_remote
    assert str(location) == "s3://bucket/runs/1"
    assert str(location.parent.parent / "x") == "s3://bucket/x"
    assert location.parent.parent.parent == Location("s3://bucket")


def test_relative_and_root_parents() -> None:
    assert Location("a.xml").parent == Location(".")
    assert Location("/a").parent == Location("/") == Location("/").parent
    assert str(Location("/") / "a") == "/a"


@pytest.mark.parametrize("address", ["", "gs://bucket/x", "https://example.org/x.zip", "s3://", "s3:///key", "a\0b"])
def test_unusable_addresses_are_refused_at_once(address: str) -> None:
    with pytest.raises(StorageError, match="s3://bucket/key"):
        Location(address)


def test_output_appears_whole_and_makes_its_folders(tmp_path: Path) -> None:
    location = Location(tmp_path) / "new" / "deep" / "a.txt"
    with location.open_output() as stream:
        stream.write(b"half")
        assert not location.exists()
        assert location.parent.list() == []
        stream.write(b" and half")
    assert location.read_text() == "half and half"
    assert location.size() == 13
    assert list((tmp_path / "new" / "deep").iterdir()) == [tmp_path / "new/deep/a.txt"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_output_that_fails_leaves_what_was_there(tmp_path: Path, error: type[BaseException]) -> None:
    location = Location(tmp_path) / "a.txt"
    location.write_text("old")
    with pytest.raises(error), location.open_output() as stream:
        stream.write(b"new")
        raise error
    assert location.read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "a.txt"]


def test_a_killed_writer_leaves_nothing_to_see(tmp_path: Path) -> None:
    code = """
import os, sys
from fdarx_core.storage import Location
with Location(sys.argv[1]).open_output() as stream:
    stream.write(b"x" * 100_000)
    stream.flush()
    os._exit(9)
"""
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "a.bin")], check=False).returncode == 9
    assert Location(tmp_path).list(recursive=True) == []
    assert Location(tmp_path).is_empty()


def test_written_files_get_the_usual_permissions(tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    (Location(tmp_path) / "ours").write_text("")
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_list_is_sorted_and_passes_over_hidden_names(tmp_path: Path) -> None:
    for name in ["b.xml", "a.xml", ".hidden.xml", "sub/c.xml", "sub/.git/d.xml", "a/z.xml"]:
        (Location(tmp_path) / name).write_text("x")
    names = [str(file)[len(str(tmp_path)) + 1 :] for file in Location(tmp_path).list(recursive=True)]
    assert names == ["a.xml", "a/z.xml", "b.xml", "sub/c.xml"]
    assert [file.name for file in Location(tmp_path).list()] == ["a.xml", "b.xml"]
    assert Location(tmp_path / "nowhere").list(recursive=True) == []


def test_list_ends_on_links_that_lead_back(tmp_path: Path) -> None:
    (Location(tmp_path) / "sub" / "a.xml").write_text("x")
    (tmp_path / "sub" / "up").symlink_to(tmp_path)
    assert [file.name for file in Location(tmp_path).list(recursive=True)] == ["a.xml"]


def test_errors_say_where_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match=r"cannot read .*/none: .*; check the path"):
        Location(tmp_path / "none").read_bytes()
    with pytest.raises(StorageError, match=r"cannot read .*/none: .*; check the path"):
        Location(tmp_path / "none").size()
    with pytest.raises(StorageError, match="it is a folder"):
        Location(tmp_path).read_bytes()
    with pytest.raises(StorageError, match="choose another place"):
        (Location(tmp_path) / "file" / "x").write_text("")


def test_check_writable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    Location(tmp_path / "new" / "run").check_writable()
    assert Location(tmp_path / "new" / "run").is_empty()
    for bad in (tmp_path / "file", tmp_path / "file" / "run", Path("/proc/run")):
        with pytest.raises(StorageError, match="cannot write into"):
            Location(bad).check_writable()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_explained(tmp_path: Path) -> None:
    location = Location(tmp_path / "a")
    with pytest.raises(StorageError, match="free some space"), location.open_output():
        os.write(os.open("/dev/full", os.O_WRONLY), b"x")
    assert not location.exists()


def test_delete(tmp_path: Path) -> None:
    location = Location(tmp_path / "a")
    location.write_text("x")
    location.delete()
    location.delete()
    assert not location.exists()


def test_glob_finds_files_and_folders(tmp_path: Path) -> None:
    for name in ["a1.xml", "a2.zip", "sub/a3.xml"]:
        (Location(tmp_path) / name).write_text("x")
    assert [match.name for match in Location.glob(f"{tmp_path}/a*")] == ["a1.xml", "a2.zip"]
    assert [match.name for match in Location.glob(f"{tmp_path}/**/*.xml")] == ["a1.xml", "a3.xml"]
    assert [match.name for match in Location.glob(f"{tmp_path}/s*")] == ["sub"]


def test_tables_come_back(tmp_path: Path) -> None:
    location = Location(tmp_path) / "labels" / "part-000000.parquet"
    table = pa.table({"id": ["a", "b"], "n": [1, 2], "text": ["x", None]})
    write_table(location, table)
    assert read_table(location).equals(table)
    assert read_table(location, ["n", "id"]).equals(table.select(["n", "id"]))


def test_equal_tables_make_equal_files(tmp_path: Path) -> None:
    table = pa.table({"id": [str(n) for n in range(1000)]})
    write_table(Location(tmp_path / "a"), table)
    write_table(Location(tmp_path / "b"), table)
    assert Location(tmp_path / "a").read_bytes() == Location(tmp_path / "b").read_bytes()


def test_records_come_back_across_batches(tmp_path: Path) -> None:
    location = Location(tmp_path / "rejects.parquet")
    rows = [Reject(f"q{n}", "rules", "too_short", "°é", source="a.zip") for n in range(10_000)]
    assert write_records(location, iter(rows), Reject) == 10_000
    assert list(read_records(location, Reject)) == rows


def test_nested_records_come_back(tmp_path: Path) -> None:
    label = Label(
        set_id="1",
        version=2,
        effective_date="2024-01-01",
        document_type="34391-3",
        document_type_name="",
        title="",
        drug_name="Velorin",
        aliases=["Velorin", "velorinib"],
        substances=["velorinib"],
        uniis=[],
        routes=["ORAL"],
        dosage_forms=[],
        labeler="",
        ndcs=[],
        marketing_categories=[],
        application_numbers=[],
        boxed_warning="",
        sections=[Section("34067-9", "34067-9", "1", "Indications", "Indications", 0)],
        highlights=[Highlight("34067-9", "INDICATIONS", "", "For X (1)", ["1"])],
    )
    write_records(Location(tmp_path / "labels"), [label], Label)
    assert list(read_records(Location(tmp_path / "labels"), Label)) == [label]


def test_no_rows_keep_their_columns(tmp_path: Path) -> None:
    location = Location(tmp_path / "none.parquet")
    assert write_records(location, [], QuestionAnswer) == 0
    assert list(read_records(location, QuestionAnswer)) == []
    assert "gold_passages" in read_table(location).column_names


def test_rows_that_fail_half_way_write_nothing(tmp_path: Path) -> None:
    def rows() -> Iterator[Reject]:
        yield Reject("1", "read", "empty_file")
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError):
        write_records(Location(tmp_path / "x"), rows(), Reject)
    assert Location(tmp_path).is_empty()


def test_damage_is_named(tmp_path: Path) -> None:
    location = Location(tmp_path / "x.parquet")
    write_table(location, pa.table({"id": ["a"] * 1000}))
    with pytest.raises(StorageError, match="no column other"):
        read_table(location, ["other"])
    location.write_bytes(location.read_bytes()[:-100])
    with pytest.raises(StorageError, match=r"x\.parquet is damaged .*run the job again"):
        read_table(location)
    with pytest.raises(StorageError, match="is damaged"):
        list(read_records(location, Reject))
