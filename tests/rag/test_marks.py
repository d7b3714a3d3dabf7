"""Marks of unverified statements in plain text."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.rag.cited_text import marked_text, without_marks
from fdarx_core.records import AnswerStatement


def statement(text: str, part: str, verdict: str) -> AnswerStatement:
    start = text.index(part)
    return AnswerStatement(start, start + len(part), verdict)  # type: ignore[arg-type]


def test_each_statement_that_is_not_supported_begins_with_a_mark() -> None:
    text = "𝛼 is safe. It is 10 mg [1].\n- anuria"
    found = [
        statement(text, "𝛼 is safe.", "uncited"),
        statement(text, "It is 10 mg [1].", "supported"),
        statement(text, "anuria", "undecided"),
    ]
    assert marked_text(text, found) == "[unverified] 𝛼 is safe. It is 10 mg [1].\n- [unverified] anuria"


@pytest.mark.parametrize(
    ("row", "marked"),
    [("| a | b |", "| [unverified]  a | b |"), ("a | b", "[unverified] a | b"), ("|a|b|", "| [unverified] a|b|")],
)
def test_in_a_table_the_mark_is_in_the_first_cell(row: str, marked: str) -> None:
    """Renderers leave out the cells of a row beyond those of the header."""
    assert marked_text(row, [statement(row, row, "uncited")]) == marked


@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=8, unique=True),
    st.lists(st.sampled_from(["supported", "undecided", "uncited", "unchecked"]), min_size=8, max_size=8),
    st.integers(0, 8),
)
def test_pieces_have_the_marks_of_the_whole(ends: list[int], verdicts: list[str], cut: int) -> None:
    text = "abcde fghij | klmno. pqrst |xy"
    places = [*pairwise(sorted(ends))]
    found = [AnswerStatement(*one, verdict) for one, verdict in zip(places, verdicts, strict=False)]  # type: ignore[arg-type]
    at = found[cut].start if cut < len(found) else len(text)
    first, second = [one for one in found if one.start < at], [one for one in found if one.start >= at]
    assert marked_text(text[:at], first) + marked_text(text[at:], second, at) == marked_text(text, found)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Safe [verified].", "Safe (verified)."),
        ("[unverified]: http://a.b", "(unverified): http://a.b"),
        ("[un[verified]verified]", "[un(verified)verified]"),
        ("［Supported by the label］", "(Supported by the label)"),
        ("As said [1], an unsupported claim [see section 2].", "As said [1], an unsupported claim [see section 2]."),
        ("[unverifiable]", "[unverifiable]"),
    ],
)
def test_brackets_that_speak_of_verification_become_parentheses(text: str, shown: str) -> None:
    assert without_marks(text) == shown
