"""The search for texts that are nearly equal finds all that a comparison of every two finds, and nothing else."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fdarx_core.tuning.near import near
from tests.tuning.textbook import similarity

pytest.importorskip("rapidfuzz")

LEAST = st.sampled_from([0.5, 0.7, 0.9, 0.95, 1.0])


def compared(texts: Sequence[str], least: float) -> set[tuple[int, int]]:
    """Each text that stood before, with its first place; and every two of the others."""
    first = {text: at for at, text in reversed(list(enumerate(texts)))}
    again = {(first[text], at) for at, text in enumerate(texts) if first[text] != at}
    alike = (pair for pair in combinations(first.items(), 2) if similarity(pair[0][0], pair[1][0]) >= least)
    return again | {(min(a, b), max(a, b)) for (_, a), (_, b) in alike}


def found(texts: Sequence[str], least: float) -> list[tuple[int, int]]:
    return sorted((min(pair), max(pair)) for pair in near(texts, least))


@given(st.lists(st.text(max_size=12), max_size=8), LEAST)
@example(["", "", "a"], 0.9)
@example(["a" * 9 + "b", "a" * 10, "a" * 9], 0.9)
@example(["\ud800𝒳é", "\ud800𝒳e"], 0.5)
def test_any_texts(texts: list[str], least: float) -> None:
    assert found(texts, least) == sorted(compared(texts, least))


@st.composite
def edited(draw: st.DrawFn) -> list[str]:
    """Texts made of one by about as many edits as the threshold allows, one edit next to another or far from it."""
    base = draw(st.text("abc de", min_size=20, max_size=60))
    made = [base]
    for _ in range(draw(st.integers(1, 5))):
        letters = list(draw(st.sampled_from(made)))
        for _ in range(draw(st.integers(0, len(letters) // 8))):
            at = draw(st.integers(0, len(letters) - 1))
            letters[at : at + draw(st.integers(0, 1))] = draw(st.text("abcxyz", max_size=2))
        made.append("".join(letters))
    return made


@given(edited(), LEAST)
def test_texts_at_the_threshold(texts: list[str], least: float) -> None:
    assert found(texts, least) == sorted(compared(texts, least))


def test_every_distance_about_the_threshold_over_many_blocks() -> None:
    """More texts than one block holds, in which the only ones alike are known."""
    drawn = random.Random(3)
    texts: list[str] = []
    alike: set[tuple[int, int]] = set()
    for number in range(200):
        text = "".join(drawn.choices("abcdefghijklmnopqrstuvwxyz ", k=40 + number))
        edits = number % 2 + len(text) // 10  # as many as are allowed, or one more
        spots = drawn.sample(range(len(text)), edits)
        if not number % 2:
            alike.add((len(texts), len(texts) + 1))
        texts += [text, "".join("#" if at in spots else letter for at, letter in enumerate(text))]
    assert set(found(texts, 0.9)) == alike


def test_letters_beyond_what_is_counted() -> None:
    long = "ab" * 50_000
    assert found([long, long + "b" * 11_000, long + "b" * 11_200, "b" * 99_000], 0.9) == [(0, 1), (1, 2)]
