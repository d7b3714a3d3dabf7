"""Citations and refusals in answers, as models write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.rag.cited_text import CITATION, cited_numbers, parse_cited_text, read_statements
from fdarx_core.text.refusals import DOCUMENTS_SAY_NOTHING


def cited(text: str, contexts: int) -> list[int]:
    """Return the numbers that a text cites, each once."""
    return list(dict.fromkeys(one for found in CITATION.finditer(text) for one in cited_numbers(found[0], contexts)))


@pytest.mark.parametrize(
    ("text", "citations", "unknown"),
    [
        ("Keep them a year [2].", [2], []),
        ("Keep them a year [2][1], as [2] says.", [2, 1], []),
        ("Keep them [1, 3].", [1, 3], []),
        ("Keep them [1,3; 4 and 6].", [1, 3, 4, 6], []),
        ("Keep them [1-3].", [1, 2, 3], []),
        ("Keep them [2 – 4, 6].", [2, 3, 4, 6], []),
        ("Keep them 【2】 and 【3†source 1, 5】.", [2, 3], []),
        ("Keep them **[5]**, *[Context 4]*, [context 1, 2].", [5, 4, 1, 2], []),
        ("Keep them [^2].", [2], []),
        ("Keep them[1], all of them[6] .", [1, 6], []),
        ("Keep them [7][0][2].", [2], [7, 0]),
        ("Keep them [5-9].", [5, 6], [9]),
        ("Keep them [3-1].", [3, 1], []),
        ("Keep them [99999999999999999999].", [], []),
        ("Keep them [see section 2] for [14C]-labelled [sic] drugs.", [], []),
        ("A [1,2,4]triazole and [2-methyl]propane.", [], []),
        ("Nothing cited (2), 3.", [], []),
    ],
)
def test_citations(text: str, citations: list[int], unknown: list[int]) -> None:
    found = cited(text, 6)
    assert [one for one in found if 1 <= one <= 6] == citations and [
        one for one in found if one not in citations
    ] == unknown
    assert not parse_cited_text(text, 6).refused


def test_the_text_has_each_citation_by_itself() -> None:
    assert (
        parse_cited_text("A [1, 3]. B [2-3]. C 【2】. D [9]. E [sic].", 3).text
        == "A [1][3]. B [2][3]. C [2]. D [9]. E [sic]."
    )


@pytest.mark.parametrize(
    "text",
    [
        DOCUMENTS_SAY_NOTHING,
        f"**{DOCUMENTS_SAY_NOTHING}**",
        f"{DOCUMENTS_SAY_NOTHING} [1][2]",
        "The provided contexts do not contain information about the retention of samples.",
        "I'm sorry, but the passages do not mention a dose for children [1].",
        "There is not enough information in the contexts to answer this question.",
        "The contexts provided don't specify how long records are kept. Please consult the guidance itself.",
        "<think>Context 2 is about storage.</think>The documents do not address this question.",
    ],
)
def test_refusals(text: str) -> None:
    assert parse_cited_text(text, 3).refused


@pytest.mark.parametrize(
    "text",
    [
        "The contexts do not give a dose for children. In adults, start at 5 mg once daily [1].",
        f"{DOCUMENTS_SAY_NOTHING} However, reserve samples are kept for one year [2].",
        "Safety in children has not been established [1].",
        "No. FDA does not require it [3].",
        "Studies in renal impairment are not available [2].",
    ],
)
def test_an_answer_is_no_refusal(text: str) -> None:
    assert not parse_cited_text(text, 3).refused


def test_thoughts_are_no_answer() -> None:
    assert parse_cited_text("<think>[1] or [2]?</think> Keep them [2].", 3).text == "Keep them [2]."
    assert parse_cited_text("<think>Context [1] says", 3).text == ""


MARKS = st.text(st.sampled_from("[]【】0123456789,;-– .†^#abcontext\n*"), max_size=60)


@given(st.text() | MARKS, st.integers(0, 12))
def test_any_text_is_read(text: str, contexts: int) -> None:
    read = parse_cited_text(text, contexts)
    assert parse_cited_text(read.text, contexts).text == read.text


def test_a_citation_before_a_letter_stays_one() -> None:
    assert parse_cited_text("【1-2】0", 2).text == "[1][2] 0"
    assert parse_cited_text("【1】-a", 2).text == "[1] -a"


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8))
def test_citations_come_in_the_order_of_their_naming(numbers: list[int]) -> None:
    text = " ".join(f"Statement [{number}]." for number in numbers)
    assert cited(parse_cited_text(text, 9).text, 9) == list(dict.fromkeys(numbers))


@pytest.mark.parametrize(
    ("answer", "statement"),
    [
        ("With CYP2C9 *1/*3 and VKORC1 AG take 3 mg [1].", "With CYP2C9 *1/*3 and VKORC1 AG take 3 mg."),
        ("**CYP2C9 *1/*3** needs 1 mg [1].", "CYP2C9 *1/*3 needs 1 mg."),
        ("Patients (*2/*2 or *3/*3) get less [1].", "Patients (*2/*2 or *3/*3) get less."),
        ("Take **two *big* tablets** now [1].", "Take two big tablets now."),
        ("*Note:* ***both*** apply [1].", "Note: both apply."),
        ("* **Dose:** 5 mg [1]", "Dose: 5 mg"),
        ("__Bold__ and _it_ [1]", "Bold and it"),
    ],
)
def test_emphasis_is_no_part_of_a_statement_and_names_of_alleles_are(answer: str, statement: str) -> None:
    assert [found.text for found in read_statements(answer, 1)] == [statement]
