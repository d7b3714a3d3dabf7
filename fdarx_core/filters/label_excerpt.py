"""Chooses the passages of a label that fit into the context of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fdarx_core.llm.model_config import TokenCounter
from fdarx_core.records import Passage, QuestionAnswer
from fdarx_core.retrieval.lexical import InvertedIndex, LexicalIndex, bm25_index

PROMPT_TOKENS = 900
"""Tokens of the prompt of a reader without its passages."""
_PASSAGE_TOKENS = 20
"""Tokens of the tags around a passage."""


@dataclass(frozen=True)
class LabelExcerpts:
    """The parts of one label that a reader is shown; its passages are counted and indexed once for all questions.

    Args:
        passages: all passages of the label.
        tokens: the tokens that the reader's prompt has for them; None for a reader that is shown every label whole.
        counter: the function that counts tokens, see `tokens_left`.
    """

    passages: Sequence[Passage]
    tokens: int | None = None
    counter: TokenCounter = len

    @cached_property
    def fits(self) -> bool:
        """Whether all passages fit."""
        return self.tokens is None or sum(self._costs) <= self.tokens

    def for_question(self, question: QuestionAnswer) -> list[int]:
        """Return the positions of the passages to show for a question, in the order of the label.

        These are all passages where they fit. Otherwise the gold passages come first, then those of their sections,
        then the others in the order of BM25 for the question; those that do not fit any more are left out.
        """
        if self.tokens is None or self.fits:
            return list(range(len(self.passages)))
        gold = question.gold_passages
        sections = {self.passages[at].section_path for at in gold}
        beside = (at for at, one in enumerate(self.passages) if one.section_path in sections)
        [ranked] = self._index.rank([question.question], len(self.passages))
        left, shown = self.tokens, set[int]()
        for at in dict.fromkeys((*gold, *beside, *(int(at) for at, _ in ranked))):
            if self._costs[at] <= left:
                left -= self._costs[at]
                shown.add(at)
        return sorted(shown)

    @cached_property
    def _costs(self) -> list[int]:
        """The tokens of each passage with its tags."""
        texts = (f"{one.section_path}\n{one.table_header}\n{one.text}" for one in self.passages)
        return [self.counter(text) + _PASSAGE_TOKENS for text in texts]

    @cached_property
    def _index(self) -> LexicalIndex:
        return bm25_index(InvertedIndex([f"{one.section_path} {one.text}" for one in self.passages]))
