"""Verification by an NLI cross-encoder of transformers. Source: FAS §3.2, §4 (512 tokens, batches of 16)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from fdarx_core.retrieval import models
from fdarx_core.retrieval.models import load_module
from fdarx_core.retrieval.windows import windows
from fdarx_core.verify.engine import Inference, Judgement, TextPair, Unjudged
from fdarx_core.verify.nli_model import PURPOSE, OutputClasses, check_nli, load, name_of
from fdarx_core.verify.numbers import check_numbers

Tokens: TypeAlias = Mapping[str, list[int]]
"""One input of a model as its tokenizer returns it: `input_ids`, `attention_mask` and, for some, `token_type_ids`."""

_LEAST_SHARE = 8
"""A passage that is cut gets at least this fraction (1/8) of the longest input; less holds no whole statement."""


@dataclass(frozen=True, slots=True)
class ModelInput:
    """The tokens of `passage[start:end]` and of the claim, which the model reads together."""

    start: int
    end: int
    tokens: Tokens


def model_inputs(tokenizer: Any, longest: int, pairs: Sequence[TextPair]) -> list[list[ModelInput] | Unjudged]:
    """Return the inputs of each pair, of up to `longest` tokens, one a window of its passage; no claim is cut."""
    if not pairs:
        return []
    whole = tokenizer([pair.premise for pair in pairs], [pair.hypothesis for pair in pairs], verbose=False)
    found: list[list[ModelInput] | Unjudged] = []
    for number, (pair, encoding) in enumerate(zip(pairs, whole.encodings, strict=True)):
        sides = encoding.sequence_ids
        spans = [span for span, side in zip(encoding.offsets, sides, strict=True) if side == 0]
        claim = sides.count(1)
        room = longest - (len(sides) - len(spans))
        if not spans or not claim:
            found.append(Unjudged(f"no_text: the {'claim' if spans else 'passage'} has no word"))
        elif len(spans) <= room:
            found.append([ModelInput(0, len(pair.premise), {name: rows[number] for name, rows in whole.items()})])
        elif room < longest // _LEAST_SHARE:
            found.append(Unjudged(f"claim_too_long: {claim} tokens, where the model reads {longest} in all"))
        else:
            places = windows(pair.premise, spans, room)
            texts = [pair.premise[place.start : place.end] for place in places]
            claims = [pair.hypothesis] * len(texts)
            cut = tokenizer(texts, claims, truncation="only_first", max_length=longest)
            found.append(
                [
                    ModelInput(place.start, place.end, {name: rows[at] for name, rows in cut.items()})
                    for at, place in enumerate(places)
                ]
            )
    return found


FULL = 512
"""The tokens of a full-sized input: a batch has as many tokens as that number of full-sized inputs.

On a CPU it has those of one: with more the activations leave the cache, and a pair takes longer.
"""

Outcome = list[float] | Unjudged
"""The probabilities of the model's outputs, or why there are none."""


