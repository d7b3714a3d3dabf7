"""Whether a calculation in an answer is right."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fdarx_core.filters.quotations import calculation_error


@pytest.mark.parametrize(
    "sentence",
    [
        "1,200 mg / 400 mg = 3 tablets.",
        "2,550 mg / 850 mg = 3.",
        "12 hours / 3.5 hours = 3.4.",
        "20 mg × 84 / 100 = 16.8 mg.",
        "12% > 5.5%: nausea was reported more often than headache.",
        "50 mg > 25 mg: the dose for migraine is higher than for hypertension.",
    ],
)
def test_right(sentence: str) -> None:
    assert calculation_error(sentence) == ""


@pytest.mark.parametrize(
    ("sentence", "due"),
    [
        ("1,200 mg / 400 mg = 4 tablets.", "3, not 4"),
        ("1,600 mg / 400 mg = 3 tablets.", "4, not 3"),
        ("20 mg × 84 / 100 = 1.68 mg.", "16.8, not 1.68"),
        ("5.5% > 12%: nausea was reported more often.", "5.5 is not greater than 12"),
        ("12% > 12%: nausea was reported more often.", "12 is not greater than 12"),
        ("3 mg / 0 mg = 1 tablet.", "3 cannot be divided by 0"),
    ],
)
def test_wrong(sentence: str, due: str) -> None:
    assert calculation_error(sentence) == due


@pytest.mark.parametrize(
    "sentence",
    [
        "Take 25 mg once daily.",
        "The ratio is 3.",
        "Nausea was reported in 12% of patients.",
        "In patients over 65, 1,200 mg / 400 mg = 3 tablets.",
        "CrCl > 30 mL/min: no change.",
        "25 mg = one tablet.",
        "...> 5",
        ". / . = .",
        "",
        "/",
    ],
)
def test_other_sentences_are_no_calculations(sentence: str) -> None:
    assert calculation_error(sentence) is None


@given(st.integers(1, 5000), st.integers(1, 5000), st.floats(0.01, 1000))
def test_a_quotient_is_right_within_the_rounding_to_two_digits(first: int, second: int, result: float) -> None:
    due = first / second
    error = calculation_error(f"{first:,} mg / {second:,} mg = {result:.6f} tablets.")
    assert error is not None
    shown = float(f"{result:.6f}")
    if abs(shown - due) < 0.049 * due:
        assert error == ""
    if abs(shown - due) > 0.051 * due:
        assert error


NUMBER = st.text(alphabet=st.sampled_from("01,."), min_size=1, max_size=5)


@example("1.2.3 / 4 = 5")
@example("5. > 3.2.1")
@example("1,, / 0,0 = ,")
@given(st.builds("{} {} {} = {}".format, NUMBER, st.sampled_from("/×>"), NUMBER, NUMBER) | st.text())
def test_no_sentence_raises(sentence: str) -> None:
    found = calculation_error(sentence)
    assert found is None or isinstance(found, str)
