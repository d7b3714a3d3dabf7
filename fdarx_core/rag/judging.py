"""Judging the contexts of an answer against the reference answer. Source: Ragas.

The baseline judge is made of rules, and is no language model: a text supports a statement where the statement's words
stand close together. On 60 official questions on FDA guidelines these rules found every chunk that has the answer word
for word, and called 1 in 25 of the chunks useful that BM25 found for the same questions in other guidelines. They miss
a free paraphrase.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.stems import term_weight, terms
from fdarx_core.baseline.tokens import words_of
from fdarx_core.llm import Reply, Task, Unparsable, source_digest
from fdarx_core.rag.metrics import context_precision, context_recall
from fdarx_core.rag.search import TaskCall
from fdarx_core.records import RagQuestion, RagScore, Response
from fdarx_core.verify import TextPair, verify

LEAST_WEIGHT = 3
"""Minimum weight of the terms of a statement that can be checked; "Yes.", a number or a heading is below it."""


class UsefulContextReply(Reply):
    """The verdict on one context, after its reason."""

    reason: str
    useful: bool


class StatementVerdict(Reply):
    """The verdict on the statement of this number, counted from 1."""

    statement: int
    reason: str
    attributed: bool


class ReferenceStatementsReply(Reply):
    """One verdict for each statement."""

    verdicts: list[StatementVerdict]


def checkable_statements(reference: str) -> list[str]:
    """Return the reference's sentences that say enough to be checked; the whole reference where none does."""
    found = [one for one in split_sentences(reference) if term_weight(terms(one)) >= LEAST_WEIGHT]
    return found or [reference]


def judge_useful_by_rules(slots: Mapping[str, Any]) -> UsefulContextReply:
    """Call a context useful where it supports a statement of the reference."""
    context, statements = str(slots["context"]), checkable_statements(str(slots["reference"]))
    support = _support(((context, statement) for statement in statements), str(slots["question"]))
    reason = support or "No two sentences hold a statement of the reference."
    return UsefulContextReply(reason=reason, useful=bool(support))


def judge_statements_by_rules(slots: Mapping[str, Any]) -> ReferenceStatementsReply:
    """Attribute a statement to the contexts where one of them supports it."""
    verdicts = []
    for number, statement in enumerate(slots["statements"], 1):
        support = _support(((str(text), str(statement)) for text in slots["contexts"]), str(slots["question"]))
        reason = support or "No two sentences hold it."
        verdicts.append(StatementVerdict(statement=number, reason=reason, attributed=bool(support)))
    return ReferenceStatementsReply(verdicts=verdicts)


def _support(pairs: Iterable[tuple[str, str]], question: str) -> str:
    """Return the sentences of the first text that support their statement, "" where none does."""
    found = verify([TextPair(*pair, question=question) for pair in pairs], "rules:attribution")
    return next((one.reason for one in found if one.verdict == "supported"), "")


JUDGE_USEFUL_CONTEXT = Task.load("judge_useful_context", UsefulContextReply, judge_useful_by_rules)
"""Whether a context helps to arrive at the reference answer. Source: Ragas, context precision with a reference."""
JUDGE_REFERENCE_STATEMENTS = Task.load(
    "judge_reference_statements", ReferenceStatementsReply, judge_statements_by_rules
)
"""Which statements of the reference answer the contexts support. Source: Ragas, context recall."""
JUDGE_TASKS: dict[str, Task[Any]] = {task.name: task for task in (JUDGE_USEFUL_CONTEXT, JUDGE_REFERENCE_STATEMENTS)}
JUDGE_RULES_VERSION = source_digest("fdarx_core.rag.judging", "fdarx_core.baseline", "fdarx_core.verify")
"""The state of the rules by which the baseline answers these tasks: `Baseline(JUDGE_TASKS, JUDGE_RULES_VERSION)`."""


def context_calls(question: RagQuestion, contexts: Sequence[str]) -> list[TaskCall]:
    """Return all that a judge is asked about the contexts of one answer; `apply_verdicts` takes the responses.

    References are alternatives, of which the first is used. Nothing is asked without contexts or references.
    """
    if not contexts or not question.references:
        return []
    asked = {"question": question.question, "reference": question.references[0]}
    calls: list[TaskCall] = [(JUDGE_USEFUL_CONTEXT, {**asked, "context": one}) for one in contexts]
    if statements := split_statements(question.references[0]):
        slots = {"question": question.question, "statements": statements, "contexts": list(contexts)}
        calls.append((JUDGE_REFERENCE_STATEMENTS, slots))
    return calls


def apply_verdicts(
    score: RagScore, question: RagQuestion, contexts: Sequence[str], responses: Sequence[Response]
) -> RagScore:
    """Return the score with context precision and recall, from the responses to `context_calls`.

    A metric for which a verdict is missing stays None, and `unscored` says why. Without contexts both metrics are 0.
    Raises ValueError for fewer or more responses.
    """
    calls = context_calls(question, contexts)
    if len(responses) != len(calls):
        raise ValueError(f"question {question.id}: {len(responses)} judge's responses to {len(calls)} requests")
    if not question.references:
        return score
    statements = split_statements(question.references[0])
    if not contexts:
        return _with_recall(replace(score, context_precision=0.0), [False] * len(statements))
    score = _with_precision(score, responses[: len(contexts)])
    if not statements:
        return score
    try:
        return _with_recall(score, read_statements(len(statements), responses[-1]))
    except Unparsable as error:
        return _unscored(score, "context_recall", error, len(statements))


def split_statements(reference: str) -> list[str]:
    """Return the reference's sentences that have a word, in order; a judge's reply names them by number, from 1."""
    return [one for one in split_sentences(reference) if words_of(one)]


def read_statements(statements: int, response: Response) -> list[bool]:
    """Return for each of the statements whether it was attributed to the contexts.

    Raises Unparsable as `Task.parse`, and with the reason wrong_statements where the verdicts are not one for each.
    """
    verdicts = JUDGE_REFERENCE_STATEMENTS.parse(response).verdicts
    numbers = sorted(one.statement for one in verdicts)
    if numbers != list(range(1, statements + 1)):
        raise Unparsable("wrong_statements", f"verdicts on {numbers}, due were 1 to {statements}")
    return [one.attributed for one in sorted(verdicts, key=lambda one: one.statement)]


def _with_precision(score: RagScore, responses: Sequence[Response]) -> RagScore:
    useful = []
    for response in responses:
        try:
            useful.append(JUDGE_USEFUL_CONTEXT.parse(response).useful)
        except Unparsable as error:
            return _unscored(score, "context_precision", error)
    return replace(score, useful=useful, context_precision=context_precision(useful))


def _with_recall(score: RagScore, attributed: Sequence[bool]) -> RagScore:
    recall = context_recall(attributed)
    return replace(score, statements=len(attributed), attributed=sum(attributed), context_recall=recall)


def _unscored(score: RagScore, metric: str, error: Unparsable, statements: int = 0) -> RagScore:
    reasons = [*score.unscored, f"{metric}: {error.reason}: {error.detail}"]
    return replace(score, unscored=reasons, statements=statements or score.statements)
