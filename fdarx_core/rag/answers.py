"""The last step from a question to a cited answer: ask the model, and let through what passes the gate.

Without a model nothing is answered: the statements of the passages that share most words with the question are quoted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import TypeAlias, TypeVar

from fdarx_core.llm.model import BASELINE
from fdarx_core.rag.comparison import COMPARISON_HEADING, PARAGRAPH, AnswerColumn, ComparedDrug, answer_groups
from fdarx_core.rag.flow import RetrievalResult, absent_text
from fdarx_core.rag.gate import GateReport, refusal_text
from fdarx_core.rag.gated_reply import AnswerPiece, CitedAnswer, GatedReply
from fdarx_core.rag.label_differences import differences_text
from fdarx_core.rag.quotes import NO_MODEL, NOTHING_FOUND, quote_statements
from fdarx_core.rag.search import RagBackend, Role, TaskCall
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS, COMPARE_DRUGS
from fdarx_core.records import AnswerStatement, Citation, Response
from fdarx_core.verify import VerificationEngine

PieceT = TypeVar("PieceT", bound="AnswerPiece | CitedAnswer")

Stream: TypeAlias = Callable[[Role, TaskCall], AsyncGenerator[str | Response, None]]
"""A function that yields the text of a reply piece by piece, and at the end the whole response."""


def _moved_citation(citation: Citation, characters: int) -> Citation:
    """Return the citation of a statement that is so many characters further on."""
    start, end = citation.statement
    return replace(citation, statement=(start + characters, end + characters))


async def answer_question(
    result: RetrievalResult, backend: RagBackend, verifier: VerificationEngine | None
) -> CitedAnswer:
    """Answer a question from retrieved contexts; without contexts the answer is a refusal, and no model is asked.

    Without a verifier, the answering model verifies the statements.

    A question that names several drugs is answered for each of them from its contexts alone, with a paragraph each, and
    a last paragraph compares them; one which labels say something is answered for each drug whose contexts answer it.
    """
    if unasked := _unasked(result, backend):
        return unasked
    start = time.monotonic()
    drugs: Sequence[ComparedDrug | None] = result.compared or [None]
    calls = [_answer_call(result, drug) for drug in drugs]
    asking = asyncio.ensure_future(backend.ask("answerer", calls))
    await asyncio.sleep(0)  # the model is asked before the contexts are parsed
    gated = [GatedReply(result, backend, verifier, drug) for drug in drugs]
    responses = await asking
    seconds = time.monotonic() - start
    answers = [await reply.finish(response, seconds) for reply, response in zip(gated, responses, strict=True)]
    return _whole(result, answers, await _comparison(result, backend, verifier, answers))


async def stream_answer(
    result: RetrievalResult, backend: RagBackend, stream: Stream, verifier: VerificationEngine | None
) -> AsyncGenerator[AnswerPiece | CitedAnswer, None]:
    """Yield the answer's text statement by statement, each after it has passed the gate, then the whole answer.

    For a question that names several drugs the model is asked for all of them at once; the text comes drug by drug.
    """
    if unasked := _unasked(result, backend):
        yield AnswerPiece(unasked.text, 0, tuple(unasked.statements))
        yield unasked
        return
    drugs: Sequence[ComparedDrug | None] = result.compared or [None]
    streams = [_stream_one(result, backend, stream, verifier, drug) for drug in drugs]
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
    answer = _whole(result, answers, await _comparison(result, backend, verifier, answers))
    if rest := answer.text[sent:]:
        yield AnswerPiece(rest, sent, tuple(statement for statement in answer.statements if statement.start >= sent))
    yield answer


async def _stream_one(
    result: RetrievalResult,
    backend: RagBackend,
    stream: Stream,
    verifier: VerificationEngine | None,
    drug: ComparedDrug | None,
) -> AsyncGenerator[AnswerPiece | CitedAnswer, None]:
    """Yield the pieces of the whole answer, or of the paragraph on one drug, and at the end the answer.

    The places of each piece are counted from its own beginning.
    """
    start = time.monotonic()
    gated = GatedReply(result, backend, verifier, drug)
    async with aclosing(stream("answerer", _answer_call(result, drug))) as pieces:
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


def _unasked(result: RetrievalResult, backend: RagBackend) -> CitedAnswer | None:
    """Return the answer for which no model is asked: a refusal without contexts, quotations without a model."""
    if not result.contexts:
        nothing = NOTHING_FOUND if backend.answerer == BASELINE else refusal_text(result.contexts)
        return CitedAnswer(absent_text(result.absent) or nothing, refused=True)
    if backend.answerer != BASELINE:
        return None
    start = time.monotonic()
    quotes, statements, citations = quote_statements(result.question, result.contexts)
    at = len(NO_MODEL + PARAGRAPH)
    text = PARAGRAPH.join(
        filter(None, (NO_MODEL, quotes, differences_text(quotes, citations), absent_text(result.absent)))
    )
    return CitedAnswer(
        text,
        [statement.moved(at) for statement in statements],
        [_moved_citation(citation, at) for citation in citations],
        seconds=time.monotonic() - start,
    )


async def _comparison(
    result: RetrievalResult, backend: RagBackend, verifier: VerificationEngine | None, answers: Sequence[CitedAnswer]
) -> CitedAnswer | None:
    """Return what compares the drugs of a question, written from the cited statements of the answers for each drug.

    None where fewer than two of the answers have cited statements, and for a question which labels say something.
    """
    if not result.compared or result.asks_for_labels:
        return None
    said = [
        {
            "name": drug.name,
            "statements": "\n".join(
                answer.text[statement.start : statement.end]
                for statement in answer.statements
                if statement.verdict != "uncited"
            ),
        }
        for drug, answer in zip(result.compared, answers, strict=True)
        if answer.citations
    ]
    if len(said) < 2:
        return None
    start = time.monotonic()
    cited = sorted({number for answer in answers for number in answer.cited})
    gated = GatedReply(result, backend, verifier, compared=cited)
    [response] = await backend.ask("answerer", [(COMPARE_DRUGS, {"question": result.question, "drugs": said})])
    return await gated.finish(response, time.monotonic() - start)


def _whole(result: RetrievalResult, answers: Sequence[CitedAnswer], comparison: CitedAnswer | None) -> CitedAnswer:
    """Return the answer out of the one for each drug, with a paragraph on the drugs that have no label."""
    answer = _joined(result, answers, comparison) if result.compared else answers[0]
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


def _answer_call(result: RetrievalResult, drug: ComparedDrug | None) -> TaskCall:
    """Return the task that asks for the answer, or for that on one of several drugs, with its slots."""
    contexts, others = result.prompt_contexts, list[str]()
    if drug:
        contexts = [context for context in contexts if context["n"] in drug.contexts]
        others = [] if result.asks_for_labels else [other.name for other in result.compared if other != drug]
    slots = {"question": result.question, "contexts": contexts, "drug": drug.name if drug else "", "others": others}
    return ANSWER_WITH_CITATIONS, slots


def _joined(result: RetrievalResult, answers: Sequence[CitedAnswer], comparison: CitedAnswer | None) -> CitedAnswer:
    """Return one answer with a paragraph for each drug that it shows, and one that compares them."""
    text, statements, citations = "", list[AnswerStatement](), list[Citation]()
    columns, gate = list[AnswerColumn](), GateReport()

    def add(heading: str, answer: CitedAnswer) -> int:
        """Add a paragraph, and return where its answer begins."""
        nonlocal text
        text += (PARAGRAPH if text else "") + heading
        start = len(text)
        text += answer.text
        citations.extend(_moved_citation(citation, start) for citation in answer.citations)
        statements.extend(statement.moved(start) for statement in answer.statements)
        return start

    for drug, answer in zip(result.compared, answers, strict=True):
        gate.add(answer.gate)
        if _is_shown(result, answer):
            start = add(drug.heading, answer)
            columns.append(AnswerColumn(drug.name, drug.moieties, start, len(text), answer.refused))
    if all(answer.reason for answer in answers):
        text, columns = "", []
    elif not text:
        text = refusal_text(result.contexts)
    replies, seconds = [*answers], max(answer.seconds for answer in answers)
    if comparison:
        gate.add(comparison.gate)
        replies.append(comparison)
        seconds += comparison.seconds
        if comparison.statements:  # else nothing of it has passed the gate
            add(COMPARISON_HEADING, comparison)
    return CitedAnswer(
        text,
        statements,
        citations,
        refused=all(answer.refused for answer in answers),
        withheld=not statements and any(answer.withheld for answer in answers),
        gate=gate,
        reason=next((answer.reason for answer in replies if answer.reason), ""),
        responses=[response for answer in replies for response in answer.responses],
        checks=[response for answer in replies for response in answer.checks],
        seconds=seconds,
        columns=columns,
    )
