"""Sentences of labels: the marks of list items."""

from __future__ import annotations

import pytest

from fdarx_core.text.sentences import split_sentences


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
