"""Which pairs are trained on, which tell when to stop, and which are kept for the end. Source: QA-RAG §2.3."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fdarx_core.records import content_id
from fdarx_core.tuning.likeness import groups
from fdarx_core.tuning.pairs import Pair

SHARES = {"train": 0.85, "validation": 0.10, "test": 0.05}
PARTS = tuple(SHARES)


def split(pairs: Sequence[Pair], seed: int) -> list[Pair]:
    """The pairs in their order, each with its group and part.

    Pairs that are alike go into one part, chosen by a hash of the seed and of the least id among them; so a part's
    share is near `SHARES`, not exact, and pairs that are added move few others. Raises ValueError where a part is left
    empty.
    """
    placed = list(pairs)
    for members in groups(pairs):
        group = min(pairs[at].id for at in members)
        part = _part(content_id(str(seed), group))
        for at in members:
            placed[at] = replace(pairs[at], group=group, part=part)
    for part in PARTS:
        if not any(one.part == part for one in placed):
            raise ValueError(f"none of {len(pairs)} pairs fell into the {part} part; give more, or another --seed")
    return placed


def _part(digest: str) -> str:
    drawn, edge = int(digest, 16) / 2**64, 0.0
    for part, share in SHARES.items():
        edge += share
        if drawn < edge:
            return part
    return PARTS[-1]
