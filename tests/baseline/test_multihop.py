"""The baseline's multi-hop questions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.baseline.numbers import number_strings
from fdarx_core.baseline.statements import statements
from fdarx_core.generation.multihop import link_rules, multihop_questions

CODES = ["34068-7", "43678-2", "43682-4", "34070-3", "43685-7", "34073-7", "34088-5", "34084-4", "34076-0", "", "x"]
FRAGMENTS = [
    "Quorvelin is contraindicated in patients with severe renal impairment.",
    "The AUC of quorvelin was increased by 80% in patients with severe renal impairment.",
    "Avoid concomitant use of quorvelin with warfarin, which may cause fatal bleeding.",
    "Maximum daily dose: 200 mg.",
    "The maximum daily dose is 1,000,000 mg (0 mg if 0 mg).",
    "Tablets: 0 mg, 50 mg",
    "• • [see Warnings (5.1)] |",
    "\u200b%{}{drug}\n\n",
]
PASSAGES = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.text(max_size=60)), max_size=6).map(" ".join)


def _ask(code_a: str, context_a: str, code_b: str, context_b: str, drug: str = "Quorvelin") -> list[tuple[str, str]]:
    titles = {"section_title_a": "", "section_title_b": ""}
    slots = {"drug": drug, "section_code_a": code_a, "context_a": context_a, **titles}
    return multihop_questions({**slots, "section_code_b": code_b, "context_b": context_b})


def test_the_maximum_dose_is_counted_in_the_largest_tablets() -> None:
    dosage = "The maximum recommended daily dose of Quorvelin is 1,200 mg per day."
    forms = "Quorvelin tablets are available in two strengths, 200 mg and 400 mg, white and scored."
    [(question, answer)] = _ask("34068-7", dosage, "43678-2", forms)
    assert question == "How many of the highest-strength tablets of Quorvelin add up to the maximum daily dose?"
    assert answer.startswith("3 tablets, as computed from the maximum daily dose (1,200 mg)")
    assert _ask("43678-2", forms, "34068-7", dosage) == [(question, answer)]


@pytest.mark.parametrize(
    "dosage",
    [
        "The maximum recommended daily dose of Quorvelin is 500 mg per day.",
        "The maximum recommended daily dose is 400 mg twice daily.",
        "The maximum daily dose is 400 mg per day. In hospital the maximum daily dose is 800 mg per day.",
        "In patients with renal impairment the maximum daily dose is 400 mg per day.",
        "The maximum daily dose is 400 to 800 mg per day.",
        "The maximum daily dose is 20 mg/kg per day.",
    ],
)
def test_no_count_where_it_does_not_come_out_even_or_the_maximum_is_not_one(dosage: str) -> None:
    assert _ask("34068-7", dosage, "43678-2", "Quorvelin tablets, 200 mg and 400 mg, white and scored.") == []


def test_the_strength_that_gives_the_starting_dose() -> None:
    dosage = "The recommended starting dose of Quorvelin is 50 mg twice daily."
    [(question, answer)] = _ask("34068-7", dosage, "34069-5", "Quorvelin capsules: 25 mg, 50 mg and 100 mg.")
    assert (
        question
        == "Which available capsule strength of Quorvelin gives the recommended starting dose in a single capsule?"
    )
    assert answer == f"The 50 mg capsule, one of the strengths available (25 mg, 50 mg, 100 mg). {dosage}"


def test_exposure_is_linked_with_dosing_for_the_same_patients_only() -> None:
    exposure = "The AUC of quorvelin was increased by 80% in patients with severe renal impairment."
    dosing = "In patients with severe renal impairment, reduce the dose to 25 mg daily."
    [(question, answer)] = _ask("43682-4", exposure, "34068-7", dosing)
    assert "Quorvelin" in question
    assert "patients with renal impairment" in question
    assert answer == f"{exposure} {dosing}"
    assert _ask("43682-4", exposure, "34068-7", dosing.replace("severe", "mild")) == []
    assert _ask("43682-4", exposure, "34068-7", dosing.replace("renal", "hepatic")) == []


def test_a_drug_does_not_interact_with_itself() -> None:
    advice = "Concomitant use of warfarin with cefazolin should be monitored closely."
    effect = "Warfarin combined with cefazolin had 30% higher plasma concentrations."
    assert _ask("34073-7", advice, "43682-4", effect, "Cefazolin")
    assert _ask("34073-7", advice, "43682-4", effect, "Warfarin Sodium") == []


@given(st.sampled_from(CODES), PASSAGES, st.sampled_from(CODES), PASSAGES, st.text(max_size=40))
def test_questions_keep_their_bounds_on_any_text(code_a: str, a: str, code_b: str, b: str, drug: str) -> None:
    asked = _ask(code_a, a, code_b, b, drug)
    assert asked == _ask(code_a, a, code_b, b, drug)
    for question, answer in asked:
        assert 10 <= len(question) <= 200
        assert 5 <= len(answer) <= 600
        assert drug in question
        assert question.endswith("?")
        assert " and " not in question.replace(drug, "")


@given(PASSAGES)
def test_statements_come_from_the_passage(text: str) -> None:
    for statement in statements(text):
        assert number_strings(statement) <= number_strings(text)
        assert statement.endswith(".")


def test_no_rule_asks_two_things() -> None:
    asks = [ask for rule in link_rules() for ask in rule.ask]
    assert all(ask.endswith("?") and ask.count("?") == 1 and " and " not in ask for ask in asks)
    assert len({rule.name for rule in link_rules()}) == len(link_rules())
