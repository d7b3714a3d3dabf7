from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.documents.chunks import chunk_document, find_documents, read_documents
from fdarx_core.records import Document, Reject, content_id
from fdarx_core.storage import Location, StorageError
from tests.documents.files import glyphs, make_pdf, make_zip

SUFFIXES = (".txt", ".md", ".html", ".htm", ".pdf", ".jsonl", ".zip")


def put(folder: Path, files: Mapping[str, bytes]) -> str:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return str(folder)


def read(folder: Path, files: Mapping[str, bytes]) -> tuple[dict[str, Document], dict[str, str]]:
    """Documents by source and reasons by id, the folder cut off."""
    cut = len(put(folder, files)) + 1
    documents: dict[str, Document] = {}
    reasons: dict[str, str] = {}
    for one in read_documents(find_documents([str(folder)])):
        if isinstance(one, Reject):
            assert one.detail
            assert one.stage == "read"
            reasons[one.id[cut:]] = one.reason
        else:
            documents[one.source[cut:]] = one
    return documents, reasons


def one(folder: Path, name: str, data: bytes) -> Document:
    documents, reasons = read(folder, {name: data})
    assert reasons == {}
    (document,) = documents.values()
    return document


def test_every_kind_of_file_wherever_it_lies(tmp_path: Path) -> None:
    inner = make_zip({"deep/in/a_guide.txt": b"Inner text."})
    files = {
        "plain_text_file.txt": b"Plain.\r\nText.\x0cNew page.\n",
        "sub/folder/notes.MD": b"Intro\n\n## The **real** [title](http://x) ##\n\nBody",
        "page.htm": b"<title>A page</title><p>Words",
        "paper.pdf": make_pdf(["Some words", "on two pages"], title="Guidance on Things"),
        "rows.jsonl": b'{"title": "T1", "text": "Row"}\n',
        "all.zip": make_zip({"x/y.html": b"<h1>In a zip</h1>z", "more.zip": inner, "image.png": b"\x89PNG"}),
        ".hidden.txt": b"no",
        "data.csv": b"a,b",
    }
    documents, reasons = read(tmp_path, files)
    assert {source: (found.title, found.text) for source, found in documents.items()} == {
        "plain_text_file.txt": ("plain text file", "Plain.\nText.\nNew page."),
        "sub/folder/notes.MD": ("The real title", "Intro\n\n## The **real** [title](http://x) ##\n\nBody"),
        "page.htm": ("A page", "Words"),
        "paper.pdf": ("Guidance on Things", "Some words\n\non two pages"),
        "rows.jsonl": ("T1", "Row"),
        "all.zip!x/y.html": ("In a zip", "In a zip\n\nz"),
        "all.zip!more.zip!deep/in/a_guide.txt": ("a guide", "Inner text."),
    }
    assert reasons == {"all.zip!image.png": "unsupported_type", "data.csv": "unsupported_type"}
    assert all(found.id == content_id(found.title, found.text) for found in documents.values())


