"""Claims are pieces of their answer, apart and in its order, whatever the answer holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fdarx_core.factuality.claims import claims_of
from fdarx_core.records import CheckedAnswer

SENTENCES = (
    "Zalvorin is contraindicated in pregnancy and should be taken with food (see section 5.1).",
    "It may cause nausea and vomiting [PASSAGE_0012].",
    "In children, the dose is approx. 5 mg; it is given b.i.d.",
    "Zalvorin, which is an NSAID, treats gout, but not cancer.",
    "This medication is metabolised by CYP3A4, which is found in the liver [1].",
    "Is it safe?", "Ask your doctor.", "Information not found!", "Avoid alcohol and take it with food.",
    "They include:", "5 mg", "- nausea", "1. **Onion**: it smells.", "| a | b |", "|---|---|", "## Dose", "Yes.",
    "“Rest” is best…", "https://example.org/a.b?c", "I think so!", "*", "(", "]", "Dr. No is a film.", "Sources:",
)  # fmt: skip
GLUE = st.sampled_from([" ", "\n", "\n\n", "\r\n", "", "\u2028", " \t ", ".", "; ", ", and "])
composed = st.lists(st.tuples(st.sampled_from(SENTENCES), GLUE), max_size=12).map(
    lambda parts: "".join(sentence + glue for sentence, glue in parts)
)


def checked(text: str, drug: str = "Zalvorin") -> CheckedAnswer:
    return CheckedAnswer("a", "q", "What is known?", text, "model", drug=drug)


def holds(text: str, drug: str = "Zalvorin") -> None:
    answer = checked(text, drug)
    claims, past = claims_of(answer), 0
    for number, claim in enumerate(claims):
        assert (claim.number, claim.answer_id) == (number, "a")
        assert past <= claim.start < claim.end <= len(text)
        assert claim.text == text[claim.start : claim.end]
        assert claim.text.strip() and claim.resolved.strip() and "\n" not in claim.resolved
        past = claim.end
    assert claims == claims_of(answer)


@given(st.text(max_size=400), st.text(max_size=10))
@example("u(s u.s. e.g. U.S. \u2028 ∯ ȸ a.m. ♨ 1. 2. ☝", "")
@example("²) ① 1. ٣. a", "∯")
def test_of_arbitrary_text(text: str, drug: str) -> None:
    holds(text, drug)


@given(composed, st.sampled_from(["", "Zalvorin", "(", "\\1"]))
def test_of_composed_answers(text: str, drug: str) -> None:
    holds(text, drug)


@given(st.text(alphabet="ab.A,;:!?()[]*_|-#> \n\r\t1“”’'\"&", max_size=120))
def test_of_marks(text: str) -> None:
    holds(text)


@given(
    st.lists(st.sampled_from(["Zalvorin is a tablet.", "The dose is 5 mg.", "Gout is a disease."]), unique=True), GLUE
)
def test_no_plain_statement_is_lost(sentences: list[str], glue: str) -> None:
    between = glue if glue.isspace() else " "
    assert [claim.text for claim in claims_of(checked(between.join(sentences)))] == sentences


@pytest.mark.parametrize(
    "brackets", ["(" * 3000 + ")" * 3000, "[" * 5000, "a. " * 3000, "and is " * 2000, "_" * 9000, "**a " * 2000]
)
def test_of_long_and_odd_text(brackets: str) -> None:
    holds(f"Zalvorin {brackets} is a tablet.")


@pytest.mark.parametrize("name", ["kqa_golden_test.mistral-7b", "live_qa_test.biomistral-7b"])
def test_of_published_answers(name: str, toy: Path) -> None:
    path = toy.parent.parent / "medlfqa" / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"no real data: {path} is absent; set FDARX_DATA to the folder that holds medlfqa/")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        holds(row["answer"], "")
    with_claims = sum(bool(claims_of(checked(row["answer"]))) for row in rows)
    assert with_claims > 0.85 * len(rows)
