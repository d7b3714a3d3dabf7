"""What a first pass over answers tells: how many there are, of whom, and what they are as a whole."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b

from fdarx_core.records import CheckedAnswer, Reject, content_id
from fdarx_core.storage.answers.gold import Gold
from fdarx_core.storage.answers.rows import normal


@dataclass(slots=True)
class Census:
    """Counts over all rows.

    `gold` counts the gold's questions that some answer is on. `digest` stands for all answers with what is known of
    their questions, in their order.
    """

    rows: int = 0
    answers: int = 0
    rejects: int = 0
    with_gold: int = 0
    gold: int = 0
    models: Counter[str] = field(default_factory=Counter)
    questions: set[str] = field(default_factory=set)
    first_reject: Reject | None = None
    digest: str = ""

    def chosen(self, sample: int | None, seed: int) -> set[str]:
        """So many question ids, drawn by the seed; all where there are no more."""
        if sample is None:
            return self.questions
        return set(heapq.nsmallest(sample, self.questions, key=lambda one: content_id(str(seed), one)))


def take_census(rows: Iterable[CheckedAnswer | Reject], gold: Gold) -> Census:
    """One pass; of each question its id alone is kept."""
    census, digest = Census(), blake2b(digest_size=16)
    matched: set[str] = set()
    for row in rows:
        census.rows += 1
        if isinstance(row, Reject):
            census.rejects += 1
            census.first_reject = census.first_reject or row
            continue
        census.answers += 1
        census.models[row.model] += 1
        census.questions.add(row.question_id)
        census.with_gold += bool(row.must_have or row.nice_to_have)
        matched |= {normal(row.question)} & gold.rows.keys()
        digest.update(repr(row).encode())
    census.gold = len(matched)
    census.digest = digest.hexdigest()
    return census