def test_what_cannot_be_read_is_told_of(tmp_path: Path) -> None:
    pdf = make_pdf(["Some words"])
    files = {
        "empty.txt": b"",
        "blank.md": b" \n\t\n",
        "latin.txt": "Präparat".encode("latin-1"),
        "binary.txt": b"ab\0cd",
        "named_wrongly.txt": pdf.replace(b"\xe2\xe3\xcf\xd3", b"abcd"),
        "no_page.html": b"just words",
        "no_words.html": b"<p><img src='a.png'></p>",
        "deep.html": b"<div>" * 3000 + b"lost" + b"</div>" * 3000 + b"<p>and this",
        "text.pdf": b"just words",
        "half.pdf": pdf[: len(pdf) // 3],
        "scanned.pdf": make_pdf(["", ""]),
        "locked.pdf": make_pdf(["Some words"], password="secret"),
        "binary.jsonl": b"\0\1\2" * 100,
        "blank.jsonl": b"\n\n",
        "broken.zip": make_zip({"a.txt": b"text"})[:-30],
        "text.zip": b"text",
        "empty.zip": make_zip({}),
    }
    documents, reasons = read(tmp_path, files)
    assert documents == {}
    assert reasons == {
        "empty.txt": "empty_file",
        "blank.md": "empty_document",
        "latin.txt": "not_text",
        "binary.txt": "not_text",
        "named_wrongly.txt": "not_text",
        "no_page.html": "not_html",
        "no_words.html": "empty_document",
        "deep.html": "unreadable_html",
        "text.pdf": "unreadable_pdf",
        "half.pdf": "unreadable_pdf",
        "scanned.pdf": "no_text_layer",
        "locked.pdf": "encrypted_pdf",
        "binary.jsonl": "not_text",
        "blank.jsonl": "empty_document",
        "broken.zip": "damaged_archive",
        "text.zip": "not_a_zip",
        "empty.zip": "no_document",
    }


def test_paths_that_do_not_exist_are_an_error_at_once(tmp_path: Path) -> None:
    put(tmp_path, {"a.txt": b"text"})
    for name in ("gone.txt", "gone/*.md", "gone"):
        with pytest.raises(StorageError, match="gone"):
            read_documents(find_documents([f"{tmp_path}/a.txt", f"{tmp_path}/{name}"]))


def test_globs_and_files_named_outright(tmp_path: Path) -> None:
    put(tmp_path, {"a.txt": b"A", "b/c.txt": b"C", "b/d.md": b"D", "e.log": b"E"})
    found = list(read_documents(find_documents([f"{tmp_path}/**/*.txt", f"{tmp_path}/e.log", f"{tmp_path}/a.txt"])))
    assert [one.text if isinstance(one, Document) else one.reason for one in found] == ["A", "C", "unsupported_type"]


def test_the_same_document_twice(tmp_path: Path) -> None:
    documents, reasons = read(tmp_path, {"a/x.txt": b"Text.", "b/x.txt": b"Text.\r\n", "c/y.txt": b"Text."})
    assert list(documents) == ["a/x.txt", "c/y.txt"]
    assert reasons == {"b/x.txt": "duplicate_document"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("suffix", [".txt", ".md", ".html", ".jsonl"])
def test_encodings(tmp_path: Path, encoding: str, suffix: str) -> None:
    said = "Ünïted ≤ 5 µg"
    whole = {".html": f"<p>{said}</p>", ".jsonl": f'{{"title": "", "text": "{said}"}}\n'}.get(suffix, said)
    assert one(tmp_path, f"a{suffix}", whole.encode(encoding)).text == said


def test_pages_in_the_encoding_that_they_declare(tmp_path: Path) -> None:
    page = '<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-1"><p>“5 µg”</p>'.encode("cp1252")
    assert one(tmp_path, "a.html", page).text == "“5 µg”"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("<p>Give 2 x 10<sup>6</sup> cells/kg.", "Give 2 x 10^6 cells/kg."),
        ("<p>Below 1 × 10<sup>9/L</sup> stop.", "Below 1 × 10^9/L stop."),
        ("<p>In <b>12</b><sup>1</sup> of 40", "In 12 [1] of 40"),
        ("<p>a rate of 0.9 h<sup>-1</sup>", "a rate of 0.9 h^-1"),
        ("<p>2 x 10<span style='font-size:70%; vertical-align: super'>6</span> cells", "2 x 10^6 cells"),
        ("<p>mg/m<sup>2</sup> and <a href='#n'><sup>a</sup></a>Note", "mg/m2 and [a] Note"),
        ("<p>The dose is <del>10 mg</del> <ins>5 mg</ins> <s>twice</s> daily.", "The dose is 5 mg daily."),
        ("<p>Take <span style='text-decoration: line-through'>10</span> 5 mg", "Take 5 mg"),
        (
            "<p>CrCl <img alt='less than or equal to' src='le.gif'> 30: stop.",
            "CrCl [image: less than or equal to] 30: stop.",
        ),
        ("<p>CrCl <img src='le.gif'> 30<p><img src='f.png' alt='Figure'>", "CrCl [image] 30"),
        ("<p>CrCl <img src='le.gif' alt=''> 30", "CrCl 30"),
        ("<ol><li>Wash.<li><p>Inject.</p><li>Repeat 1.</ol>", "1. Wash.\n\n2. Inject.\n\n3. Repeat 1."),
        ("<ol start=3 type=a><li>Wash.<li>Wait.</ol>", "c. Wash.\nd. Wait."),
        ("<ol><li>1) Wash.<li value=5>Wait.</ol>", "1) Wash.\n5. Wait."),
    ],
)
def test_marks_of_pages_keep_their_meaning(body: str, text: str, tmp_path: Path) -> None:
    found = one(tmp_path, "a.html", f"<html><body>{body}</body></html>".encode())
    assert found.text == text


