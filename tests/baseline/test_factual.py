"""Questions by rules from one passage: what label text gives, and what holds for any text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.baseline.numbers import number_strings
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.tokens import clean_label_text
from fdarx_core.generation.factual import factual_questions
from fdarx_core.generation.passage_reader import PassageOutline


def ask(context: str, code: str = "34090-1", title: str = "", drug: str = "Zelvarin", k: int = 3) -> list[Any]:
    slots = {
        "drug": drug,
        "section_title": title,
        "section_path": title,
        "section_code": code,
        "context": context,
        "k": k,
    }
    return factual_questions(slots)


@pytest.mark.parametrize(
    ("code", "context", "question", "kind"),
    [
        (
            "43682-4",
            "The mean elimination half-life of zelvarin is 4.5 hours (range 3 to 6 hours).",
            "What is the mean elimination half-life of zelvarin?",
            "numeric",
        ),
        (
            "34068-7",
            "The recommended starting dose of ZELVARIN for adults with gout is 20 mg once daily.",
            "What is the recommended starting dose of ZELVARIN for adults with gout?",
            "numeric",
        ),
        (
            "43685-7",
            "If abnormal liver tests persist or worsen, discontinue ZELVARIN immediately.",
            "What does the Zelvarin label advise if abnormal liver tests persist or worsen?",
            "factual",
        ),
        (
            "34084-4",
            "The most common adverse reactions (≥5%) in adults were nausea, headache, dizziness, and rash.",
            "According to the Zelvarin label, what were the most common adverse reactions (≥5%) in adults?",
            "list",
        ),
        (
            "34092-7",
            "Approximately 38% of patients treated with ZELVARIN achieved clinical remission at Week 12.",
            "What percentage of patients treated with ZELVARIN achieved clinical remission at Week 12?",
            "numeric",
        ),
        (
            "34070-3",
            "ZELVARIN is contraindicated in patients with the following conditions:\n- severe renal impairment\n"
            "- known hypersensitivity to zelvarin",
            "When is ZELVARIN contraindicated?",
            "factual",
        ),
    ],
)
def test_label_sentences_give_the_question_a_reviewer_would_ask(
    code: str, context: str, question: str, kind: str
) -> None:
    [(asked, answer, found)] = ask(context, code)
    assert (asked, found) == (question, kind)
    assert answer.split()[0] in context


def test_list_items_belong_to_the_answer() -> None:
    [(_, answer, _)] = ask("ZELVARIN is contraindicated in patients with:\n- asthma\n- gout", "34070-3")
    assert answer == "ZELVARIN is contraindicated in patients with: asthma; gout."


def test_interaction_table_rows_name_the_partner() -> None:
    table = "Lithium\nClinical Impact: | Zelvarin has produced elevations in plasma lithium levels of about 15%."
    [(question, answer, _)] = ask(table, "34073-7")
    assert question == "What clinical impact does the Zelvarin label describe for concomitant use with lithium?"
    assert answer == "Zelvarin has produced elevations in plasma lithium levels of about 15%."


def test_table_rows_keep_values_with_their_columns() -> None:
    [(question, answer, kind)] = ask("Nausea | ZELVARIN 10 mg (N=98): 7% | Placebo (N=100): 3%", "34084-4")
    assert question == "What frequencies does the adverse reactions table of the Zelvarin label give for nausea?"
    assert (answer, kind) == ("Nausea: ZELVARIN 10 mg (N=98): 7%; Placebo (N=100): 3%.", "numeric")


def test_sentences_that_answer_one_question_make_one_answer() -> None:
    text = "ZELVARIN is indicated for gout in adults. ZELVARIN is indicated for arthritis in adults over 50 years."
    [(question, answer, _)] = ask(text, "34067-9")
    assert question == "What is ZELVARIN indicated for?"
    assert answer == text


@pytest.mark.parametrize(
    "context",
    [
        "These patients should be monitored closely for signs of bleeding.",
        "It is metabolized mainly in the liver and excreted in urine.",
        "The pharmacokinetic parameters are shown in Table 3.",
        "Acme Pharmaceuticals, Inc.\n12 Main Street\nSpringfield, NJ 08536",
        "1. Smith J. Effects of zelvarin. N Engl J Med 1999; 340: 1-7.",
        "",
    ],
)
def test_text_that_cannot_stand_alone_gives_nothing(context: str) -> None:
    assert ask(context) == []


def test_another_part_of_a_kit_is_not_taken_for_the_drug() -> None:
    text = "The elimination half-life is 7 hours."
    assert ask(text, "34090-1", "RANITIDINE HYDROCHLORIDE", drug="Zelva Kit") == []
    assert ask(text, "34090-1", "Elimination", drug="Zelvarin") != []


def test_cross_references_and_marks_leave_the_text() -> None:
    assert clean_label_text(
        "Stop ZELVARIN® [see Warnings and Precautions (5.2)] (see WARNINGS, Renal Effects (b))."
    ) == ("Stop ZELVARIN.")


def test_sentences_end_where_label_sentences_end() -> None:
    text = "Give 2.5 mg/mL approx. Two doses (e.g. Monday) suffice. Do not exceed 10 mg."
    assert split_sentences(text, "label") == [
        "Give 2.5 mg/mL approx. Two doses (e.g. Monday) suffice.",
        "Do not exceed 10 mg.",
    ]


def test_numbers_are_equal_with_and_without_thousands_separators() -> None:
    assert number_strings("1,500 mg in 2.5 mL, weeks 1, 2") == {"1500", "2.5", "1", "2"}


_PIECES = st.sampled_from(
    [
        "If ", "the dose of Zelvarin ", "is ", "10 mg", " (see Table 1)", ", ", ". ", ":\n- ", "\n", " | ",
        "half-life of ", "should be ", "avoided in ", "patients with ", "%", "1,200", "{drug}", "NDC 1234-567-89 ",
        "The most common ","adverse reactions were ", "(", "]", "Nausea: ", "What is Zelvarin?", "\x00", "é½", "and ",
        "contraindicated in ",
    ]
)  # fmt: skip
_CODES = st.sampled_from(["34084-4", "34068-7", "43682-4", "34073-7", "43685-7", "42231-1", "34069-5", "34089-3", ""])


@given(
    context=st.one_of(st.text(max_size=400), st.lists(_PIECES, max_size=60).map("".join)),
    drug=st.one_of(st.sampled_from(["Zelvarin", "A and B", "Zelva {kit} 5%", "x"]), st.text(max_size=30)),
    code=_CODES,
    k=st.integers(0, 4),
)
def test_any_text_keeps_the_bounds(context: str, drug: str, code: str, k: int) -> None:
    asked = ask(context, code, "Renal Toxicity", drug, k)
    assert len(asked) <= k
    assert asked == ask(context, code, "Renal Toxicity", drug, k)
    for question, answer, kind in asked:
        assert 10 <= len(question) <= 200 and 5 <= len(answer) <= 600
        assert drug.strip().lower() in question.lower()
        assert number_strings(answer) <= number_strings(context)
        assert kind in ("factual", "list", "numeric")


@pytest.mark.parametrize("piece", ["(see ", "a, ", "If the ", "1 mg; ", "[", "mean of the "])
def test_long_repetitions_are_read_without_blowing_up(piece: str) -> None:
    assert len(PassageOutline(piece * 4000).units) <= 4000
    assert isinstance(ask(piece * 4000), list)
