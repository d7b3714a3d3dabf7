"""The exact engine: it supports what stands in the text word for word, and abstains elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.verify import TextPair, verify

TEXT = """Metformin is contraindicated in severe renal impairment. NSAIDs can cause fetal harm [see Warnings (5.1)].
The recommended dose of Ibuprofen tablets is 400 mg every 4 to 6 hours (2.1).
It can cause headache, nausea, or dizziness.
Do not use in patients with asthma, urticaria, or allergic reactions after taking aspirin.
In patients with heart failure, the starting dose is 5 mg once daily. Should Ibuprofen be taken with food?
Doses should not exceed 3,200 mg per day. Stop it at a temperature of -5 °C or a loss of 0.5 kg.
Contraindications: patients with:
- active bleeding. It may be fatal.
- known hypersensitivity to ibuprofen
eGFR (mL/min) | Starting dose
30 to 59 | 5 mg
below 30 | 10 mg
Bioavailability | Adults (20 yrs.) Mean: 55
Tmax | Adults (20 yrs.) Mean: 2.3"""


def judged(statement: str) -> tuple[str, str]:
    """Return the verdict on a statement by `TEXT`, and the part of the text that decides."""
    [found] = verify([TextPair(TEXT, statement)], "exact")
    assert found.probabilities is not None and sum(found.probabilities) == pytest.approx(1)
    assert found.engine == "exact" and found.reason and (found.span is None) == (found.verdict == "undecided")
    return found.verdict, TEXT[slice(*found.span)] if found.span else ""


@pytest.mark.parametrize(
    ("statement", "decides"),
    [
        ("Metformin is contraindicated in severe renal impairment.", "Metformin is contraindicated in severe"),
        ("**METFORMIN** is contraindicated   in severe\nrenal impairment", "Metformin is contraindicated in severe"),
        ("NSAIDs can cause fetal harm.", "NSAIDs can cause fetal harm [see"),  # without its cross-reference
        ("NSAIDs can cause fetal harm [see Warnings (5.1)].", "NSAIDs can cause fetal harm [see"),
        ("The recommended dose of Ibuprofen tablets is 400 mg every 4 to 6 hours.", "The recommended dose"),
        ("It can cause headache, nausea or dizziness", "It can cause headache"),
        (
            "The recommended dose of Ibuprofen tablets is 400 mg every 4 to 6 hours. It can cause headache, nausea, or "
            "dizziness.",
            "The recommended dose",
        ),
        ("known hypersensitivity to ibuprofen", "- known hypersensitivity"),
        ("Contraindications: patients with: known hypersensitivity to ibuprofen", "Contraindications: patients"),
        ("30 to 59 | 5 mg", "30 to 59"),
    ],
)
def test_what_stands_in_the_text_is_supported(statement: str, decides: str) -> None:
    verdict, place = judged(statement)
    assert verdict == "supported" and (place.startswith(decides) or decides in place)


@pytest.mark.parametrize(
    "statement",
    [
        "Metformin is not contraindicated in severe renal impairment.",
        "Metformin is contraindicated in renal impairment.",
        "Use in patients with asthma, urticaria, or allergic reactions after taking aspirin.",  # a part reverses it
        "Do not use in patients with asthma.",
        "Do not use in patients with asthma, urticaria, or allergic reactions before taking aspirin.",
        "The starting dose is 5 mg once daily.",  # in heart failure only
        "The recommended dose of Ibuprofen tablets is 800 mg every 4 to 6 hours.",
        "The recommended dose of Ibuprofen tablets is 400 mcg every 4 to 6 hours.",
        "The recommended dose of Naproxen tablets is 400 mg every 4 to 6 hours.",
        "NSAIDs can cause fetal harm [see Warnings (5.2)].",
        "Ibuprofen should be taken with food.",
        "Should Ibuprofen be taken with food.",  # a question is no statement
        "Stop it at a temperature of 5 °C or a loss of 0.5 kg.",
        "Stop it at a temperature of -5 °C or a loss of .5 kg.",
        "Stop it at a temperature of -5 °F or a loss of 0.5 kg.",
        "Doses should not exceed 3.200 mg per day.",
        "30 to 59 | 10 mg",  # the value of another row
        "Tmax | Adults (20 yrs.) Mean: 55",  # a stop within a cell
        "Doses should not exceed 3,200 mg per day. It can cause headache, nausea, or dizziness.",  # from two places
        "❌ It can cause headache, nausea, or dizziness.",
        "No. Doses should not exceed 3,200 mg per day.",
        "",
        "...",
    ],
)
def test_nothing_else_is_decided(statement: str) -> None:
    assert judged(statement)[0] == "undecided"


def test_a_missing_number_is_named() -> None:
    [found] = verify([(TEXT, "Take 7 mg daily.")], "exact")
    assert (found.verdict, found.reason) == ("undecided", "number: 7 mg is not in the text")


WORDS = st.sampled_from(["dose", "renal", "impairment", "severe", "may", "should", "not", "use", "of", "in", "5", "mg"])
SENTENCES = st.lists(WORDS, min_size=3, max_size=12).map(lambda words: " ".join(words).capitalize() + ".")


@given(st.lists(SENTENCES, min_size=1, max_size=4), st.data())
def test_each_sentence_of_a_text_is_supported_by_it(sentences: list[str], data: st.DataObject) -> None:
    statement = data.draw(st.sampled_from(sentences))
    [found] = verify([("\n".join(sentences), statement)], "exact")
    assert found.verdict == "supported"


@given(SENTENCES, st.integers(0, 10))
def test_a_word_that_the_text_lacks_is_never_supported(sentence: str, place: int) -> None:
    words = sentence.rstrip(".").split()
    words[place % len(words)] = "hippopotamus"
    [found] = verify([(sentence, " ".join(words))], "exact")
    assert found.verdict == "undecided"