TWO_HEADERS = (
    "<tr><th rowspan=2>Age</th><th colspan=2>Dose (mg)</th></tr><tr><th>Day 1</th><th>Day 2</th></tr>"
    "<tr><td>Adult</td><td>10</td><td>5</td></tr>"
)


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        (TWO_HEADERS, ["Age: Adult | Dose (mg) Day 1: 10; Day 2: 5"]),
        (
            f"<caption>Table 1</caption><thead>{TWO_HEADERS}</thead>",
            ["Table 1", "Age: Adult | Dose (mg) Day 1: 10; Day 2: 5"],
        ),
        (
            "<tr><td><b>Drug</b></td><td><b>Dose</b></td></tr><tr><td rowspan=2>A</td><td>5 mg<br>daily</td></tr>"
            "<tr><td>10 mg</td></tr>",
            ["Drug: A | Dose: 5 mg daily", "A | Dose: 10 mg"],
        ),
        (
            "<tr><th>A</th><th>B</th></tr><tr><td rowspan=0>x</td><td>1</td></tr><tr><td>2</td></tr>",
            ["A: x | B: 1", "x | B: 2"],
        ),
        (
            "<tr><th>A</th><th>B</th></tr><tr><td>10<sup>6</sup></td><td><ul><li>x<li>y</ul></td></tr>",
            ["A: 10^6 | B: x; y"],
        ),
        ("<tr><td>just</td><td>two</td></tr><tr><td>plain</td><td>rows</td></tr>", ["just | two", "plain | rows"]),
    ],
)
def test_values_of_tables_have_their_headers(rows: str, lines: list[str], tmp_path: Path) -> None:
    found = one(tmp_path, "a.html", f"<html><body><p>Before</p><table>{rows}</table>after</body></html>".encode())
    assert found.text.split("\n") == ["Before", "", *lines, "", "after"]


def test_a_table_that_lays_out_text_stays_text(tmp_path: Path) -> None:
    inner = "<table><tr><th>A</th><th>B</th></tr><tr><td>1</td><td>2</td></tr></table>"
    page = f"<html><body><table><tr><td>Menu</td><td><p>Text</p>{inner}</td></tr></table></body></html>"
    assert one(tmp_path, "a.html", page.encode()).text.split("\n") == ["Menu | Text", "A: 1 | B: 2"]


def test_pages_as_a_reader_sees_them(tmp_path: Path) -> None:
    page = """<?xml version="1.0" encoding="latin-1"?><!DOCTYPE html><html><head><title> Dosing &amp;
      more </title><style>p {color: red}</style></head><body><nav><a href="/">Home</a></nav>
      <h1>Dosing</h1><p>Take <b>5</b>&nbsp;mg of H<sub>2</sub>O&hellip;<!-- never --> daily.<script>alert("x")</script>
      Not more.<p>Second con&shy;tra<br>line</p><ul><li>one<li>two</ul>
      <table><tr><th>Age</th><th><p>Dose</p></th></tr><tr><td></td><td>5 mg<p>or less</p></td></tr></table>
      <div>after</div>the &lt;end&gt;<template>no</template></body></html>"""
    found = one(tmp_path, "a.html", page.encode())
    assert found.title == "Dosing & more"
    assert found.text.split("\n") == [
        *("Dosing", "", "Take 5 mg of H2O… daily. Not more.", "", "Second contra", "line", "", "one", "two", ""),
        *("Age", "Dose: 5 mg or less", "", "after", "the <end>"),
    ]


def test_titles_of_pages_without_one(tmp_path: Path) -> None:
    assert one(tmp_path, "a_b.html", b"<title> </title><h1>The <i>first</i></h1><h1>Second</h1>").title == "The first"
    assert one(tmp_path / "x", "a_b.html", b"<svg><desc>no</desc></svg><p>text").title == "a b"


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# One\n# Two", "One"),
        ("Under\n=====\ntext", "Under"),
        ("---\ntitle: x\n---\n### `Code` ###\n", "Code"),
        ("```\n# no heading\n```\n#also none\n## C#\n", "C#"),
        ("# \n\ntext", "my notes"),
    ],
)
def test_titles_of_markdown(tmp_path: Path, text: str, title: str) -> None:
    assert one(tmp_path, "my_notes.md", text.encode()).title == title


