"""What a judge is asked about the contexts of an answer, and what its replies say of them. Nobody is asked here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fdarx_core.filters.text import sentences, tokens
from fdarx_core.llm import Unparsable
from fdarx_core.rag.judging.reference_statements import JUDGE_REFERENCE_STATEMENTS
from fdarx_core.rag.judging.useful_context import JUDGE_USEFUL_CONTEXT
from fdarx_core.rag.metrics import context_precision, context_recall
from fdarx_core.rag.tools import Ask
from fdarx_core.records import RagQuestion, RagScore, Response


def context_asks(question: RagQuestion, contexts: Sequence[str]) -> list[Ask]:
    """All that a judge is asked about one answer's contexts; the responses, in this order, go to `judged`.

    Of several references, which are other ways to say the same, the first is judged against. Nothing is asked without
    contexts or without a reference.
    """
    if not contexts or not question.references:
        return []
    reference = question.references[0]
    return [
        *precision_asks(question.question, reference, contexts),
        *recall_ask(question.question, reference, contexts),
    ]


def judged(score: RagScore, question: RagQuestion, contexts: Sequence[str], responses: Sequence[Response]) -> RagScore:
    """The score with what the judge's responses to `context_asks` say of these contexts.

    A metric for which a verdict is missing stays None, and `unscored` says why: a part of the verdicts is no mean of
    all. Without contexts both metrics are 0, since nothing was found. Raises ValueError for fewer or more responses.
    """
    asked = context_asks(question, contexts)
    if len(responses) != len(asked):
        raise ValueError(f"question {question.id}: {len(responses)} judge's responses to {len(asked)} requests")
    if not question.references:
        return score
    statements = statements_of(question.references[0])
    if not contexts:
        return _with_recall(replace(score, context_precision=0.0), [False] * len(statements))
    score = _with_precision(score, responses[: len(contexts)])
    if not statements:
        return score
    try:
        return _with_recall(score, read_statements(len(statements), responses[-1]))
    except Unparsable as error:
        return _unscored(score, "context_recall", error, len(statements))


def precision_asks(question: str, reference: str, contexts: Sequence[str]) -> list[Ask]:
    """One request a context: whether it is useful."""
    return [(JUDGE_USEFUL_CONTEXT, {"question": question, "reference": reference, "context": one}) for one in contexts]


def recall_ask(question: str, reference: str, contexts: Sequence[str]) -> list[Ask]:
    """One request about all of the reference's statements; none where it states nothing."""
    statements = statements_of(reference)
    slots = {"question": question, "statements": statements, "contexts": list(contexts)}
    return [(JUDGE_REFERENCE_STATEMENTS, slots)] if statements else []


def statements_of(reference: str) -> list[str]:
    """The reference's sentences that have a word, in order: a judge's reply names them by number, from 1."""
    return [one for one in sentences(reference) if tokens(one)]


def read_useful(responses: Sequence[Response]) -> list[bool | None]:
    """The verdict on each context; None where the judge gave none."""
    verdicts: list[bool | None] = []
    for response in responses:
        try:
            verdicts.append(JUDGE_USEFUL_CONTEXT.parse(response).useful)
        except Unparsable:
            verdicts.append(None)
    return verdicts


def read_statements(statements: int, response: Response) -> list[bool]:
    """For each of so many statements whether it was attributed to the contexts.

    Raises Unparsable as `Task.parse`, and with the reason wrong_statements where the reply leaves a statement out,
    judges one twice, or judges one that there is not.
    """
    verdicts = JUDGE_REFERENCE_STATEMENTS.parse(response).verdicts
    numbers = sorted(one.statement for one in verdicts)
    if numbers != list(range(1, statements + 1)):
        raise Unparsable("wrong_statements", f"verdicts on {numbers}, due were 1 to {statements}")
    return [one.attributed for one in sorted(verdicts, key=lambda one: one.statement)]


def _with_precision(score: RagScore, responses: Sequence[Response]) -> RagScore:
    useful = [one for one in read_useful(responses) if one is not None]
    if len(useful) == len(responses):
        return replace(score, useful=useful, context_precision=context_precision(useful))
    return _unscored(score, "context_precision", _first_fault(responses))


def _with_recall(score: RagScore, attributed: Sequence[bool]) -> RagScore:
    return replace(
        score,
        statements=len(attributed),
        attributed=sum(attributed),
        context_recall=context_recall(attributed),
    )


def _first_fault(responses: Sequence[Response]) -> Unparsable:
    for response in responses:
        try:
            JUDGE_USEFUL_CONTEXT.parse(response)
        except Unparsable as error:
            return error
    raise AssertionError("a verdict is missing, but every response has one")


def _unscored(score: RagScore, metric: str, error: Unparsable, statements: int = 0) -> RagScore:
    why = [*score.unscored, f"{metric}: {error.reason}: {error.detail}"]
    return replace(score, unscored=why, statements=statements or score.statements)
