"""Training pairs as tokens (QA-RAG's prompt in the model's chat template, then the answer), and packed sequences."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fdarx_core.rag.tasks import HYPOTHETICAL_ANSWER
from fdarx_core.records import Reject
from fdarx_core.retrieval.models import load_module
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
