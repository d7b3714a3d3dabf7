"""Which values answer a quantity, and which frequencies a reaction, and where neither is certain."""

from __future__ import annotations

import pytest

from tests.generation.made_labels import (
    DESCRIPTION,
    KINETICS,
    POPULATIONS,
    REACTIONS,
    WARNINGS,
    answer_of,
    is_silent_on,
)

HALF_LIFE, BINDING = "elimination half-life", "plasma protein binding"


@pytest.mark.parametrize(
    ("name", "sentence", "value"),
    [
        (HALF_LIFE, "The mean elimination half-life of velorinib is 3.5 hours.", "3.5 hours"),
        (HALF_LIFE, "Its half-life is about 2 to 3 days.", "about 2 to 3 days"),
        (BINDING, "Velorinib is 99% bound to plasma proteins.", "99%"),
        (BINDING, "Plasma protein binding of velorinib is about 85%.", "about 85%"),
        ("molecular weight", "Velorinib mesylate has a molecular weight of 471.5.", "471.5"),
        ("melting point", "Velorinib has a melting point of 230°-231°C.", "230°-231°C"),
        ("plasma clearance", "The plasma clearance of velorinib is 20 to 30 mL/min.", "20 to 30 mL/min"),
    ],
)
def test_the_value_in_a_sentence_answers_a_quantity(name: str, sentence: str, value: str) -> None:
    for code in (KINETICS, DESCRIPTION):
        found = answer_of("quantity", name, (code, f"Velorinib is absorbed. {sentence}"))
        assert found is not None and (found.text, found.statements[0].text) == (value, sentence)


@pytest.mark.parametrize(
    "sentences",
    [
        "The half-life is short.",
        "The half-life was measured in 12 patients.",
        "The half-life of digoxin is 36 hours.",
        "The half-life is 3 hours in patients with renal impairment.",
        "The half-life was reduced to 3 hours.",
        "The half-life is 3 hours. In 12 smokers the half-life was shorter.",
        "Half-life | 3 hours",
    ],
    ids=["no number", "no value", "another substance", "some patients", "a change", "another number", "a row"],
)
def test_a_quantity_has_no_answer_where_its_value_is_not_certain(sentences: str) -> None:
    assert answer_of("quantity", HALF_LIFE, (KINETICS, sentences)) is None
    assert not is_silent_on("quantity", HALF_LIFE, (KINETICS, sentences))


@pytest.mark.parametrize(
    "sentences",
    [
        "The half-life is 3 hours. The half-life of its metabolite is 9 hours.",
        "The half-life of the metabolite desmethylvelorinib is 9 hours.",
        "The half-life of 6MNA is 9 hours.",
        "The half-life relative to that of others is 3 hours longer.",
    ],
    ids=["of a metabolite too", "of a metabolite alone", "of a coded substance", "relative to others"],
)
def test_a_quantity_of_a_metabolite_or_relative_to_others_has_no_answer(sentences: str) -> None:
    assert answer_of("quantity", HALF_LIFE, (KINETICS, sentences)) is None


@pytest.mark.parametrize(
    "sentences",
    [
        ("The half-life is 3 hours.", "The terminal half-life is 12.5 hours."),
        ("The half-life is 3 hours for the base and 5 hours for the salt.",),
        ("The molecular weight is 300.",),
    ],
)
def test_several_values_are_no_answer(sentences: tuple[str, ...]) -> None:
    assert answer_of("quantity", HALF_LIFE, *((KINETICS, one) for one in sentences)) is None


def test_a_value_that_is_given_twice_is_one_answer() -> None:
    sentences = ("The half-life is 3 hours.", "Velorinib has a half-life of 3 hours.")
    found = answer_of("quantity", HALF_LIFE, *((KINETICS, one) for one in sentences))
    assert found is not None and (found.text, found.passages) == ("3 hours", [0])


def test_a_label_of_several_substances_has_no_quantities() -> None:
    piece = (KINETICS, "The half-life is 3 hours.")
    assert answer_of("quantity", HALF_LIFE, piece, drug="ONE+OTHER") is None


def test_values_in_sections_that_give_none_of_the_drug_are_no_answer() -> None:
    assert answer_of("quantity", HALF_LIFE, (WARNINGS, "The half-life of velorinib is 3 hours.")) is None


ROW = "Nausea | VELORIN (N = 200) %: 12 | Placebo (N = 199) %: 4"


def test_a_row_in_percent_answers_a_reaction() -> None:
    found = answer_of("reaction", "nausea", (REACTIONS, ROW))
    assert found is not None
    assert found.text == "VELORIN (N = 200): 12%; Placebo (N = 199): 4%"
    assert answer_of("reaction", "nausea", (REACTIONS, "Nausea | Velorin N=200: 12% | Placebo: 4%")) is not None
    assert (
        answer_of("reaction", "nausea", (REACTIONS, "Body system: Nausea | VELORIN %: 12 | Placebo %: 4")) is not None
    )


@pytest.mark.parametrize(
    "text",
    [
        "Nausea | VELORIN n (%): 24 (12) | Placebo n (%): 8 (4)",
        "Nausea | VELORIN, n: 24 | Placebo, n: 8",
        "Nausea | Treatment %: 12 | Placebo %: 4",
        "Nausea and vomiting | VELORIN %: 12 | Placebo %: 4",
        f"{ROW}\nNausea | VELORIN (N = 80) %: 9 | Placebo (N = 81) %: 3",
        f"{ROW} \nIn another trial nausea was seen in 30% of patients.",
        "Nausea was seen in 12% of patients on Velorin.",
    ],
    ids=["counts with percent", "counts", "no column of the drug", "another row", "two rows", "a sentence", "no row"],
)
def test_a_reaction_has_no_answer_where_its_frequency_is_not_certain(text: str) -> None:
    assert answer_of("reaction", "nausea", (REACTIONS, text)) is None


def test_a_reaction_that_no_table_names_is_silent_though_the_label_speaks_of_it_elsewhere_only_if_it_does_not() -> None:
    assert is_silent_on("reaction", "nausea", (REACTIONS, "Headache | VELORIN %: 12 | Placebo %: 4"))
    assert not is_silent_on("reaction", "nausea", (POPULATIONS, "Nausea was seen in older patients."))
    assert not is_silent_on("reaction", "nausea", (REACTIONS, "Gastrointestinal upset | VELORIN %: 12 | Placebo %: 4"))
