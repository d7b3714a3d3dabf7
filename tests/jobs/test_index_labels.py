"""`fdarx index` on SPL labels as DailyMed publishes them: all types, updates, several versions, unreadable files."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.records import Chunk, Reject
from fdarx_core.retrieval.index import IndexReader
from fdarx_core.storage import Location, read_records
from tests.jobs.in_process import run_job
from tests.labels.spl import FILLER, document, product, section, subject, substance, table

OTC = "34390-5"


def spl(number: int, version: int = 1, text: str = "", *, kind: str = OTC, date: str = "20240131") -> bytes:
    fields = (
        f'<code code="{kind}" displayName="A TYPE OF LABEL"/><title>Cream {number}</title>'
        f'<effectiveTime value="{date}"/><setId root="{number:08d}-0000-4000-8000-000000000000"/>'
        f'<versionNumber value="{version}"/><author><assignedEntity><representedOrganization>'
        f"<name>Maker {number}</name></representedOrganization></assignedEntity></author>"
    )
    names = product(
        f"Cream {number}", "zinc", "1-2", substance("ZINC OXIDE", "SOI2LOH54Z", "ZINC CATION", "13S1S8SF37")
    )
    body = section(f"<paragraph>{text or f'Apply cream {number} to the skin.'} {FILLER}</paragraph>", "2 Directions")
    return document(body, fields, subject(names)).encode()


def bulk(path: Path, labels: Mapping[str, bytes]) -> Path:
    """A bulk release: a zip of zips, each with one label and a picture."""
    with zipfile.ZipFile(path, "w") as outer:
        for name, data in labels.items():
            inner = io.BytesIO()
            with zipfile.ZipFile(inner, "w") as archive:
                archive.writestr(f"{name}.xml", data)
                archive.writestr(f"{name}.jpg", b"\xff\xd8")
            outer.writestr(f"otc/20240131_{name}.zip", inner.getvalue())
    return path


def index(out: Path, *options: object) -> dict[str, Any]:
    done = run_job("index", "--cpus", 1, "--words-only", "--json", "--out", out, *options)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def chunks(out: Path) -> list[Chunk]:
    reader = IndexReader.open(str(out))
    return sorted(reader.chunks(range(len(reader))), key=lambda chunk: (chunk.set_id, chunk.position))


def test_a_bulk_release_and_its_update(tmp_path: Path) -> None:
    out = tmp_path / "index"
    first = bulk(tmp_path / "first.zip", {str(n): spl(n, 2) for n in (1, 2, 3)} | {"bad": b"<html/>"})
    made = index(out, "--documents", first)
    assert (made["documents"], made["embedded"], made["rejects"]) == (3, 3, {"wrong_root": 1})
    one = chunks(out)[0]
    assert (one.drug, one.section, one.section_number, one.section_code) == ("Cream 1", "Directions", "2", "34067-9")
    assert one.label is not None
    assert (one.label.version, one.label.effective_date, one.label.labeler) == (2, "2024-01-31", "Maker 1")
    assert (one.label.document_type, one.label.moieties) == (OTC, ["zinc cation"])
    again = index(out, "--documents", first)
    assert (again["documents"], again["unchanged"], again["embedded"]) == (3, 3, 0)
    update = bulk(
        tmp_path / "update.zip",
        {"1": spl(1, 1, "Older."), "2": spl(2, 3, "Newer."), "2b": spl(2, 4, "Newest."), "3": spl(3, 2), "4": spl(4)},
    )
    updated = index(out, "--documents", update)
    assert (updated["embedded"], updated["unchanged"]) == (2, 1)
    assert updated["rejects"] == {"duplicate_set_id": 1, "older_version": 1}
    assert [chunk.text.partition(" W")[0] for chunk in chunks(out)] == [
        "Apply cream 1 to the skin.",
        "Newest.",
        "Apply cream 3 to the skin.",
        "Apply cream 4 to the skin.",
    ]
    rejects = read_records(Location(out) / "rejects.parquet", Reject)
    assert {(reject.reason, reject.set_id[:8]) for reject in rejects} == {
        ("duplicate_set_id", "00000002"),
        ("older_version", "00000001"),
    }
    rebuilt = index(out, "--documents", update, "--rebuild")
    assert (rebuilt["documents"], rebuilt["unchanged"], rebuilt["embedded"]) == (4, 0, 1)
    assert chunks(out)[0].text.startswith("Older.")


def test_files_of_all_kinds_beside_each_other(tmp_path: Path) -> None:
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "label.xml").write_bytes(spl(1))
    (folder / "label.jpg").write_bytes(b"\xff\xd8")
    (folder / "note.txt").write_text("A liner of cork is never accepted for liquids.")
    with zipfile.ZipFile(folder / "more.zip", "w") as outer:
        inner = io.BytesIO()
        with zipfile.ZipFile(inner, "w") as archive:
            archive.writestr("guide.txt", "Stability studies run for twelve months.")
        outer.writestr("guides.zip", inner.getvalue())
        outer.writestr("two.xml", spl(2))
    made = index(tmp_path / "index", "--documents", folder)
    assert (made["documents"], made["rejects"]) == (4, {})
    assert sorted(chunk.title for chunk in chunks(tmp_path / "index")) == ["Cream 1", "Cream 2", "guide", "note"]


def test_a_run_and_a_release_give_the_same_chunks(example_build: Path, tmp_path: Path) -> None:
    """So an index of a run can be continued with releases, and nothing is embedded again."""
    index(tmp_path / "index", "--documents", example_build)
    before = IndexReader.open(str(tmp_path / "index"))
    after = index(tmp_path / "index", "--documents", "examples/labels")
    kept = {chunk.set_id: chunk for chunk in before.chunks(range(len(before)))}
    assert after["documents"] >= len(kept)
    given = {one.set_id for one in chunks(tmp_path / "index")}
    assert {*kept} <= given
    assert after["embedded"] == len([one for one in chunks(tmp_path / "index") if one.set_id not in kept])


def test_a_piece_of_a_long_table_has_its_caption_and_group(tmp_path: Path) -> None:
    rows = [f"<td>Event {n} of those that occurred in patients</td><td>{n}</td><td>{n + 1}</td>" for n in range(60)]
    head = ["<th>Event</th><th>Cream</th><th>Placebo</th>"]
    shown = table([*rows[:5], "<td colspan='3'>Children</td>", *rows[5:]], head, caption="Table 2: Adverse events")
    fields = spl(7).decode().split("<component>")[0].partition("<code")[2]
    data = document(section(shown, "6 Adverse events", "34084-4"), "<code" + fields)
    (tmp_path / "label.xml").write_text(data)
    index(tmp_path / "index", "--documents", tmp_path / "label.xml")
    first, *_, last = chunks(tmp_path / "index")
    assert first.table_header == "" and first.text.startswith("Table 2: Adverse events")
    assert last.table_header == "Table 2: Adverse events\nChildren"
    assert "Cream: 59" in last.text
    reader = IndexReader.open(str(tmp_path / "index"))
    [found] = reader.search(["Table 2 children event 59"], 1)
    assert reader.chunk(found[0][0]) == last


@pytest.mark.parametrize("executor", ["local", pytest.param("ray", marks=pytest.mark.slow)])
def test_where_labels_are_parsed_makes_no_difference(executor: str, tmp_path: Path) -> None:
    made = index(tmp_path / "index", "--documents", "examples/labels", "--executor", executor)
    reader = IndexReader.open(str(tmp_path / "index"))
    assert made["documents"] == reader.manifest.documents
    listed = {one.name for one in (tmp_path / "index" / "segments").iterdir()}
    assert listed == {segment.name for segment in reader.manifest.segments}
