"""Pairs as a model reads them: the whole claim, beside the passage or a window of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fdarx_core.factuality.entailment.inference import Pair, Unjudged
from fdarx_core.factuality.entailment.nli.frame import Frame, Ids
from fdarx_core.factuality.entailment.nli.windows import Window, windows

_LEAST_SHARE = 8
"""A passage that has to be cut is given at least this part of the longest input: less holds no whole statement."""


@dataclass(frozen=True, slots=True)
class Input:
    """One reading of a pair: the passage's tokens, of which the window is read, and the claim's, without marks."""

    passage: Ids
    claim: Ids
    window: Window

    @property
    def size(self) -> int:
        return self.window.last - self.window.first + len(self.claim)


@dataclass(frozen=True, slots=True)
class _Tokens:
    """A text's tokens, and the tokenizer's own account of where they stand."""

    ids: Ids
    encoding: Any


class Inputs:
    """Makes the inputs of a model that reads up to `longest` tokens, from its own tokenizer."""

    def __init__(self, tokenizer: Any, longest: int) -> None:
        self._tokenizer, self._longest = tokenizer, longest
        self.frame = Frame.of(tokenizer)

    def of(self, pairs: Sequence[Pair]) -> list[list[Input] | Unjudged]:
        """Each pair's readings, one a window; no claim is ever cut. A text of many pairs is tokenised once."""
        passages = self._tokens([pair.premise for pair in pairs])
        claims = self._tokens([pair.hypothesis for pair in pairs])
        return [self._readings(pair.premise, passages[pair.premise], claims[pair.hypothesis].ids) for pair in pairs]

    def _tokens(self, texts: Sequence[str]) -> dict[str, _Tokens]:
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return {}
        found = self._tokenizer(distinct, add_special_tokens=False, verbose=False).encodings
        return {text: _Tokens(np.array(one.ids, np.int64), one) for text, one in zip(distinct, found, strict=True)}

    def _readings(self, text: str, passage: _Tokens, claim: Ids) -> list[Input] | Unjudged:
        count, room = len(passage.ids), self._longest - self.frame.size - len(claim)
        if not count or not len(claim):
            return Unjudged(f"no_text: the {'claim' if count else 'passage'} has no word")
        if count <= room:
            return [Input(passage.ids, claim, Window(0, len(text), 0, count))]
        if room < self._longest // _LEAST_SHARE:
            return Unjudged(f"claim_too_long: {len(claim)} tokens, where the model reads {self._longest} in all")
        return [Input(passage.ids, claim, one) for one in windows(text, passage.encoding.offsets, room)]
