from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.filters.malformed import malformed_answer, malformed_question

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
