"""Parts of a label for a reader whose context does not hold all of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fdarx_core.llm.model_config import ModelConfig, TokenCounter, tokens_left
from fdarx_core.records import Passage, QuestionAnswer
from fdarx_core.retrieval.lexical import InvertedIndex, LexicalIndex, bm25_index

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


@dataclass(frozen=True)
class LabelExcerpts:
    """The parts of one label that a reader is shown; its passages are counted and indexed once for all questions.

    Args:
        passages: all passages of the label.
        room: the room for them; None for a reader that is shown every label whole.
    """

    passages: Sequence[Passage]
    room: PromptRoom | None = None

    @cached_property
    def fits(self) -> bool:
        """Whether all passages fit."""
        return self.room is None or sum(self._costs) <= self.room.tokens

    def for_question(self, question: QuestionAnswer) -> list[int]:
        """Return the positions of the passages to show for a question, in the order of the label.

        These are all passages where they fit. Otherwise the gold passages come first, then those of their sections,
        then the others in the order of BM25 for the question; those that do not fit any more are left out.
        """
        if self.room is None or self.fits:
            return list(range(len(self.passages)))
        gold = question.gold_passages
        sections = {self.passages[at].section_path for at in gold}
        beside = (at for at, one in enumerate(self.passages) if one.section_path in sections)
        [ranked] = self._index.rank([question.question], len(self.passages))
        left, shown = self.room.tokens, set[int]()
        for at in dict.fromkeys((*gold, *beside, *(int(at) for at, _ in ranked))):
            if self._costs[at] <= left:
                left -= self._costs[at]
                shown.add(at)
        return sorted(shown)

    @cached_property
    def _costs(self) -> list[int]:
        """The tokens of each passage with its tags."""
        if self.room is None:
            return []
        texts = (f"{one.section_path}\n{one.table_header}\n{one.text}" for one in self.passages)
        return [self.room.counter(text) + _PASSAGE_TOKENS for text in texts]

    @cached_property
    def _index(self) -> LexicalIndex:
        return bm25_index(InvertedIndex([f"{one.section_path} {one.text}" for one in self.passages]))
