"""An answer cut where claims and flags begin and end, so that the pieces put together are the answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fdarx_core.records import Claim, SafetyFlag


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters of an answer that the same flags lie over; `flags` are their places in the list of flags."""

    text: str
    flags: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Span:
    """A claim's pieces, or those between two claims; `claim` is its place in the list of claims, None between."""

    claim: int | None
    pieces: list[Piece]


def spans_of(answer: str, claims: Sequence[Claim], flags: Sequence[SafetyFlag]) -> list[Span]:
    """All of the answer, in order. `claims` never overlap, in any order; flags may."""
    spans, at = [], 0
    for place, claim in sorted(enumerate(claims), key=lambda one: one[1].start):
        spans.append(Span(None, list(_pieces(answer, at, claim.start, flags))))
        spans.append(Span(place, list(_pieces(answer, claim.start, claim.end, flags))))
        at = claim.end
    spans.append(Span(None, list(_pieces(answer, at, len(answer), flags))))
    return [span for span in spans if span.pieces]


def _pieces(answer: str, start: int, end: int, flags: Sequence[SafetyFlag]) -> Iterator[Piece]:
    within = {edge for flag in flags for edge in (flag.start, flag.end) if start < edge < end}
    edges = sorted({start, end, *within})
    for low, high in pairwise(edges):
        over = tuple(place for place, flag in enumerate(flags) if flag.start <= low and high <= flag.end)
        yield Piece(answer[low:high], over)
