"""Parts of a label for a reader whose context does not hold all of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fdarx_core.llm.model_config import ModelConfig, TokenCounter, tokens_left
from fdarx_core.records import Passage, QuestionAnswer
from fdarx_core.retrieval.lexical import Bm25Index, InvertedIndex

_PROMPT_TOKENS = 900
"""Tokens of the prompt of a reader without its passages."""
_PASSAGE_TOKENS = 20
"""Tokens of the tags around a passage."""


@dataclass(frozen=True, slots=True)
class PromptRoom:
    """The tokens that a prompt has for the passages of a label, and the function that counts them."""

    tokens: int
    counter: TokenCounter

    @classmethod
    def of(cls, model: ModelConfig | None) -> PromptRoom | None:
        """Return the room that a model leaves for passages; None where its `context_length` is not known."""
        tokens, counter = tokens_left(model, _PROMPT_TOKENS)
        return None if tokens is None else cls(tokens, counter)

    def holds(self, passages: Sequence[Passage]) -> bool:
        """Return whether all passages fit."""
        return sum(map(self._cost, passages)) <= self.tokens

    def excerpt(self, question: QuestionAnswer, passages: Sequence[Passage]) -> list[int]:
        """Return the positions of the passages to show for a question, in the order of the label.

        These are all passages where they fit. Otherwise the gold passages come first, then those of their sections,
        then the others in the order of BM25 for the question; those that do not fit any more are left out.

        Args:
            question: the question.
            passages: all passages of its label.
        """
        if self.holds(passages):
            return list(range(len(passages)))
        left, shown = self.tokens, set[int]()
        for at in dict.fromkeys(_by_importance(question, passages)):
            cost = self._cost(passages[at])
            if cost <= left:
                left -= cost
                shown.add(at)
        return sorted(shown)

    def _cost(self, passage: Passage) -> int:
        return self.counter(f"{passage.section_path}\n{passage.table_header}\n{passage.text}") + _PASSAGE_TOKENS


def _by_importance(question: QuestionAnswer, passages: Sequence[Passage]) -> Iterator[int]:
    """Yield the positions of passages, the most important first, some of them again."""
    gold = question.gold_passages
    yield from gold
    sections = {passages[at].section_path for at in gold}
    yield from (at for at, one in enumerate(passages) if one.section_path in sections)
    index = Bm25Index(InvertedIndex([f"{one.section_path} {one.text}" for one in passages]))
    [ranked] = index.rank([question.question], len(passages))
    yield from (int(at) for at, _ in ranked)
