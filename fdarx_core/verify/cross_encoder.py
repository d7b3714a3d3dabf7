"""Verification by an NLI cross-encoder of transformers. Source: FAS §3.2, §4 (512 tokens, batches of 16)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fdarx_core.retrieval import models
from fdarx_core.retrieval.models import load_module
from fdarx_core.retrieval.windows import Window, windows
from fdarx_core.verify.engine import Inference, Judgement, TextPair, Unjudged
from fdarx_core.verify.nli_model import PURPOSE, OutputClasses, check_nli, load, name_of
from fdarx_core.verify.numbers import check_numbers

Ids: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class InputTemplate:
    """The special tokens before, between and after passage and claim, and the token types of all five pieces."""

    before: Ids
    between: Ids
    after: Ids
    types: tuple[int, int, int, int, int]

    @classmethod
    def of(cls, tokenizer: Any) -> InputTemplate:
        """Return the template that a tokenizer uses, read from a sample pair."""
        [shown] = tokenizer(["a"], ["a"]).encodings
        sides, ids, types = list(shown.sequence_ids), np.array(shown.ids, np.int64), shown.type_ids
        (first, end), (second, last) = ((sides.index(side), len(sides) - sides[::-1].index(side)) for side in (0, 1))
        # the special tokens between have the type of the first text
        return cls(
            ids[:first], ids[end:second], ids[last:], (types[0], types[first], types[end], types[second], types[-1])
        )

    @property
    def size(self) -> int:
        return len(self.before) + len(self.between) + len(self.after)

    def ids(self, passage: Ids, claim: Ids) -> Ids:
        """Return the token ids of an input."""
        return np.concatenate((self.before, passage, self.between, claim, self.after))

    def token_types(self, passage: Ids, claim: Ids) -> Ids:
        """Return the type of each token of `ids`."""
        pieces = (self.before, passage, self.between, claim, self.after)
        return np.repeat(np.array(self.types), [len(piece) for piece in pieces])


_LEAST_SHARE = 8
"""A passage that is cut gets at least this fraction (1/8) of the longest input; less holds no whole statement."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """One input: the tokens of the passage, of which the model reads a window, and those of the claim."""

    passage: Ids
    claim: Ids
    window: Window

    @property
    def size(self) -> int:
        return self.window.last - self.window.first + len(self.claim)


class InputBuilder:
    """Makes the inputs of a model that reads up to `longest` tokens, with its tokenizer."""

    def __init__(self, tokenizer: Any, longest: int) -> None:
        self._tokenizer, self._longest = tokenizer, longest
        self.frame = InputTemplate.of(tokenizer)

    def of(self, pairs: Sequence[TextPair]) -> list[list[ModelInput] | Unjudged]:
        """Return the inputs of each pair, one per window; no claim is cut. Equal texts are tokenized once."""
        passages = self._encodings([pair.premise for pair in pairs])
        claims = self._encodings([pair.hypothesis for pair in pairs])
        return [self._inputs(pair.premise, passages[pair.premise], claims[pair.hypothesis]) for pair in pairs]

    def _encodings(self, texts: Sequence[str]) -> dict[str, tuple[Ids, Any]]:
        distinct = list(dict.fromkeys(texts))
        if not distinct:
            return {}
        found = self._tokenizer(distinct, add_special_tokens=False, verbose=False).encodings
        return {text: (np.array(one.ids, np.int64), one.offsets) for text, one in zip(distinct, found, strict=True)}

    def _inputs(self, text: str, passage: tuple[Ids, Any], statement: tuple[Ids, Any]) -> list[ModelInput] | Unjudged:
        (ids, spans), claim = passage, statement[0]
        count, room = len(ids), self._longest - self.frame.size - len(claim)
        if not count or not len(claim):
            return Unjudged(f"no_text: the {'claim' if count else 'passage'} has no word")
        if count <= room:
            return [ModelInput(ids, claim, Window(0, len(text), 0, count))]
        if room < self._longest // _LEAST_SHARE:
            return Unjudged(f"claim_too_long: {len(claim)} tokens, where the model reads {self._longest} in all")
        return [ModelInput(ids, claim, one) for one in windows(text, spans, room)]


FULL = 512
"""The tokens of a full-sized input: a batch has as many tokens as that number of full-sized inputs.

On a CPU it has those of one: with more the activations leave the cache, and a pair takes longer.
"""

Outcome = list[float] | Unjudged
"""The probabilities of the model's outputs, or why there are none."""


