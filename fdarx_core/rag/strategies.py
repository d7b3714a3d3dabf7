"""Retrieval strategies: the texts to search for, and how many candidates each text contributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fdarx_core.llm import Task
from fdarx_core.rag.search import Role, SearchQuery, TaskCall
from fdarx_core.rag.tasks import HYDE_PASSAGE, HYPOTHETICAL_ANSWER, MORE_QUESTIONS

Texts = Callable[[str, Any], list[tuple[str, bool]]]
"""A function from a question and the reply to the strategy's task to the texts to search with, and whether each is a
question.
"""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to search for a question. Its texts contribute equal shares of the candidates.

    Attributes:
        name: the name that users give.
        label: the title in tables, as in the paper: a format with the shares of two texts as {0} and {1}, or {total}.
        texts: the texts to search with; where the task has no reply, the question takes their place.
        task: what a model is asked about the question before the search, None for nothing.
        role: the role of that model.
        part: the strategy contributes one `part`-th of the candidates.
    """

    name: str
    label: str
    texts: Texts = lambda question, _: [(question, True)]
    task: Task[Any] | None = None
    role: Role = "rewriter"
    part: int = 1

    def title(self, candidates: int) -> str:
        """Return the title in tables, with the number of candidates that each text contributes."""
        total = self._total(candidates)
        return self.label.format(*_equal_shares(total, 2), total=total)

    def calls(self, question: str) -> list[TaskCall]:
        """Return what a model is asked before the search."""
        return [(self.task, {"question": question})] if self.task else []

    def searches(self, question: str, replies: Sequence[Any], candidates: int) -> list[SearchQuery]:
        """Return the queries, each with its share of the candidates, none of them 0.

        `replies` are the parsed replies to `calls`, None for one that is missing.
        """
        texts = [(question, True)] if None in replies else self.texts(question, *(replies or [None]))
        shares = _equal_shares(self._total(candidates), len(texts))
        return [
            SearchQuery(text, share, asks, "" if text == question else question)
            for (text, asks), share in zip(texts, shares, strict=True)
            if share
        ]

    def _total(self, candidates: int) -> int:
        return max(1, candidates // self.part)


def _reply_only(question: str, reply: str) -> list[tuple[str, bool]]:
    return [(reply, False)]


_ANSWER_ONLY = "Only hypothetical answer({total})"

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("question", "Only question({total})"),
        Strategy("hypothetical_answer", _ANSWER_ONLY, _reply_only, HYPOTHETICAL_ANSWER, "hypothesis"),
        Strategy(
            "qa_rag",
            "Question({0}) + Hypothetical answer({1})",
            lambda question, answer: [(question, True), (answer, False)],
            HYPOTHETICAL_ANSWER,
            "hypothesis",
        ),
        Strategy("hyde", "HyDE({total})", _reply_only, HYDE_PASSAGE),
        Strategy(
            "multiquery",
            "Multiquery questions({total})",
            lambda question, reply: [(text, True) for text in (question, *reply.questions)],
            MORE_QUESTIONS,
        ),
    )
}
"""The strategies that the paper compares, by name. Source: QA-RAG §2.3, §3.4, Tables 2 to 4; HyDE: Gao et al. 2022."""

ABLATIONS: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy("question_half", "Only question({total})", part=2),
        Strategy("hypothetical_answer_half", _ANSWER_ONLY, _reply_only, HYPOTHETICAL_ANSWER, "hypothesis", part=2),
    )
}
"""Each half of QA-RAG without the other, with half as many candidates. Source: QA-RAG §3.5, Table 5."""
ALL_STRATEGIES = STRATEGIES | ABLATIONS


def _equal_shares(candidates: int, texts: int) -> list[int]:
    """Split the candidates as equally as possible, the first shares larger."""
    each, rest = divmod(candidates, texts)
    return [each + (place < rest) for place in range(texts)]
