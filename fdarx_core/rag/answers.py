"""The last step from a question to a cited answer: ask the model, and let through what passes the gate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Protocol, TypeVar

from fdarx_core.baseline.label_answering import compared_statements, with_similarities
from fdarx_core.llm import Unparsable, response_to
from fdarx_core.llm.model import BASELINE
from fdarx_core.rag.cited_text import Statement, parse_cited_text, read_statements
from fdarx_core.rag.comparison import PARAGRAPH, AnswerColumn, ComparedDrug
from fdarx_core.rag.flow import RetrievalResult, absent_text
from fdarx_core.rag.gate import AnswerGate, GateReport, refusal_text, withheld_text
from fdarx_core.rag.gated_text import GatedText
from fdarx_core.rag.group_answers import AnswerGroup, answer_groups, group_rows, groups_text
from fdarx_core.rag.label_differences import differences_text, with_differences
from fdarx_core.rag.search import RagBackend, Role, TaskCall
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS
from fdarx_core.rag.verifying import medicines_in, statement_verifier
from fdarx_core.records import AnswerStatement, Citation, LabelGroups, Response
from fdarx_core.verify import VerificationEngine

PieceT = TypeVar("PieceT", bound="AnswerPiece | CitedAnswer")
_SENTENCE_MARKS = (".", "!", "?", ":", "\n")


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer that has passed the gate.

    Attributes:
        text: the answer, with each citation of a context as [n], and then what other labels have instead of its
            numbers (`differences_text`); where nothing passed the gate, `withheld_text`.
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
        columns: the parts of the text for each drug of a question that names several.
        groups: the drugs of the answer to a question for several labels.
        matching_drugs: how many drugs match such a question, also those that the answer leaves out.
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
    matching_drugs: int = 0

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

    Without a verifier, the answering model verifies the statements, or exact matching where the baseline answers.

    A question that names several drugs is answered for each of them from its contexts alone, with a paragraph each. For
    a question for several labels, the baseline has a row for each drug.
    """
    if not result.contexts:
        return _refusal(result)
    if result.groups and backend.answerer == BASELINE:
        pieces = _stream_groups(question, result, result.groups, backend, verifier)
        return _whole(result, [piece async for piece in pieces if isinstance(piece, CitedAnswer)])
    start, drugs = time.monotonic(), _answered_drugs(result)
    calls = [await _answer_call(question, result, drug, backend) for drug in drugs]
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
    if not result.contexts:
        refusal = _refusal(result)
        yield AnswerPiece(refusal.text)
        yield refusal
        return
    if result.groups and backend.answerer == BASELINE:
        streams = [_stream_groups(question, result, result.groups, backend, verifier)]
    else:
        streams = [_stream_one(question, result, backend, verifier, drug) for drug in _answered_drugs(result)]
    async with aclosing(_in_turn(streams)) as pieces:
        answers, sent = list[CitedAnswer](), 0
        async for piece in pieces:
            if isinstance(piece, CitedAnswer):
                answers.append(piece)
            else:
                yield piece.moved(sent)
                sent += len(piece.text)
    answer = _whole(result, answers)
    if tail := _tail(result, answers):
        yield AnswerPiece(tail, sent)
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
    if drug:
        yield AnswerPiece(_heading(drug, result.compared))
    async with aclosing(backend.stream("answerer", await _answer_call(question, result, drug, backend))) as pieces:
        async for piece in pieces:
            if isinstance(piece, str):
                await gated.receive(piece)
                if passed := gated.new_piece():
                    yield passed
                continue
            answer = await gated.finish(piece, time.monotonic() - start)
            if rest := gated.new_piece(answer):
                yield rest
            yield answer


async def _stream_groups(
    question: str,
    result: RetrievalResult,
    groups: LabelGroups,
    backend: RagBackend,
    verifier: VerificationEngine | None,
) -> AsyncGenerator[AnswerPiece | CitedAnswer, None]:
    """Yield the rows of the drugs that answer a question for several labels, and at the end the answer.

    The places of each row are counted from its own beginning.
    """
    start, gated = time.monotonic(), _GatedReply(question, result, backend, verifier, None)
    rows = list(group_rows(groups, len(result.contexts)))
    for at, row in enumerate(rows):
        await gated.receive((PARAGRAPH if at else "") + row)
        if passed := gated.new_piece():
            yield passed
    slots = {"question": question, "contexts": result.prompt_contexts, "drug": "", "others": []}
    request = ANSWER_WITH_CITATIONS.request(slots, endpoint=BASELINE)
    answer = await gated.finish(response_to(request, PARAGRAPH.join(rows)), time.monotonic() - start)
    if rest := gated.new_piece(answer):
        yield rest
    yield answer


