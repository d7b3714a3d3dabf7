"""Contexts judged against the reference answer, their metrics, the rank of the right document, and what answers cost.

The baseline judge is no language model: it decides by exact matching, and is undecided about statements in other words.

Context precision and recall follow Ragas, from a judge's verdicts. The figures of QA-RAG come from a Ragas of late 2023
(0.0.x). Its precision is the same. Its recall was divided by all lines of the judge's reply, empty ones included: those
recalls are too low, and cannot be compared with these. Source: QA-RAG §3.1; Es et al. 2023; Ragas.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import Field

from fdarx_core.evaluation.bootstrap import FLIPS, RESAMPLES, estimate_figures, paired_differences, with_holm
from fdarx_core.evaluation.gold import share
from fdarx_core.evaluation.metrics import Metric, ScoreColumns, every_row, mean_metric, metric_table
from fdarx_core.llm import Note, Reply, Task, Undecided, Unparsable, source_digest
from fdarx_core.rag.search import TaskCall
from fdarx_core.records import Difference, Figure, RagAnswer, RagQuestion, RagScore, RagUsage, Response, TitleRank
from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.tokens import words_of
from fdarx_core.verify import verify

LEAST_WORDS = 3
"""Minimum number of words of a statement that can be checked; "Yes.", a number or a heading is below it."""


class UsefulContextReply(Reply):
    """The verdict on one context, after its reason."""

    reason: Note
    useful: bool


class StatementVerdict(Reply):
    """The verdict on the statement of this number, counted from 1."""

    statement: int
    reason: Note
    attributed: bool


class ReferenceStatementsReply(Reply):
    """One verdict for each statement."""

    verdicts: Annotated[list[StatementVerdict], Field(max_length=200)]


def judge_useful_by_rules(slots: Mapping[str, Any]) -> UsefulContextReply:
    """Call a context useful where it has a statement of the reference. Raises Undecided where it has none."""
    context, reference = str(slots["context"]), str(slots["reference"])
    long_enough = [text for text in split_sentences(reference) if len(words_of(text)) >= LEAST_WORDS]
    statements = long_enough or [reference]
    return UsefulContextReply(reason=_support((context, statement) for statement in statements), useful=True)


def judge_statements_by_rules(slots: Mapping[str, Any]) -> ReferenceStatementsReply:
    """Attribute each statement to the context that has it. Raises Undecided where one is in no context."""
    verdicts = []
    for number, statement in enumerate(slots["statements"], 1):
        reason = _support((str(text), str(statement)) for text in slots["contexts"])
        verdicts.append(StatementVerdict(statement=number, reason=reason, attributed=True))
    return ReferenceStatementsReply(verdicts=verdicts)


def _support(pairs: Iterable[tuple[str, str]]) -> str:
    """Return the sentences of the first text that have their statement. Raises Undecided where none has."""
    asked = list(pairs)
    for (text, _), verdict in zip(asked, verify(asked, "exact"), strict=True):
        if verdict.verdict == "supported" and verdict.span:
            return text[slice(*verdict.span)]
    raise Undecided("no context has the words of a statement in their order")


JUDGE_USEFUL_CONTEXT = Task.load("judge_useful_context", UsefulContextReply, judge_useful_by_rules)
"""Whether a context helps to arrive at the reference answer. Source: Ragas, context precision with a reference."""
JUDGE_REFERENCE_STATEMENTS = Task.load(
    "judge_reference_statements", ReferenceStatementsReply, judge_statements_by_rules
)
"""Which statements of the reference answer the contexts support. Source: Ragas, context recall."""
JUDGE_TASKS: dict[str, Task[Any]] = {task.name: task for task in (JUDGE_USEFUL_CONTEXT, JUDGE_REFERENCE_STATEMENTS)}
JUDGE_RULES_VERSION = source_digest(
    "fdarx_core.rag.metrics", "fdarx_core.baseline", "fdarx_core.text", "fdarx_core.verify"
)
"""The state of the rules by which the baseline answers these tasks: `Baseline(JUDGE_TASKS, JUDGE_RULES_VERSION)`."""


def context_calls(question: RagQuestion, contexts: Sequence[str]) -> list[TaskCall]:
    """Return all that a judge is asked about the contexts of one answer; `apply_verdicts` takes the responses.

    References are alternatives, of which the first is used. Nothing is asked without contexts or references.
    """
    if not contexts or not question.references:
        return []
    asked = {"question": question.question, "reference": question.references[0]}
    calls: list[TaskCall] = [(JUDGE_USEFUL_CONTEXT, {**asked, "context": context}) for context in contexts]
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
    try:
        useful = [JUDGE_USEFUL_CONTEXT.parse(response).useful for response in responses[: len(contexts)]]
        score = replace(score, useful=useful, context_precision=context_precision(useful))
    except Unparsable as error:
        score = _unscored(score, "context_precision", error)
    if not statements:
        return score
    try:
        return _with_recall(score, read_statements(len(statements), responses[-1]))
    except Unparsable as error:
        return _unscored(score, "context_recall", error, len(statements))


def split_statements(reference: str) -> list[str]:
    """Return the reference's sentences that have a word, in order; a judge's reply names them by number, from 1."""
    return [sentence for sentence in split_sentences(reference) if words_of(sentence)]


def read_statements(statements: int, response: Response) -> list[bool]:
    """Return for each of the statements whether it was attributed to the contexts.

    Raises Unparsable as `Task.parse`, and with the reason wrong_statements where the verdicts are not one for each.
    """
    verdicts = JUDGE_REFERENCE_STATEMENTS.parse(response).verdicts
    numbers = sorted(verdict.statement for verdict in verdicts)
    if numbers != list(range(1, statements + 1)):
        raise Unparsable("wrong_statements", f"verdicts on {numbers}, due were 1 to {statements}")
    return [verdict.attributed for verdict in sorted(verdicts, key=lambda verdict: verdict.statement)]


def _with_recall(score: RagScore, attributed: Sequence[bool]) -> RagScore:
    recall = context_recall(attributed)
    return replace(score, statements=len(attributed), attributed=sum(attributed), context_recall=recall)


def _unscored(score: RagScore, metric: str, error: Unparsable, statements: int = 0) -> RagScore:
    reasons = [*score.unscored, f"{metric}: {error.reason}: {error.detail}"]
    return replace(score, unscored=reasons, statements=statements or score.statements)


PHASES = ("rewrite", "search", "postprocess", "answer")

_EPSILON = 1e-10
"""Added to the number of useful contexts, as in Ragas, so that none gives 0; published values include it."""
_SUFFIX = re.compile(r"\.(?:mmd|md|txt|pdf|html?|docx?|xml|jsonl?)\s*$", re.IGNORECASE)
_NOT_WORD = re.compile(r"[\W_]+")
_MONTHS = "january|february|march|april|may|june|july|august|september|october|november|december"
_DATE_AT_END = re.compile(rf"(?<=\w) (?:{_MONTHS}) \d{{4}}$")
_LEAST_LETTERS = 5


def context_precision(useful: Sequence[bool]) -> float:
    """Return the mean, over the useful contexts, of the share of useful contexts up to each.

    `useful` has the verdicts in the order of the contexts. The metric rewards useful contexts at the front; it is 0
    where none is useful or there are no contexts.
    """
    found, total = 0, 0.0
    for rank, is_useful in enumerate(useful, 1):
        found += is_useful
        total += found / rank if is_useful else 0.0
    return total / (found + _EPSILON)


def context_recall(attributed: Sequence[bool]) -> float | None:
    """Return the share of the reference's statements that the contexts support; None where it states nothing."""
    return sum(attributed) / len(attributed) if attributed else None


