"""What a document says of itself, its products and its outline."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from benchmarks.fidelity import Fidelity, measure
from benchmarks.parse import read_all
from fdarx_core.labels import parse_label
from tests.conftest import EXAMPLES
from tests.labels.spl import FIELDS, FILLER, SET_ID, document, passages_of, read, section

NDC = "2.16.840.1.113883.6.69"
UNII = "2.16.840.1.113883.4.9"


def substance(name: str, unii: str, moiety: str, moiety_unii: str, kind: str = "ACTIB") -> str:
    return (
        f'<ingredient classCode="{kind}"><ingredientSubstance><code code="{unii}" codeSystem="{UNII}"/>'
        f'<name>{name}</name><activeMoiety><activeMoiety><code code="{moiety_unii}" codeSystem="{UNII}"/>'
        f"<name>{moiety}</name></activeMoiety></activeMoiety></ingredientSubstance></ingredient>"
    )


def product(name: str, generic: str, ndc: str, ingredients: str, tag: str = "manufacturedProduct") -> str:
    return (
        f'<{tag}><code code="{ndc}" codeSystem="{NDC}"/><name>{name}</name><formCode displayName="TABLET"/>'
        f"<asEntityAsGeneric><genericMedicine><name>{generic}</name></genericMedicine></asEntityAsGeneric>"
        f"{ingredients}</{tag}>"
    )


def subject(*products: str, rest: str = "") -> str:
    inner = "".join(f"<manufacturedProduct>{one}{rest}</manufacturedProduct>" for one in products)
    return f"<subject>{inner}</subject>"


def test_header_fields() -> None:
    label, _ = read(document())
    assert (label.set_id, label.version, label.effective_date) == (SET_ID, 7, "2024-01-31")
    assert (label.document_type, label.document_type_name) == ("34391-3", "HUMAN PRESCRIPTION DRUG LABEL")
    assert label.title == "Invented tablets"
    assert parse_label(document().encode(), "a.xml")[0].source == "a.xml"


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
    one = product("Inventa", "inventol", "11111-222", salt + filler)
    label, _ = read(document(subject=subject(one, rest=route + approval)))
    assert label.aliases == ["Inventa", "inventol", "inventol hydrochloride"]
    assert label.substances == ["inventol hydrochloride", "inventol"]
    assert label.uniis == ["UNIIA", "UNIIB"]
    assert (label.routes, label.dosage_forms, label.ndcs) == (["ORAL"], ["TABLET"], ["11111-222"])
    assert (label.marketing_categories, label.application_numbers) == (["NDA"], ["NDA000001"])


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
    total, lost = Fidelity(), Counter[str]()
    measure(path.read_bytes(), total, lost)
    assert not lost
    assert total.lost_numbers == 0
    assert total.growth < 1.15


def test_no_text_is_lost_in_real_labels(real_labels: Path) -> None:
    total, lost = Fidelity(), Counter[str]()
    for data in read_all([str(real_labels)])[::20]:
        measure(data, total, lost)
    assert total.found >= 0.999, lost.most_common(10)
    assert total.growth <= 1.05
    assert total.lost_numbers == 0


def test_an_example_reads_as_it_looks() -> None:
    label, passages = parse_label((EXAMPLES / "telvanto-tablets.xml").read_bytes())
    assert label.drug_name.lower() == "telvanto"
    assert label.highlights
    assert label.boxed_warning
    assert all(one.text == one.text.strip() and "  -" not in one.text[:3] for one in passages)
    assert [one.doc_chunk_index for one in passages] == list(range(len(passages)))
