"""Questions that need two passages: what is calculated from them, and where nothing is."""

from __future__ import annotations

from collections import Counter

import pytest

from fdarx_core.filters.quotations import calculation_error
from fdarx_core.generation.label_reader import TopicAnswer
from fdarx_core.generation.multihop import BRIDGE, COMPARISON, COMPUTATION, DOSES
from tests.generation.made_labels import (
    DOSAGE,
    FORMS,
    INTERACTIONS,
    KINETICS,
    PHARMACOLOGY,
    REACTIONS,
    SUPPLY,
    Piece,
    answer_of,
    is_silent_on,
    topics_of,
)

MAXIMUM = (DOSAGE, "The maximum recommended dose is 1,200 mg per day.")
STRENGTHS = (SUPPLY, "Velorin tablets are supplied as 200 mg and 400 mg tablets, white and scored.")


def computed(name: str, *pieces: Piece) -> TopicAnswer | None:
    return answer_of(COMPUTATION, name, *pieces)


def test_the_maximum_dose_is_counted_in_units_of_the_highest_strength() -> None:
    found = computed("maximum daily dose", MAXIMUM, STRENGTHS)
    assert found is not None
    assert found.conclusion == "1,200 mg / 400 mg = 3 tablets."
    assert found.text == f"{found.conclusion} {MAXIMUM[1]} {STRENGTHS[1]}"
    assert found.passages == [0, 1]


@pytest.mark.parametrize(
    ("pieces"),
    [
        [(DOSAGE, "The maximum recommended dose is 1,000 mg per day."), STRENGTHS],
        [(DOSAGE, "The maximum recommended dose is 1,200 mg per day in renal impairment."), STRENGTHS],
        [MAXIMUM, (DOSAGE, "The maximum recommended dose is 800 mg per day."), STRENGTHS],
        [MAXIMUM, STRENGTHS, (FORMS, "Velorin tablets: 600 mg, white.")],
        [MAXIMUM, (SUPPLY, "Velorin tablets 200 mg are white."), (FORMS, "Velorin tablets 400 mg are blue.")],
        [MAXIMUM, (SUPPLY, "Velorin tablets 200 mg and capsules 400 mg are supplied.")],
        [MAXIMUM],
        [STRENGTHS],
    ],
    ids=[
        "not even",
        "some patients",
        "two maxima",
        "another strength elsewhere",
        "strengths in two statements",
        "two forms",
        "no supply",
        "no maximum",
    ],
)
def test_units_are_not_counted_where_maximum_or_highest_strength_is_not_certain(pieces: list[Piece]) -> None:
    assert computed("maximum daily dose", *pieces) is None


HALF_LIFE = (KINETICS, "Half-life", "The mean elimination half-life of velorinib is 4 hours.")
EVERY_12 = (DOSAGE, "Take 25 mg every 12 hours with food.")


def test_the_interval_is_compared_with_the_half_life() -> None:
    found = computed("elimination half-life", EVERY_12, HALF_LIFE)
    assert found is not None
    assert found.conclusion == "12 hours / 4 hours = 3."
    assert [one.text for one in found.statements] == [EVERY_12[1], HALF_LIFE[2]]


@pytest.mark.parametrize(
    "dosage",
    [
        "Take 25 mg every 6 to 12 hours with food.",
        "Take 25 mg every 12 hours. Some take 25 mg every 8 hours.",
        "Take 25 mg with food.",
    ],
    ids=["a range", "two intervals", "none"],
)
def test_no_ratio_where_there_is_not_one_interval(dosage: str) -> None:
    assert computed("elimination half-life", (DOSAGE, dosage), HALF_LIFE) is None


@pytest.mark.parametrize(
    "kinetics",
    [
        "The elimination half-life is 3 to 5 hours.",
        "The elimination half-life is 3 hours or 5 hours.",
        "The elimination half-life is 3 hours. The terminal half-life is 5 hours.",
    ],
    ids=["a range", "two values", "two statements"],
)
def test_no_ratio_where_there_is_not_one_half_life(kinetics: str) -> None:
    assert computed("elimination half-life", EVERY_12, (KINETICS, kinetics)) is None


@pytest.mark.parametrize(
    ("half_life", "conclusion"),
    [
        ("2 days", "12 hours / 48 hours = 0.25."),
        ("90 minutes", "12 hours / 1.5 hours = 8."),
        ("3.5 hours", "12 hours / 3.5 hours = 3.43."),
        ("7 minutes", "12 hours / 0.116667 hours = 103."),
    ],
)
def test_units_of_time_are_converted_and_quotients_have_three_digits(half_life: str, conclusion: str) -> None:
    kinetics = (KINETICS, f"The elimination half-life of velorinib is {half_life}.")
    found = computed("elimination half-life", EVERY_12, kinetics)
    assert found is not None and found.conclusion == conclusion
    assert calculation_error(conclusion) == ""


def test_no_calculation_from_one_passage() -> None:
    both = (DOSAGE, f"{MAXIMUM[1]} It is supplied as 400 mg tablets.")
    assert computed("maximum daily dose", both) is None


@pytest.mark.parametrize("drug_taken", ["as needed", "when needed"])
def test_no_ratio_for_a_drug_that_is_taken_when_needed(drug_taken: str) -> None:
    assert computed("elimination half-life", (DOSAGE, f"Take 25 mg every 12 hours {drug_taken}."), HALF_LIFE) is None


def test_other_quantities_are_not_calculated_with() -> None:
    absorbed = (KINETICS, "Uptake", "The absolute bioavailability of velorinib is 84%.")
    peak = (PHARMACOLOGY, "Absorption", "The time to peak plasma concentration is 90 minutes.")
    found = topics_of(absorbed, peak, HALF_LIFE, STRENGTHS)
    assert not any(topic.kind == COMPUTATION for topic in found.answers)


