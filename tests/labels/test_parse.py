"""Parsing of whole documents: header, products, outline, and what is refused."""

from __future__ import annotations

import os
import re
import sys
import zipfile
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

from benchmarks import read_documents
from fdarx_core.labels import BadDocument, parse_document
from fdarx_core.labels.parse import parse_label, read_labels
from fdarx_core.records import Label, from_table, to_table
from fdarx_core.storage import StorageError
from tests.conftest import EXAMPLES
from tests.labels.fidelity import growth, measure, share_found
from tests.labels.spl import (
    FIELDS,
    FILLER,
    NDC,
    SET_ID,
    document,
    passages_of,
    product,
    read,
    section,
    subject,
    substance,
    table,
)


def test_header_fields() -> None:
    label, _ = read(document())
    assert (label.set_id, label.version, label.effective_date) == (SET_ID, 7, "2024-01-31")
    assert (label.document_type, label.document_type_name) == ("34391-3", "HUMAN PRESCRIPTION DRUG LABEL")
    assert label.title == "Invented tablets"
    assert parse_document(document().encode(), "a.xml")[0].source == "a.xml"


def test_a_related_document_keeps_its_set_id_to_itself() -> None:
    related = '<relatedDocument><relatedDocument><setId root="ffff"/><versionNumber value="1"/></relatedDocument>'
    label, _ = read(document(fields=f"{related}</relatedDocument>{FIELDS}"))
    assert (label.set_id, label.version) == (SET_ID, 7)


@pytest.mark.parametrize("value", ["", "0000", "20241399", "99999999999", "2024", "today", "２０２４０１０１x"])
def test_an_absurd_date_is_no_date(value: str) -> None:
    label, _ = read(document(fields=f'<setId root="a"/><effectiveTime value="{value}"/>'))
    assert label.effective_date == ""


@pytest.mark.parametrize("value", ["", "-1", "1.5", "99999999999999999999", "²"])
def test_an_absurd_version_is_version_0(value: str) -> None:
    assert read(document(fields=f'<setId root="a"/><versionNumber value="{value}"/>'))[0].version == 0


@pytest.mark.parametrize("title", ["", "<title/>", "<title><br/></title>", "<title>\u00a0</title>"])
def test_an_empty_title_gives_way_to_the_product_name(title: str) -> None:
    one = product("Inventa", "inventol", "1-1", "")
    label, _ = read(document(subject=subject(one), fields=f'<setId root="a"/>{title}'))
    assert (label.title, label.drug_name) == ("", "Inventa")


@pytest.mark.parametrize("line_break", ["<br/>", "<br />", "<br></br>"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1"])
def test_a_line_break_in_a_title_parts_its_words(line_break: str, encoding: str) -> None:
    fields = f'<setId root="a"/><title>Inventa{line_break}tablets</title>'
    data = document(fields=fields, head=f'<?xml version="1.0" encoding="{encoding}"?>').encode(encoding)
    assert parse_document(data)[0].title == "Inventa tablets"


def test_without_a_product_the_title_names_the_drug() -> None:
    assert read(document())[0].drug_name == "Invented tablets"


def test_names_of_one_product() -> None:
    salt = substance("inventol hydrochloride", "UNIIA", "inventol", "UNIIB")
    filler = substance("starch", "UNIIC", "starch moiety", "UNIID", kind="IACT").replace("activeMoiety", "other")
    route = (
        '<consumedIn><substanceAdministration><routeCode displayName="ORAL"/></substanceAdministration></consumedIn>'
    )
    approval = (
        '<subjectOf><approval><id extension="NDA000001"/><code displayName="NDA"/></approval></subjectOf>'
        '<subjectOf><approval><id extension="NDA000001"/><code displayName="NDA"/></approval></subjectOf>'
    )
    package = (
        '<asContent><containerPackagedProduct><formCode displayName="BOTTLE"/></containerPackagedProduct></asContent>'
    )
    one = product("Inventa", "inventol", "11111-222", salt + filler)
    label, _ = read(document(subject=subject(one, rest=package + route + approval)))
    assert label.aliases == ["Inventa", "inventol", "inventol hydrochloride"]
    assert label.substances == ["inventol hydrochloride", "inventol"]
    assert label.uniis == ["UNIIA", "UNIIB"]
    assert (label.routes, label.dosage_forms, label.ndcs) == (["ORAL"], ["TABLET"], ["11111-222"])
    assert (label.marketing_categories, label.application_numbers) == (["NDA"], ["NDA000001"])


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Inventa<suffix>Pen</suffix>", "Inventa Pen"),
        ("Inventa <suffix>Delayed Release\n</suffix>\n ", "Inventa Delayed Release"),
        ("Inventa<suffix/>", "Inventa"),
        ("Inventa<suffix>-D</suffix>", "Inventa-D"),
        ("Inventa<suffix>24</suffix>", "Inventa 24"),
        ("Inventa B<sub>12</sub>", "Inventa B12"),
    ],
)
def test_the_suffix_of_a_name_is_another_word(written: str, name: str) -> None:
    label, _ = read(document(subject=subject(product(written, "inventol", "1-1", ""))))
    assert (label.drug_name, label.products[0].names[0]) == (name, name)


