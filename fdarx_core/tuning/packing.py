"""Several pairs in one sequence, none of which sees another."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from fdarx_core.tuning.encoding import Encoded

NOT_COUNTED = -100
"""The label of tokens on which there is no loss, as PyTorch has it."""


@dataclass(frozen=True, slots=True)
class Sequences:
    """Pairs behind one another, without padding. `positions` begin anew at 0 with each pair: transformers' masks let
    no token look beyond such a step. `labels` are the answers' tokens, `NOT_COUNTED` elsewhere.
    """

    tokens: list[int]
    positions: list[int]
    labels: list[int]

    @property
    def answer_tokens(self) -> int:
        return sum(label != NOT_COUNTED for label in self.labels)


def pack(lengths: Sequence[int], room: int) -> list[list[int]]:
    """Positions of `lengths` in bins of at most `room`, by best fit, the longest first; none may be longer."""
    bins: list[list[int]] = []
    left: list[tuple[int, int]] = []  # room that is left, and whose it is, in order
    for at in sorted(range(len(lengths)), key=lambda position: -lengths[position]):
        fits = bisect_left(left, (lengths[at], -1))
        free, into = left.pop(fits) if fits < len(left) else (room, len(bins))
        if into == len(bins):
            bins.append([])
        bins[into].append(at)
        insort(left, (free - lengths[at], into))
    return bins


def laid_out(rows: Sequence[Encoded]) -> Sequences:
    """These pairs as one sequence."""
    tokens: list[int] = []
    positions: list[int] = []
    labels: list[int] = []
    for row in rows:
        tokens += row.tokens
        positions += range(len(row.tokens))
        labels += [NOT_COUNTED] * row.answer_from + row.tokens[row.answer_from :]
    return Sequences(tokens, positions, labels)


def packed(rows: Sequence[Encoded], room: int) -> list[Sequences]:
    """All rows in sequences of at most `room` tokens."""
    return [laid_out([rows[at] for at in members]) for members in pack([len(one.tokens) for one in rows], room)]