class BatchRunner:
    """Runs one model; a batch holds at most `batch` × 512 tokens (on a CPU 512), padding included, or one input."""

    def __init__(self, model: Any, tokenizer: Any, batch: int) -> None:
        self._torch = load_module("torch", PURPOSE)
        self._model, self._tokenizer = model, tokenizer
        self._tokens = FULL if self._model.device.type == "cpu" else FULL * batch

    def probabilities(self, inputs: Sequence[Tokens]) -> list[Outcome]:
        """Return one outcome per input, in order, each within 1e-5 of its value alone (1e-2 in half precision)."""
        found: list[Outcome] = [Unjudged("")] * len(inputs)
        # the longest first: what is too much for the memory shows at once
        order = sorted(range(len(inputs)), key=lambda number: -len(inputs[number]["input_ids"]))

        start = 0
        while start < len(order):
            # after a batch that did not fit, `_tokens` is lower and the next ones are smaller
            size = max(1, self._tokens // len(inputs[order[start]]["input_ids"]))
            numbers = order[start : start + size]
            for number, outcome in zip(numbers, self._fitting([inputs[number] for number in numbers]), strict=True):
                found[number] = outcome
            start += size
        return found

    def _fitting(self, inputs: Sequence[Tokens]) -> list[Outcome]:
        """Return the outcomes of a batch, which is halved where it does not fit into the GPU's memory.

        The first input is the longest.
        """
        length = len(inputs[0]["input_ids"])
        try:
            rows = self._run(inputs)
            if self._model.dtype == self._torch.float16 and not rows.isfinite().all():
                # some models' activations leave the range of half precision, as mDeBERTa's do
                self._model.float()
                rows = self._run(inputs)
            broken = Unjudged("not_finite: the model's output is no number")
            return [row.tolist() if row.isfinite().all() else broken for row in rows]
        except self._torch.OutOfMemoryError:
            if len(inputs) == 1:
                return [Unjudged(f"out_of_memory: {length} tokens, alone in their batch")]
        # beyond the except clause, which would keep the failed batch's tensors alive
        self._torch.cuda.empty_cache()
        half = (len(inputs) + 1) // 2
        self._tokens = min(self._tokens, half * length)
        return [*self._fitting(inputs[:half]), *self._fitting(inputs[half:])]

    def _run(self, inputs: Sequence[Tokens]) -> Any:
        """Return the tensor of the probabilities, with a row for each input."""
        rows = {name: [tokens[name] for tokens in inputs] for name in inputs[0]}
        with self._torch.inference_mode():
            logits = self._model(**self._tokenizer.pad(rows, return_tensors="pt").to(self._model.device)).logits
            return logits.float().softmax(-1).cpu()


BATCH = 16
"""Source: FAS §4."""


class CrossEncoder:
    """A model from a local directory, or by its name on the hub; half precision on a GPU, single on a CPU.

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
        network, self._tokenizer, self._longest = load(model, device or models.device())
        self._runner = BatchRunner(network, self._tokenizer, batch)

    def judge(self, pairs: Sequence[TextPair]) -> list[Judgement]:
        """Return one judgement for each pair, in order: that of `infer`, unless `check_numbers` objects."""
        return [check_numbers(pair, judgement) for pair, judgement in zip(pairs, self.infer(pairs), strict=True)]

    def infer(self, pairs: Sequence[TextPair]) -> list[Judgement]:
        """Return the model's own judgement for each pair, in order.

        A passage that does not fit beside the claim is read in windows. Of several windows, the one with the highest
        probability of entailment or contradiction counts. A pair is `Unjudged` where it cannot be read (no_text,
        claim_too_long) or run (out_of_memory, not_finite).
        """
        # pairs that differ in nothing that the model reads are judged once
        distinct = list(dict.fromkeys(TextPair(pair.premise, pair.hypothesis) for pair in pairs))
        inputs = dict(zip(distinct, model_inputs(self._tokenizer, self._longest, distinct), strict=True))
        flat = [read for found in inputs.values() if not isinstance(found, Unjudged) for read in found]
        outcomes = iter(zip(flat, self._runner.probabilities([read.tokens for read in flat]), strict=True))
        judged = {
            pair: found if isinstance(found, Unjudged) else best([next(outcomes) for _ in found], self._classes)
            for pair, found in inputs.items()
        }
        return [judged[TextPair(pair.premise, pair.hypothesis)] for pair in pairs]


def best(outcomes: Sequence[tuple[ModelInput, Outcome]], classes: OutputClasses) -> Judgement:
    """Return the inference from the window with the highest probability of entailment or contradiction.

    Where one window could not be run, the pair is unjudged.
    """
    found = list[Inference]()
    for read, row in outcomes:
        if isinstance(row, Unjudged):
            return row
        contradiction = 0.0 if classes.contradiction is None else row[classes.contradiction]
        found.append(Inference(row[classes.entailment], row[classes.neutral], contradiction, read.start, read.end))
    return max(found, key=lambda inference: max(inference.entailment, inference.contradiction))
