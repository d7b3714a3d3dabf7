"""Gold passages of a question, and keys that name passages of one or several labels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from fdarx_core.records import Equivalence, QuestionAnswer


def gold_indices(question: QuestionAnswer) -> list[int]:
    """The gold passages in which the answer stands, in order; all of them where none is marked; none of a refusal.

    A question from the Highlights is shown with its whole section: what of it does not hold the answer is no evidence.
    """
    pairs = zip(question.gold_passages, question.gold_has_answer, strict=True)
    marked = [passage for passage, has_answer in pairs if has_answer]
    return marked or list(question.gold_passages)


PassageKey = tuple[str, int]
"""A passage: its label's set id and its doc_chunk_index."""


def passage_keys(set_id: str, indices: Sequence[int], set_ids: Sequence[str] = ()) -> list[PassageKey]:
    """Distinct passages in order; all are of the label `set_id` where no `set_ids` are given, position by position."""
    owners: Iterable[str] = set_ids or [set_id] * len(indices)
    return list(dict.fromkeys(zip(owners, indices, strict=True)))


def gold_keys(question: QuestionAnswer) -> list[PassageKey]:
    """None of a refusal question: whatever it was made from, its answer stands nowhere."""
    return [] if question.type == "refusal" else passage_keys(question.set_id, gold_indices(question))


def equivalents_by_gold(equivalence: Equivalence | None) -> Mapping[PassageKey, set[PassageKey]]:
    """The passages that may stand for each gold passage that any may stand for."""
    found: dict[PassageKey, set[PassageKey]] = defaultdict(set)
    if equivalence:
        for gold, member in zip(equivalence.gold, equivalence.members, strict=True):
            found[equivalence.set_id, gold].add((equivalence.set_id, member))
    return found
