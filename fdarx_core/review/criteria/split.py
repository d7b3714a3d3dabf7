"""Which items may be learned from, and which are kept to measure on."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from fdarx_core.review.agreement.votes import Voted


def split(voted: Sequence[Voted], *, share: float, seed: int) -> tuple[list[Voted], list[Voted]]:
    """What may be learned from, and what is held out: about `share` of the questions, 0 to 1.

    It goes by a hash of seed and the question's words: all items on a question, and equal questions on other labels,
    fall to the same side, so that no held-out question is seen in another item.
    """
    learned: list[Voted] = []
    held: list[Voted] = []
    for one in voted:
        (held if _lot(one.item.question, seed) < share else learned).append(one)
    return learned, held


def _lot(question: str, seed: int) -> float:
    words = " ".join(question.casefold().split())
    return int.from_bytes(blake2b(f"{seed}\x1f{words}".encode(), digest_size=8).digest(), "big") / 2**64
