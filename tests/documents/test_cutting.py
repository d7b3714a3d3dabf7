from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fdarx_core.documents import cut

WORDS = st.lists(
    st.tuples(
        st.text("abcé中.!?)\"'", min_size=1, max_size=12),
        st.sampled_from([" ", " ", "\n", "\n\n", " \n \n", "\t", "\xa0"]),
    ),
    max_size=120,
)
TEXTS = WORDS.map(lambda words: "".join(word + space for word, space in words))
SIZES = st.integers(1, 60).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1)))


@given(TEXTS | st.text(max_size=300), SIZES)
@example("a" * 50, (10, 9))
@example("a " + "b" * 30 + " c", (10, 5))
@example("\u3000", (1, 0))
def test_every_word_stands_in_a_piece_whole_and_in_order(text: str, sizes: tuple[int, int]) -> None:
    size, overlap = sizes
    pieces = cut(text, size, overlap)
    covered: set[int] = set()
    for start, piece in pieces:
        assert piece == text[start : start + len(piece)] == piece.strip()
        assert 0 < len(piece) <= size
        covered.update(range(start, start + len(piece)))
    assert all(text[place].isspace() for place in set(range(len(text))) - covered)
    for (start, piece), (following, after) in pairwise(pieces):
        assert start < following
        assert start + len(piece) < following + len(after)
        assert start + len(piece) - following <= overlap
    for found in re.finditer(r"\S+", text):
        if len(found[0]) <= size:
            inside = [place for start, piece in pieces for place in (start, start + len(piece))]
            assert not any(found.start() < place < found.end() for place in inside)


@given(TEXTS, SIZES)
def test_neighbours_share_about_the_overlap(text: str, sizes: tuple[int, int]) -> None:
    """Less only by the leeway, by the word that would be broken, and by room that the next word needs."""
    size, overlap = sizes
    longest = max(map(len, text.split()), default=0)
    pieces = cut(text, size, overlap)
    for (start, piece), (following, _) in pairwise(pieces):
        end = start + len(piece)
        room = size - longest - _widest(text)
        assert end - following >= min(overlap, room, len(piece)) - overlap // 10 - longest - _widest(text)


def _widest(text: str) -> int:
    return max((len(found) for found in re.findall(r"\s+", text)), default=0)


def test_a_text_that_fits_is_one_piece() -> None:
    assert cut("  all of it\n", 9, 2) == [(2, "all of it")]
    assert cut(" \n ", 9, 2) == []
    assert cut("", 9, 2) == []


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("word " * 18 + "end\n\nmore.\nlast. So on " + "word " * 30, "end"),
        ("word " * 18 + "end\nmore last. So on " + "word " * 30, "end"),
        ("word " * 18 + "end. So on it goes " + "word " * 30, "end."),
        ("word " * 18 + 'end.") So on it goes ' + "word " * 30, 'end.")'),
        ("word " * 10 + "end\n\n" + "word " * 40, "word"),
    ],
    ids=["paragraph", "line", "sentence", "closing marks", "too far from the limit"],
)
def test_ends_where_it_reads_best_if_that_costs_little(text: str, ending: str) -> None:
    assert cut(text, 100, 20)[0][1].split()[-1] == ending


def test_goes_on_from_a_line_that_begins_within_the_overlap() -> None:
    text = "\n".join(f"line {number:03d} of the text" for number in range(400))
    pieces = cut(text, 1000, 300)
    assert all(re.match(r"line \d{3} of the text", piece) for _, piece in pieces)
    assert all(piece.endswith("the text") for _, piece in pieces)


def test_text_without_spaces_is_cut_with_the_whole_overlap() -> None:
    assert cut("abcdefghij", 4, 2) == [(0, "abcd"), (2, "cdef"), (4, "efgh"), (6, "ghij")]


@pytest.mark.parametrize(("size", "overlap"), [(0, 0), (-1, 0), (10, 10), (10, -1), (10, 11)])
def test_sizes_that_cannot_be(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match=f"size {size} with overlap {overlap}: .* less than"):
        cut("any text", size, overlap)