def test_several_products_and_the_parts_of_a_kit() -> None:
    part = product("Partola", "partolol", "3-3", "", tag="partProduct")
    kit = f'<code code="2-2" codeSystem="{NDC}"/><name>Inventa Pak</name><part>{part}</part>'
    label, _ = read(
        document(
            subject=subject(
                product("Inventa", "inventol", "1-1", ""), f"<manufacturedProduct>{kit}</manufacturedProduct>"
            )
        )
    )
    assert label.aliases == ["Inventa", "Inventa Pak", "Partola", "inventol", "partolol"]
    assert label.ndcs == ["1-1", "2-2", "3-3"]


def test_active_ingredients_of_products_and_kit_parts() -> None:
    salt = substance("inventol hydrochloride", "U1", "inventol", "U2")
    double = substance("fersal", "U3", "feron", "U4").replace(
        "</activeMoiety></ingred",
        "</activeMoiety><activeMoiety><activeMoiety><name>salon</name></activeMoiety></activeMoiety></ingred",
        1,
    )
    part = product("Partola", "partolol", "3-3", double, tag="partProduct")
    kit = f"<name>Inventa Pak</name>{salt}<part>{part}</part>{substance('starch', 'U9', 'starch', 'U9', 'IACT')}"
    label, _ = read(document(subject=subject(kit)))
    pak, inner = label.products
    assert (pak.names, inner.names) == (["Inventa Pak"], ["Partola", "partolol"])
    assert pak.substances == ["inventol hydrochloride", "fersal", "fersal"]
    assert pak.substance_uniis == ["U1", "U3", "U3"]
    assert (pak.moieties, pak.moiety_uniis) == (["inventol", "feron", "salon"], ["U2", "U4", ""])
    assert (inner.substances, inner.moieties) == (["fersal", "fersal"], ["feron", "salon"])
    assert list(from_table(to_table([label], Label), Label)) == [label]


def test_the_schema_before_2006() -> None:
    old = (
        f'<manufacturedMedicine><code code="4-4" codeSystem="{NDC}"/><name>Oldol</name><activeIngredient>'
        "<activeIngredientSubstance><name>oldolol</name></activeIngredientSubstance></activeIngredient>"
        "</manufacturedMedicine>"
    )
    label, _ = read(document(subject=f"<subject><manufacturedProduct>{old}</manufacturedProduct></subject>"))
    assert label.aliases == ["Oldol", "oldolol"]
    assert label.ndcs == ["4-4"]


def test_sections_with_numbers_paths_and_core_codes() -> None:
    deepest = section(FILLER, title="Infants", code="")
    inner = section(FILLER, title="2.1 Children", code="42229-5", inner=deepest)
    label, passages = read(
        document(section(FILLER, "2 DOSAGE", "34068-7", inner) + section(FILLER, "1000 ways", "34068-7"))
    )
    outline = [(one.code, one.core_code, one.number, one.title, one.path, one.depth) for one in label.sections]
    assert outline == [
        ("34068-7", "34068-7", "2", "DOSAGE", "DOSAGE", 0),
        ("42229-5", "34068-7", "2.1", "Children", "DOSAGE > Children", 1),
        ("", "34068-7", "", "Infants", "DOSAGE > Children > Infants", 2),
        ("34068-7", "34068-7", "", "1000 ways", "1000 ways", 0),
    ]
    assert [one.section_path for one in passages] == [one.path for one in label.sections]
    assert [one.doc_chunk_index for one in passages] == [0, 1, 2, 3]
    assert {one.section_chunk_index for one in passages} == {0}
    assert {one.set_id for one in passages} == {SET_ID}
    assert passages[2].core_code == "34068-7"


