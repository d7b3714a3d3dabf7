"""Answers that the baseline quotes from passages of labels."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.baseline.label_answering import from_labels
from fdarx_core.baseline.label_statements import parse_passage, quoted
from fdarx_core.rag.cited_text import read_statements
from fdarx_core.rag.locating import find_quotation

CONTRAINDICATIONS = """VELORIN is contraindicated in patients with:
- Anuria [see Warnings (5)]
- Hypersensitivity to velostat (e.g., angioedema)
Discontinue VELORIN when a reaction occurs."""
DOSAGE = """The recommended starting dose of VELORIN is 40 mg orally once daily. After 7 days, increase the dose.
Pediatric Patients
The recommended starting dose of VELORIN for pediatric patients is 10 mg once daily.
Table 1: Dose of VELORIN in Renal Impairment
Creatinine clearance: 30 to 59 mL/min | Dose: 20 mg once daily
Creatinine clearance: below 30 mL/min | Dose: 5 mg once daily"""
KINETICS = "The elimination half-life of velostat is 12 hours [see Dosage (2)]. Food has no effect on its exposure."


def context(number: int, text: str, section: str, code: str) -> dict[str, Any]:
    return {
        "n": number,
        "title": "Velorin",
        "section": section,
        "text": text,
        "section_code": code,
        "moieties": ["velostat"],
        "labeler": "Acme Pharma",
        "effective_date": "2024-05-01",
        "version": 3,
    }


CONTEXTS = [
    context(1, KINETICS, "CLINICAL PHARMACOLOGY > Pharmacokinetics", "43682-4"),
    context(2, DOSAGE, "DOSAGE AND ADMINISTRATION", "34068-7"),
    context(3, CONTRAINDICATIONS, "CONTRAINDICATIONS", "34070-3"),
]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (
            "What are the contraindications of Velorin?",
            "VELORIN is contraindicated in patients with [3]:\n- Anuria [3].\n"
            "- Hypersensitivity to velostat (e.g., angioedema) [3].",
        ),
        ("What is the half-life of velostat?", "The elimination half-life of velostat is 12 hours [1]."),
        (
            "What dose of Velorin is used at a creatinine clearance below 30 mL/min?",
            "Table 1: Dose of VELORIN in Renal Impairment [2]:\n"
            "Creatinine clearance: below 30 mL/min | Dose: 5 mg once daily [2].",
        ),
        (
            "What is the starting dose of Velorin in pediatric patients?",
            "The recommended starting dose of VELORIN for pediatric patients is 10 mg once daily [2].",
        ),
        ("Does food affect velostat exposure?", "Food has no effect on its exposure [1]."),
    ],
)
def test_a_statement_answers(question: str, answer: str) -> None:
    assert from_labels(question, CONTEXTS) == answer


def test_a_dose_for_others_is_not_the_dose() -> None:
    answer = from_labels("What is the starting dose of Velorin?", CONTEXTS)
    assert answer.startswith("The recommended starting dose of VELORIN is 40 mg orally once daily [2].")
    assert "pediatric" not in answer


@pytest.mark.parametrize(
    "question",
    [
        "What is the dose of Velorin in cystic fibrosis?",
        "How much does Velorin cost?",
        "Does warfarin interact with Velorin?",
    ],
)
def test_what_no_statement_says_has_no_answer(question: str) -> None:
    assert from_labels(question, CONTEXTS) == ""


def test_a_mistyped_name_is_not_the_subject() -> None:
    assert from_labels("half-life of velorrin?", CONTEXTS) == from_labels("half-life of Velorin?", CONTEXTS) != ""


@pytest.mark.parametrize(
    "question", ["When was the Velorin label last revised?", "Which version of the label is this?"]
)
def test_the_version_of_the_label_is_told(question: str) -> None:
    expected = "The label of Velorin by Acme Pharma has the effective date 2024-05-01 and the version 3 [1]."
    assert from_labels(question, CONTEXTS) == expected


def test_a_list_has_its_items_and_a_lead_without_items_is_none() -> None:
    read = parse_passage("Monitor for the following:\n- rash\n- fever [see Warnings (5)]\nTake with food.\nStop if:")
    assert [(one.text, one.items) for one in read] == [
        ("Monitor for the following:", ("rash", "fever [see Warnings (5)]")),
        ("Take with food.", ()),
    ]
    assert quoted(read[0].items[1]) == "fever"


def test_items_in_a_line_are_a_list() -> None:
    [read] = parse_passage("Do not take it if you: • are pregnant • have asthma.")
    assert (read.text, read.items) == ("Do not take it if you:", ("are pregnant", "have asthma."))


@given(
    st.text(st.sampled_from("abc ABC.:;|-•\n12()[]"), max_size=200), st.sampled_from(["abc 12?", "cab", "What dose?"])
)
def test_each_quotation_stands_in_its_passage(text: str, question: str) -> None:
    answer = from_labels(question, [context(1, text, "A", "34068-7")])
    flat = " ".join(text.split())
    for line in answer.split("\n"):
        said = re.sub(r" \[1\][.:]?$", "", line).removeprefix("- ")
        assert " ".join(said.split()) in flat


def test_a_question_on_older_patients_is_not_one_on_the_version() -> None:
    assert "version" not in from_labels(
        "Which risk bears on the advice about using Velorin in older patients?", CONTEXTS
    )


def test_a_row_keeps_its_name_where_the_label_has_footnotes() -> None:
    """The number of a footnote would be a citation, and would divide the row."""
    table = """Table 2: Adverse Reactions
General
Fatigue [1] | VELORIN (N = 332): 39% [2] | Placebo (N = 166): 37%
Rash | VELORIN (N = 332): 16% | Placebo (N = 166): 38%"""
    contexts = [*CONTEXTS, context(4, table, "ADVERSE REACTIONS > Clinical Trials Experience", "90374-0")]
    answer = from_labels("How often did fatigue occur with Velorin?", contexts)
    row = "Fatigue | VELORIN (N = 332): 39% | Placebo (N = 166): 37%"
    assert f"{row} [4]." in answer and "[1]" not in answer
    [found] = [one for one in read_statements(answer, len(contexts)) if one.kind == "row"]
    assert found.citations == ((f"{row}.", (4,)),)
    assert find_quotation(table, row) == [(table.index("Fatigue"), table.index("\nRash"))]


def test_the_sentences_of_a_row_stay_together_in_an_answer() -> None:
    row = "Clinical Impact: | NSAIDs raise lithium levels. The mean minimum rose by 15%"
    [found] = read_statements(f"{row} [1].", 1)
    assert (found.kind, found.citations) == ("row", ((f"{row}.", (1,)),))
