"""What is searched with to answer a question: the question, an answer made up for it, or both. Source: QA-RAG §3.4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from fdarx_core.llm import TextTask
from fdarx_core.rag.tasks import HYDE_PASSAGE, HYPOTHETICAL_ANSWER, MORE_QUESTIONS
from fdarx_core.rag.tools import Ask, Role, Search


class Strategy(Protocol):
    """One way to search.

    `name` is what a user gives, `role` who is asked where `asks` is not empty. To add one: a class, and a line below.
    """

    @property
    def name(self) -> str: ...

    @property
    def role(self) -> Role: ...

    def title(self, candidates: int) -> str:
        """As the tables of the paper call it, with the number of documents that each text draws."""
        ...

    def asks(self, question: str) -> list[Ask]:
        """What a model is asked before the search."""
        ...

    def searches(self, question: str, replies: Sequence[Any], candidates: int) -> list[Search]:
        """The texts to search with and how many of the candidates each draws, none of them 0.

        `replies` are the parsed ones to `asks`, in order, None for one that could not be had: the question then draws
        its share too. Whoever calls knows which is missing, and says so.
        """
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """By the question alone: conventional RAG. It draws one `part`-th of the candidates."""

    name: str
    part: int = 1
    role: Role = "rewriter"

    def title(self, candidates: int) -> str:
        return f"Only question({_share(candidates, self.part)})"

    def asks(self, question: str) -> list[Ask]:
        return []

    def searches(self, question: str, replies: Sequence[Any], candidates: int) -> list[Search]:
        return [_by_question(question, _share(candidates, self.part))]


@dataclass(frozen=True, slots=True)
class MadeUp:
    """By a text that a model writes in the question's place. It draws one `part`-th of the candidates."""

    name: str
    label: str
    task: TextTask
    role: Role
    part: int = 1

    def title(self, candidates: int) -> str:
        return f"{self.label}({_share(candidates, self.part)})"

    def asks(self, question: str) -> list[Ask]:
        return [(self.task, {"question": question})]

    def searches(self, question: str, replies: Sequence[str | None], candidates: int) -> list[Search]:
        [made_up], share = replies, _share(candidates, self.part)
        return [_by_question(question, share) if made_up is None else Search(made_up, share, is_question=False)]


@dataclass(frozen=True, slots=True)
class QuestionAndAnswer:
    """By the question and by a hypothetical answer to it, half and half. Source: QA-RAG §2.3."""

    name: str
    role: Role = "hypothesis"

    def title(self, candidates: int) -> str:
        by_question, by_answer = _shares(candidates, 2)
        return f"Question({by_question}) + Hypothetical answer({by_answer})"

    def asks(self, question: str) -> list[Ask]:
        return [(HYPOTHETICAL_ANSWER, {"question": question})]

    def searches(self, question: str, replies: Sequence[str | None], candidates: int) -> list[Search]:
        [hypothetical] = replies
        if hypothetical is None:
            return [_by_question(question, candidates)]
        by_question, by_answer = _shares(candidates, 2)
        both = [_by_question(question, by_question), Search(hypothetical, by_answer, is_question=False)]
        return [search for search in both if search.share]


@dataclass(frozen=True, slots=True)
class Multiquery:
    """By the question and three others to the same end, in equal shares."""

    name: str
    role: Role = "rewriter"

    def title(self, candidates: int) -> str:
        return f"Multiquery questions({candidates})"

    def asks(self, question: str) -> list[Ask]:
        return [(MORE_QUESTIONS, {"question": question})]

    def searches(self, question: str, replies: Sequence[Any], candidates: int) -> list[Search]:
        [reply] = replies
        questions = [question] if reply is None else [question, *reply.questions]
        shared = zip(questions, _shares(candidates, len(questions)), strict=True)
        return [_by_question(text, share) for text, share in shared if share]


STRATEGIES: dict[str, Strategy] = {
    one.name: one
    for one in (
        Question("question"),
        MadeUp("hypothetical_answer", "Only hypothetical answer", HYPOTHETICAL_ANSWER, "hypothesis"),
        QuestionAndAnswer("qa_rag"),
        MadeUp("hyde", "HyDE", HYDE_PASSAGE, "rewriter"),
        Multiquery("multiquery"),
    )
}
"""What the paper compares, by name. Source: QA-RAG §3.4, Tables 2 to 4."""

ABLATIONS: dict[str, Strategy] = {
    one.name: one
    for one in (
        Question("question_half", part=2),
        MadeUp("hypothetical_answer_half", "Only hypothetical answer", HYPOTHETICAL_ANSWER, "hypothesis", part=2),
    )
}
"""One half of QA-RAG without the other, which then draws half as many. Source: QA-RAG §3.5, Table 5."""


def _by_question(text: str, share: int) -> Search:
    return Search(text, share, is_question=True)


def _share(candidates: int, part: int) -> int:
    return max(1, candidates // part)


def _shares(candidates: int, ways: int) -> list[int]:
    """As equal as can be, the first ones larger."""
    each, rest = divmod(candidates, ways)
    return [each + (place < rest) for place in range(ways)]
