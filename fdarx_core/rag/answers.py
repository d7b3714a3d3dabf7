"""The last step from a question to a cited answer: ask the model, and let through what passes the gate.

Without a model nothing is answered: the statements of the passages that share most words with the question are quoted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

from fdarx_core.llm import Unparsable
from fdarx_core.llm.model import BASELINE
from fdarx_core.rag.cited_text import Statement, parse_cited_text, read_statements
from fdarx_core.rag.comparison import PARAGRAPH, AnswerColumn, AnswerGroup, ComparedDrug, answer_groups
from fdarx_core.rag.flow import RetrievalResult, absent_text
from fdarx_core.rag.gate import AnswerGate, GateReport, refusal_text, withheld_text
from fdarx_core.rag.gated_text import GatedText
from fdarx_core.rag.label_differences import differences_text, with_differences
from fdarx_core.rag.quotes import NO_MODEL, NOTHING_FOUND, quote_statements
from fdarx_core.rag.search import RagBackend, Role, TaskCall
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS
from fdarx_core.rag.verifying import medicines_in, statement_verifier
from fdarx_core.records import AnswerStatement, Citation, Response
from fdarx_core.verify import VerificationEngine

PieceT = TypeVar("PieceT", bound="AnswerPiece | CitedAnswer")
_SENTENCE_MARKS = (".", "!", "?", ":", "\n")


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer that has passed the gate.

    Attributes:
        text: the answer, with each citation of a context as [n], and then what other labels have instead of its
            numbers (`differences_text`); where nothing passed the gate, `withheld_text`. Without a model it is
            `NO_MODEL` and quotations.
        statements: its statements with their verdicts, in the order of the text. What the service adds itself, such as
            the names of drugs above their paragraphs, is none.
        citations: the places that its statements rest on, in the order of the text.
        refused: whether it says that the contexts hold no answer.
        withheld: whether there was an answer, of which nothing passed the gate.
        gate: what the gate did to the statements of the reply.
        reason: why there is no answer, or none for one of several drugs; "" where there is one.
        responses: the replies, one for each drug that the question compares; none where no model was asked.
        checks: the replies of the model that verified the statements.
        seconds: the time that the model took.
        columns: the parts of the text for each drug of a question about several.
        groups: the drugs of the answer to a question which labels say something.
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
        return list(dict.fromkeys(one.n for one in self.citations))


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A piece of an answer.

    Attributes:
        text: the text.
        start: the number of the answer's characters before it.
        statements: the statements in it, which are whole, with their places in the answer.
    """

    text: str
    start: int = 0
    statements: tuple[AnswerStatement, ...] = ()

    def moved(self, characters: int) -> AnswerPiece:
        """Return the piece at a place that is so many characters further on."""
        statements = tuple(one.moved(characters) for one in self.statements)
        return AnswerPiece(self.text, self.start + characters, statements)


class StreamingBackend(RagBackend, Protocol):
    """A backend whose models give their replies piece by piece."""

    def stream(self, role: Role, call: TaskCall) -> AsyncGenerator[str | Response, None]:
        """Yield the text of a reply piece by piece, and at the end the whole response."""


async def answer_question(
    question: str, result: RetrievalResult, backend: RagBackend, verifier: VerificationEngine | None
) -> CitedAnswer:
    """Answer a question from retrieved contexts; without contexts the answer is a refusal, and no model is asked.

    Without a verifier, the answering model verifies the statements.

    A question that names several drugs is answered for each of them from its contexts alone, with a paragraph each; so
    is one which labels say something, without the drugs whose contexts do not answer it.
    """
    if backend.answerer == BASELINE:
        return _quotations(question, result)
    if not result.contexts:
        return _refusal(result)
    start, drugs = time.monotonic(), _answered_drugs(result)
    calls = [_answer_call(question, result, drug) for drug in drugs]
    asking = asyncio.ensure_future(backend.ask("answerer", calls))
    await asyncio.sleep(0)  # the model is asked before the contexts are parsed
    gated = [_GatedReply(question, result, backend, verifier, drug) for drug in drugs]
    responses = await asking
    seconds = time.monotonic() - start
    answers = [await one.finish(response, seconds) for one, response in zip(gated, responses, strict=True)]
    return _whole(result, answers)


async def stream_answer(
    question: str,
    result: RetrievalResult,
    backend: StreamingBackend,
    verifier: VerificationEngine | None,
) -> AsyncGenerator[AnswerPiece | CitedAnswer, None]:
    """Yield the answer's text statement by statement, each after it has passed the gate, then the whole answer.

    For a question that names several drugs the model is asked for all of them at once; the text comes drug by drug.
    """
    if not result.contexts or backend.answerer == BASELINE:
        whole = _quotations(question, result) if backend.answerer == BASELINE else _refusal(result)
        yield AnswerPiece(whole.text, 0, tuple(whole.statements))
        yield whole
        return
    streams = [_stream_one(question, result, backend, verifier, drug) for drug in _answered_drugs(result)]
    async with aclosing(_in_turn(streams)) as pieces:
        answers, sent = list[CitedAnswer](), 0
        begun = False
        async for piece in pieces:
            if result.compared and not begun and (isinstance(piece, AnswerPiece) or _is_shown(result, piece)):
                begun, heading = True, (PARAGRAPH if sent else "") + result.compared[len(answers)].heading
                yield AnswerPiece(heading, sent)
                sent += len(heading)
            if isinstance(piece, CitedAnswer):
                answers.append(piece)
                begun = False
            else:
                yield piece.moved(sent)
                sent += len(piece.text)
    answer = _whole(result, answers)
    if rest := answer.text[sent:]:
        yield AnswerPiece(rest, sent)
    yield answer