def document_recall(k: int, score: RagScore) -> float | None:
    """Return 1 where one of the first k candidates is of the right document, else 0."""
    return None if score.title_rank is None else float(0 < score.title_rank <= k)


def reciprocal_rank(score: RagScore) -> float | None:
    """Return 1 ÷ the rank of the first candidate of the right document, 0 where there is none; its mean is the MRR."""
    return None if score.title_rank is None else share(1, score.title_rank)


def same_title(title: str, other: str) -> bool:
    """Return whether two titles name the same document.

    Case, signs, a file's suffix and a month and year at the end are ignored. One word of at least five letters may lack
    a letter in one title, as text recognition loses some; words with digits (E7, 2010, R2) must agree. A title without
    letters or digits equals no other.
    """
    first, second = _title_words(title), _title_words(other)
    if not first or len(first) != len(second):
        return False
    unequal = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    if len(unequal) != 1:
        return not unequal
    short, long = sorted(unequal[0], key=len)
    if not (short + long).isalpha() or len(long) < _LEAST_LETTERS or len(long) - len(short) != 1:
        return False
    return any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


def title_rank(candidate_titles: Iterable[str], title: str) -> int | None:
    """Return the rank, from 1, of the first candidate with the title, 0 where none has it; None without a title."""
    if not _title_words(title):
        return None
    return next((rank for rank, candidate in enumerate(candidate_titles, 1) if same_title(candidate, title)), 0)


@lru_cache(maxsize=8192)
def _title_words(title: str) -> tuple[str, ...]:
    plain = _NOT_WORD.sub(" ", _SUFFIX.sub("", title).casefold()).strip()
    return tuple(_DATE_AT_END.sub("", plain).split())