def _whole(result: RetrievalResult, answers: Sequence[CitedAnswer]) -> CitedAnswer:
    """Return the answer out of the one for each drug, with what `_tail` says."""
    answer = _joined(result.compared, answers) if result.compared else answers[0]
    answer = replace(answer, text=answer.text + _tail(result, answers))
    if result.groups is None:
        return answer
    groups = answer_groups(result.groups, answer.cited, len(result.contexts))
    return replace(answer, groups=groups, matching_drugs=result.groups.drugs)


def _tail(result: RetrievalResult, answers: Sequence[CitedAnswer]) -> str:
    """Return the paragraphs on drugs that match but are not in the answer, and on those that have no label."""
    if not any(answer.text for answer in answers):
        return ""
    paragraphs = [absent_text(result.absent)]
    if result.groups is not None:
        cited = [number for answer in answers for number in answer.cited]
        listed = answer_groups(result.groups, cited, len(result.contexts))
        paragraphs.insert(0, groups_text(result.groups, len(listed)) if listed else "")
    return "".join(PARAGRAPH + one for one in paragraphs if one)


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


async def _answer_call(
    question: str, result: RetrievalResult, drug: ComparedDrug | None, backend: RagBackend
) -> TaskCall:
    """Return the task that asks for the answer, or for that on one of the drugs of the question, with its slots.

    For the baseline, contexts also have the similarities of their statements to the question (`with_similarities`), if
    there is an embedding model.
    """
    contexts, others = result.prompt_contexts, list[str]()
    if drug:
        contexts = [one for one in contexts if one["n"] in drug.contexts]
        others = [one.name for one in result.compared if one != drug]
    if backend.answerer == BASELINE:
        asked, statements = compared_statements(question, contexts, others)
        values = await backend.similarities(asked, [text for *_, text in statements]) if statements else None
        contexts = contexts if values is None else with_similarities(contexts, statements, values)
    slots = {"question": question, "contexts": contexts, "drug": drug.name if drug else "", "others": others}
    return ANSWER_WITH_CITATIONS, slots


def _heading(drug: ComparedDrug, compared: Sequence[ComparedDrug]) -> str:
    """Return the beginning of the paragraph on a drug, with what stands before it."""
    return drug.heading if drug == compared[0] else PARAGRAPH + drug.heading


def _joined(compared: Sequence[ComparedDrug], answers: Sequence[CitedAnswer]) -> CitedAnswer:
    """Return one answer with a paragraph for each drug, and the places of the paragraphs."""
    text, citations, columns, gate = "", list[Citation](), list[AnswerColumn](), GateReport()
    statements = list[AnswerStatement]()
    for drug, answer in zip(compared, answers, strict=True):
        text += _heading(drug, compared)
        start = len(text)
        text += answer.text
        columns.append(AnswerColumn(drug.name, drug.moieties, start, len(text), answer.refused))
        citations += (
            replace(one, statement=(one.statement[0] + start, one.statement[1] + start)) for one in answer.citations
        )
        statements += (one.moved(start) for one in answer.statements)
        gate.add(answer.gate)
    reason = next((answer.reason for answer in answers if answer.reason), "")
    if all(answer.reason for answer in answers):
        text, columns = "", []
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
        by_model = backend.answerer != BASELINE
        self._passed = GatedText(result.contexts, self._verifier.name, by_model=by_model)
        citable = drug.contexts if drug else range(1, len(result.contexts) + 1)
        # the template of the system message has no slots
        instructions = ANSWER_WITH_CITATIONS.prompt.system
        only = drug.name if drug else " and ".join(result.drugs[0].moieties) if len(result.drugs) == 1 else ""
        about = question, result.contexts, result.drugs, only
        tools = self._verifier, partial(medicines_in, backend)
        self._gate = AnswerGate(*about, *tools, citable, instructions, by_model=by_model)
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
