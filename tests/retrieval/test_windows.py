"""Windows of a text: what they hold, and where they end."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.retrieval.windows import Span, windows

WORDS = st.sampled_from(["take", "40 mg.", "Daily", "dose.", "A", "\n", "in (adults).", "No", "Übelkeit", "x" * 30])


def tokens(text: str) -> list[Span]:
    """Pieces of words of at most four letters, and marks."""
    return [found.span() for found in re.finditer(r"\w{1,4}|[^\w\s]", text)]


def spaced(text: str) -> list[Span]:
    """As `tokens`, each with the space before it: how some tokenizers count."""
    return [found.span() for found in re.finditer(r"\s?(\w{1,4}|[^\w\s])", text)]


def test_a_passage_that_fits_is_one_window() -> None:
    text = "  Take one tablet. "
    assert [(one.start, one.end) for one in windows(text, tokens(text), 10)] == [(0, len(text))]


def test_windows_end_with_sentences_and_share_one() -> None:
    text = " ".join(f"Give {number} mg to it." for number in range(10, 20))
    found = windows(text, tokens(text), 20)
    assert [text[one.start : one.end] for one in found] == [
        "Give 10 mg to it. Give 11 mg to it. Give 12 mg to it.",
        "Give 12 mg to it. Give 13 mg to it. Give 14 mg to it.",
        "Give 14 mg to it. Give 15 mg to it. Give 16 mg to it.",
        "Give 16 mg to it. Give 17 mg to it. Give 18 mg to it.",
        "Give 18 mg to it. Give 19 mg to it.",
    ]


def test_a_long_sentence_is_cut_between_words() -> None:
    text = "metformin " * 40
    for window in windows(text, tokens(text), 30):
        assert set(text[window.start : window.end].split()) == {"metformin"}


def test_each_window_reaches_beyond_the_one_before() -> None:
    text = " ".join(["x" * 30] * 4)
    found = windows(text, tokens(text), 14)
    assert [(one.first, one.last) for one in found] == [(0, 8), (5, 16), (13, 24), (21, 32)]


@given(st.lists(WORDS, min_size=1, max_size=60).map(" ".join), st.integers(1, 40), st.booleans())
def test_nothing_is_lost_and_nothing_too_long(text: str, room: int, with_space: bool) -> None:
    spans = (spaced if with_space else tokens)(text)
    found = windows(text, spans, room)
    assert all(0 < one.last - one.first <= room or not spans for one in found)
    assert (found[0].first, found[-1].last) == (0, len(spans))
    for one, following in pairwise(found):
        assert one.first < following.first <= one.last < following.last
        assert one.last - following.first >= room // 4 or begins_sentence(text, following.start)
    for one in found:
        held = "".join(text[start:end] for start, end in spans[one.first : one.last])
        assert "".join(text[one.start : one.end].split()) == "".join(held.split())


def begins_sentence(text: str, at: int) -> bool:
    before = text[:at]
    return before.rstrip().endswith((".", ").")) or "\n" in before[len(before.rstrip()) :]
