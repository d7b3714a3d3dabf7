from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.filters.rules import (
    ANSWER_LENGTH,
    MIN_OVERLAP,
    QUESTION_LENGTH,
    RULES,
    LabelEvidence,
    artificial_conjunction,
    first_failure,
    malformed_answer,
    malformed_question,
)
from fdarx_core.records import NO_ANSWER, QuestionAnswer
from fdarx_core.text.tokens import contains_name, word_overlap

STORAGE = "Store Velorin tablets at 20° to 25°C in the closed bottle."
DOSE = "The recommended dose of Velorin is 40 mg once daily; the maximum daily dose is 80 mg."
EVIDENCE = LabelEvidence(["Velorin", "velorinib mesylate"], [DOSE])
BOTH = LabelEvidence(EVIDENCE.drug_names, [DOSE, STORAGE])
FACTUAL = QuestionAnswer(
    id="f1",
    type="factual",
    answer_kind="numeric",
    source="section",
    category="",
    set_id="s",
    drug_name="Velorin",
    question="What is the recommended dose of Velorin?",
    answer="40 mg once daily",
)
MULTIHOP = replace(
    FACTUAL,
    type="multihop",
    question="How warm may a bottle for two days at the maximum dose of Velorin stand?",
    answer="80 mg daily; store at 20° to 25°C",
)
REFUSAL = replace(
    FACTUAL, type="refusal", question="Is Velorin used in Crohn's disease?", answer=NO_ANSWER, entity="Crohn's disease"
)
REFUSED = LabelEvidence(EVIDENCE.drug_names, label_text=f"{DOSE}\n{STORAGE}")


def reason(row: QuestionAnswer, evidence: LabelEvidence) -> str:
    failure = first_failure(row, evidence)
    return failure[0] if failure else ""


def test_good_questions_pass() -> None:
    assert first_failure(FACTUAL, EVIDENCE) is None
    assert first_failure(MULTIHOP, BOTH) is None
    assert first_failure(REFUSAL, REFUSED) is None


@pytest.mark.parametrize(
    ("row", "evidence", "expected"),
    [
        (replace(FACTUAL, answer=""), EVIDENCE, "missing_field"),
        (replace(FACTUAL, question=" "), EVIDENCE, "missing_field"),
        (replace(FACTUAL, drug_name=""), EVIDENCE, "missing_field"),
        (FACTUAL, LabelEvidence(["Velorin"], []), "missing_field"),
        (FACTUAL, LabelEvidence(["Velorin"], ["  "]), "missing_field"),
        (MULTIHOP, EVIDENCE, "missing_field"),
        (replace(REFUSAL, entity=""), REFUSED, "missing_field"),
        (REFUSAL, EVIDENCE, "missing_field"),
        (replace(FACTUAL, question="What is the dose of {drug}?"), EVIDENCE, "malformed"),
        (replace(FACTUAL, question="What is the recommended dose?"), EVIDENCE, "drug_not_named"),
        (replace(FACTUAL, question="What is the dose of Velorinax?"), EVIDENCE, "drug_not_named"),
        (replace(FACTUAL, question="Velorin?"), EVIDENCE, "question_length"),
        (replace(FACTUAL, question=f"Is Velorin {'very ' * 40}good?"), EVIDENCE, "question_length"),
        (replace(FACTUAL, answer="40 mg " * 101), EVIDENCE, "answer_length"),
        (
            replace(MULTIHOP, question="What is the dose of Velorin, and how is it stored?"),
            BOTH,
            "artificial_conjunction",
        ),
        (replace(FACTUAL, answer="twelve weeks of rest"), EVIDENCE, "low_overlap"),
        (replace(FACTUAL, evidence=["Nobody ever wrote this sentence."]), EVIDENCE, "evidence_not_quoted"),
        (replace(MULTIHOP, answer="80 mg maximum a day"), BOTH, "low_overlap"),
        (replace(REFUSAL, question="Is Velorin used in colitis?"), REFUSED, "entity_not_named"),
        (REFUSAL, replace(REFUSED, label_text="Not studied in Crohn’s  Disease."), "entity_present"),
    ],
)
def test_each_rule_drops_what_it_names(row: QuestionAnswer, evidence: LabelEvidence, expected: str) -> None:
    assert reason(row, evidence) == expected


def test_a_joined_question_is_no_fault_outside_multihop() -> None:
    assert reason(replace(FACTUAL, question="What is the dose of Velorin, and how is it taken?"), EVIDENCE) == ""


@pytest.mark.parametrize(
    "question",
    [
        "What is the dose of VELORIN® tablets?",
        "What is Velorin's dose?",
        "How much velorinib mesylate is in one tablet?",
    ],
)
def test_a_drug_is_named_by_any_alias_in_any_case(question: str) -> None:
    assert reason(replace(FACTUAL, question=question), EVIDENCE) == ""


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("Zalvo-XR is taken daily", "zalvo xr", True),
        ("taken with Zalvo™", "ZALVO", True),
        ("Zalvosin is another drug", "Zalvo", False),
        ("anything", "®", False),
        ("anything", "", False),
    ],
)
def test_names_are_whole_words(text: str, name: str, expected: bool) -> None:
    assert contains_name(text, name) is expected