@pytest.mark.parametrize(
    ("printed", "number", "title"),
    [
        ("5.2 Renal", "5.2", "Renal"),
        ("5.2. Renal", "5.2", "Renal"),
        ("5Renal", "5", "Renal"),
        ("12.3.1\u00a0Intake", "12.3.1", "Intake"),
        ("14", "", "14"),
        ("24-hour care", "", "24-hour care"),
        ("10 mg Tablets", "", "10 mg Tablets"),
        ("2.5 mg/5 mL Carton", "", "2.5 mg/5 mL Carton"),
        ("5 % Cream", "", "5 % Cream"),
        ("12 Hour Relief", "", "12 Hour Relief"),
        ("6 to 12 Years", "6", "to 12 Years"),
        ("2 in 1", "", "2 in 1"),
        ("1ST DOSE", "", "1ST DOSE"),
        ("0.5 mg", "", "0.5 mg"),
        ("12.4 In Vitro", "12.4", "In Vitro"),
        ("5.2 G astric Bleeding", "5.2", "G astric Bleeding"),
        ("<content>1 </content>USE<footnote>note</footnote>", "1", "USE [1]"),
    ],
)
def test_printed_section_numbers(printed: str, number: str, title: str) -> None:
    one = read(document(section(FILLER, title=printed)))[0].sections[0]
    assert (one.number, one.title) == (number, title)


def test_a_boxed_warning_is_also_given_as_a_whole() -> None:
    label, passages = read(document(section(f"<paragraph>{FILLER}</paragraph>", "WARNING", "34066-1")))
    assert label.boxed_warning == FILLER == passages[0].text
    assert read(document(section(FILLER)))[0].boxed_warning == ""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<br/>",
        "<paragraph/>",
        "<paragraph> \u200b\u00ad </paragraph>",
        '<renderMultiMedia referencedObject="a"/>',
        " ",
    ],
)
def test_a_section_without_words_has_no_passage(text: str) -> None:
    label, passages = read(document(section(text, title="Empty")))
    assert [one.title for one in label.sections] == ["Empty"]
    assert passages == []


def test_text_without_a_paragraph() -> None:
    assert passages_of(f"{FILLER}<br/>More <content styleCode='bold'>of</content> it.") == [f"{FILLER}\nMore of it."]


def test_comments_and_instructions_are_no_text() -> None:
    assert passages_of("<paragraph>a<!-- no -->b<?no no?> c</paragraph><!-- no --><?no no?>") == ["ab c"]


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.xml")), ids=lambda path: path.stem)
def test_no_text_is_lost_in_the_examples(path: Path) -> None:
    total, lost = Counter[str](), Counter[str]()
    measure(path.read_bytes(), total, lost)
    assert not lost
    assert total["lost numbers"] == 0
    assert growth(total, "words") < 1.15


def test_no_text_is_lost_in_real_labels(real_labels: Path) -> None:
    total, lost = Counter[str](), Counter[str]()
    for data in read_documents([str(real_labels)])[::20]:
        measure(data, total, lost)
    assert share_found(total) >= 0.999, lost.most_common(10)
    assert growth(total, "words") <= 1.05
    assert total["lost numbers"] == 0


def test_an_example_reads_as_it_looks() -> None:
    label, passages = parse_document((EXAMPLES / "telvanto-tablets.xml").read_bytes())
    assert label.drug_name.lower() == "telvanto"
    assert label.highlights
    assert label.boxed_warning
    assert all(one.text == one.text.strip() and "  -" not in one.text[:3] for one in passages)
    assert [one.doc_chunk_index for one in passages] == list(range(len(passages)))