@pytest.mark.parametrize(
    ("title", "taken"),
    [
        ("Guidance for  Industry", "Guidance for Industry"),
        ("Microsoft Word - draft 7", "a file"),
        ("1234fnl final.doc", "a file"),
        ("Untitled", "a file"),
        ("12345678", "a file"),
    ],
)
def test_titles_of_pdfs(tmp_path: Path, title: str, taken: str) -> None:
    assert one(tmp_path, "a_file.pdf", make_pdf(["Some words"], title=title)).title == taken


def test_words_that_lines_of_a_pdf_divide(tmp_path: Path) -> None:
    pages = [
        "It is contraindi-\ncated in a risk-\nbased view, COVID-\n19 too.",
        "So contraindicated it is.  (See\\that)",
    ]
    text = one(tmp_path, "a.pdf", make_pdf(pages)).text
    assert (
        text == "It is contraindicated in a risk-based view, COVID-\n19 too.\n\nSo contraindicated it is. (See\\that)"
    )


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ("The hyphen-\nated infusion takes 90 min-\nutes.", "The hyphenated infusion takes 90 minutes."),
        ("long-\nterm use, and non-\nclinical data", "long-term use, and non-clinical data"),
        ("a beta-\nlactam. Each beta-lactam", "a beta-lactam. Each beta-lactam"),
        ("nonclin-\nical", "nonclinical"),
        ("tablet-\ncapsule. A tablet, a capsule.", "tablet-capsule. A tablet, a capsule."),
    ],
)
def test_words_that_stand_at_one_line_end_alone(lines: str, text: str, tmp_path: Path) -> None:
    assert one(tmp_path, "a.pdf", make_pdf([lines])).text == text


