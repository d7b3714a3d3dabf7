"""Passages of one label or of many, named in one way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fdarx_core.evaluation.gold import gold_of
from fdarx_core.records import Equivalence, QuestionAnswer

Place = tuple[str, int]
"""A passage: its label's set id and its doc_chunk_index."""


def places(set_id: str, indices: Sequence[int], set_ids: Sequence[str] = ()) -> list[Place]:
    """Distinct passages in order; all are of the label `set_id` where no `set_ids` are given, position by position."""
    owners: Iterable[str] = set_ids or [set_id] * len(indices)
    return list(dict.fromkeys(zip(owners, indices, strict=True)))


def gold_places(question: QuestionAnswer) -> list[Place]:
    """None of a refusal question: whatever it was made from, its answer stands nowhere."""
    return [] if question.type == "refusal" else places(question.set_id, gold_of(question))


def stand_ins(equivalence: Equivalence | None) -> Mapping[Place, set[Place]]:
    """The passages that may stand for each gold passage that any may stand for."""
    found: dict[Place, set[Place]] = defaultdict(set)
    if equivalence:
        for gold, member in zip(equivalence.gold, equivalence.members, strict=True):
            found[equivalence.set_id, gold].add((equivalence.set_id, member))
    return found
