from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from fdarx_core.records import Highlight, Label, QuestionAnswer, Reject, Section
from fdarx_core.storage import Location, StorageError, read_records, read_table, write_records, write_table


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