@pytest.mark.parametrize(
    ("operators", "text"),
    [
        ("(2 x 10) Tj /F1 7 Tf 5 Ts (6) Tj 0 Ts /F1 12 Tf ( cells/kg) Tj", "2 x 10^6 cells/kg"),
        ("(2 x 10) Tj 5 Ts (6) Tj 0 Ts ( cells/kg) Tj", "2 x 10^6 cells/kg"),
        ("(2 x 10) Tj /F1 7 Tf 85 5 Td (9/L) Tj /F1 12 Tf 14 -5 Td (stop) Tj", "2 x 10^9/L stop"),
        ("(2 x 10) Tj /F1 8 Tf 1 0 0 1 122 724 Tm (-6) Tj /F1 12 Tf 1 0 0 1 130 720 Tm (M) Tj", "2 x 10^-6M"),
        (
            "/F1 1 Tf 12 0 0 12 72 720 Tm (In 12) Tj 7 0 0 7 105 725 Tm (1) Tj 12 0 0 12 110 720 Tm ( of) Tj",
            "In 12 [1] of",
        ),
        ("(1.73 m) Tj 4 Ts /F1 7 Tf (2) Tj 0 Ts /F1 12 Tf ( area) Tj", "1.73 m2 area"),
        ("(CO) Tj /F1 7 Tf -3 Ts (2) Tj 0 Ts /F1 12 Tf ( gas) Tj", "CO2 gas"),
        ("/F1 18 Tf (1 Use) Tj /F1 10 Tf 0 -24 Td (12 mg) Tj", "1 Use\n12 mg"),
        (f"/F2 12 Tf 1 0 0 -1 72 720 Tm {glyphs('Take 5 mg')} Tj", "Take 5 mg"),
        (f"/F2 12 Tf {glyphs('1.73 m')} Tj 4 Ts [{glyphs('2')}] TJ 0 Ts {glyphs(' area')} Tj", "1.73 m2 area"),
    ],
)
def test_raised_digits_of_a_pdf(operators: str, text: str, tmp_path: Path) -> None:
    page = f"BT /F1 12 Tf 72 720 Td {operators} ET".encode()
    assert one(tmp_path, "a.pdf", make_pdf([page])).text == text


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.pdf", b"<html>404</html>", "the file is HTML; give it a name that ends in .html"),
        ("a.pdf", b"\xef\xbb\xbf\n<!DOCTYPE HTML><p>x", "the file is HTML; give it a name that ends in .html"),
        ("a.html", make_pdf(["x"]), "the file is a PDF; give it a name that ends in .pdf"),
        ("a.txt", make_pdf(["x"]), "the file is a PDF; give it a name that ends in .pdf"),
        ("a.md", b"PK\x03\x04\x14\0rest", "the file is a zip, or a document of an office program"),
        ("a.pdf", b"\xd0\xcf\x11\xe0rest", "the file is a document of an office program; save it as PDF"),
        ("a.txt", b"{\\rtf1 text}", "the file is in rich text format (RTF); save it as PDF"),
    ],
)
def test_a_file_of_another_kind_than_its_name_says(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    [reject] = read_documents(find_documents([str(tmp_path / name)]))
    assert isinstance(reject, Reject) and said in reject.detail


def test_a_pdf_that_opens_without_its_password(tmp_path: Path) -> None:
    assert one(tmp_path, "a.pdf", make_pdf(["Some words"], password="")).text == "Some words"


def test_a_damaged_page_spares_the_others(tmp_path: Path) -> None:
    whole = make_pdf(["First page", "Second page", "Third page"])
    broken = whole.replace(b"(Second page) Tj", b"<<<<<<<<<<<<< Tj")
    documents, reasons = read(tmp_path, {"a.pdf": broken})
    assert documents["a.pdf"].text == "First page\n\nThird page"
    assert reasons == {"a.pdf:page 2": "unreadable_page"}


def test_rows_of_one_title_are_pieces_of_one_document(tmp_path: Path) -> None:
    rows = b"""{"title": "A", "text": "a one"}
{"title": "A", "text": "a two"}
not json

{"title": "A", "text": " \\n"}
{"title": "A", "text": "a three"}
{"title": "B", "text": "b one", "more": 1}
{"title": "A", "text": "a four"}
{"text": "untitled"}
{"title": "", "text": "untitled too"}
{"title": "C"}
[1]
"""
    put(tmp_path, {"my_rows.jsonl": rows})
    found = list(read_documents(find_documents([f"{tmp_path}/my_rows.jsonl"])))
    documents = [one for one in found if isinstance(one, Document)]
    assert [(one.title, [chunk.text for chunk in chunk_document(one)]) for one in documents] == [
        ("A", ["a one", "a two", "a three"]),
        ("B", ["b one"]),
        ("A", ["a four"]),
        ("my rows", ["untitled"]),
        ("my rows", ["untitled too"]),
    ]
    assert {one.source for one in documents} == {f"{tmp_path}/my_rows.jsonl"}
    assert [(one.source[len(str(tmp_path)) + 1 :], one.reason) for one in found if isinstance(one, Reject)] == [
        ("my_rows.jsonl:3", "not_json"),
        ("my_rows.jsonl:5", "empty_document"),
        ("my_rows.jsonl:11", "no_text_field"),
        ("my_rows.jsonl:12", "not_an_object"),
    ]


def test_a_row_longer_than_a_chunk_is_cut_apart_from_its_neighbours(tmp_path: Path) -> None:
    rows = [b'{"title": "A", "text": "%s"}' % text for text in (b"short one", b"word " * 30, b"short two")]
    chunks = chunk_document(one(tmp_path, "a.jsonl", b"\n".join(rows)), 60, 20)
    assert [chunks[0].text, chunks[-1].text] == ["short one", "short two"]
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert all(set(chunk.text.split()) == {"word"} for chunk in chunks[1:-1])


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of rows is held line by line, so that it may be larger; of a line too long, the rest is another."""
    monkeypatch.setattr("fdarx_core.storage.sources.MAX_DOCUMENT", 3500)
    monkeypatch.setattr("fdarx_core.documents.parsers.MAX_DOCUMENT", 2000)
    monkeypatch.setattr("fdarx_core.documents.pdf.MAX_TEXT", 15)
    rows = b"".join(b'{"title": "%d", "text": "%s"}\n' % (number, b"a" * 900) for number in range(4))
    files = {
        "a.txt": rows,
        "b.jsonl": rows,
        "c.jsonl": b'"%s"\n' % (b"a" * 3000),
        "d.pdf": make_pdf(["0123456789"] * 2),
    }
    put(tmp_path, files)
    found = list(read_documents(find_documents([str(tmp_path)])))
    assert [one.title if isinstance(one, Document) else one.reason for one in found] == [
        *("oversized_member", "0", "1", "2", "3", "not_json", "not_json", "oversized_document")
    ]


def test_damage_and_bombs_in_archives_spare_their_neighbours(tmp_path: Path) -> None:
    noise = os.urandom(3000).hex().encode()
    stored = make_zip({"bad.txt": noise, "good.txt": b"Good."}, zipfile.ZIP_STORED)
    bomb = make_zip({"bomb.txt": b" " * (20 * 2**20), "fine.txt": b"Fine."})
    files = {"a.zip": stored.replace(noise[:50], b"0" * 50), "b.zip": bomb}
    documents, reasons = read(tmp_path, files)
    assert {source: found.text for source, found in documents.items()} == {
        "a.zip!good.txt": "Good.",
        "b.zip!fine.txt": "Fine.",
    }
    assert reasons == {"a.zip!bad.txt": "damaged_member", "b.zip!bomb.txt": "compression_bomb"}


@pytest.mark.parametrize(
    "page",
    [
        b"<br>" * 200_000,
        b"<b> </b>" * 100_000,
        b"<td>" * 1500 + b"x",
        b"<p>" + b"[" * 300_000,
        b"<table>" * 2000 + b"x",
    ],
    ids=["breaks", "spaces", "cells", "brackets", "tables"],
)
def test_pages_of_one_thing_over_and_over(tmp_path: Path, page: bytes) -> None:
    documents, reasons = read(
        tmp_path, {"a.html": b"<body>" + page, "a.md": b"# " + page, "b.md": b"# " + b" " * 10**6}
    )
    assert len(documents) + len(reasons) == 3


@given(
    data=st.binary(max_size=300)
    | st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.sampled_from([b"%PDF-1.4\n", b"<html>", b"PK\3\4", b'{"text": ']).flatmap(
        lambda head: st.binary(max_size=200).map(lambda tail: head + tail)
    ),
    suffix=st.sampled_from(SUFFIXES),
)
def test_any_bytes_under_any_name_are_read_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    put(folder, {f"a{suffix}": data, "z.zip": make_zip({f"b{suffix}": data, "ok.txt": b"Good."})})
    found = list(read_documents(find_documents([str(folder)])))
    assert {one.source.rpartition("/")[2][:5] for one in found} >= {f"a{suffix}"[:5], "z.zip"}
    assert any(isinstance(one, Document) and one.text == "Good." for one in found)


PDF = make_pdf(["Some words on a page", "and on another"], title="A real title")


@given(
    edits=st.lists(st.tuples(st.integers(0, len(PDF) - 1), st.integers(0, 255)), min_size=1, max_size=8),
    end=st.integers(len(PDF) // 2, len(PDF)),
)
def test_no_damage_to_a_pdf_makes_it_raise(
    tmp_path_factory: pytest.TempPathFactory, edits: list[tuple[int, int]], end: int
) -> None:
    data = bytearray(PDF)
    for place, value in edits:
        data[place] = value
    assert list(read_documents(find_documents([put(tmp_path_factory.mktemp("damaged"), {"a.pdf": bytes(data[:end])})])))


def test_a_file_that_goes_away_is_a_reject(tmp_path: Path) -> None:
    put(tmp_path, {"a.txt": b"A", "b.jsonl": b'{"text": "B"}'})
    found = read_documents(find_documents([str(tmp_path)]))
    for path in tmp_path.iterdir():
        path.unlink()
    assert [one.reason for one in found if isinstance(one, Reject)] == ["unreadable", "unreadable"]


def test_documents_on_s3(bucket: Location) -> None:
    (bucket / "docs/a.txt").write_text("Far text.")
    (bucket / "docs/b.jsonl").write_text('{"title": "T", "text": "Far row."}\n')
    archive = io.BytesIO(make_zip({"c.md": b"# Far heading\n"}))
    (bucket / "docs/c.zip").write_bytes(archive.getvalue())
    found = list(read_documents(find_documents([f"{bucket}/docs"])))
    assert [one.title if isinstance(one, Document) else one.reason for one in found] == ["a", "T", "Far heading"]


@pytest.mark.parametrize("picture", [b"BI /W 1 /H 1 /BPC 8 /CS /G ID \xff EI", b"/Scan Do"])
def test_a_page_that_is_a_picture_is_rejected_with_the_remedy(picture: bytes, tmp_path: Path) -> None:
    """An image of one pixel, or a named one, stands on the first page, words on the second."""
    put(tmp_path, {"half.pdf": make_pdf([picture, "Some words"])})
    [rejected, document] = sorted(
        read_documents(find_documents([f"{tmp_path}/half.pdf"])), key=lambda row: isinstance(row, Document)
    )
    assert isinstance(rejected, Reject) and isinstance(document, Document)
    assert (rejected.reason, document.text) == ("no_text_layer", "Some words")
    assert rejected.id.endswith("half.pdf:page 1") and "ocrmypdf FILE.pdf NEW.pdf" in rejected.detail