async def _stream_one(
    question: str,
    result: RetrievalResult,
    backend: StreamingBackend,
    verifier: VerificationEngine | None,
    drug: ComparedDrug | None,
) -> AsyncGenerator[AnswerPiece | CitedAnswer, None]:
    """Yield the pieces of the whole answer, or of the paragraph on one drug, and at the end the answer.

    The places of each piece are counted from its own beginning.
    """
    start = time.monotonic()
    gated = _GatedReply(question, result, backend, verifier, drug)
    async with aclosing(backend.stream("answerer", _answer_call(question, result, drug))) as pieces:
        async for piece in pieces:
            if isinstance(piece, str):
                await gated.receive(piece)
                if passed := gated.new_piece():
                    yield passed
                continue
            answer = await gated.finish(piece, time.monotonic() - start)
            if _is_shown(result, answer) and (rest := gated.new_piece(answer)):
                yield rest
            yield answer


def _quotations(question: str, result: RetrievalResult) -> CitedAnswer:
    """Return what stands in place of an answer without a model; it is a refusal only where nothing was found."""
    if not result.contexts:
        return CitedAnswer(absent_text(result.absent) or NOTHING_FOUND, refused=True)
    start = time.monotonic()
    quotes, statements, citations = quote_statements(question, result.contexts)
    at = len(NO_MODEL + PARAGRAPH)
    text = PARAGRAPH.join(
        filter(None, (NO_MODEL, quotes, differences_text(quotes, citations), absent_text(result.absent)))
    )
    return CitedAnswer(
        text,
        [one.moved(at) for one in statements],
        [replace(one, statement=(one.statement[0] + at, one.statement[1] + at)) for one in citations],
        seconds=time.monotonic() - start,
    )


def _whole(result: RetrievalResult, answers: Sequence[CitedAnswer]) -> CitedAnswer:
    """Return the answer out of the one for each drug, with a paragraph on the drugs that have no label."""
    answer = _joined(result, answers) if result.compared else answers[0]
    absent = absent_text(result.absent) if answer.text else ""
    answer = replace(answer, text=answer.text + (PARAGRAPH + absent if absent else ""))
    if not result.asks_for_labels:
        return answer
    return replace(answer, groups=answer_groups(result.compared, result.contexts, answer.cited))


def _is_shown(result: RetrievalResult, answer: CitedAnswer) -> bool:
    """Return whether the answer for a drug is in the whole answer: which labels do not say something is not listed."""
    return not result.asks_for_labels or not (answer.refused or answer.reason)


async def _in_turn(streams: Sequence[AsyncGenerator[PieceT, None]]) -> AsyncGenerator[PieceT, None]:
    """Yield all of the first stream, then all of the next. All are read at once; an error ends them all."""
    queues = [asyncio.Queue[PieceT | BaseException | None]() for _ in streams]

    async def read(stream: AsyncGenerator[PieceT, None], queue: asyncio.Queue[PieceT | BaseException | None]) -> None:
        try:
            async with aclosing(stream) as pieces:
                async for piece in pieces:
                    queue.put_nowait(piece)
            queue.put_nowait(None)
        except Exception as error:
            queue.put_nowait(error)

    tasks = [asyncio.create_task(read(stream, queue)) for stream, queue in zip(streams, queues, strict=True)]
    try:
        for queue in queues:
            while (piece := await queue.get()) is not None:
                if isinstance(piece, BaseException):
                    raise piece
                yield piece
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _answered_drugs(result: RetrievalResult) -> Sequence[ComparedDrug | None]:
    """Return the drugs to answer for, one after the other; None where one answer is about all that is asked."""
    return result.compared or [None]


def _answer_call(question: str, result: RetrievalResult, drug: ComparedDrug | None) -> TaskCall:
    """Return the task that asks for the answer, or for that on one of several drugs, with its slots."""
    contexts, others = result.prompt_contexts, list[str]()
    if drug:
        contexts = [one for one in contexts if one["n"] in drug.contexts]
        others = [] if result.asks_for_labels else [one.name for one in result.compared if one != drug]
    slots = {"question": question, "contexts": contexts, "drug": drug.name if drug else "", "others": others}
    return ANSWER_WITH_CITATIONS, slots


