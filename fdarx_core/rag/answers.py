"""The last step from a question to a cited answer: ask the model, and let through what passes the gate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from fdarx_core.llm import Unparsable
from fdarx_core.rag.cited_text import Statement, parse_cited_text, read_statements
from fdarx_core.rag.flow import RetrievalResult, absent_text
from fdarx_core.rag.gate import AnswerGate, GateReport, refusal_text
from fdarx_core.rag.gated_text import GatedText
from fdarx_core.rag.search import RagBackend, Role, TaskCall
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS
from fdarx_core.records import Citation, Response
from fdarx_core.verify import VerificationEngine
from fdarx_core.verify.engine import RuleEngine

_SENTENCE_MARKS = (".", "!", "?", ":", "\n")


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer that has passed the gate.

    Attributes:
        text: the answer, with each citation of a context as [n]; the refusal of `refusal_text` where nothing passed.
        citations: the places that its statements rest on, in the order of the text.
        refused: whether it says that the contexts hold no answer.
        gate: what the gate did to the statements of the reply.
        reason: why there is no answer; "" where there is one.
        response: the reply; None where no model was asked.
        seconds: the time that the model took.
    """

    text: str
    citations: list[Citation] = field(default_factory=list)
    refused: bool = False
    gate: GateReport = field(default_factory=GateReport)
    reason: str = ""
    response: Response | None = None
    seconds: float = 0.0

    @property
    def cited(self) -> list[int]:
        """The numbers of the contexts cited, each once, in the order of first mention."""
        return list(dict.fromkeys(one.n for one in self.citations))


async def answer_question(
    question: str, result: RetrievalResult, backend: RagBackend, verifier: VerificationEngine
) -> CitedAnswer:
    """Answer a question from retrieved contexts; without contexts the answer is a refusal, and no model is asked."""
    if not result.contexts:
        return _refusal(result)
    start = time.monotonic()
    asking = asyncio.ensure_future(backend.ask("answerer", [_answer_call(question, result)]))
    await asyncio.sleep(0)  # the model is asked before the contexts are parsed
    gated = _GatedReply(question, result, verifier)
    [response] = await asking
    return _with_absent(await gated.finish(response, time.monotonic() - start), result)


async def stream_answer(
    question: str,
    result: RetrievalResult,
    stream: Callable[[Role, TaskCall], AsyncGenerator[str | Response, None]],
    verifier: VerificationEngine,
) -> AsyncGenerator[str | CitedAnswer, None]:
    """Yield the answer's text statement by statement, each after it has passed the gate, then the whole answer.

    `stream` asks the model that plays a role; it yields the text of the reply, and at the end the whole response.
    """
    if not result.contexts:
        refusal = _refusal(result)
        yield refusal.text
        yield refusal
        return
    start, gated, sent = time.monotonic(), _GatedReply(question, result, verifier), 0
    async with aclosing(stream("answerer", _answer_call(question, result))) as pieces:
        async for piece in pieces:
            if isinstance(piece, str):
                if passed := await gated.receive(piece):
                    sent += len(passed)
                    yield passed
                continue
            answer = _with_absent(await gated.finish(piece, time.monotonic() - start), result)
            if answer.text[sent:]:
                yield answer.text[sent:]
            yield answer


def _with_absent(answer: CitedAnswer, result: RetrievalResult) -> CitedAnswer:
    """Return an answer that says which other drugs of the question have no label."""
    if not result.absent or not answer.text:
        return answer
    return replace(answer, text=f"{answer.text}\n\n{absent_text(result.absent)}")


def _answer_call(question: str, result: RetrievalResult) -> TaskCall:
    """Return the task that asks for the answer, with its slots."""
    return ANSWER_WITH_CITATIONS, {"question": question, "contexts": result.prompt_contexts}


class _GatedReply:
    """The reply of a model as it arrives, and what of it has passed the gate."""

    def __init__(self, question: str, result: RetrievalResult, verifier: VerificationEngine) -> None:
        self._contexts, self._passed = result.contexts, GatedText(result.contexts)
        self._gate = AnswerGate(question, result.contexts, result.drugs, verifier)
        self._in_thread = not isinstance(verifier, RuleEngine)
        self._received, self._read = "", 0

    async def receive(self, piece: str) -> str:
        """Add a piece of the reply, and return the text of the statements that are complete and have passed."""
        self._received += piece
        if not any(mark in piece for mark in _SENTENCE_MARKS):
            return ""
        text = _without_open_bracket(parse_cited_text(self._received, len(self._contexts)).text)
        # a citation may follow the last statement
        return await self._add(text, read_statements(text, len(self._contexts))[:-1])

    async def finish(self, response: Response, seconds: float) -> CitedAnswer:
        """Return the answer of the whole reply."""
        try:
            reply = parse_cited_text(ANSWER_WITH_CITATIONS.parse(response), len(self._contexts))
        except Unparsable as error:
            return CitedAnswer("", reason=f"{error.reason}: {error.detail}", response=response, seconds=seconds)
        if not reply.text:
            return CitedAnswer("", reason="empty_reply: nothing but thoughts", response=response, seconds=seconds)
        if reply.refused and not self._passed.passed:
            return CitedAnswer(refusal_text(self._contexts), refused=True, response=response, seconds=seconds)
        await self._add(reply.text, read_statements(reply.text, len(self._contexts)))
        self._passed.close()
        passed, refused = self._passed, not self._passed.passed
        text = refusal_text(self._contexts) if refused else passed.text
        return CitedAnswer(text, passed.citations, refused, passed.report, response=response, seconds=seconds)

    async def _add(self, text: str, statements: Sequence[Statement]) -> str:
        """Check the statements that were not read before."""
        new = statements[self._read :]
        self._read = max(self._read, len(statements))
        if not new:
            return ""
        checked = await asyncio.to_thread(self._gate.check, new) if self._in_thread else self._gate.check(new)
        return "".join(self._passed.add(text, one) for one in checked)


def _without_open_bracket(text: str) -> str:
    """Return a text up to a bracket at its end that is not closed yet."""
    opened = max(text.rfind("["), text.rfind("【"))
    return text if opened < 0 or "]" in text[opened:] or "】" in text[opened:] else text[:opened]


def _refusal(result: RetrievalResult) -> CitedAnswer:
    text = absent_text(result.absent) if result.absent else refusal_text(result.contexts)
    return CitedAnswer(text, refused=True)
