"""The check of numbers that models' verdicts have to pass."""

from __future__ import annotations

import pytest

from fdarx_core.verify import Inference, TextPair, Unjudged
from fdarx_core.verify.numbers import check_numbers, missing_number, number_not_in

SUPPORTED = Inference(0.9, 0.08, 0.02, 0, 4, "model")


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("Take 1 g.", "Take 1,000 mg."),
        ("Take 0.005 mg.", "Take 5 mcg."),
        ("Take 5 mg every 12 hours.", "Take 5 mg twice a day."),
        ("It lasts two weeks.", "It lasts 14 days."),
        ("For adults of 18 years.", "For adults of 216 months."),
        ("Dose (mg): 5", "The dose is 5 mg."),
        ("Give up to 40 mg.", "The maximum is a maximum of 40 mg."),
        ("Below 30 mL/min/1.73 m2, reduce it.", "Reduce it for less than 30 mL/min."),
        ("Take 5 to 10 mg.", "Take 10 mg."),
        ("Give it with food.", "Give it with food in 3 cases."),
        ("Total daily dosage should not exceed 6 capsules.", "No more than six capsules may be taken in one day."),
        ("Do not take more than 4 tablets per day.", "At most four tablets are allowed in one day."),
        ("10 mg once, then 10 mg q4-6 hours prn.", "Take 10 mg every 4 to 6 hours."),
        ("Give it q 6 h or q8 to 12 hrs.", "Give it every 6 hours, or every 8 to 12 hours."),
        ("Start at 20 nanograms (ng)/kg/min.", "The starting dose is 20 ng/kg/min."),
        ("Infuse 5 micrograms (mcg) per kg.", "Infuse 5 mcg/kg."),
        ("Give 10 mg, not >40 mg/day.", "Give 10 mg, not more than 40 mg/day."),
        ("The weekly dose is 10 mg.", "In one week 10 mg are given."),
        ("Days before steady state: 14\n40 mL/min | Days: 12", "Steady state takes 14 days."),
        ("Dose (mg): 14\nWeek 2 | Dose (mg): 20", "The dose is 14 mg."),
        ("Take 5\nto 10 mg.", "Take 5 mg."),
        ("Give 5 mg/kg. A child of 20 kg", "Give 5 mg/kg, which is 100 mg for 20 kg."),
        ("Infuse 2 mcg/kg/h; 30 mL/h for 2 hours", "At 30 mL/h, 2 hours take 60 mL."),
        ("The usual dose is 200 mg; reduce it to one-half.", "Half of 200 mg is 100 mg."),
    ],
)
def test_equal_amounts_are_in_the_text(text: str, statement: str) -> None:
    pair = TextPair(text, statement)
    assert missing_number(pair) == ""
    assert check_numbers(pair, SUPPORTED) == SUPPORTED


@pytest.mark.parametrize(
    ("text", "statement", "missing"),
    [
        ("Take it with water.", "Take 5 mg with water.", "5 mg"),
        ("Give 5 mg/kg. A child of 20 kg", "Give 5 mg/kg, which is 110 mg for 20 kg.", "110 mg"),
        ("Give 5 mg/kg.", "Give 100 mg for 20 kg.", "100 mg"),
        ("The usual dose is 200 mg; reduce it to one-half.", "Half of 200 mg is 50 mg.", "50 mg"),
        ("The usual dose is 200 mg.", "The dose is 100 mg instead of 200 mg.", "100 mg"),
        ("Take it once daily.", "Wait for 24 hours before surgery.", "24 hours"),
        ("Take it twice a day.", "It acts for 12 hours.", "12 hours"),
        ("Take 10 to 20 mg.", "A dose of 15 mg is usual.", "15 mg"),
        ("The usual dose is 5 mcg.", "Patients are given 5 mg.", "5 mg"),
        ("Use it at or above at least 30 mL/min.", "Avoid use in less than 30 mL/min.", "30 ml/min"),
        ("Patients took 5 mg.", "The dose is 5 mg, twice daily.", "every 12 hours"),
        ("Start with 10 % of it.", "Start with 20 % of it.", "20 %"),
        ("Most of 120 patients had it.", "Most of 1,200 patients had it.", "1200"),
    ],
)
def test_a_missing_amount_leaves_a_pair_undecided(text: str, statement: str, missing: str) -> None:
    pair = TextPair(text, statement)
    assert missing_number(pair) == missing
    found = check_numbers(pair, SUPPORTED)
    assert isinstance(found, Inference) and found.reason
    assert found.entailment == found.contradiction and found.reason == f"number: {missing} is not in the text"


def test_other_judgements_stay() -> None:
    pair = TextPair("Take it with water.", "Take 5 mg with water.")
    for one in (Inference(0.1, 0.8, 0.1, 0, 4), Inference(0.2, 0.1, 0.7, 0, 4), Unjudged("no_text: the claim")):
        assert check_numbers(pair, one) == one


def test_amounts_beside_the_text_count() -> None:
    assert missing_number(TextPair("Take it.", "Take 5 mg.", beside="The tablets hold 5 mg.")) == ""
    assert missing_number(TextPair("Take it.", "Take 5 mg.", heading="Zalvo 5 mg")) == ""
    assert missing_number(TextPair("Take it.", "Take 5 mg.", question="Why 5 mg?")) == ""


def test_numbers_without_a_unit_count_from_ten() -> None:
    text = TextPair("It was seen in 24 patients.", "It was seen in 36 of 3 patients.")
    assert missing_number(text) == "36" and number_not_in(text.hypothesis, [text.premise], [36.0]) == ""
    assert number_not_in("Take 36 mg.", ["Take it."], [36.0]) == "36 mg"
