"""An answer in pieces is the answer, and passages cut to their windows are the passages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.records import Claim, SafetyFlag
from fdarx_core.report.answer_viewer import MOST, WHOLE, excerpts_of, spans_of

Range = tuple[int, int]


@st.composite
def _answers(draw: st.DrawFn) -> tuple[str, list[Range], list[Range]]:
    """A text, ranges of claims that never overlap, and ranges of flags that may."""
    text = draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
    edges = sorted(draw(st.lists(st.integers(0, len(text)), unique=True, max_size=12)))
    claims = list(zip(edges[::2], edges[1::2], strict=False))
    flags = draw(st.lists(st.tuples(st.integers(0, len(text)), st.integers(0, len(text))), max_size=5))
    return text, claims, [(min(pair), max(pair)) for pair in flags]


@given(_answers())
def test_the_pieces_of_an_answer_are_the_answer_with_each_claim_and_flag_in_its_place(
    made: tuple[str, list[Range], list[Range]],
) -> None:
    text, ranges, flagged = made
    claims = [Claim("", "", at, low, high, text[low:high], "") for at, (low, high) in enumerate(ranges)]
    flags = [SafetyFlag("", "dose_missing", low, high, text[low:high], "", "", "") for low, high in flagged]
    spans = spans_of(text, claims, flags)
    assert "".join(piece for _, pieces in spans for piece, _ in pieces) == text
    shown = [("".join(piece for piece, _ in pieces), claim) for claim, pieces in spans if claim >= 0]
    assert shown == [(claim.text, claim.number) for claim in claims]
    pieces = [piece for _, made_of in spans for piece in made_of]
    for at, (low, high) in enumerate(flagged):
        assert "".join(piece for piece, over in pieces if at in over) == text[low:high]
    assert all(piece for piece, _ in pieces)


@given(
    st.text("ab \n", min_size=0, max_size=3 * WHOLE),
    st.lists(st.tuples(st.integers(0, 3 * WHOLE), st.integers(0, 2 * WHOLE)), min_size=1, max_size=4),
)
def test_excerpts_are_letters_of_the_passage_and_hold_the_windows(text: str, given_windows: list[Range]) -> None:
    windows = [(min(start, len(text)), min(start + size, len(text))) for start, size in given_windows]
    excerpts = excerpts_of(text, windows)
    assert all(text[start : start + len(words)] == words for start, words in excerpts)
    ends = [start + len(words) for start, words in excerpts]
    assert all(end < start for end, (start, _) in zip(ends, excerpts[1:], strict=False))
    for start, end in windows:
        assert any(low <= start and min(end, start + MOST) <= low + len(words) for low, words in excerpts)
    assert len(text) > WHOLE or excerpts == [(0, text)]