def _joined(result: RetrievalResult, answers: Sequence[CitedAnswer]) -> CitedAnswer:
    """Return one answer with a paragraph for each drug that it shows, and the places of the paragraphs."""
    text, citations, columns, gate = "", list[Citation](), list[AnswerColumn](), GateReport()
    statements = list[AnswerStatement]()
    for drug, answer in zip(result.compared, answers, strict=True):
        gate.add(answer.gate)
        if not _is_shown(result, answer):
            continue
        text += (PARAGRAPH if text else "") + drug.heading
        start = len(text)
        text += answer.text
        columns.append(AnswerColumn(drug.name, drug.moieties, start, len(text), answer.refused))
        citations += (
            replace(one, statement=(one.statement[0] + start, one.statement[1] + start)) for one in answer.citations
        )
        statements += (one.moved(start) for one in answer.statements)
    reason = next((answer.reason for answer in answers if answer.reason), "")
    if all(answer.reason for answer in answers):
        text, columns = "", []
    elif not text:
        text = refusal_text(result.contexts)
    return CitedAnswer(
        text,
        statements,
        citations,
        refused=all(answer.refused for answer in answers),
        withheld=not statements and any(answer.withheld for answer in answers),
        gate=gate,
        reason=reason,
        responses=[response for answer in answers for response in answer.responses],
        checks=[response for answer in answers for response in answer.checks],
        seconds=max(answer.seconds for answer in answers),
        columns=columns,
    )


class _GatedReply:
    """The reply of a model as it arrives, and what of it has passed the gate."""

    def __init__(
        self,
        question: str,
        result: RetrievalResult,
        backend: RagBackend,
        verifier: VerificationEngine | None,
        drug: ComparedDrug | None,
    ) -> None:
        """With `drug`, the reply may cite the contexts of this drug alone."""
        self._verifier = statement_verifier(backend, verifier)
        self._contexts = result.contexts
        self._passed = GatedText(result.contexts, self._verifier.name)
        citable = drug.contexts if drug else range(1, len(result.contexts) + 1)
        # the template of the system message has no slots
        instructions = ANSWER_WITH_CITATIONS.prompt.system
        only = drug.name if drug else " and ".join(result.drugs[0].moieties) if len(result.drugs) == 1 else ""
        about = question, result.contexts, result.drugs, only
        tools = self._verifier, partial(medicines_in, backend)
        self._gate = AnswerGate(*about, *tools, citable, instructions)
        self._received, self._read, self._sent = "", 0, 0

    async def receive(self, piece: str) -> None:
        """Add a piece of the reply, and check the statements that are complete."""
        self._received += piece
        if not any(mark in piece for mark in _SENTENCE_MARKS):
            return
        text = _without_open_bracket(parse_cited_text(self._received, len(self._contexts)).text)
        # a citation may follow the last statement
        await self._add(text, read_statements(text, len(self._contexts))[:-1])

    def new_piece(self, answer: CitedAnswer | None = None) -> AnswerPiece | None:
        """Return what has passed since the last call, or the rest of the whole answer; None for nothing.

        The places of statements are counted from the beginning of the piece.
        """
        start, text = self._sent, self._passed.text if answer is None else answer.text
        if not text[start:]:
            return None
        self._sent = len(text)
        statements = (one.moved(-start) for one in self._passed.statements if one.start >= start)
        return AnswerPiece(text[start:], 0, tuple(statements))

    async def finish(self, response: Response, seconds: float) -> CitedAnswer:
        """Return the answer of the whole reply."""
        try:
            reply = parse_cited_text(ANSWER_WITH_CITATIONS.parse(response), len(self._contexts))
        except Unparsable as error:
            return CitedAnswer("", reason=f"{error.reason}: {error.detail}", responses=[response], seconds=seconds)
        if not reply.text:
            return CitedAnswer("", reason="empty_reply: nothing but thoughts", responses=[response], seconds=seconds)
        if reply.refused and not self._passed.passed:
            return CitedAnswer(refusal_text(self._contexts), refused=True, responses=[response], seconds=seconds)
        await self._add(reply.text, read_statements(reply.text, len(self._contexts)))
        self._passed.close()
        passed, withheld = self._passed, not self._passed.passed
        text = withheld_text(passed.report.dropped) if withheld else passed.text
        citations = with_differences(text, passed.citations)
        if others := differences_text(text, citations):
            text += PARAGRAPH + others
        return CitedAnswer(
            text,
            passed.statements,
            citations,
            withheld=withheld,
            gate=passed.report,
            responses=[response],
            checks=list(self._verifier.responses),
            seconds=seconds,
        )

    async def _add(self, text: str, statements: Sequence[Statement]) -> None:
        """Check the statements that were not read before."""
        new = statements[self._read :]
        self._read = max(self._read, len(statements))
        if not new:
            return
        for one in await self._gate.check(new):
            self._passed.add(text, one)


def _without_open_bracket(text: str) -> str:
    """Return a text up to a bracket at its end that is not closed yet."""
    opened = max(text.rfind("["), text.rfind("【"))
    return text if opened < 0 or "]" in text[opened:] or "】" in text[opened:] else text[:opened]


def _refusal(result: RetrievalResult) -> CitedAnswer:
    text = absent_text(result.absent) if result.absent else refusal_text(result.contexts)
    return CitedAnswer(text, refused=True)
