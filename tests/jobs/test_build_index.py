"""`fdarx index` as a user types it: documents and a run's labels in, a searchable index out."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_LZMA, ZipFile

import pytest

from fdarx_core.records import Reject
from fdarx_core.retrieval.index import IndexReader
from fdarx_core.storage import Location, read_records
from tests.conftest import REPOSITORY
from tests.documents.files import make_pdf
from tests.jobs.in_process import run_job

GUIDELINES = REPOSITORY / "examples" / "guidelines"


def index(*options: object) -> subprocess.CompletedProcess[str]:
    return run_job("index", "--cpus", 1, *options)


@pytest.fixture(scope="module")
def guidelines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("indexes") / "guidelines"
    done = index("--documents", GUIDELINES, "--out", out, "--words-only", "--chunk-size", 600, "--overlap", 100)
    assert done.returncode == 0, done.stderr
    assert "BM25 alone" in done.stdout
    return out


def test_documents_are_found_again(guidelines: Path) -> None:
    opened = IndexReader.open(str(guidelines))
    [[(position, _), *_]] = opened.search(["When is a periodic report due?"], 3)
    chunk = opened.chunk(position)
    assert chunk.title.startswith("Reporting of Adverse Events")
    assert "Quarterly for the first three years" in chunk.text


def test_what_is_new_is_added_and_nothing_else(guidelines: Path, tmp_path: Path) -> None:
    before = IndexReader.open(str(guidelines))
    (tmp_path / "note.txt").write_text("A liner of cork is never accepted for liquids.")
    broken = tmp_path / "broken.pdf"
    broken.write_bytes(b"%PDF-1.7 and no more")
    limits = ("--words-only", "--chunk-size", 600, "--overlap", 100)
    done = index("--documents", GUIDELINES, tmp_path, "--out", guidelines, *limits)
    assert done.returncode == 0, done.stderr
    assert "new      1 chunk\n" in done.stdout
    after = IndexReader.open(str(guidelines))
    assert (len(after), after.manifest.documents) == (len(before) + 1, before.manifest.documents + 1)
    [reject] = read_records(Location(guidelines) / "rejects.parquet", Reject)
    assert "broken.pdf" in reject.id and "broken.pdf" in done.stderr
    again = index("--documents", GUIDELINES, tmp_path, "--out", guidelines, *limits)
    assert "new      0 chunks" in again.stdout
    assert IndexReader.open(str(guidelines)).version == after.version


def packed(file: Path, how: int = ZIP_DEFLATED, **members: bytes) -> Path:
    with ZipFile(file, "w", how) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("_", "."), data)
    return file


BLANK, LOCKED = make_pdf([b""]), make_pdf(["Take it."], password="secret")


@pytest.mark.parametrize(
    ("members", "how", "told"),
    [
        ({"README": b"x", "a_pdf": BLANK, "b_pdf": BLANK}, ZIP_DEFLATED, "2 no_text_layer, first {}!a.pdf: no text"),
        ({"a_pdf": LOCKED, "b_docx": b"PK"}, ZIP_DEFLATED, "the file needs a password; save a copy without one; 1 un"),
        ({"a_pdf": b"%PDF-1.7", "b_pdf": b""}, ZIP_DEFLATED, "1 empty_file, first {}!b.pdf: it has no bytes"),
        ({"a_pdf": BLANK, "b_pdf": BLANK}, ZIP_LZMA, "method 14 is not read; unpack the archive"),
        ({"README": b"x", "LICENSE": b"x"}, ZIP_DEFLATED, "2 unsupported_type, first {}!LICENSE: a name with"),
    ],
)
def test_a_zip_without_a_readable_document_is_refused_with_all_reasons(
    members: dict[str, bytes], how: int, told: str, tmp_path: Path
) -> None:
    file = packed(tmp_path / "guidelines.zip", how, **members)
    done = index("--documents", file, "--out", tmp_path / "out", "--words-only")
    assert done.returncode == 2 and "there is no document to index; left out are " in done.stderr
    assert told.format(file) in done.stderr


def test_pdfs_in_a_zip_are_read(tmp_path: Path) -> None:
    file = packed(tmp_path / "guidelines.zip", a_pdf=make_pdf(["Store it below 25 degrees."]), b_pdf=BLANK)
    done = index("--documents", file, "--out", tmp_path / "out", "--words-only")
    assert done.returncode == 0 and "1 chunk of 1 document" in done.stdout and "1 no_text_layer" in done.stderr


def test_a_document_is_dropped(guidelines: Path, tmp_path: Path) -> None:
    source = str(GUIDELINES / "container-closures.html")
    limits = ("--words-only", "--chunk-size", 600, "--overlap", 100)
    done = index("--remove", source, "--out", guidelines, *limits)
    assert done.returncode == 0, done.stderr
    opened = IndexReader.open(str(guidelines))
    titles = {opened.chunk(position).title for position in range(len(opened))}
    assert not any(title.startswith("Container Closures") for title in titles)
    missing = index("--remove", "no such document", "--out", guidelines, *limits)
    assert (missing.returncode, "no document" in missing.stderr) == (2, True)


def test_a_runs_labels(example_build: Path, tmp_path: Path) -> None:
    done = index("--documents", example_build, "--out", tmp_path / "labels", "--words-only")
    assert [line for line in done.stderr.splitlines() if "read" in line] == [
        "9 of 9 documents read, 333 new chunks written"
    ]
    assert done.returncode == 0, done.stderr
    opened = IndexReader.open(str(tmp_path / "labels"))
    assert opened.chunk(0).set_id and opened.chunk(0).drug and opened.chunk(0).section


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--documents", "no/such/file.pdf"), "no/such/file.pdf"),
        ((), "--documents"),
        (("--remove", "any.pdf"), "--remove: there is no index at"),
        (("--documents", GUIDELINES, "--overlap", 900, "--chunk-size", 900), "must be less"),
        (("--documents", GUIDELINES, "--cosine-model", "no/such/model"), "no/such/model"),
    ],
)
def test_wrong_arguments(options: tuple[object, ...], complaint: str, tmp_path: Path) -> None:
    done = index("--out", tmp_path / "out", *options)
    assert done.returncode == 2
    told = done.stderr.splitlines()
    assert len(told) == 1 and complaint in told[0], done.stderr
    assert not (tmp_path / "out").exists()


def test_an_index_of_other_makings_is_refused_at_once(guidelines: Path) -> None:
    done = index("--documents", GUIDELINES, "--out", guidelines, "--words-only", "--chunk-size", 700, "--overlap", 50)
    assert done.returncode == 2 and "--rebuild" in done.stderr
    version = json.loads((guidelines / "index.json").read_text())["version"]
    more = ("--words-only", "--chunk-size", 700, "--overlap", 50, "--rebuild")
    done = index("--documents", GUIDELINES, "--out", guidelines, *more)
    assert done.returncode == 0, done.stderr
    assert json.loads((guidelines / "index.json").read_text())["version"] != version