ROWS = [
    (REACTIONS, "Nausea | VELORIN (N = 200) %: 12 | Placebo (N = 199) %: 4"),
    (REACTIONS, "Headache | VELORIN (N = 200) %: 5.5 | Placebo (N = 199) %: 6"),
    (REACTIONS, "Dizziness | VELORIN (N = 200) %: 3 | Placebo (N = 199) %: 2"),
]


def test_frequencies_are_compared_with_the_most_frequent_reaction_of_another_passage() -> None:
    found = topics_of(*ROWS)
    assert found.anchors[COMPARISON] == "nausea"
    answers = {topic.name: answer for topic, answer in found.answers.items() if topic.kind == COMPARISON}
    assert answers.keys() == {"headache", "dizziness"}
    assert answers["headache"].conclusion == "12% > 5.5%: nausea was reported more often than headache."
    assert answers["headache"].passages == [0, 1]
    assert not any(topic.kind == COMPARISON for topic in found.silent)


@pytest.mark.parametrize(
    "other",
    [
        "Headache | VELORIN (N = 80) %: 5.5 | Placebo (N = 79) %: 6",
        "Headache | VELORIN (N = 200) %: 12 | Placebo (N = 199) %: 6",
        "Headache | VELORIN (N = 200) n: 24 | Placebo (N = 199) n: 6",
    ],
    ids=["of another table", "as often", "no percentages"],
)
def test_frequencies_that_cannot_be_compared_are_not(other: str) -> None:
    found = topics_of(ROWS[0], (REACTIONS, other))
    assert not any(topic.kind == COMPARISON for topic in (*found.answers, *found.silent))


def test_reactions_of_one_passage_are_not_compared() -> None:
    together = (REACTIONS, "\n".join(text for _, text in ROWS))
    assert not any(topic.kind == COMPARISON for topic in topics_of(together).answers)


def test_doses_for_two_indications_are_compared() -> None:
    found = topics_of(
        (DOSAGE, "Migraine", "The recommended dosage for adults is 50 mg once daily."),
        (DOSAGE, "Hypertension", "The recommended dosage for adults is 25 mg once daily."),
    )
    assert found.anchors[DOSES] == "hypertension"
    [answer] = [answer for topic, answer in found.answers.items() if topic.kind == DOSES]
    assert answer.topic.name == "migraine"
    assert answer.conclusion == "50 mg > 25 mg: the dose for migraine is higher than for hypertension."


@pytest.mark.parametrize("dose", ["25 mg once daily", "20 mg to 50 mg once daily", "2 mg/kg once daily"])
def test_doses_that_cannot_be_compared_are_not(dose: str) -> None:
    found = topics_of(
        (DOSAGE, "Migraine", f"The recommended dosage for adults is {dose}."),
        (DOSAGE, "Hypertension", "The recommended dosage for adults is 25 mg once daily."),
    )
    assert not any(topic.kind == DOSES for topic in found.answers)


ENZYME = (PHARMACOLOGY, "Velorinib is metabolized primarily by CYP2D6 in the liver.")
INHIBITORS = (INTERACTIONS, "CYP2D6 Inhibitors", "Halve the daily dose of Velorin in patients who take them.")
BRIDGED = "inhibitors of its main metabolizing enzyme"


def test_a_bridge_leads_from_the_enzyme_to_its_inhibitors() -> None:
    found = answer_of(BRIDGE, BRIDGED, ENZYME, INHIBITORS)
    assert found is not None
    assert found.passages == [0, 1] and "CYP2D6" in found.text
    assert found.statements[0].text == ENZYME[1]


@pytest.mark.parametrize(
    "enzyme",
    [
        "Velorinib is metabolized by CYP2D6 in the liver.",
        "Velorinib is metabolized primarily by CYP2D6 and CYP3A4.",
        "Velorinib is metabolized primarily by CYP3A4.",
    ],
    ids=["not said to be the main one", "two", "another"],
)
def test_no_bridge_where_there_is_not_one_main_enzyme(enzyme: str) -> None:
    assert answer_of(BRIDGE, BRIDGED, (PHARMACOLOGY, enzyme), INHIBITORS) is None


def test_a_label_is_silent_on_a_calculation_without_its_quantities() -> None:
    assert is_silent_on(COMPUTATION, "elimination half-life", EVERY_12)
    assert not is_silent_on(COMPUTATION, "elimination half-life", EVERY_12, HALF_LIFE)
    assert is_silent_on(COMPUTATION, "maximum daily dose", EVERY_12)
    for text in ("The maximum is given elsewhere.", "Do not exceed two tablets."):
        assert not is_silent_on(COMPUTATION, "maximum daily dose", (DOSAGE, text))
    assert is_silent_on(BRIDGE, BRIDGED, EVERY_12)
    assert not is_silent_on(BRIDGE, BRIDGED, (INTERACTIONS, "No isozyme takes part."))


def test_every_calculation_is_right() -> None:
    doses = [
        (DOSAGE, "Migraine", "The recommended dosage for adults is 50 mg once daily."),
        (DOSAGE, "Hypertension", "The recommended dosage for adults is 25 mg once daily."),
    ]
    concluded = {}
    for pieces in ([MAXIMUM, STRENGTHS], [EVERY_12, HALF_LIFE], ROWS, doses):
        for topic, answer in topics_of(*pieces).answers.items():
            if answer.conclusion:
                concluded[topic] = answer.conclusion
    assert Counter(topic.kind for topic in concluded) == {COMPUTATION: 2, COMPARISON: 2, DOSES: 1}
    assert {calculation_error(one) for one in concluded.values()} == {""}
