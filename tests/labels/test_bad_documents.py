"""What is refused, with which reason, and what must be read in spite of its looks."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from benchmarks.mutate import CRASHED, cases
from fdarx_core.labels import BadDocument, parse_label
from tests.conftest import EXAMPLES
from tests.labels.spl import FILLER, document, passages_of, read, section, table

GOOD = document(section(f"<paragraph>{FILLER} 25 µg ≥ 3</paragraph>"))
WITHOUT_HEAD = document(section("<paragraph>text</paragraph>"), head="")
LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE document [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    '<document xmlns="urn:hl7-org:v3"><setId root="a"/><title>&b;</title></document>'
)


def reason(data: bytes) -> str:
    with pytest.raises(BadDocument) as caught:
        parse_label(data)
    assert caught.value.detail
    assert str(caught.value).startswith(caught.value.reason)
    return caught.value.reason


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "empty_file"),
        (b" \r\n\t", "empty_file"),
        (b"\xef\xbb\xbf", "empty_file"),
        (b"\0" * 100, "empty_file"),
        (b"%PDF-1.7 not a label", "not_xml"),
        (b"PK\x03\x04rest of a zip", "not_xml"),
        (b'{"set_id": 1}', "not_xml"),
        (GOOD.encode()[:-200], "not_well_formed"),
        (GOOD.replace("</paragraph>", "", 1).encode(), "not_well_formed"),
        (GOOD.encode() + b"<more/>", "not_well_formed"),
        (GOOD.replace("25", "2&undeclared;5").encode(), "not_well_formed"),
        (GOOD.replace(" 25 ", " 2\0 ").encode(), "not_well_formed"),
        (b"<html><body/></html>", "wrong_root"),
        (GOOD.replace("urn:hl7-org:v3", "urn:hl7-org:v2").encode(), "wrong_root"),
        (GOOD.replace("setId", "id").encode(), "no_set_id"),
        (GOOD.replace('<setId root="', '<setId extension="').encode(), "no_set_id"),
        (GOOD.encode("latin-1", "replace"), "wrong_encoding"),
        (GOOD.replace("UTF-8", "klingon").encode(), "wrong_encoding"),
        (LAUGHS.encode(), "doctype_refused"),
        (LAUGHS.encode("utf-16"), "doctype_refused"),
        (LAUGHS.replace(' [<!ENTITY a "ha"', ' SYSTEM "x.dtd" [<!ENTITY a "ha"').encode(), "doctype_refused"),
        (GOOD.replace("<document", "<!DOCTYPE document><document", 1).encode(), "doctype_refused"),
    ],
)
def test_refused(data: bytes, expected: str) -> None:
    assert reason(data) == expected


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be"])
def test_no_entity_reaches_a_file(encoding: str, tmp_path: Path) -> None:
    """A pipe as the entity's file: to open it would hang for ever, to have it opened would show in an audit."""
    pipe = tmp_path / "secret"
    os.mkfifo(pipe)
    xml = (
        f'<?xml version="1.0" encoding="{encoding}"?>\n<!DOCTYPE document [<!ENTITY x SYSTEM "{pipe.as_uri()}">]>'
        '<document xmlns="urn:hl7-org:v3"><setId root="a"/><title>&x;</title></document>'
    )
    opened: list[str] = []
    sys.addaudithook(lambda event, details: opened.append(str(details[0])) if event == "open" else None)
    assert reason(xml.encode(encoding)) == "doctype_refused"
    assert not [name for name in opened if "secret" in name]


def test_a_doctype_hidden_behind_a_comment() -> None:
    xml = LAUGHS.replace("<!DOCTYPE", "<!-- <document> --><!DOCTYPE", 1)
    assert reason(xml.encode()) == "doctype_refused"


def test_the_words_of_a_doctype_in_text_are_text() -> None:
    assert passages_of("<![CDATA[<!DOCTYPE html> is how pages begin]]>") == ["<!DOCTYPE html> is how pages begin"]


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + GOOD.encode(),
        GOOD.replace("?>", "?>\r\n").encode(),
        GOOD.replace("UTF-8", "UTF-16").encode("utf-16"),
        GOOD.encode("utf-16"),  # its byte order mark outweighs what it declares
        b"\xff\xfe" + GOOD.replace("UTF-8", "UTF-16").encode("utf-16-le"),
        b"\xfe\xff" + GOOD.replace("UTF-8", "UTF-16").encode("utf-16-be"),
        GOOD.replace(' encoding="UTF-8"', "").encode(),
        GOOD.replace("UTF-8", "us-ascii").encode("ascii", "xmlcharrefreplace"),
        GOOD.replace("UTF-8", "windows-1252").replace("≥", "&#8805;").encode("cp1252"),
    ],
)
def test_read_all_the_same(data: bytes) -> None:
    label, passages = parse_label(data)
    assert label == read(GOOD)[0]
    assert [one.text for one in passages] == [f"{FILLER} 25 µg ≥ 3"]


@pytest.mark.parametrize("ends", ["\r\n", "\r", "\n"])
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
def test_line_ends_are_white_space_and_breaks_are_lines(ends: str, encoding: str) -> None:
    body = section(f"<paragraph>one{ends}two<br/>three<br />four</paragraph>")
    xml = document(body).replace("UTF-8", encoding)
    assert parse_label(xml.encode(encoding))[1][0].text == "one two\nthree\nfour"


@pytest.mark.parametrize(
    "tag", ["component><section", "list><item", "paragraph", "content", "item", "table><tr><td", "sup"]
)
def test_nesting_up_to_the_limit_of_the_xml_parser(tag: str) -> None:
    closing = "".join(f"</{name}>" for name in reversed(tag.split("><")))
    depth = 240 // len(tag.split("><"))
    nested = f"<{tag}>" * depth + "word" + closing * depth
    if "section" in tag:
        nested = nested.replace("word", "<text>word</text>")
        assert [one.text for one in read(document(nested))[1]] == ["word"]
    else:
        assert "word" in "\n".join(passages_of(nested))


def test_nesting_beyond_it() -> None:
    deep = "<list><item>" * 50_000 + "</item></list>" * 50_000
    assert reason(document(section(deep)).encode()) == "nested_too_deep"


def test_spans_that_no_table_has() -> None:
    row = '<td colspan="99999999" rowspan="-3">a</td><td rowspan="88888888">b</td><td colspan="x">c</td>'
    text = "\n".join(passages_of(table([row, "<td>d</td>"])))
    assert all(word in text for word in "abcd")


def test_damaged_examples_neither_crash_nor_hang() -> None:
    documents = [path.read_bytes() for path in sorted(EXAMPLES.glob("*.xml"))]
    ended = list(cases(documents, seed=3, numbers=range(300)))
    assert not [case for case in ended if case[1].startswith(CRASHED)]
    assert len({outcome for _, outcome, _ in ended}) > 4
