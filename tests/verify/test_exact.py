"""The exact engine: it decides where a text has the same words in the same order, and abstains elsewhere."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.verify import TextPair, verify
from fdarx_core.verify.exact_tokens import tokenize_sentence, uninflected

TEXT = """Metformin is contraindicated in severe renal impairment. NSAIDs can cause fetal harm [see Warnings (5.1)].
The recommended dose of Ibuprofen tablets is 400 mg every 4 to 6 hours. It can cause headache, nausea, or dizziness.
Do not use in patients with asthma, urticaria, or allergic reactions after taking aspirin.
In patients with heart failure, the starting dose is 5 mg once daily. Lithium increases the clearance of ibuprofen.
Doses should not exceed 3,200 mg per day. Use only if the patient is at least 12 years of age.
Ulcers/bleeding can occur.
Contraindications: patients with:
- active bleeding
- known hypersensitivity to ibuprofen"""


def judged(statement: str, drug: str = "ibuprofen") -> tuple[str, str]:
    """Return the verdict on a statement by `TEXT`, and the part of the text that decides."""
    [found] = verify([TextPair(TEXT, statement, drug)], "exact")
    assert found.probabilities is not None and sum(found.probabilities) == pytest.approx(1)
    assert (found.span is None) == (found.verdict == "undecided") and found.reason
    return found.verdict, TEXT[slice(*found.span)] if found.span else ""


@pytest.mark.parametrize(
    "statement",
    [
        "Metformin is contraindicated in severe kidney impairment.",  # a synonym
        "NSAIDs can cause fetal harm.",  # without its cross-reference
        "The recommended dose of ibuprofen is 0.4 g every 4-6 hours",  # the same quantity, no dosage form
        "It can cause nausea.",  # an item of a list
        "It can cause headache or dizziness.",
        "Contraindications: patients with active bleeding",  # an item with the line that introduces it
        "Doses should not exceed 3200 mg a day. It can cause nausea.",  # each sentence by itself
        "In patients with heart failure, the starting dose of ibuprofen is 5 mg once daily",  # the label leaves it out
        "Ulcers or bleeding can occur.",  # for a slash
    ],
)
def test_the_same_words_in_the_same_order_are_supported(statement: str) -> None:
    assert judged(statement)[0] == "supported"


@pytest.mark.parametrize(
    ("statement", "decides"),
    [
        ("Metformin is not contraindicated in severe renal impairment.", "Metformin is contraindicated in severe"),
        ("Use in patients with asthma, urticaria, or allergic reactions after taking aspirin.", "Do not use in"),
        ("The recommended dose of ibuprofen is 800 mg every 4 to 6 hours.", "The recommended dose"),
        ("The recommended dose of ibuprofen is 400 mcg every 4 to 6 hours.", "The recommended dose"),
        ("The recommended dose of ibuprofen is 400 mg every 12 hours.", "The recommended dose"),
        ("Lithium decreases the clearance of ibuprofen.", "Lithium increases"),
        ("Use only if the patient is at most 12 years of age.", "Use only if"),
    ],
)
def test_one_quantity_unit_bound_or_polarity_that_differs_contradicts(statement: str, decides: str) -> None:
    verdict, sentence = judged(statement)
    assert verdict == "contradicted"
    assert sentence.startswith(decides)


@pytest.mark.parametrize(
    "statement",
    [
        "Metformin is contraindicated in renal impairment.",  # it restricts less than the text
        "Do not use in patients with asthma.",  # "after taking aspirin" may belong to asthma
        "The starting dose is 5 mg once daily.",  # in heart failure only
        "Use only if the patient is 12 years of age.",  # the bound is gone
        "Ibuprofen increases the clearance of lithium.",  # roles are swapped
        "NSAIDs are beneficial to the fetus.",
        "NSAIDs will cause fetal harm.",  # another modality
        "Lithium increases the clearance of ibuprofen of ibuprofen.",
        "Ulcers of ibuprofen or bleeding can cause nausea.",
        "The dose is 800 mg every 12 hours.",  # two differences
        "Metformin is contraindicated in severe elephant impairment.",
        "Store in a refrigerator.",
        "",
    ],
)
def test_everything_else_is_undecided(statement: str) -> None:
    assert judged(statement)[0] == "undecided"


@pytest.mark.parametrize(
    "statement",
    ["The dose is ≠ 5 mg daily.", "The dose is -5 mg daily.", "❌ The dose is 5 mg daily.", "The dose is 5 mg daily?"],
)
def test_a_sign_that_may_turn_the_meaning_is_not_left_out(statement: str) -> None:
    pairs = [TextPair("The dose is 5 mg daily.", one) for one in (statement, "The dose is 5 mg daily.")]
    assert [one.verdict for one in verify(pairs)] == ["undecided", "supported"]


def test_a_doubled_space_changes_nothing() -> None:
    assert judged("Metformin is  not contraindicated in  severe renal impairment.")[0] == "contradicted"


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


def test_inflection_is_no_difference() -> None:
    for one, other in (("doses", "dosed"), ("stopped", "stopping"), ("studies", "study"), ("use", "using")):
        assert uninflected(one) == uninflected(other)
    for one, other in (("inhibitor", "inhibited"), ("renal", "adrenal"), ("mass", "mas"), ("us", "use5")):
        assert uninflected(one) != uninflected(other)


def test_names_of_a_drug_bounds_and_quantities_are_single_tokens() -> None:
    tokens = tokenize_sentence("BRAND XR tablets: no more than 1,200 mg twice daily; CrCl <30 mL/min", "Brand XR")
    assert [one.kind for one in tokens if one.kind != "mark"] == [
        "drug", "bound", "quantity", "interval", "word", "bound", "quantity",
    ]  # fmt: skip
