"""What a judge quotes must stand in what it was shown; how it is spaced, cased and punctuated does not matter."""

from __future__ import annotations

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fdarx_core.filters.quotations import is_quoted

PASSAGE = """Recommended Dosage (2.1)
The recommended starting dose of VELORIN® is 12.5 mg once daily; increase to 1,500 mg after ≥ 4 weeks.
Store at 20°–25°C. Patients' dose “should not” exceed 0.5 mg/kg in co-administration (see 5.2).
Strength | 50 mg: Color | white"""

WORDS = st.lists(st.sampled_from(PASSAGE.split()), min_size=3, max_size=40)
SPACE = st.sampled_from([" ", "  ", "\n", "\t", "\u00a0", " \r\n "])


@pytest.mark.parametrize(
    "quote",
    [
        "The recommended starting dose of VELORIN is 12.5 mg once daily",
        "the RECOMMENDED starting\n dose of Velorin® is 12.5 mg once daily.",
        '"Patients’ dose "should not" exceed 0.5 mg/kg"',
        "Store at 20°-25°C",
        "Store at 20° − 25°C.",
        "starting dose of VELORIN … increase to 1,500 mg … Store at",
        "starting dose of VELORIN is 12.5 mg [...] Strength | 50 mg",
        "…once daily; increase to 1,500 mg...",
        "Recommended Dosage (2.1) The recommended starting dose",
    ],
)
def test_found(quote: str) -> None:
    assert is_quoted(quote, PASSAGE)


@pytest.mark.parametrize(
    "quote",
    [
        "",
        " … ",
        "“.”",
        "The usual starting dose of VELORIN",
        "2.5 mg once daily",
        "500 mg after",
        "dose of VELORIN is 12 mg",
        "increase to 1,500 mg after 4 weeks",
        "Store at … once daily",
        "ecommended starting dose",
        "exceed 0.5 mg/kg in coadministration",
        "The recommended starting dose of VELORIN is 12.5 mg once daily in adults",
    ],
)
def test_not_found(quote: str) -> None:
    assert not is_quoted(quote, PASSAGE)


def test_a_minus_sign_counts() -> None:
    assert is_quoted("between -20°C and 8°C", "Keep between \u221220°C and 8°C.")
    assert not is_quoted("between 20°C and 8°C", "Keep between -20°C and 8°C.")


@given(words=WORDS, data=st.data())
def test_a_span_is_found_however_spaced_and_cased(words: list[str], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(words) - 1))
    end = data.draw(st.integers(start + 1, len(words)))
    span = words[start:end]
    assume(re.search(r"\w", " ".join(span)))
    spaced = "".join(word + data.draw(SPACE) for word in span)
    cased = data.draw(st.sampled_from([spaced, spaced.upper(), spaced.lower(), spaced.title(), spaced.swapcase()]))
    assert is_quoted(cased, " ".join(words))


@given(words=WORDS, data=st.data())
def test_a_span_with_one_number_changed_is_never_found(words: list[str], data: st.DataObject) -> None:
    text = " ".join(words)
    numbers = list(re.finditer(r"\d+(?:[.,]\d+)*", text))
    assume(numbers)
    changed = data.draw(st.sampled_from(numbers))
    other = data.draw(st.integers(0, 99_999).map(str).filter(lambda number: number not in text))
    assert not is_quoted(text[: changed.start()] + other + text[changed.end() :], text)


@given(st.text(), st.text())
def test_never_raises(quote: str, text: str) -> None:
    assert is_quoted(quote, text) in (True, False)


@given(st.text(alphabet=st.characters(codec="utf-8"), min_size=1))
def test_a_text_with_a_word_quotes_itself(text: str) -> None:
    assume(re.search(r"[a-z0-9]", text))
    assert is_quoted(text, text)
