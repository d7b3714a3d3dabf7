"""Checks the streamed reply of a model statement by statement, and gives out what passes the gate, with citations."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal
from unicodedata import category

from fdarx_core.llm import Unparsable
from fdarx_core.rag.cited_text import CITATION, Statement, cited_numbers, parse_cited_text, read_statements
from fdarx_core.rag.comparison import PARAGRAPH, AnswerColumn, AnswerGroup, ComparedDrug
from fdarx_core.rag.flow import RetrievalResult
from fdarx_core.rag.gate import AnswerGate, CheckedStatement, DroppedStatement, GateReport, refusal_text, withheld_text
from fdarx_core.rag.label_differences import differences_text, with_differences
from fdarx_core.rag.search import RagBackend
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS, COMPARE_DRUGS
from fdarx_core.rag.verifying import StatementVerifier
from fdarx_core.records import AnswerStatement, Citation, Response
from fdarx_core.verify import VerificationEngine

_SENTENCE_MARKS = (".", "!", "?", ":", "\n")
_MARKS = re.compile(rf"(?P<gap>\s*)(?P<marks>(?:{CITATION.pattern})(?:\s*(?:{CITATION.pattern}))*)", re.IGNORECASE)
_SIGNS = frozenset("+|=<>`^~")


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer that has passed the gate.

    Attributes:
        text: the answer, with each citation of a context as [n], followed by the numbers that other labels give instead
            of its own (`differences_text`). If nothing passed the gate, it is `withheld_text`; without a model it is
            `NO_MODEL` and quotations.
        statements: its statements with their verdicts, in the order of the text, without what the service adds, such as
            the names of drugs above their paragraphs.
        citations: the places that its statements cite, in the order of the text.
        refused: whether it says that the contexts have no answer.
        withheld: whether the model gave an answer of which nothing passed the gate.
        gate: what the gate did to the statements of the reply.
        reason: why there is no answer, or none for one of several drugs; "" if there is one.
        responses: the replies, one for each drug that the question names, and the one that compares them; none if no
            model was asked.
        checks: the replies of the model that verified the statements.
        seconds: the time that the model took.
        columns: the parts of the text for each drug, if the question names several.
        groups: the drugs of an answer to a question which labels say something.
    """

    text: str
    statements: list[AnswerStatement] = field(default_factory=list)
    citations: list[Citation] = field(default_factory=list)
    refused: bool = False
    withheld: bool = False
    gate: GateReport = field(default_factory=GateReport)
    reason: str = ""
    responses: list[Response] = field(default_factory=list)
    checks: list[Response] = field(default_factory=list)
    seconds: float = 0.0
    columns: list[AnswerColumn] = field(default_factory=list)
    groups: list[AnswerGroup] = field(default_factory=list)

    @property
    def cited(self) -> list[int]:
        """The numbers of the contexts cited, each once, in the order of first mention."""
        return list(dict.fromkeys(citation.n for citation in self.citations))


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A piece of an answer.

    Attributes:
        text: the text.
        start: the number of the answer's characters before it.
        statements: the complete statements in it, with their places in the answer.
    """

    text: str
    start: int = 0
    statements: tuple[AnswerStatement, ...] = ()

    def moved(self, characters: int) -> AnswerPiece:
        """Return the piece with all places increased by this number of characters."""
        statements = tuple(statement.moved(characters) for statement in self.statements)
        return AnswerPiece(self.text, self.start + characters, statements)


@dataclass(slots=True)
class _HeldStatement:
    """A statement that passed the gate and is not given out yet. `gap` is the text between it and the one before.

    `emptied` means that it introduces a statement that was dropped.
    """

    statement: Statement
    gap: str
    text: str
    citations: list[Citation]
    verdict: Literal["supported", "unsupported", "undecided", "uncited", "unchecked"]
    emptied: bool = False


class GatedReply:
    """The streamed reply of a model, and the part of it that has passed the gate.

    A statement without a citation is held until one with a citation has passed. A lead-in, heading or table header is
    held until a statement below it has passed, and is left out if none does.
    """

    def __init__(
        self,
        result: RetrievalResult,
        backend: RagBackend,
        verifier: VerificationEngine | None,
        drug: ComparedDrug | None = None,
        compared: Sequence[int] = (),
    ) -> None:
        """With `drug`, the reply may cite only the contexts of this drug; with `compared`, it compares drugs, and may
        cite these contexts."""
        self._task = COMPARE_DRUGS if compared else ANSWER_WITH_CITATIONS
        self._verifier = StatementVerifier(backend, verifier)
        self._contexts = result.contexts
        citable = compared or (drug.contexts if drug else range(1, len(result.contexts) + 1))
        instructions = self._task.prompt.system  # a template without slots
        only_drug = drug.name if drug else " and ".join(result.drugs[0].moieties) if len(result.drugs) == 1 else ""
        self._gate = AnswerGate(
            result, backend, self._verifier, only_drug, citable, instructions, together=bool(compared)
        )
        self._text, self._statements, self._citations = "", list[AnswerStatement](), list[Citation]()
        self._report, self._passed = GateReport(verifier=self._verifier.name), False
        self._held = list[_HeldStatement]()
        self._gap, self._end = "", 0
        self._received, self._read, self._sent = "", 0, 0

    async def receive(self, piece: str) -> None:
        """Add a piece of the reply, and check the statements that are complete."""
        self._received += piece
        if not any(mark in piece for mark in _SENTENCE_MARKS):
            return
        text = parse_cited_text(self._received, len(self._contexts)).text
        opened = max(text.rfind("["), text.rfind("【"))
        if opened >= 0 and "]" not in text[opened:] and "】" not in text[opened:]:
            text = text[:opened]  # the rest of a citation may follow
        # a citation may follow the last statement
        await self._check(text, read_statements(text, len(self._contexts))[:-1])

    def new_piece(self, answer: CitedAnswer | None = None) -> AnswerPiece | None:
        """Return what has passed since the last call, or the rest of the given whole answer; None if there is nothing.

        The places of statements are counted from the beginning of the piece.
        """
        start, text = self._sent, self._text if answer is None else answer.text
        if not text[start:]:
            return None
        self._sent = len(text)
        statements = (statement.moved(-start) for statement in self._statements if statement.start >= start)
        return AnswerPiece(text[start:], 0, tuple(statements))

    async def finish(self, response: Response, seconds: float) -> CitedAnswer:
        """Return the answer of the whole reply."""
        try:
            reply = parse_cited_text(self._task.parse(response), len(self._contexts))
        except Unparsable as error:
            return CitedAnswer("", reason=f"{error.reason}: {error.detail}", responses=[response], seconds=seconds)
        if not reply.text:
            return CitedAnswer("", reason="empty_reply: nothing but thoughts", responses=[response], seconds=seconds)
        if reply.refused and not self._passed:
            return CitedAnswer(refusal_text(self._contexts), refused=True, responses=[response], seconds=seconds)
        await self._check(reply.text, read_statements(reply.text, len(self._contexts)))
        # statements that are still held are dropped: none with a citation has passed
        waiting = [held.statement for held in self._held if not held.statement.is_frame]
        self._report.dropped += (DroppedStatement(statement.text, "uncited") for statement in waiting)
        self._report.uncited -= len(waiting)
        text = self._text if self._passed else withheld_text(self._report.dropped)
        citations = with_differences(text, self._citations)
        if self._task is ANSWER_WITH_CITATIONS and (others := differences_text(text, citations)):
            text += PARAGRAPH + others
        return CitedAnswer(
            text,
            self._statements,
            citations,
            withheld=not self._passed,
            gate=self._report,
            responses=[response],
            checks=list(self._verifier.responses),
            seconds=seconds,
        )

    async def _check(self, text: str, statements: Sequence[Statement]) -> None:
        """Check the statements that were not read before; those that pass are held or given out."""
        new = statements[self._read :]
        self._read = max(self._read, len(statements))
        for checked in await self._gate.check(new) if new else ():
            self._add(text, checked)

    def _add(self, answer: str, checked: CheckedStatement) -> None:
        statement = checked.statement
        gap = _wider(self._gap, _layout(answer[self._end : statement.start]))
        self._gap, self._end = gap, statement.end
        self._leave_out_emptied(statement)
        if checked.reason is not None:
            self._report.statements += 1
            self._report.dropped.append(DroppedStatement(statement.text, checked.reason))
            for held in reversed(self._held):
                if not held.statement.is_frame:
                    break
                held.emptied = True
            return
        self._gap = ""
        verdict = checked.verdict if checked.places else "uncited"
        if not statement.is_frame:
            self._report.statements += 1
            setattr(self._report, verdict, getattr(self._report, verdict) + 1)
        citations = [
            Citation(n, self._contexts[n - 1], place.start, place.end, (0, 0), checked.verdict)
            for n, place in checked.places
        ]
        text = _with_marks(
            answer[statement.start : statement.end], {place.n for place in citations}, len(self._contexts)
        )
        self._held.append(
            _HeldStatement(statement, gap, text, citations, "unchecked" if statement.is_frame else verdict)
        )
        self._passed = self._passed or bool(checked.places and not statement.is_frame)
        if not self._passed or statement.is_frame:
            return
        for held in self._held:
            self._text += (held.gap if self._text else held.gap.lstrip()) + held.text
            place = len(self._text) - len(held.text), len(self._text)
            self._citations += (replace(citation, statement=place) for citation in held.citations)
            numbers = dict.fromkeys(citation.n for citation in held.citations)
            self._statements.append(AnswerStatement(*place, held.verdict, list(numbers)))
        self._held.clear()

    def _leave_out_emptied(self, following: Statement) -> None:
        """Leave out lead-ins, headings and table headers without a statement, once another or a sentence follows."""
        ends = {"heading"} if following.kind == "heading" else {"lead", "header"}
        if following.kind in ("item", "row"):
            return
        while self._held and self._held[-1].emptied and (following.is_frame or self._held[-1].statement.kind in ends):
            self._gap = _wider(self._held.pop().gap, self._gap)


def _layout(gap: str) -> str:
    """Return the layout in the text between two statements: white space, punctuation and the signs of Markdown.

    Citations there belong to no statement and may have any text ("[9†text]"). Other symbols may look like letters.
    """
    return "".join(
        char for char in CITATION.sub("", gap) if char.isspace() or char in _SIGNS or category(char)[0] == "P"
    )


def _wider(before: str, gap: str) -> str:
    """Return the one of the gaps before and after a left-out statement that keeps more of the layout."""
    bare = bool(before.strip()) and not gap.strip()
    return before if bare or ("\n" in before and "\n" not in gap) else gap


def _with_marks(text: str, kept: Collection[int], contexts: int) -> str:
    """Return a statement without the citations that are not kept."""

    def marks(found: re.Match[str]) -> str:
        numbers = [
            number for citation in CITATION.finditer(found["marks"]) for number in cited_numbers(citation[0], contexts)
        ]
        left = "".join(f"[{number}]" for number in numbers if number in kept)
        return found["gap"] + left if left else ""

    return _MARKS.sub(marks, text).strip()