@pytest.mark.parametrize(
    ("entity", "label_text", "present"),
    [
        ("seizure", "Seizures were reported.", True),
        ("seizures", "One seizure was reported.", True),
        ("QT prolongation", "QT-prolongation", True),
        ("ECT", "The effect is small.", False),
        ("PRES", "No pre-treatment is needed.", False),
        ("HIV", "in HIV-infected patients", True),
        ("porphyria", "no such thing", False),
    ],
)
def test_an_entity_is_present_in_singular_and_plural(entity: str, label_text: str, present: bool) -> None:
    row = replace(REFUSAL, entity=entity, question=f"Is Velorin safe in {entity}?")
    assert reason(row, replace(REFUSED, label_text=label_text)) == ("entity_present" if present else "")


def test_bounds_themselves_are_allowed() -> None:
    for length in QUESTION_LENGTH:
        question = "Velorin" + "x" * (length - 10) + " a?" if length > 10 else "Velorin a?"
        row = replace(FACTUAL, question=question.replace("Velorinx", "Velorin x")[: length - 1] + "?")
        assert len(row.question) == length
        assert reason(row, EVIDENCE) == ""
    for length in ANSWER_LENGTH:
        digit = replace(EVIDENCE, contexts=["The dose is 4 daily."])
        assert reason(replace(FACTUAL, answer=("4" + " daily" * 100)[:length]), digit) == ""


@pytest.mark.parametrize("answer", ["Yes", "No.", "Yes, up to 80 mg.", "8", "40 mg", "8%"])
def test_short_answers_are_allowed(answer: str) -> None:
    evidence = replace(EVIDENCE, contexts=[*EVIDENCE.contexts, "Nausea occurred in 8% of 8 patients."])
    assert reason(replace(FACTUAL, answer=answer), evidence) == ""


def test_an_answer_of_foreign_words_after_yes_or_no_is_not_allowed() -> None:
    assert reason(replace(FACTUAL, answer="No, twelve weeks of rest"), EVIDENCE) == "low_overlap"


def test_a_near_miss_may_be_in_the_label_and_another_refusal_question_may_not() -> None:
    """Whether the label says what is asked of the thing is for the judge to say, who has the whole label."""
    held = replace(REFUSED, label_text="Not studied in Crohn's disease.")
    assert reason(REFUSAL, held) == "entity_present"
    assert reason(replace(REFUSAL, attribute="dose"), held) == ""
    elsewhere = replace(REFUSAL, attribute="dose", question="Is Velorin used in colitis?")
    assert reason(elsewhere, held) == "entity_not_named"


texts = st.text(max_size=700) | st.sampled_from([DOSE, STORAGE, FACTUAL.question, NO_ANSWER, "null", "{}", "?"])
rows = st.builds(
    QuestionAnswer,
    id=texts,
    type=st.sampled_from(["factual", "multihop", "refusal"]),
    answer_kind=st.just("factual"),
    source=st.just("section"),
    category=st.just(""),
    set_id=texts,
    drug_name=texts,
    question=texts | texts.map(lambda text: f"What of Velorin {text}?"),
    answer=texts,
    entity=texts,
)
evidences = st.builds(LabelEvidence, st.lists(texts, max_size=3), st.lists(texts, max_size=3), texts)


@given(rows, evidences)
def test_no_text_makes_a_rule_raise_and_what_passes_keeps_all_bounds(
    row: QuestionAnswer, evidence: LabelEvidence
) -> None:
    failure = first_failure(row, evidence)
    assert failure == first_failure(row, evidence)
    if failure:
        assert failure[0] in RULES
        assert failure[1]
        return
    assert QUESTION_LENGTH[0] <= len(row.question) <= QUESTION_LENGTH[1]
    assert ANSWER_LENGTH[0] <= len(row.answer) <= ANSWER_LENGTH[1]
    assert row.question.endswith("?")
    assert any(contains_name(row.question, name) for name in [row.drug_name, *evidence.drug_names])
    if row.type == "multihop":
        assert all(word_overlap(row.answer, context) >= MIN_OVERLAP for context in evidence.contexts)
    elif row.type == "factual":
        assert word_overlap(row.answer, "\n".join(evidence.contexts)) >= MIN_OVERLAP


@given(texts, texts, texts)
def test_overlap_is_a_share_that_grows_with_the_context(answer: str, context: str, more: str) -> None:
    share = word_overlap(answer, context)
    assert 0 <= share <= 1
    assert word_overlap(answer, DOSE) <= word_overlap(answer, f"{DOSE}\n{more}")


def test_overlap_is_full_with_itself() -> None:
    assert word_overlap(DOSE, DOSE) == 1
    assert word_overlap("", DOSE) == 0


NAMES = ["Velorin", "Camrese", "sulfamethoxazole and trimethoprim"]
STORAGE_TEXT = "Store Velorin tablets at 20 to 25 °C. Keep the bottle closed. Storage conditions."
DOSE_TEXT = "The maximum daily dose of Velorin is 40 mg once daily for adults."

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
    assert artificial_conjunction(question, NAMES, [STORAGE_TEXT, DOSE_TEXT])
    assert artificial_conjunction(question, NAMES, [DOSE_TEXT, STORAGE_TEXT])


