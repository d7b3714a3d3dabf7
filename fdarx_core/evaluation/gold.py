"""The gold passages of a question, and keys for passages of one or several labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fdarx_core.records import Equivalence, QuestionAnswer


def gold_indices(question: QuestionAnswer) -> list[int]:
    """Return the gold passages that contain the answer, in order; all gold passages where none is marked.

    A question from the Highlights has its whole section as gold passages; those without the answer are no evidence.
    """
    pairs = zip(question.gold_passages, question.gold_has_answer, strict=True)
    marked = [passage for passage, has_answer in pairs if has_answer]
    return marked or list(question.gold_passages)


PassageKey = tuple[str, int]
"""A passage: the set id of its label and its doc_chunk_index."""


def passage_keys(set_id: str, indices: Sequence[int], set_ids: Sequence[str] = ()) -> list[PassageKey]:
    """Return distinct passages in order; without `set_ids`, which has one for each index, all are of `set_id`."""
    owners: Iterable[str] = set_ids or [set_id] * len(indices)
    return list(dict.fromkeys(zip(owners, indices, strict=True)))


def gold_keys(question: QuestionAnswer) -> list[PassageKey]:
    """Return the gold passages as keys; a refusal question has none, because no passage contains its answer."""
    return [] if question.type == "refusal" else passage_keys(question.set_id, gold_indices(question))


def equivalents_by_gold(equivalence: Equivalence | None) -> Mapping[PassageKey, set[PassageKey]]:
    """Return the equivalent passages of each gold passage that has any."""
    found: dict[PassageKey, set[PassageKey]] = defaultdict(set)
    if equivalence:
        for gold, member in zip(equivalence.gold, equivalence.members, strict=True):
            found[equivalence.set_id, gold].add((equivalence.set_id, member))
    return found