class BatchRunner:
    """Runs one model; a batch holds at most `batch` × 512 tokens (on a CPU 512), padding included, or one input."""

    def __init__(self, model: Any, tokenizer: Any, frame: InputTemplate, batch: int) -> None:
        self._torch = load_module("torch", PURPOSE)
        self._model, self._frame = model, frame
        self._padding = tokenizer.pad_token_id or 0
        self._typed = "token_type_ids" in tokenizer.model_input_names
        self._tokens = FULL if self._model.device.type == "cpu" else FULL * batch
        self._threads = getattr(model, "threads", 1)

    def probabilities(self, inputs: Sequence[ModelInput]) -> list[Outcome]:
        """Return one outcome per input, in order, each within 1e-5 of its value alone (1e-2 in half precision)."""
        found: list[Outcome] = [Unjudged("")] * len(inputs)
        # the longest first: what is too much for the memory shows at once
        order = sorted(range(len(inputs)), key=lambda number: -inputs[number].size)

        def batches() -> Iterator[list[int]]:
            start = 0
            while start < len(order):
                size = max(1, self._tokens // self._length(inputs[order[start]]))
                yield order[start : start + size]
                start += size

        def judge(numbers: list[int]) -> Iterator[tuple[int, Outcome]]:
            return zip(numbers, self._fitting([inputs[number] for number in numbers]), strict=True)

        with ThreadPoolExecutor(self._threads) as pool:
            # `map` is lazy: after a batch that did not fit, the next ones are smaller
            for judged in pool.map(judge, batches()) if self._threads > 1 else map(judge, batches()):
                for number, outcome in judged:
                    found[number] = outcome
        return found

    def _length(self, one: ModelInput) -> int:
        return one.size + self._frame.size

    def _fitting(self, inputs: Sequence[ModelInput]) -> list[Outcome]:
        """Return the outcomes of a batch, which is halved where it does not fit into the GPU's memory.

        The first input is the longest.
        """
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

    def _finite(self, inputs: Sequence[ModelInput]) -> list[Outcome]:
        rows = self._run(inputs)
        if self._model.dtype == self._torch.float16 and not np.isfinite(rows).all():
            # some models' activations leave the range of half precision, as mDeBERTa's do
            self._model.float()
            rows = self._run(inputs)
        broken = Unjudged("not_finite: the model's output is no number")
        return [row if np.isfinite(row).all() else broken for row in rows]

    def _run(self, inputs: Sequence[ModelInput]) -> list[list[float]]:
        with self._torch.inference_mode():
            logits = self._model(**self._tensors(inputs)).logits
            found: list[list[float]] = logits.float().softmax(-1).cpu().tolist()
        return found

    def _tensors(self, inputs: Sequence[ModelInput]) -> dict[str, Any]:
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


BATCH = 16
"""Source: FAS §4."""


class CrossEncoder:
    """A model from a local directory, or by its name on the hub; half precision on a GPU, ONNX on a CPU.

    Args:
        labels: the classes of the model's outputs in their order, where its configuration does not name them.
        batch: pairs of 512 tokens to judge at once, of shorter ones more, of longer ones fewer; on a CPU always 1.
        device: as torch names it; cuda where there is one, else cpu.

    Raises `ModelMissing` for what is no NLI cross-encoder.
    """

    def __init__(
        self, model: str, *, labels: Sequence[str] | None = None, batch: int = BATCH, device: str | None = None
    ) -> None:
        self._classes = check_nli(model, labels)
        self.name = name_of(model)
        network, tokenizer, longest = load(model, device or models.device())
        self._inputs = InputBuilder(tokenizer, longest)
        self._runner = BatchRunner(network, tokenizer, self._inputs.frame, batch)

    def judge(self, pairs: Sequence[TextPair]) -> list[Judgement]:
        """Return one judgement for each pair, in order: that of `infer`, unless `check_numbers` objects."""
        return [check_numbers(pair, one) for pair, one in zip(pairs, self.infer(pairs), strict=True)]

    def infer(self, pairs: Sequence[TextPair]) -> list[Judgement]:
        """Return the model's own judgement for each pair, in order.

        A passage that does not fit beside the claim is read in windows. Of several windows, the one with the highest
        probability of entailment or contradiction counts. A pair is `Unjudged` where it cannot be read (no_text,
        claim_too_long) or run (out_of_memory, not_finite).
        """
        # pairs that differ in nothing that the model reads are judged once
        distinct = list(dict.fromkeys(TextPair(pair.premise, pair.hypothesis) for pair in pairs))
        judged = dict(zip(distinct, self._judged(distinct), strict=True))
        return [judged[TextPair(pair.premise, pair.hypothesis)] for pair in pairs]

    def _judged(self, pairs: Sequence[TextPair]) -> list[Judgement]:
        readings = self._inputs.of(pairs)
        flat = [one for found in readings if not isinstance(found, Unjudged) for one in found]
        outcomes = iter(zip(flat, self._runner.probabilities(flat), strict=True))
        return [
            found if isinstance(found, Unjudged) else best([next(outcomes) for _ in found], self._classes)
            for found in readings
        ]


def best(outcomes: Sequence[tuple[ModelInput, Outcome]], classes: OutputClasses) -> Judgement:
    """Return the inference from the window with the highest probability of entailment or contradiction.

    Where one window could not be run, the pair is unjudged.
    """
    for _, outcome in outcomes:
        if isinstance(outcome, Unjudged):
            return outcome
    found = [_inference(one, outcome, classes) for one, outcome in outcomes if not isinstance(outcome, Unjudged)]
    chosen = max(range(len(found)), key=lambda number: max(found[number].entailment, found[number].contradiction))
    return found[chosen]


def _inference(one: ModelInput, row: list[float], classes: OutputClasses) -> Inference:
    contradiction = 0.0 if classes.contradiction is None else row[classes.contradiction]
    return Inference(row[classes.entailment], row[classes.neutral], contradiction, one.window.start, one.window.end)
