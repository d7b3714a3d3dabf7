"""How much of a prompt stands at the start of the prompt before it: what a server's prefix cache need not compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fdarx_core.llm.tokens import FRAME_TOKENS, Counter

_Counted: TypeAlias = Sequence[tuple[str, int]]
"""The texts of a prompt's messages, each with its tokens, the template's marks included."""


@dataclass(slots=True)
class Prefixes:
    """Counts the prompts to each endpoint, one after another, in the order in which they would be asked."""

    _before: dict[str, _Counted] = field(default_factory=dict)

    def count(self, endpoint: str, messages: Sequence[dict[str, str]], counter: Counter) -> tuple[int, int]:
        """Tokens of the prompt, and how many of them the prompt before begins with as well."""
        before = self._before.get(endpoint, ())
        known = dict(before)  # so that a label that stands in forty prompts is counted once
        texts = [message["content"] for message in messages]
        now = [(text, known[text] if text in known else counter(text) + FRAME_TOKENS) for text in texts]
        self._before[endpoint] = now
        return sum(tokens for _, tokens in now), _shared(before, now, counter)


def _shared(before: _Counted, now: _Counted, counter: Counter) -> int:
    shared = 0
    for (old, _), (new, tokens) in zip(before, now, strict=False):
        if old != new:
            return shared + counter(new[: agreement(old, new)])
        shared += tokens
    return shared


def agreement(one: str, other: str) -> int:
    """How many characters both begin with."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
