"""What labels forbid, read from their Contraindications and Boxed Warning."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.factuality.contraindications import contraindications_of, save_contraindications
from fdarx_core.records import Contraindication
from fdarx_core.storage import Location, read_records
from tests.factuality.made_labels import BOXED_WARNING, examples, forbidden_in, label_of, subjects_in

ONE_SENTENCE = [
    ("TELVANTO is contraindicated in pregnancy.", [("population", "pregnancy")]),
    ("TELVANTO should not be used in nursing mothers.", [("population", "nursing mothers")]),
    ("Do not use TELVANTO in children younger than 6 years.", [("population", "children younger than 6 years")]),
    ("Pregnant women should not take TELVANTO.", [("population", "pregnant women")]),
    ("TELVANTO is contraindicated in patients with anuria because it is of no use.", [("condition", "anuria")]),
    (
        "TELVANTO is contraindicated in patients with severe renal impairment (eGFR below 15 mL/min/1.73 m2) [see "
        "Warnings and Precautions (5.2)].",
        [("condition", "severe renal impairment (eGFR below 15 mL/min/1.73 m2)")],
    ),
    ("The use of TELVANTO with gemfibrozil is contraindicated.", [("drug", "concomitant use of gemfibrozil")]),
    (
        "The concomitant use of clopidogrel and TELVANTO is contraindicated.",
        [("drug", "concomitant use of clopidogrel")],
    ),
    ("TELVANTO is contraindicated in patients taking rifampin.", [("drug", "patients taking rifampin")]),
    (
        "TELVANTO is contraindicated for pain before heart surgery.",
        [("condition", "pain before heart surgery")],
    ),
    (
        "TELVANTO is contraindicated in patients with glaucoma, ileus, or myasthenia gravis, and in infants.",
        [
            ("condition", "glaucoma"),
            ("condition", "ileus"),
            ("condition", "myasthenia gravis"),
            ("population", "infants"),
        ],
    ),
    (
        "TELVANTO is contraindicated in patients with hypersensitivity to ortavelin, gelatin, or dyes.",
        [("condition", "hypersensitivity to ortavelin, gelatin, or dyes")],
    ),
    (
        "TELVANTO is contraindicated in ileus, porphyria, and heart block (unless a pacemaker is in place).",
        [
            ("condition", "ileus"),
            ("condition", "porphyria"),
            ("condition", "heart block"),
        ],
    ),
]


@pytest.mark.parametrize(("sentence", "expected"), ONE_SENTENCE)
def test_a_sentence_names_what_it_forbids(sentence: str, expected: list[tuple[str, str]]) -> None:
    assert subjects_in(sentence) == expected


@pytest.mark.parametrize(
    "text",
    [
        "None.",
        "None known.",
        "There are no known contraindications.",
        "See boxed WARNINGS.",
        "CONTRAINDICATIONS",
        "(see WARNINGS and PRECAUTIONS)",
        "TELVANTO is not contraindicated in patients with asthma.",
        "TELVANTO should not be used for longer than 5 days.",
        "TELVANTO tablets are indicated for high blood pressure.",
        "TELVANTO can cause serious liver injury in patients with hepatitis.",
    ],
)
def test_boilerplate_permissions_and_mere_risks_forbid_nothing(text: str) -> None:
    assert subjects_in(text) == []
    assert subjects_in(text, code=BOXED_WARNING) == []


def test_items_of_a_list_are_read_with_its_lead_in() -> None:
    rows = forbidden_in(
        "TELVANTO is contraindicated in patients with:\n- Active bleeding. Deaths have occurred.\n- Anuria\n"
        "TELVANTO should be stopped before imaging."
    )
    assert [row.subject for row in rows] == ["active bleeding", "anuria"]
    assert rows[0].statement == "TELVANTO is contraindicated in patients with: Active bleeding."


def test_a_list_goes_on_in_the_next_passage() -> None:
    rows = forbidden_in("TELVANTO is contraindicated in patients with:\n1. Ileus", "2. Porphyria")
    assert [(row.subject, row.marker) for row in rows] == [("ileus", "PASSAGE_0000"), ("porphyria", "PASSAGE_0001")]


def test_items_without_bullets_and_below_empty_bullets() -> None:
    assert subjects_in(
        "TELVANTO is contraindicated in the following patients:\nKnown porphyria\nIn the setting of ileus"
    ) == [
        ("condition", "known porphyria"),
        ("condition", "setting of ileus"),
    ]
    assert subjects_in("TELVANTO is contraindicated in patients with:\n•\nIleus\n•\nAnuria") == [
        ("condition", "ileus"),
        ("condition", "anuria"),
    ]


def test_nested_lists_and_populations_over_a_list_hold_for_their_items() -> None:
    text = "TELVANTO is contraindicated in patients with:\n- Bleeding associated with:\n− Ulcers\n− Cancer\n- Ileus"
    subjects = [subject for _, subject in subjects_in(text)]
    assert subjects == ["bleeding associated with ulcers", "bleeding associated with cancer", "ileus"]
    assert subjects_in("TELVANTO is contraindicated in neonates:\n- With jaundice") == [
        ("population", "neonates with jaundice")
    ]


def test_old_labels_name_what_is_forbidden_without_a_verb_and_break_lines_anywhere() -> None:
    assert subjects_in("Anuria.\nHypersensitivity to ortavelin.") == [
        ("condition", "anuria"),
        ("condition", "hypersensitivity to ortavelin"),
    ]
    assert subjects_in(
        "TELVANTO is contraindicated in patients with severe\nliver disease (see\nWARNINGS, Liver)."
    ) == [("condition", "severe liver disease")]


def test_a_boxed_warning_forbids_only_by_its_words() -> None:
    text = "WARNING: LIVER INJURY\n- Acute liver failure\n- Do not start TELVANTO in patients with jaundice."
    assert subjects_in(text, code=BOXED_WARNING) == [("condition", "jaundice")]


def test_the_examples_tell_where_they_say_it() -> None:
    found = {
        (row.drug, row.kind, row.subject): row
        for label, passages in examples()
        for row in contraindications_of(label, passages)
    }
    row = found["TELVANTO", "drug", "concomitant use of strong CYP2C8 inhibitors"]
    assert (row.section, row.marker) == ("34070-3", "PASSAGE_0008")
    assert row.uniis and "ORTAVELIN" in row.substances
    boxed = next(row for (drug, _, subject), row in found.items() if drug == "TELVANTO" and "ALT" in subject)
    assert boxed.section == BOXED_WARNING
    assert ("GASTRIVAN PAK", "drug", "concomitant use of pimozide, ergotamine or lomitapide") in found
    assert not [drug for drug, _, _ in found if drug in ("DERMOQUEL", "JORVEQUA")]  # "None."


_WORDS = (
    "TELVANTO is contraindicated in|should not be used in|Do not use|patients with|and|or|,|;|:|.|(|)|\n|- |•|anuria|"
    "severe|pregnancy|unless|because of risk|taking|hypersensitivity to|including|e.g.|who are|see WARNINGS|1.|None"
)
_PIECES = st.sampled_from(_WORDS.split("|"))


@given(st.lists(_PIECES, max_size=30).map(" ".join))
def test_any_text_gives_whole_subjects_from_it(text: str) -> None:
    for code in ("34070-3", BOXED_WARNING):
        for row in forbidden_in(text, code=code):
            assert row.kind in ("population", "condition", "drug")
            assert row.subject.strip() and row.subject.count("(") == row.subject.count(")")
            assert len(row.subject.split()) <= 45
            assert row.marker == "PASSAGE_0000"


def test_the_table_is_written_as_parquet_and_csv(tmp_path: Path) -> None:
    label, passages = label_of("TELVANTO is contraindicated in patients with known anuria and in pregnancy.")
    rows = contraindications_of(label, passages)
    save_contraindications(rows, Location(tmp_path))
    assert list(read_records(Location(tmp_path) / "contraindications.parquet", Contraindication)) == rows
    first, second = csv.DictReader(io.StringIO((tmp_path / "contraindications.csv").read_text()))
    assert (first["kind"], first["subject"], first["set_id"]) == ("condition", "known anuria", "made")
    assert (second["subject"], second["uniis"]) == ("pregnancy", "; ".join(label.uniis))


def test_exceptions_and_strength_are_columns() -> None:
    text = "TELVANTO is contraindicated in ileus, porphyria, and heart block (unless a pacemaker is in place)."
    found = [(row.subject, row.exceptions) for row in forbidden_in(text)]
    assert found == [("ileus", ""), ("porphyria", ""), ("heart block", "unless a pacemaker is in place")]
    [row] = forbidden_in("Avoid concomitant use of TELVANTO with rifampin.", code="34073-7")
    assert (row.kind, row.subject, row.strength) == ("drug", "concomitant use of rifampin", "avoid")


@pytest.mark.parametrize(
    ("text", "strength"),
    [
        ("TELVANTO is contraindicated in anuria.", "forbidden"),
        ("TELVANTO is not recommended in anuria.", "avoid"),
        ("Avoid use of TELVANTO in anuria.", "avoid"),
    ],
)
def test_advice_is_weaker_than_a_prohibition(text: str, strength: str) -> None:
    assert [(row.subject, row.strength) for row in forbidden_in(text)] == [("anuria", strength)]
