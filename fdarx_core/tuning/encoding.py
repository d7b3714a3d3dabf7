"""Pairs as a chat model reads them: the prompt that QA-RAG asks, in the model's own chat template, then the answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from fdarx_core.rag.tasks import HYPOTHETICAL_ANSWER
from fdarx_core.records import Reject
from fdarx_core.retrieval.models import load_module
from fdarx_core.tuning.pairs import STAGE, Pair

LEARNT = ("train", "validation")
"""The parts that training reads."""


@dataclass(slots=True)
class Encoded:
    """A pair's tokens; those from position `answer_from` on, the end of the turn included, are the answer."""

    id: str
    tokens: list[int]
    answer_from: int


class ChatEncoder:
    """A model directory's tokenizer and chat template. Raises ValueError for one that lacks either."""

    def __init__(self, directory: str) -> None:
        library = load_module("transformers", "fine-tuning")
        try:
            self.tokenizer: Any = library.AutoTokenizer.from_pretrained(directory, local_files_only=True)
        except (OSError, ValueError) as error:
            raise ValueError(f"{directory} holds no tokenizer that transformers can read: {error}") from error
        if not self.tokenizer.chat_template:
            raise ValueError(f"{directory} has no chat template; take a model that was tuned to follow instructions")

    def prompt(self, question: str) -> list[int]:
        """The tokens of what is asked, up to where the reply begins: those that a server makes of the same request."""
        return self._tokens(self._prompt(question))

    def encode(self, pair: Pair) -> Encoded:
        """Raises ValueError where the template does not put the reply behind the prompt."""
        prompt = self._prompt(pair.question)
        whole = self._written([*_messages(pair.question), {"role": "assistant", "content": pair.answer}], False)
        if not whole.startswith(prompt):
            raise ValueError("the chat template writes a prompt otherwise once it is answered; take another model")
        asked = self._tokens(prompt)
        return Encoded(pair.id, asked + self._tokens(whole[len(prompt) :]), len(asked))

    def _prompt(self, question: str) -> str:
        return self._written(_messages(question), True)

    def _written(self, messages: list[dict[str, str]], asks: bool) -> str:
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=asks))

    def _tokens(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])


def encode_all(pairs: Iterable[Pair], encoder: ChatEncoder, longest: int) -> tuple[list[Encoded], list[Reject]]:
    """The pairs of at most `longest` tokens, and those that have more."""
    kept: list[Encoded] = []
    rejects: list[Reject] = []
    for pair in pairs:
        encoded = encoder.encode(pair)
        if len(encoded.tokens) <= longest:
            kept.append(encoded)
        else:
            detail = f"{len(encoded.tokens)} tokens of at most {longest}, see --length"
            rejects.append(Reject(pair.id, STAGE, "too_long", detail, source=pair.about))
    return kept, rejects


def encode_parts(
    pairs: Sequence[Pair], encoder: ChatEncoder, longest: int
) -> tuple[dict[str, list[Encoded]], list[Reject]]:
    """What is trained on and what tells when to stop, by part. Raises ValueError where nothing of a part is short
    enough.
    """
    encoded: dict[str, list[Encoded]] = {}
    left_out: list[Reject] = []
    for part in LEARNT:
        encoded[part], rejects = encode_all([one for one in pairs if one.part == part], encoder, longest)
        if not encoded[part]:
            raise ValueError(f"no pair of the {part} part has at most {longest} tokens, see --length")
        left_out += rejects
    return encoded, left_out


def _messages(question: str) -> list[dict[str, str]]:
    return [dict(one) for one in HYPOTHETICAL_ANSWER.request({"question": question}, endpoint="").messages]
