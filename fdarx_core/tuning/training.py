"""Training of a LoRA adapter: tokens of pairs, packed sequences, specification, schedule, loss curve, and the model.

Sources: Hu et al. 2021 (LoRA); QA-RAG §2.3 (three epochs).
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fdarx_core.rag.tasks import HYPOTHETICAL_ANSWER
from fdarx_core.records import Reject
from fdarx_core.retrieval.models import device, load_module
from fdarx_core.tuning.pairs import STAGE, TrainingPair

ENCODED_PARTS = ("train", "validation")
IGNORE_INDEX = -100
"""The label of tokens that have no loss, as in PyTorch."""


@dataclass(slots=True)
class EncodedPair:
    """The tokens of a pair. From position `answer_from`, they are the answer with the end of its turn."""

    id: str
    tokens: list[int]
    answer_from: int


@dataclass(frozen=True, slots=True)
class PackedSequence:
    """Several pairs in one sequence, without padding.

    `positions` start at 0 with each pair: transformers then masks attention between pairs. `labels` are the tokens of
    the answers, `IGNORE_INDEX` elsewhere.
    """

    tokens: list[int]
    positions: list[int]
    labels: list[int]

    @property
    def answer_tokens(self) -> int:
        """The number of tokens that have a loss."""
        return sum(label != IGNORE_INDEX for label in self.labels)


class ChatEncoder:
    """The tokenizer and chat template of a model directory. Raises ValueError for a directory that lacks either."""

    def __init__(self, directory: str) -> None:
        library = load_module("transformers", "fine-tuning")
        try:
            self.tokenizer: Any = library.AutoTokenizer.from_pretrained(directory, local_files_only=True)
        except (OSError, ValueError) as error:
            raise ValueError(f"{directory} has no tokenizer that transformers can read: {error}") from error
        if not self.tokenizer.chat_template:
            raise ValueError(f"{directory} has no chat template; give a model that was tuned to follow instructions")

    def prompt(self, question: str) -> list[int]:
        """Return the tokens of the prompt for a question, the same as a server makes of the same request."""
        return self._tokens(self._render(_messages(question), add_generation_prompt=True))

    def encode(self, pair: TrainingPair) -> EncodedPair:
        """Encode a pair. Raises ValueError where the chat template does not put the answer after the prompt."""
        messages = _messages(pair.question)
        prompt = self._render(messages, add_generation_prompt=True)
        whole = self._render([*messages, {"role": "assistant", "content": pair.answer}], add_generation_prompt=False)
        if not whole.startswith(prompt):
            raise ValueError("the chat template changes a prompt once it is answered; give another model")
        tokens = self._tokens(prompt)
        return EncodedPair(pair.id, tokens + self._tokens(whole[len(prompt) :]), len(tokens))

    def _render(self, messages: list[dict[str, str]], *, add_generation_prompt: bool) -> str:
        options = {"tokenize": False, "add_generation_prompt": add_generation_prompt}
        return str(self.tokenizer.apply_chat_template(messages, **options))

    def _tokens(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def _messages(question: str) -> list[dict[str, str]]:
    return [dict(message) for message in HYPOTHETICAL_ANSWER.request({"question": question}, endpoint="").messages]


def encode_pairs(
    pairs: Iterable[TrainingPair], encoder: ChatEncoder, max_tokens: int
) -> tuple[list[EncodedPair], list[Reject]]:
    """Encode the pairs of at most `max_tokens` tokens; longer ones become rejects."""
    kept: list[EncodedPair] = []
    rejects: list[Reject] = []
    for pair in pairs:
        encoded = encoder.encode(pair)
        if len(encoded.tokens) <= max_tokens:
            kept.append(encoded)
        else:
            detail = f"{len(encoded.tokens)} tokens of at most {max_tokens}, see --length"
            rejects.append(Reject(pair.id, STAGE, "too_long", detail, source=pair.about))
    return kept, rejects


def encode_parts(
    pairs: Sequence[TrainingPair], encoder: ChatEncoder, max_tokens: int
) -> tuple[dict[str, list[EncodedPair]], list[Reject]]:
    """Encode the train and validation parts. Raises ValueError where no pair of a part is short enough."""
    encoded: dict[str, list[EncodedPair]] = {}
    rejects: list[Reject] = []
    for part in ENCODED_PARTS:
        encoded[part], too_long = encode_pairs([pair for pair in pairs if pair.part == part], encoder, max_tokens)
        if not encoded[part]:
            raise ValueError(f"no pair of the {part} part has at most {max_tokens} tokens, see --length")
        rejects += too_long
    return encoded, rejects


def bin_pack(lengths: Sequence[int], capacity: int) -> list[list[int]]:
    """Put the indices of `lengths` into bins of at most `capacity`, by best fit, the longest first.

    No length may exceed the capacity.
    """
    bins: list[list[int]] = []
    free: list[tuple[int, int]] = []  # free capacity and bin, sorted
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        fitting = bisect_left(free, (lengths[index], -1))
        room, number = free.pop(fitting) if fitting < len(free) else (capacity, len(bins))
        if number == len(bins):
            bins.append([])
        bins[number].append(index)
        insort(free, (room - lengths[index], number))
    return bins


def concatenate_pairs(pairs: Sequence[EncodedPair]) -> PackedSequence:
    """Return the pairs as one sequence."""
    tokens: list[int] = []
    positions: list[int] = []
    labels: list[int] = []
    for pair in pairs:
        tokens += pair.tokens
        positions += range(len(pair.tokens))
        labels += [IGNORE_INDEX] * pair.answer_from + pair.tokens[pair.answer_from :]
    return PackedSequence(tokens, positions, labels)


def pack_pairs(pairs: Sequence[EncodedPair], max_tokens: int) -> list[PackedSequence]:
    """Pack all pairs into sequences of at most `max_tokens` tokens."""
    bins = bin_pack([len(pair.tokens) for pair in pairs], max_tokens)
    return [concatenate_pairs([pairs[index] for index in members]) for members in bins]


ADAPTER_FILES = ("adapter_model.safetensors", "adapter_config.json")
"""The files that PEFT and vLLM read, the configuration last: readers look for it first."""
_PURPOSE = "fine-tuning"
_WARM_UP = 0.03
"""The share of the steps over which the learning rate rises."""
_EVALUATIONS_AN_EPOCH = 4
_BATCH_SIZE = 8


@dataclass(frozen=True, slots=True)
class TuningSpec:
    """The base model, how it is trained, and how the test part is measured.

    `model` is the directory of the base model, at the same place on every machine. `length` is the size of a packed
    sequence in tokens, `batch` the number of sequences a step over all workers. `evaluate_every` is in steps; None
    evaluates four times an epoch. Training stops after `patience` evaluations without a lower validation loss. There is
    no dropout, so results do not depend on the number of workers. `max_tokens` bounds an answer to a test question;
    `encoder` and `bertscore` are directories of models that measure answers.
    """

    model: str
    rank: int = 16
    alpha: int = 32
    rate: float = 2e-4
    epochs: int = 3
    batch: int = 4
    length: int = 2048
    evaluate_every: int | None = None
    patience: int = 4
    seed: int = 0
    workers: int = 1
    max_tokens: int = 400
    encoder: str | None = None
    bertscore: str | None = None
    bertscore_layers: int | None = None
    resamples: int = 2000


@dataclass(frozen=True, slots=True)
class TrainingSchedule:
    """The steps of a training, counted from 1, over a number of packed sequences."""

    spec: TuningSpec
    sequences: int

    @property
    def steps_an_epoch(self) -> int:
        return -(-self.sequences // self.spec.batch)

    @property
    def steps(self) -> int:
        return self.steps_an_epoch * self.spec.epochs

    def members(self, step: int) -> list[int]:
        """Return the indices of the sequences of a step. Each epoch has its own order."""
        epoch, batch = divmod(step - 1, self.steps_an_epoch)
        order = np.random.default_rng([self.spec.seed, epoch]).permutation(self.sequences)
        return [int(index) for index in order[batch * self.spec.batch : (batch + 1) * self.spec.batch]]

    def rate(self, step: int) -> float:
        """Return the learning rate of a step: it rises over the first steps, then falls to 0 linearly."""
        rising = max(1, round(self.steps * _WARM_UP))
        if step <= rising:
            return self.spec.rate * step / rising
        return self.spec.rate * (self.steps - step + 1) / (self.steps - rising + 1)

    def evaluates_after(self, step: int) -> bool:
        """Return whether the validation loss is computed, and a checkpoint written, after a step."""
        every = self.spec.evaluate_every or max(1, self.steps_an_epoch // _EVALUATIONS_AN_EPOCH)
        return step % every == 0 or step == self.steps


@dataclass(slots=True)
class LossPoint:
    """One step of the loss curve.

    `loss` (before the step) and `validation_loss` (after it, None without an evaluation) are mean cross-entropies in
    nats an answer token; `tokens` counts the answer tokens of the step.
    """

    step: int
    epoch: float
    loss: float
    rate: float
    tokens: int
    validation_loss: float | None = None


def check_finite(step: int, loss: float) -> float:
    """Return the loss. Raises ValueError where it is not finite, since no later step can recover."""
    if not math.isfinite(loss):
        raise ValueError(f"the loss of step {step} is {loss}: the training diverged; set a lower --rate")
    return loss


def best_point(curve: Sequence[LossPoint]) -> LossPoint | None:
    """Return the first point with the lowest validation loss, None before the first evaluation."""
    evaluated = [point for point in curve if point.validation_loss is not None]
    return min(evaluated, key=lambda point: point.validation_loss or 0.0, default=None)


def should_stop(curve: Sequence[LossPoint], patience: int) -> bool:
    """Return whether there were at least `patience` evaluations after the best one."""
    best = best_point(curve)
    if best is None:
        return False
    return sum(point.validation_loss is not None and point.step > best.step for point in curve) >= patience


class LoraModel:
    """A causal language model from a local directory, with a LoRA adapter.

    On a GPU the base model is in bf16 and the adapter in float32; on a CPU both are in float32.

    Args:
        spec: the base model, and rank, alpha and seed of a new adapter.
        adapter: the directory of an adapter; without one, a new adapter is made, which changes nothing at first.
        gradient_checkpointing: compute activations again in the backward pass rather than keep them.
        device_name: a device of PyTorch; by default the first GPU, else the CPU.

    Raises:
        ModelMissing: without the `models` extra.
    """

    def __init__(
        self,
        spec: TuningSpec,
        *,
        adapter: str | None = None,
        gradient_checkpointing: bool = False,
        device_name: str | None = None,
    ) -> None:
        warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # PEFT calls deprecated names
        self.torch = load_module("torch", _PURPOSE)
        self._peft = load_module("peft", _PURPOSE)
        self.device = device_name or device()
        self._on_gpu = self.device.startswith("cuda")
        base = _load_base(spec.model, self.torch.bfloat16 if self._on_gpu else self.torch.float32).to(self.device)
        if gradient_checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        self.torch.manual_seed(spec.seed)
        if adapter is None:
            lora = {"r": spec.rank, "lora_alpha": spec.alpha, "lora_dropout": 0.0, "target_modules": "all-linear"}
            self.model = self._peft.get_peft_model(base, self._peft.LoraConfig(**lora, task_type="CAUSAL_LM"))
        else:
            self.model = self._peft.PeftModel.from_pretrained(base, adapter)
        self.model.eval()

    @property
    def parameters(self) -> list[Any]:
        """The trained parameters, in the same order in every process."""
        return [parameter for parameter in self.model.parameters() if parameter.requires_grad]

    def loss(self, sequence: PackedSequence) -> Any:
        """Return the cross-entropy of the answer tokens in nats, summed, as a scalar tensor."""
        torch = self.torch
        self.model.train(torch.is_grad_enabled())  # transformers checkpoints gradients in training mode only
        labels = torch.tensor(sequence.labels, device=self.device)
        kept = torch.nonzero(labels[1:] != IGNORE_INDEX).flatten()
        with self.precision():
            logits = self.model(
                input_ids=torch.tensor([sequence.tokens], device=self.device),
                position_ids=torch.tensor([sequence.positions], device=self.device),
                use_cache=False,  # with a cache, masks do not follow the positions
                logits_to_keep=kept,
            ).logits
        return torch.nn.functional.cross_entropy(logits[0].float(), labels[1:][kept], reduction="sum")

    def precision(self) -> AbstractContextManager[Any]:
        """Return a context that computes in bf16 on a GPU, and does nothing on a CPU."""
        return self.torch.autocast("cuda", self.torch.bfloat16) if self._on_gpu else nullcontext()

    def weights(self) -> dict[str, Any]:
        """Return a copy of the adapter's weights in memory, by the names that PEFT saves them under."""
        state = self._peft.get_peft_model_state_dict(self.model)
        return {name: value.detach().cpu().clone() for name, value in state.items()}

    def restore(self, weights: Mapping[str, Any]) -> None:
        """Set the adapter's weights to those that `weights` returned."""
        self._peft.set_peft_model_state_dict(self.model, dict(weights))

    def save_adapter(self, folder: str) -> list[Path]:
        """Write `ADAPTER_FILES` into a local folder; return their paths in that order."""
        self.model.save_pretrained(folder)
        return [Path(folder) / name for name in ADAPTER_FILES]

    @contextmanager
    def without_adapter(self) -> Iterator[None]:
        """Return a context in which the adapter is off."""
        with self.model.disable_adapter():
            yield