def summarize_usage(answers: Iterable[RagAnswer]) -> list[RagUsage]:
    """Return the requests, tokens, cost and times of each strategy, post-processing and model."""
    groups: dict[tuple[str, str, str], list[RagAnswer]] = defaultdict(list)
    for answer in answers:
        groups[answer.strategy, answer.postprocess, answer.model].append(replace(answer, context_texts=[], answer=""))
    usages = []
    for key, rows in groups.items():
        outcomes = Counter(row.outcome for row in rows)
        done = [row for row in rows if row.outcome != "failed"]
        seconds = {phase: [getattr(row, f"{phase}_s") for row in done] for phase in PHASES}
        seconds["total"] = [sum(times) for times in zip(*seconds.values(), strict=True)]
        numbers: dict[str, Any] = {
            f"{phase}_p{percentile}": float(np.percentile(values, percentile)) if values else None
            for phase, values in seconds.items()
            for percentile in (50, 95)
        }
        numbers |= {name: outcomes[name] for name in ("answered", "refused", "failed")}
        for name in ("requests", "prompt_tokens", "completion_tokens", "cost"):
            numbers[name] = sum(getattr(row, name) for row in rows)
        usages.append(RagUsage(*key, **numbers))
    return usages


KEYS = ("strategy", "postprocess", "model")
"""The keys of figures and differences."""
AGAINST = "question"
"""The strategy that all others are compared with: conventional RAG."""
DEPTHS = (1, 6, 24)


METRICS: tuple[Metric, ...] = (
    *(
        mean_metric(attrgetter(name), name)
        for name in (
            "context_precision", "context_recall", "bert_precision", "bert_recall", "bert_f1", "embedding_similarity",
            "token_f1",
        )
    ),
    *(
        mean_metric(partial(document_recall, depth), f"document_recall_{depth}", field="title_rank")
        for depth in DEPTHS
    ),
    mean_metric(reciprocal_rank, "document_mrr", field="title_rank"),
)  # fmt: skip
"""The metrics of a comparison: functions of a `RagScore`."""


def figures(scores: Iterable[RagScore], *, seed: int, resamples: int = RESAMPLES) -> list[Figure]:
    """Return every metric of each strategy, post-processing and model; one that no row has or lacks is left out."""
    found: list[Figure] = []
    for key, rows in _by_key(scores).items():
        columns, named = ScoreColumns(_table(rows)), dict(zip(KEYS, key, strict=True))
        slices = [(named, metric, every_row(columns)) for metric in METRICS]
        found += estimate_figures(columns, slices, seed=seed, resamples=resamples)
    return found


def title_figures(ranks: Iterable[TitleRank], *, seed: int, resamples: int = RESAMPLES) -> list[Figure]:
    """Return recall of the right document and MRR of each retriever, which is the key strategy; other keys are ""."""
    scores = [RagScore(rank.question_id, rank.cluster, rank.retriever, "", "", title_rank=rank.rank) for rank in ranks]
    return figures(scores, seed=seed, resamples=resamples)


def differences(
    scores: Iterable[RagScore], *, seed: int, resamples: int = RESAMPLES, flips: int = FLIPS
) -> list[Difference]:
    """Return the difference of each strategy from `AGAINST`, with the same post-processing and model.

    The differences are on the questions that both have. Metrics without two clusters in common are left out. Raises
    ValueError if a question occurs twice for a strategy, post-processing and model.
    """
    cells = {key: ScoreColumns(_table(rows)) for key, rows in _by_key(scores).items()}
    found: list[Difference] = []
    for (strategy, postprocess, model), cell in cells.items():
        other = cells.get((AGAINST, postprocess, model))
        if strategy == AGAINST or other is None:
            continue
        slices = [(metric, every_row(cell)) for metric in METRICS]
        shared = {"postprocess": postprocess, "model": model}
        found += [
            replace(difference, keys=shared, first={"strategy": strategy}, second={"strategy": AGAINST})
            for difference in paired_differences(cell, other, slices, seed=seed, resamples=resamples, flips=flips)
            if difference is not None
        ]
    return with_holm(found)


def _by_key(scores: Iterable[RagScore]) -> dict[tuple[str, str, str], list[RagScore]]:
    found: dict[tuple[str, str, str], list[RagScore]] = defaultdict(list)
    for score in scores:
        found[score.strategy, score.postprocess, score.model].append(score)
    return found


def _table(rows: Sequence[RagScore]) -> pa.Table:
    return metric_table(rows, METRICS, cluster=attrgetter("cluster"), question=attrgetter("question_id"))
