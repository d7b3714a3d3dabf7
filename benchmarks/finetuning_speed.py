"""Training on packed sequences beside a plain loop, which pads each batch to its longest pair. One core, one run."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Any, NamedTuple

from fdarx_core.tuning.encoding import ChatEncoder, Encoded, encode_all
from fdarx_core.tuning.model import Tuned
from fdarx_core.tuning.packing import NOT_COUNTED, laid_out, packed
from fdarx_core.tuning.pairs import Pair
from fdarx_core.tuning.recipe import Recipe

PAIRS, BATCH, ROUNDS = 20, 4, 3


class Speeds(NamedTuple):
    """Tokens of pairs, padding not among them, that a core trains on in a second, in sequences and in padded batches;
    and the share of padding in the latter, of room left in the former."""

    packed: float
    padded: float
    padding: float
    room: float

    @property
    def ratio(self) -> float:
        return self.packed / self.padded


def speeds(model: str, pairs: Sequence[Pair], length: int) -> Speeds:
    """Both ways by turns over the same pairs, with the same adapter and optimizer."""
    rows = encode_all(random.Random(3).sample([*pairs], PAIRS), ChatEncoder(model), length)[0]
    training = Training(model)
    ways = (lambda: training.packed(rows, length), lambda: training.padded(rows))
    times = [[_seconds(way) for way in ways] for _ in range(ROUNDS)]
    tokens = sum(len(row.tokens) for row in rows)
    ours, theirs = (tokens / median(column) for column in zip(*times, strict=True))
    filled = sum(max(len(row.tokens) for row in batch) * len(batch) for batch in _batches(rows))
    return Speeds(ours, theirs, 1 - tokens / filled, 1 - tokens / (length * len(packed(rows, length))))


class Training:
    """An adapter on a model, and steps on it."""

    def __init__(self, model: str) -> None:
        self._tuned = Tuned(model, Recipe(), on="cpu")
        self._torch = self._tuned.torch
        self._torch.set_num_threads(1)
        self._optimizer = self._torch.optim.AdamW(self._tuned.parameters, lr=1e-4)

    def packed(self, rows: Sequence[Encoded], length: int) -> None:
        """As `fdarx finetune` does, a step a sequence."""
        for sequence in packed(rows, length):
            self._step(self._tuned.loss(sequence) / sequence.answer_tokens)

    def padded(self, rows: Sequence[Encoded]) -> None:
        """A step a batch, in the order of the rows; the model itself makes the loss of the labels."""
        self._tuned.model.train()
        for batch in _batches(rows):
            width = max(len(row.tokens) for row in batch)
            tokens = [row.tokens + [0] * (width - len(row.tokens)) for row in batch]
            mask = [[1] * len(row.tokens) + [0] * (width - len(row.tokens)) for row in batch]
            labels = [laid_out([row]).labels + [NOT_COUNTED] * (width - len(row.tokens)) for row in batch]
            told = {"input_ids": tokens, "attention_mask": mask, "labels": labels}
            made = self._tuned.model(**{name: self._torch.tensor(rows) for name, rows in told.items()})
            self._step(made.loss)

    def _step(self, loss: Any) -> None:
        loss.backward()
        self._torch.nn.utils.clip_grad_norm_(self._tuned.parameters, 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def _batches(rows: Sequence[Encoded]) -> Iterator[Sequence[Encoded]]:
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]


def _seconds(way: Callable[[], None]) -> float:
    start = time.process_time()
    way()
    return time.process_time() - start