@pytest.mark.parametrize("question", ONE)
def test_one_question_passes(question: str) -> None:
    assert artificial_conjunction(question, NAMES, [STORAGE_TEXT, DOSE_TEXT]) is None


def test_two_things_of_one_context_are_one_question() -> None:
    question = "What is the storage temperature and the maximum dose of Velorin?"
    assert artificial_conjunction(question, NAMES, [f"{STORAGE_TEXT} {DOSE_TEXT}", DOSE_TEXT]) is None


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
def test_no_text_raises_in_conjunction(question: str, drug_names: list[str], contexts: list[str]) -> None:
    artificial_conjunction(question, drug_names, contexts)
    artificial_conjunction(f"What is {question} and the {question} of Velorin?", drug_names, contexts)


@given(st.sampled_from([*JOINED, *ONE]))
def test_case_does_not_matter(question: str) -> None:
    contexts = [STORAGE_TEXT, DOSE_TEXT]
    loud = artificial_conjunction(question.upper(), NAMES, contexts)
    assert loud == artificial_conjunction(question, NAMES, contexts)


BAD_QUESTIONS = {
    "no letters": "12 + 13?",
    "no question mark": "Tell me the dose of Velorin.",
    "not at the end": "What is the dose of Velorin? Say it",
    "two of them": "What is the dose of Velorin? And its form?",
    "slot": "What is the dose of {drug}?",
    "slot in brackets": "What is the dose of [drug name]?",
    "braces": "What is the dose of {{ Velorin }}?",
    "JSON": 'question": "What is the dose of Velorin?',
    "list": '["What is the dose of Velorin?',
    "field": "Question: What is the dose of Velorin?",
    "number": "3. What is the dose of Velorin?",
    "bold": "**What is the dose of Velorin?",
    "heading": "# What is the dose of Velorin?",
    "bullet": "- What is the dose of Velorin?",
    "fence": "```What is the dose of Velorin?",
    "null": "What is the dose of Velorin in null patients?",
    "N/A": "What is the dose of Velorin for N/A?",
    "None": "Is Velorin used in None?",
    "escape": "What is\\nthe dose of Velorin?",
    "unicode escape": "What is Velorin\\u2019s dose?",
    "line break": "What is\nthe dose of Velorin?",
    "control character": "What is the dose\x07 of Velorin?",
    "lost character": "What is Velorin\ufffds dose?",
    "reference": "Is Velorin &gt; 40 mg allowed?",
    "tag": "What is the <br/> dose of Velorin?",
    "open bracket": "What is the dose of Velorin (tablets?",
    "closed bracket": "What is the dose of Velorin tablets)?",
    "crossed": "What is the dose of Velorin ([tablets)]?",
}
GOOD_QUESTIONS = [
    "What is the dose of Velorin (velorinib) in adults [18 years and older]?",
    "Is Velorin given when CLcr is < 30 mL/min and > 15 mL/min?",
    "Should Velorin be stopped at ALT ≥ 3 × ULN & bilirubin > 2 × ULN?",
    "By how much does a CYP2D6 inhibitor change Velorin's AUC0–∞ (1.5-fold)?",
    'What does the label mean by "rapid" in "rapid titration" of Velorin?',
]
GOOD_ANSWERS = [
    "• 40 mg once daily\n• 80 mg at most",
    "a) 40 mg b) 80 mg",
    "AUC 1.5 (90% CI [1.2, 1.9)",
    "Renal impairment | CLcr < 30 mL/min: 20 mg",
    "N/A in the trial; 12% after it",
    "** studied for 12 months.",
]
BAD_ANSWERS = [
    "null",
    " N/A. ",
    "None",
    "...",
    '{"answer": "40 mg"}',
    '"answer": "40 mg"',
    '["40 mg"]',
    "40 mg\\nonce daily",
    "40 mg {drug}",
    "```40 mg```",
    "40 mg}",
    "<p>40 mg</p>",
    "40 mg &amp; 80 mg",
    "40 mg\x00",
]


@pytest.mark.parametrize("question", BAD_QUESTIONS.values(), ids=BAD_QUESTIONS.keys())
def test_damaged_questions_are_found(question: str) -> None:
    assert malformed_question(question)


@pytest.mark.parametrize("question", GOOD_QUESTIONS)
def test_whole_questions_pass(question: str) -> None:
    assert malformed_question(question) is None


@pytest.mark.parametrize("answer", BAD_ANSWERS)
def test_damaged_answers_are_found(answer: str) -> None:
    assert malformed_answer(answer)


@pytest.mark.parametrize("answer", GOOD_ANSWERS)
def test_label_text_passes_as_an_answer(answer: str) -> None:
    assert malformed_answer(answer) is None


@given(st.text())
def test_no_text_raises(text: str) -> None:
    assert malformed_answer(text) != ""
    if malformed_question(text) is None:
        assert text.count("?") == 1
        assert text.endswith("?")
        assert not {"{", "}", "\n"} & set(text)
