"""The Highlights, kept apart from the body."""

from __future__ import annotations

import pytest

from fdarx_core.records import Highlight
from tests.labels.spl import FILLER, document, read, section


def highlights_of(text: str, title: str = "5 WARNINGS AND PRECAUTIONS", code: str = "43685-7") -> list[Highlight]:
    excerpt = f"<excerpt><highlight><text>{text}</text></highlight></excerpt>"
    return read(document(section(FILLER, title, code, inner=excerpt)))[0].highlights


def test_highlights_are_no_part_of_the_body() -> None:
    excerpt = "<excerpt><highlight><text>Short form. (5)</text></highlight></excerpt>"
    label, passages = read(document(section(FILLER, "5 WARNINGS", "43685-7", inner=excerpt)))
    assert [one.text for one in passages] == [FILLER]
    assert label.highlights == [Highlight("43685-7", "WARNINGS", "", "Short form. (5)", ["5"])]


def test_a_section_may_have_highlights_alone() -> None:
    excerpt = "<excerpt><highlight><text>Dosage (2.1) 1/2024</text></highlight></excerpt>"
    label, passages = read(document(section("", "RECENT MAJOR CHANGES", "43683-2", inner=excerpt)))
    assert passages == []
    assert [(one.code, one.text) for one in label.highlights] == [("43683-2", "Dosage (2.1) 1/2024")]


def test_one_statement_an_outermost_item() -> None:
    text = "<list><item>Rash: Stop. (5.1)<list><item>Wash</item></list></item><item>Fever. (5.2)</item></list>"
    assert [one.text for one in highlights_of(text)] == ["Rash: Stop. (5.1)\n- Wash", "Fever. (5.2)"]


def test_table_rows_and_paragraphs_are_statements_too() -> None:
    rows = "<table><tbody><tr><td>Boxed Warning</td><td>5/2016</td></tr></tbody></table>"
    assert [one.text for one in highlights_of(f"{rows}<paragraph>More.</paragraph>")] == [
        "Boxed Warning | 5/2016",
        "More.",
    ]


@pytest.mark.parametrize(
    ("text", "topic"),
    [
        ("Lactic Acidosis: See boxed warning. (5.1)", "Lactic Acidosis"),
        ("Lactic Acidosis (5.1): See it.", "Lactic Acidosis"),
        ("OA: 200 mg once daily (2.1)", "OA"),
        ("Inventa (inventol) Tablets: 5 mg (3)", "Inventa (inventol) Tablets"),
        ("Adults: 500 mg", "Adults"),
        ("WARNING: LACTIC ACIDOSIS", ""),
        ("Stop the drug. Note: wait.", ""),
        ("lower case: no", ""),
        ("Take the following:", ""),
    ],
)
def test_topics(text: str, topic: str) -> None:
    assert highlights_of(f"<paragraph>{text}</paragraph>")[0].topic == topic


@pytest.mark.parametrize(
    ("text", "references"),
    [
        ("Stop (2.1, 5.3).", ["2.1", "5.3"]),
        ("Stop [see 4 and 8.1]", ["4", "8.1"]),
        ("A (2.1). B (5.3; 2.1)", ["2.1", "5.3"]),
        ('A (<linkHtml href="#a">2.1</linkHtml>)', ["2.1"]),
        ("Give 5 mg (10 mL) to adults (n = 20)", []),
        ("Give (100 mg)", []),
    ],
)
def test_references(text: str, references: list[str]) -> None:
    assert highlights_of(f"<paragraph>{text}</paragraph>")[0].references == references


def test_marks_are_rewritten_in_highlights() -> None:
    assert (
        highlights_of("<paragraph>below 10<sup>9</sup>/L<footnote>Twice.</footnote></paragraph>")[0].text
        == "below 10^9/L [1]"
    )
