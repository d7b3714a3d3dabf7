"""The units of a label: what stands under one heading, printed as a title or within the text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fdarx_core.generation.units import SectionUnit, read_units
from fdarx_core.labels.loinc import PATIENT_SECTIONS
from tests.generation.made_labels import DOSAGE, INTERACTIONS, KINETICS, REACTIONS, TITLES, WARNINGS, made_passages


def units(*pieces: tuple[str, str] | tuple[str, str, str]) -> list[SectionUnit]:
    return read_units(made_passages(*pieces))


def test_a_section_is_a_unit_whose_titles_are_those_above_it() -> None:
    [unit] = units((WARNINGS, "5.1 Hepatotoxicity", "Liver failure was seen. Stop VELORIN."))
    assert (unit.title, unit.code) == ("Hepatotoxicity", WARNINGS)
    assert unit.titles == (TITLES[WARNINGS], "5.1 Hepatotoxicity")
    assert [one.text for one in unit.statements] == ["Liver failure was seen.", "Stop VELORIN."]


def test_passages_of_one_section_are_one_unit_and_keep_their_places() -> None:
    [unit] = units((WARNINGS, "Liver", "Liver failure was seen."), (WARNINGS, "Liver", "Stop VELORIN."))
    assert [one.passage for one in unit.statements] == [0, 1]
    assert unit.text == "Liver failure was seen. Stop VELORIN."


def test_a_heading_within_the_text_begins_a_unit() -> None:
    text = "General statement here.\nWarfarin\nVelorin raises the INR.\nDigoxin\nVelorin raises digoxin levels."
    first, warfarin, digoxin = units((INTERACTIONS, text))
    assert first.title == TITLES[INTERACTIONS] and first.text == "General statement here."
    assert (warfarin.title, warfarin.text) == ("Warfarin", "Velorin raises the INR.")
    assert (digoxin.title, digoxin.text) == ("Digoxin", "Velorin raises digoxin levels.")
    assert digoxin.titles == (TITLES[INTERACTIONS], "Digoxin")


def test_a_lead_in_is_the_heading_of_its_paragraph() -> None:
    text = (
        "Warfarin: Velorin raises the INR in most patients. Monitor it weekly.\n"
        "Digoxin — Velorin raises digoxin levels by 20%."
    )
    warfarin, digoxin = units((INTERACTIONS, text))
    assert (warfarin.title, digoxin.title) == ("Warfarin", "Digoxin")
    assert warfarin.text == "Warfarin: Velorin raises the INR in most patients. Monitor it weekly."
    assert digoxin.text == "Digoxin — Velorin raises digoxin levels by 20%."


@pytest.mark.parametrize(
    "text",
    [
        "Aspirin:\nVelorin raises aspirin levels.\nLithium:\nVelorin raises lithium levels.",
        "Aspirin. Velorin raises aspirin levels.\nLithium. Velorin raises lithium levels.",
        "Aspirin - Velorin raises aspirin levels.\nLithium - Velorin raises lithium levels.",
    ],
    ids=["with a colon", "with a full stop", "with a dash"],
)
def test_the_heading_of_the_next_unit_belongs_to_none_before(text: str) -> None:
    found = {one.titles[-1]: one.text for one in units((INTERACTIONS, text))}
    assert found["Lithium"].endswith("Velorin raises lithium levels.") and "aspirin" not in found["Lithium"]
    assert found["Aspirin"].endswith("Velorin raises aspirin levels.") and "ithium" not in found["Aspirin"]


def test_of_a_list_only_the_chosen_items_are_kept() -> None:
    [unit] = units((WARNINGS, "Monitor these patients:\n- those with gout;\n- those older than 65 years."))
    listed = unit.statements[0]
    chosen = listed.with_items(lambda item: "gout" in item)
    assert chosen.text == "Monitor these patients: those with gout."
    assert chosen.quotes == ("Monitor these patients", "those with gout")
    assert listed.with_items(lambda item: "asthma" in item) == listed


def test_a_paragraph_without_a_lead_in_does_not_belong_to_the_one_before() -> None:
    text = "Warfarin: Velorin raises the INR in most patients.\nOther drugs were not studied with it."
    warfarin, other = units((INTERACTIONS, text))
    assert warfarin.text == "Warfarin: Velorin raises the INR in most patients."
    assert (other.title, other.text) == (TITLES[INTERACTIONS], "Other drugs were not studied with it.")


def test_a_list_is_one_statement_with_all_of_its_items() -> None:
    [unit] = units(
        (WARNINGS, "Monitor these patients:\n- those with gout;\n- those older than 65 years.\nStop at once.")
    )
    listed, stop = unit.statements
    assert listed.text == "Monitor these patients: those with gout; those older than 65 years."
    assert listed.items == ("those with gout", "those older than 65 years") and not stop.items and not listed.points


@pytest.mark.parametrize("mark", ["-", "2.", "(2)"])
def test_the_sentences_of_a_line_are_a_paragraph(mark: str) -> None:
    lines = (
        "Liver failure was seen. Stop VELORIN now.",
        f"{mark} A rash was seen. Treat it at once.",
        "Do not use it in:",
    )
    text = "\n".join((*lines, f"{mark} gout"))
    texts = [[one.text for one in paragraph] for unit in units((WARNINGS, text)) for paragraph in unit.paragraphs]
    assert texts == [
        ["Liver failure was seen.", "Stop VELORIN now."],
        ["A rash was seen.", "Treat it at once."],
        ["Do not use it in: gout."],
    ]


def test_a_table_row_is_a_statement_in_which_each_cell_keeps_its_heading() -> None:
    [unit] = units((REACTIONS, "Nausea | VELORIN (N = 200) %: 12 | Placebo (N = 199) %: 4\nHeadache | 3%"))
    two, one = unit.statements
    assert two.is_row and two.text == "Nausea; VELORIN (N = 200) %: 12; Placebo (N = 199) %: 4."
    assert one.is_row and one.text == "Headache: 3%."


def test_references_and_footnotes_are_left_out_and_pointers_noted() -> None:
    [unit] = units(
        (KINETICS, "Half-life is 3 hours [see Dosage and Administration (2.1)]. Values are in Table 3. It is bound.[1]")
    )
    half_life, values, bound = unit.statements
    assert half_life.text == "Half-life is 3 hours." and not half_life.points
    assert values.points
    assert bound.text == "It is bound."


def test_what_is_written_for_patients_is_left_out() -> None:
    body = made_passages((WARNINGS, "Liver failure was seen."), (WARNINGS, "Tell your doctor of warfarin."))
    for code in PATIENT_SECTIONS:
        for_patients = replace(body[1], core_code=code, section_path="PATIENT INFORMATION")
        assert read_units([body[0], for_patients]) == read_units(body[:1])


def test_a_heading_without_a_statement_makes_no_unit() -> None:
    assert units((DOSAGE, "Adults")) == []
    assert units() == []
