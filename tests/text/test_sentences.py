"""Sentences of labels and documents: the marks of list items, and lines that are wrapped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.text.sentences import join_wrapped_lines, split_sentences


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Steps:\n1. Wash hands.\n2. Inject it. Wait.", ["Steps:", "1. Wash hands.", "2. Inject it.", "Wait."]),
        ("10. Anaphylaxis", ["10. Anaphylaxis"]),
        ("a. Hold it. B is next.", ["a. Hold it.", "B is next."]),
        ("(iv) Rest. Go on.", ["(iv) Rest.", "Go on."]),
        ("- Stop. Go on.", ["- Stop.", "Go on."]),
        ("Take 10. The next day 5.", ["Take 10.", "The next day 5."]),
    ],
)
def test_the_mark_of_a_list_item_belongs_to_the_sentence_after_it(text: str, sentences: list[str]) -> None:
    assert split_sentences(text, "label") == sentences


WRAPPED = "Long-term studies are run at 25 °C and 60 % relative humidity for\n24 months. Accelerated studies last"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (f"Storage\n{WRAPPED} for\nsix months.", ["Storage", f"{WRAPPED.replace(chr(10), ' ')} for six months."]),
        ("Storage\nKeep it dry.\n\nand clean", ["Storage", "Keep it dry.", "", "and clean"]),
        ("- one\n- two\nof them\n- three", ["- one", "- two of them", "- three"]),
        ("Dose | 5 mg\nof | 6 mg", ["Dose | 5 mg", "of | 6 mg"]),
        ("Keep it.\nThen rinse.\nDry it.", ["Keep it.", "Then rinse.", "Dry it."]),
        ("", [""]),
    ],
)
def test_wrapped_lines_are_joined(text: str, lines: list[str]) -> None:
    assert join_wrapped_lines(text).split("\n") == lines


@given(st.text("aA .\n-|", max_size=80))
def test_joined_lines_keep_all_places(text: str) -> None:
    joined = join_wrapped_lines(text)
    assert len(joined) == len(text) and all(a == b or (a, b) == ("\n", " ") for a, b in zip(text, joined, strict=True))
