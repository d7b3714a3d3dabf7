from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.filters.conjunction import artificial_conjunction

NAMES = ["Velorin", "Camrese", "sulfamethoxazole and trimethoprim"]
STORAGE = "Store Velorin tablets at 20 to 25 °C. Keep the bottle closed. Storage conditions."
DOSE = "The maximum daily dose of Velorin is 40 mg once daily for adults."

JOINED = [
    "What is the breast cancer risk associated with long-term use of CAMRESE, and how is it supplied?",
    "What are the available strengths of Velorin and why is it not recommended while breastfeeding?",
    "What is the dose of Velorin, as well as what precautions apply?",
    "What is the half-life of Velorin and in which patients should it be avoided?",
    "What is Velorin used for and who should not take it?",
    "What is the dose of Velorin; and how often is it given?",
    "What is the dose of Velorin and when should it be taken?",
    "Is Velorin safe in pregnancy, and should it be stopped?",
    "Does Velorin cross the placenta and does it enter milk?",
    "Is Velorin absorbed with food and is Velorin bound to protein?",
    "What is the storage temperature and the maximum dose of Velorin?",
    "What is the maximum dose of Velorin and its storage temperature?",
    "What is the storage temperature as well as the maximum daily dose of Velorin in adults?",
    "How should Velorin be stored and dosed?",
]
ONE = [
    "What is the dose of Velorin in patients with renal and hepatic impairment?",
    "What are the indications and usage of Velorin?",
    "What dose of Velorin is recommended in patients who smoke and who have hepatic impairment?",
    "Which inhibitor of CYP3A4 and P-gp should not be taken with Velorin?",
    "What drug is metabolised by CYP3A4 and should be avoided with Velorin?",
    "What is the storage and stability of Velorin?",
    "How should the dose of Velorin be changed when a patient is elderly and has renal impairment?",
    "What should be monitored when Velorin is started and when it is stopped?",
    "Which reaction occurs in 5% of patients and is the most common one with Velorin?",
    "What is the dose of sulfamethoxazole and trimethoprim in adults who store it?",
    "For whom or for what is Velorin not recommended?",
    "What does the label advise when Velorin and warfarin are taken together?",
    "How should Velorin be taken with or without food?",
    "What is the maximum dose and frequency of Velorin for adults?",
]
PUBLISHED = Path(os.environ.get("FDARX_DATA", "../shared/data")) / "fdarxbench" / "qa_toy.jsonl"


@pytest.mark.parametrize("question", JOINED)
def test_two_questions_joined_are_found(question: str) -> None:
    assert artificial_conjunction(question, NAMES, [STORAGE, DOSE])
    assert artificial_conjunction(question, NAMES, [DOSE, STORAGE])


@pytest.mark.parametrize("question", ONE)
def test_one_question_passes(question: str) -> None:
    assert artificial_conjunction(question, NAMES, [STORAGE, DOSE]) is None


def test_two_things_of_one_context_are_one_question() -> None:
    question = "What is the storage temperature and the maximum dose of Velorin?"
    assert artificial_conjunction(question, NAMES, [f"{STORAGE} {DOSE}", DOSE]) is None


def test_of_the_published_questions_few_are_joined() -> None:
    if not PUBLISHED.exists():
        pytest.skip(f"no {PUBLISHED}; set FDARX_DATA")
    rows = [row for line in PUBLISHED.read_bytes().splitlines() if (row := orjson.loads(line))["task"] == "multihop"]
    joined = [
        row["qid"]
        for row in rows
        if artificial_conjunction(row["question"], [row["drug_name"]], [one["text"] for one in row["context"]])
    ]
    assert 0 < len(joined) <= len(rows) / 3


@given(st.text(), st.lists(st.text(), max_size=3), st.lists(st.text(), max_size=3))
def test_no_text_raises(question: str, drug_names: list[str], contexts: list[str]) -> None:
    artificial_conjunction(question, drug_names, contexts)
    artificial_conjunction(f"What is {question} and the {question} of Velorin?", drug_names, contexts)


@given(st.sampled_from([*JOINED, *ONE]))
def test_case_does_not_matter(question: str) -> None:
    contexts = [STORAGE, DOSE]
    loud = artificial_conjunction(question.upper(), NAMES, contexts)
    assert loud == artificial_conjunction(question, NAMES, contexts)
