"""What PubMed is asked for a claim: key words, the narrowest search first, nothing that Entrez would misread."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.factuality.evidence import Query
from fdarx_core.factuality.evidence.pubmed.queries import queries_of

KEPT = " AND hasabstract NOT retracted publication[pt]"


def rungs(claim: str, question: str = "", drug: str = "") -> list[str]:
    found = queries_of(Query(claim, question, drug))
    assert all(one.endswith(KEPT) for one in found)
    return [one.removesuffix(KEPT).removeprefix("(").removesuffix(")") for one in found]


def test_from_all_words_to_any() -> None:
    claim, question = "Oral ivermectin kills mites.", "Which drugs kill scabies mites?"
    narrow, middle, wide = rungs(claim, question)
    assert set(narrow.split()) == {"oral", "ivermectin", "kills", "mites"}
    assert middle == "(kills OR mites) AND (oral OR ivermectin)"
    assert set(wide.split(" OR ")) == {"oral", "ivermectin", "kills", "mites"}


def test_a_claim_that_leaves_its_subject_open_is_asked_with_the_question_s() -> None:
    narrow, middle, wide = rungs("Severe cases need intravenous glucose.", "What causes hypoglycemia in newborns?")
    assert {"hypoglycemia", "newborns", "intravenous", "glucose"} <= set(narrow.split())
    assert "hypoglycemia" in middle.partition(" AND ")[0]
    assert "hypoglycemia" in wide


def test_names_of_one_letter_and_acronyms_are_kept() -> None:
    narrow, *_ = rungs("Hepatitis C and vitamin D don't affect the UTI.")
    assert "hepatitis c" in narrow
    assert "vitamin d" in narrow
    assert "UTI" in narrow


def test_the_drug_is_always_wanted() -> None:
    narrow, middle, _ = rungs("Headache was seen in 12 % of patients.", "", "Zalvorin")
    assert narrow.startswith("zalvorin")
    assert middle.startswith("(zalvorin) AND (")


def test_numbers_units_and_operators_are_left_out() -> None:
    narrow, *_ = rungs("Amoxicillin 500 mg OR 2.5 mL daily cures otitis AND NOT sinusitis.")
    assert set(narrow.split()) >= {"amoxicillin", "otitis"}
    assert not {"500", "mg", "2.5", "ml", "OR", "AND", "NOT"} & set(narrow.split())


def test_no_abstract_has_to_have_more_than_six_words() -> None:
    long = "Noonan syndrome causes webbing, hypertelorism, stenosis, lentigines, cryptorchidism, deafness, bleeding."
    assert len(rungs(long)[0].split()) == 6
    assert len(rungs(long, "Does Noonan syndrome cause webbing?", "Zalvorin")[0].split()) == 6


def test_a_claim_without_words_of_its_own_takes_the_question_s() -> None:
    assert "scabies" in rungs("It may.", "Is scabies contagious?")[0]
    assert queries_of(Query("12 %.", "")) == []


@given(st.text(max_size=200), st.text(max_size=80), st.text(max_size=30))
def test_nothing_that_entrez_reads_as_its_own_language(claim: str, question: str, drug: str) -> None:
    for one in rungs(claim, question, drug):
        assert one.count("(") == one.count(")")
        assert not re.search(r'[\[\]":*?/{}<>~^]', one)
        assert not re.search(r"\(\)|AND \)|OR \)|^ ?(AND|OR)", one)