def _load_base(directory: str, dtype: Any) -> Any:
    """Load a base model without dropout, which would draw differently on each number of workers."""
    library = load_module("transformers", _PURPOSE)
    config = library.AutoConfig.from_pretrained(directory, local_files_only=True)
    for name, value in config.to_dict().items():
        if isinstance(value, float) and ("dropout" in name or name.endswith("pdrop")):
            setattr(config, name, 0.0)
    return library.AutoModelForCausalLM.from_pretrained(directory, config=config, dtype=dtype, local_files_only=True)


def generate_answers(model: LoraModel, encoder: ChatEncoder, questions: Sequence[str], max_tokens: int) -> list[str]:
    """Answer questions by greedy decoding, with up to `max_tokens` tokens an answer, in the order of the questions."""
    answers = [""] * len(questions)
    prompts = [encoder.prompt(question) for question in questions]
    order = sorted(range(len(prompts)), key=lambda index: len(prompts[index]))
    for start in range(0, len(order), _BATCH_SIZE):
        batch = order[start : start + _BATCH_SIZE]
        texts = _generate_batch(model, encoder, [prompts[index] for index in batch], max_tokens)
        for index, text in zip(batch, texts, strict=True):
            answers[index] = text
    return answers


def _generate_batch(model: LoraModel, encoder: ChatEncoder, prompts: Sequence[list[int]], max_tokens: int) -> list[str]:
    """Generate with padding on the left, so that all replies begin at the same position."""
    torch, tokenizer = model.torch, encoder.tokenizer
    width = max(map(len, prompts))
    padding = int(tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id)
    tokens = torch.tensor([[padding] * (width - len(one)) + one for one in prompts], device=model.device)
    mask = torch.tensor([[0] * (width - len(one)) + [1] * len(one) for one in prompts], device=model.device)
    model.model.eval()
    with torch.inference_mode(), model.precision():
        rows = model.model.generate(
            input_ids=tokens, attention_mask=mask, do_sample=False, max_new_tokens=max_tokens, pad_token_id=padding
        )
    return [str(tokenizer.decode(row[width:], skip_special_tokens=True)).strip() for row in rows]
