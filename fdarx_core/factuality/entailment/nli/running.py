"""Inputs through a model: batches of like length, smaller ones where memory does not do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fdarx_core.factuality.entailment.inference import Unjudged
from fdarx_core.factuality.entailment.nli.frame import Frame
from fdarx_core.factuality.entailment.nli.inputs import Input
from fdarx_core.factuality.entailment.nli.model import PURPOSE, Loaded
from fdarx_core.retrieval.models import load_module

FULL = 512
"""Tokens of a full-sized input: a batch of so many pairs holds as many tokens as that number of these."""
_CPU_BATCH = 2
"""On a CPU a batch is no larger: beyond that its activations leave the cache, and a claim takes longer, not shorter."""

Outcome = list[float] | Unjudged
"""The probabilities of the model's outputs, or why there are none."""


class Runner:
    """Runs one model; a batch holds at most `batch` × 512 tokens (on a CPU 2 × 512), padding included, or one input."""

    def __init__(self, loaded: Loaded, frame: Frame, batch: int) -> None:
        self._torch = load_module("torch", PURPOSE)
        self._model, self._frame = loaded.model, frame
        self._padding = loaded.tokenizer.pad_token_id or 0
        self._typed = "token_type_ids" in loaded.tokenizer.model_input_names
        self._tokens = FULL * (min(batch, _CPU_BATCH) if self._model.device.type == "cpu" else batch)

    def probabilities(self, inputs: Sequence[Input]) -> list[Outcome]:
        """In the order of the inputs, each to within 1e-5 what it is alone (in half precision: 1e-2)."""
        found: list[Outcome] = [Unjudged("")] * len(inputs)
        # the longest first: what is too much for the memory shows at once
        waiting = sorted(range(len(inputs)), key=lambda number: -inputs[number].size)
        while waiting:
            size = max(1, self._tokens // self._length(inputs[waiting[0]]))
            numbers, waiting = waiting[:size], waiting[size:]
            for number, outcome in zip(numbers, self._fitting([inputs[one] for one in numbers]), strict=True):
                found[number] = outcome
        return found

    def _length(self, one: Input) -> int:
        return one.size + self._frame.size

    def _fitting(self, inputs: Sequence[Input]) -> list[Outcome]:
        """A batch's outcomes, or its halves' where the GPU's memory has no room for it. The first is the longest."""
        try:
            return self._finite(inputs)
        except self._torch.OutOfMemoryError:
            if len(inputs) == 1:
                return [Unjudged(f"out_of_memory: {self._length(inputs[0])} tokens, alone in their batch")]
        # beyond the except clause, which would keep the failed batch's tensors alive
        self._torch.cuda.empty_cache()
        half = (len(inputs) + 1) // 2
        self._tokens = min(self._tokens, half * self._length(inputs[0]))
        return [*self._fitting(inputs[:half]), *self._fitting(inputs[half:])]

    def _finite(self, inputs: Sequence[Input]) -> list[Outcome]:
        rows = self._run(inputs)
        if self._model.dtype == self._torch.float16 and not np.isfinite(rows).all():
            # some models' activations leave the range of half precision, as mDeBERTa's do
            self._model.float()
            rows = self._run(inputs)
        broken = Unjudged("not_finite: the model's output is no number")
        return [row if np.isfinite(row).all() else broken for row in rows]

    def _run(self, inputs: Sequence[Input]) -> list[list[float]]:
        with self._torch.inference_mode():
            logits = self._model(**self._tensors(inputs)).logits
            found: list[list[float]] = logits.float().softmax(-1).cpu().tolist()
        return found

    def _tensors(self, inputs: Sequence[Input]) -> dict[str, Any]:
        shape = (len(inputs), self._length(inputs[0]))
        arrays = {"input_ids": np.full(shape, self._padding), "attention_mask": np.zeros(shape, np.int64)}
        if self._typed:
            arrays["token_type_ids"] = np.zeros(shape, np.int64)
        for row, one in enumerate(inputs):
            passage, length = one.passage[one.window.first : one.window.last], self._length(one)
            arrays["input_ids"][row, :length] = self._frame.ids(passage, one.claim)
            arrays["attention_mask"][row, :length] = 1
            if self._typed:
                arrays["token_type_ids"][row, :length] = self._frame.token_types(passage, one.claim)
        return {name: self._torch.from_numpy(array).to(self._model.device) for name, array in arrays.items()}
