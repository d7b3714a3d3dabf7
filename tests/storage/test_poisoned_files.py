"""Files with extension types are refused before a value is converted: Ray Data's type would unpickle it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fdarx_core.records import Reject
from fdarx_core.storage import Location, StorageError, read_records, read_table, read_tables
from fdarx_core.storage.tables import read_rows
from tests.conftest import REPOSITORY
from tests.storage.poisoned import RAY_TYPE, pickled_column, ray_type_registered


@pytest.fixture(params=["registered", "unknown"])
def ray_type(request: pytest.FixtureRequest) -> Iterator[None]:
    """Files are refused in a process that knows Ray's type and in one that does not."""
    if request.param == "unknown":
        yield
        return
    with ray_type_registered():
        yield


def _columns(marker: Path) -> dict[str, tuple[pa.Field, pa.Array]]:
    """Poisoned columns by the path of the poison in them, as Parquet names it."""
    field, values = pickled_column(2, marker, "inner")
    structs = pa.StructArray.from_arrays([values], fields=[field])
    offsets = pa.array([0, 1, 2], pa.int32())
    lists = pa.ListArray.from_arrays(offsets, structs)
    maps = pa.map_(pa.string(), field)
    return {
        "id": (field.with_name("id"), values),
        "id.inner": (pa.field("id", structs.type), structs),
        "id.element.inner": (pa.field("id", pa.list_(pa.field("item", structs.type))), lists),
        "id.id.value": (pa.field("id", maps), pa.MapArray.from_arrays(offsets, ["a", "b"], values, maps)),
    }


@pytest.mark.parametrize("path", ["id", "id.inner", "id.element.inner", "id.id.value"])
@pytest.mark.usefixtures("ray_type")
def test_a_poisoned_parquet_file_is_refused_by_name_and_column(path: str, tmp_path: Path) -> None:
    field, column = _columns(tmp_path / "executed")[path]
    file = Location(tmp_path / "rows.parquet")
    pq.write_table(pa.table([column], schema=pa.schema([field])), str(file))
    readers: list[Callable[[], Any]] = [
        lambda: read_table(file).to_pylist(),
        lambda: read_table(file, ["id"]).to_pylist(),
        lambda: [table.to_pylist() for table in read_tables([file])],
        lambda: list(read_records(file, Reject)),
        lambda: list(read_rows(file, "id")),
    ]
    for read in readers:
        with pytest.raises(StorageError) as refused:
            read()
        assert "\n" not in str(refused.value)
        assert str(refused.value).startswith(f"{file} is not read: its column {path} has the extension type {RAY_TYPE}")
    assert not (tmp_path / "executed").exists()


def test_without_the_check_the_poison_runs(tmp_path: Path) -> None:
    field, column = pickled_column(2, tmp_path / "executed")
    pq.write_table(pa.table([column], schema=pa.schema([field])), tmp_path / "rows.parquet")
    with ray_type_registered():
        pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert (tmp_path / "executed").exists()


def test_types_of_arrow_itself_are_refused_as_well(tmp_path: Path) -> None:
    file = Location(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"id": pa.array([b"0" * 16], pa.uuid())}), str(file))
    with pytest.raises(StorageError, match=r"column id has the extension type arrow\.uuid"):
        read_table(file)


def test_dictionaries_and_plain_nested_columns_are_read(tmp_path: Path) -> None:
    table = pa.table(
        {
            "word": pa.array(["a", "b", "a"]).dictionary_encode(),
            "list": [[{"x": 1}], [], None],
            "map": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int64())),
        }
    )
    file = Location(tmp_path / "rows.parquet")
    pq.write_table(table, str(file))
    assert read_table(file).to_pylist() == table.to_pylist()


_OPENERS = {"ParquetFile", "ParquetDataset", "read_table", "read_parquet", "open_file", "open_stream", "read_feather"}


def test_no_other_module_opens_parquet_or_ipc_files() -> None:
    found = set()
    for file in (file for top in ("fdarx_core", "serving", "jobs") for file in (REPOSITORY / top).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and node.attr in _OPENERS:
                found.add((str(file.relative_to(REPOSITORY)), ast.unparse(node)))
    assert {file for file, _ in found} == {"fdarx_core/storage/arrow_files.py"}, found
