"""Which output of an NLI model is which class."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.verify.cross_encoder import Span, windows
from fdarx_core.verify.nli_model import OutputClasses, classes_of


@pytest.mark.parametrize(
    ("outputs", "classes"),
    [
        (["CONTRADICTION", "NEUTRAL", "ENTAILMENT"], OutputClasses(2, 1, 0)),
        (["contradiction", "entailment", "neutral"], OutputClasses(1, 2, 0)),
        (["Entailed", "Neutral", "contradictory"], OutputClasses(0, 1, 2)),
        (["entailment", "not_entailment"], OutputClasses(0, 1, None)),
        (["NOT-ENTAILMENT", "ENTAILMENT"], OutputClasses(1, 0, None)),
        (["SUPPORTS", "REFUTES", "NOT ENOUGH INFO"], OutputClasses(0, 2, 1)),
    ],
)
def test_outputs_are_known_by_their_names(outputs: list[str], classes: OutputClasses) -> None:
    assert classes_of("m", outputs) == classes


def test_numbers_need_the_users_order() -> None:
    outputs = ["LABEL_0", "LABEL_1", "LABEL_2"]
    with pytest.raises(ModelMissing, match=r"^models/m names its outputs LABEL_0, LABEL_1, LABEL_2.*--nli-labels"):
        classes_of("models/m", outputs)
    assert classes_of("m", outputs, ["contradiction", "entailment", "neutral"]) == OutputClasses(1, 2, 0)


def test_the_users_order_comes_before_the_models() -> None:
    given = ["neutral", "entailment", "contradiction"]
    assert classes_of("m", ["entailment", "neutral", "contradiction"], given) == OutputClasses(1, 0, 2)


@pytest.mark.parametrize(
    ("outputs", "given", "said"),
    [
        (["positive", "negative"], None, "names its outputs positive, negative"),
        (["a", "b", "c", "d"], None, "take another"),
        (["entailment", "neutral", "neutral"], None, "names its outputs"),
        (["LABEL_0", "LABEL_1", "LABEL_2"], ["entailment", "neutral"], "has 3 outputs"),
        (
            ["LABEL_0", "LABEL_1", "LABEL_2"],
            ["entailment", "neutral", "maybe"],
            "--nli-labels entailment,neutral,maybe",
        ),
        (["LABEL_0"], None, "take another"),
    ],
)
def test_what_is_not_clear_is_refused_with_its_names(outputs: list[str], given: list[str] | None, said: str) -> None:
    with pytest.raises(ModelMissing, match=said):
        classes_of("m", outputs, given)


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
