"""Metrics of retrieved contexts, the rank of the right document, and what answers cost.

Context precision and recall follow Ragas, from a judge's verdicts. The figures of QA-RAG come from a Ragas of late 2023
(0.0.x). Its precision is the same. Its recall was divided by all lines of the judge's reply, empty ones included: those
recalls are too low, and cannot be compared with these. Source: QA-RAG §3.1; Es et al. 2023; Ragas.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from fdarx_core.evaluation.ranking import share
from fdarx_core.records import RagAnswer, RagUsage

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
    for rank, one in enumerate(useful, 1):
        found += one
        total += found / rank if one else 0.0
    return total / (found + _EPSILON)


def context_recall(attributed: Sequence[bool]) -> float | None:
    """Return the share of the reference's statements that the contexts support; None where it states nothing."""
    return sum(attributed) / len(attributed) if attributed else None


def document_recall(k: int, title_rank: int | None) -> float | None:
    """Return 1 where one of the first k candidates is of the right document, else 0; `title_rank` as in RagScore."""
    return None if title_rank is None else float(0 < title_rank <= k)


def reciprocal_rank(title_rank: int | None) -> float | None:
    """Return 1 ÷ the rank of the first candidate of the right document, 0 where there is none; its mean is the MRR."""
    return None if title_rank is None else share(1, title_rank)


def same_title(one: str, other: str) -> bool:
    """Return whether two titles name the same document.

    Case, signs, a file's suffix and a month and year at the end are ignored. One word of at least five letters may lack
    a letter in one title, as text recognition loses some; words with digits (E7, 2010, R2) must agree. A title without
    letters or digits equals no other.
    """
    first, second = _title_words(one), _title_words(other)
    if not first or len(first) != len(second):
        return False
    unequal = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    return not unequal or (len(unequal) == 1 and _one_letter_lost(*unequal[0]))


def title_rank(candidate_titles: Iterable[str], title: str) -> int | None:
    """Return the rank, from 1, of the first candidate with the title, 0 where none has it; None without a title."""
    if not _title_words(title):
        return None
    return next((rank for rank, one in enumerate(candidate_titles, 1) if same_title(one, title)), 0)


@lru_cache(maxsize=8192)
def _title_words(title: str) -> tuple[str, ...]:
    plain = _NOT_WORD.sub(" ", _SUFFIX.sub("", title).casefold()).strip()
    return tuple(_DATE_AT_END.sub("", plain).split())


def _one_letter_lost(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    if not (short + long).isalpha() or len(long) < _LEAST_LETTERS or len(long) - len(short) != 1:
        return False
    return any(long[:at] + long[at + 1 :] == short for at in range(len(long)))


def summarize_usage(answers: Iterable[RagAnswer]) -> list[RagUsage]:
    """Return the requests, tokens, cost and times of each strategy, post-processing and model."""
    groups: dict[tuple[str, str, str], list[RagAnswer]] = defaultdict(list)
    for one in answers:
        groups[one.strategy, one.postprocess, one.model].append(replace(one, context_texts=[], answer=""))
    return [_usage(key, rows) for key, rows in groups.items()]


def _usage(key: tuple[str, str, str], rows: Sequence[RagAnswer]) -> RagUsage:
    outcomes = Counter(row.outcome for row in rows)
    done = [row for row in rows if row.outcome != "failed"]
    seconds = {phase: [getattr(row, f"{phase}_s") for row in done] for phase in PHASES}
    seconds["total"] = [sum(times) for times in zip(*seconds.values(), strict=True)]
    times: dict[str, Any] = {
        f"{phase}_p{percentile}": float(np.percentile(values, percentile)) if values else None
        for phase, values in seconds.items()
        for percentile in (50, 95)
    }
    return RagUsage(
        *key,
        outcomes["answered"],
        outcomes["refused"],
        outcomes["failed"],
        sum(row.requests for row in rows),
        sum(row.prompt_tokens for row in rows),
        sum(row.completion_tokens for row in rows),
        sum(row.cost for row in rows),
        **times,
    )