GOOD = document(section(f"<paragraph>{FILLER} 25 µg ≥ 3</paragraph>"))
WITHOUT_HEAD = document(section("<paragraph>text</paragraph>"), head="")
LAUGHS = (
    '<?xml version="1.0"?><!DOCTYPE document [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    '<document xmlns="urn:hl7-org:v3"><setId root="a"/><title>&b;</title></document>'
)


def reason(data: bytes) -> str:
    with pytest.raises(BadDocument) as caught:
        parse_document(data)
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
        (GOOD.replace("UTF-8", "UTF-16").encode(), "wrong_encoding"),
        (GOOD.replace("UTF-8", "ucs-2").encode(), "wrong_encoding"),
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


PREFIXED = re.sub(r"<(/?)(?=\w)", r"<\1spl:", GOOD).replace("xmlns=", "xmlns:spl=")
REDECLARED = re.sub("<(section|paragraph)", r'<\1 xmlns="urn:hl7-org:v3"', GOOD)


@pytest.mark.parametrize("written", [PREFIXED, REDECLARED, GOOD.replace('"urn:hl7-org:v3"', "'urn:hl7-org:v3'")])
def test_the_namespace_may_be_declared_in_other_ways(written: str) -> None:
    assert written != GOOD
    assert parse_document(written.encode()) == parse_document(GOOD.encode())


def test_a_root_without_a_namespace_is_refused() -> None:
    assert reason(GOOD.replace(' xmlns="urn:hl7-org:v3"', "").encode()) == "wrong_root"


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
    label, passages = parse_document(data)
    assert label == read(GOOD)[0]
    assert [one.text for one in passages] == [f"{FILLER} 25 µg ≥ 3"]


@pytest.mark.parametrize("ends", ["\r\n", "\r", "\n"])
@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16"])
def test_line_ends_are_white_space_and_breaks_are_lines(ends: str, encoding: str) -> None:
    body = section(f"<paragraph>one{ends}two<br/>three<br />four</paragraph>")
    xml = document(body).replace("UTF-8", encoding)
    assert parse_document(xml.encode(encoding))[1][0].text == "one two\nthree\nfour"


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


def test_one_label_from_a_path_or_bytes(tmp_path: Path) -> None:
    file = tmp_path / "a.xml"
    file.write_text(document(section(f"<paragraph>{FILLER}</paragraph>", "1 USES")))
    label = parse_label(file)
    assert (label.set_id, label.source, [one.text for one in label.passages]) == (SET_ID, str(file), [FILLER])
    assert parse_label(str(file)) == label
    assert parse_label(file.read_bytes()).passages == label.passages
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(file, "a.xml")
    assert parse_label(tmp_path / "a.zip").title == label.title


def test_errors_of_one_label_name_the_file_and_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"nowhere\.xml does not exist; give"):
        parse_label(tmp_path / "nowhere.xml")
    (tmp_path / "page.xml").write_text("<html/>")
    with pytest.raises(BadDocument, match=r"^wrong_root: .*page\.xml: the root element is <html>.*; give SPL"):
        parse_label(tmp_path / "page.xml")
    (tmp_path / "none").mkdir()
    with pytest.raises(BadDocument, match=r"no XML file in .*none; give SPL"):
        parse_label(tmp_path / "none")
    with pytest.raises(BadDocument, match="holds several labels; use read_labels"):
        parse_label(EXAMPLES)


def test_many_labels_are_a_table(tmp_path: Path) -> None:
    table = read_labels(EXAMPLES)
    files = sorted(EXAMPLES.glob("*.xml"))
    assert len(table) == len(files)
    assert list(table.columns) == [*(one.name for one in fields(Label)), "passages"]
    assert table.set_id.is_monotonic_increasing
    labels = {label.source: label for label in map(parse_label, files)}
    for row in table.itertuples():
        assert (row.drug_name, row.passages) == (labels[row.source].drug_name, labels[row.source].passages)
    assert table.attrs["rejects"] == []
    (tmp_path / "bad.xml").write_text("<html/>")
    assert [one.reason for one in read_labels([files[0], tmp_path]).attrs["rejects"]] == ["wrong_root"]
    with pytest.raises(BadDocument, match=r"bad\.xml"):
        read_labels(tmp_path / "bad.xml")
