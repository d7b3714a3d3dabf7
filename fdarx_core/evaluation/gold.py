"""The gold passages of a question, equivalent passages, and metrics of citations and rankings against them.

Labels repeat themselves, so a citation may be right without naming the gold passage. A passage may replace a gold
passage of the same label if it has the same text (near_duplicate), or if it has, by exact matching, each sentence of
the gold passage that supports a sentence of the answer (same_statement). Paraphrases are not found.

Metrics are in 0 to 1. Passages are any hashable values: indices within a label, or pairs with the set id over a corpus.
A passage that is ranked twice counts at its first rank. With `equivalents`, which gives the equivalent passages of gold
passages, these count as gold. An answer without citations has a precision, recall and F1 of 0.
Source: FDARxBench §3.5, §4.2, §6 (second limitation), §B.7.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from math import log2
from types import MappingProxyType
from typing import Any, TypeVar

from fdarx_core.records import Equivalence, Passage, QuestionAnswer
from fdarx_core.text.sentences import split_sentences
from fdarx_core.verify.exact import quoted_span


def gold_indices(question: QuestionAnswer) -> list[int]:
    """Return the indices of the gold passages that contain the answer, in order; all if none is marked.

    All passages of a section are gold passages of a question from the Highlights; those without the answer are not
    evidence.
    """
    pairs = zip(question.gold_passages, question.gold_has_answer, strict=True)
    marked = [passage for passage, has_answer in pairs if has_answer]
    return marked or list(question.gold_passages)


PassageKey = tuple[str, int]
"""The key of a passage: the set id of its label and its doc_chunk_index."""


def passage_keys(set_id: str, indices: Sequence[int], set_ids: Sequence[str] = ()) -> list[PassageKey]:
    """Return the keys of distinct passages in order. `set_ids` has the label of each; by default it is `set_id`."""
    owners: Iterable[str] = set_ids or [set_id] * len(indices)
    return list(dict.fromkeys(zip(owners, indices, strict=True)))


def gold_keys(question: QuestionAnswer) -> list[PassageKey]:
    """Return the keys of the gold passages; a refusal question has none, because no passage contains its answer."""
    return passage_keys(question.set_id, gold_indices(question)) if question.answerable else []


def equivalents_by_gold(equivalence: Equivalence | None) -> Mapping[PassageKey, set[PassageKey]]:
    """Return the equivalent passages of each gold passage that has any."""
    members: dict[PassageKey, set[PassageKey]] = defaultdict(set)
    if equivalence:
        for gold, member in zip(equivalence.gold, equivalence.members, strict=True):
            members[equivalence.set_id, gold].add((equivalence.set_id, member))
    return members


def equivalences(questions: Sequence[QuestionAnswer], passages: Sequence[Passage]) -> list[Equivalence]:
    """Return the passages that may replace gold passages, for each answerable question of one label.

    `passages` are all passages of the label; a gold passage that is not among them has no equivalent passages.
    """
    texts = {passage.doc_chunk_index: passage.text for passage in passages}
    by_index = dict(sorted(texts.items()))
    found = []
    for question in questions:
        if not question.answerable:
            continue
        equivalence = Equivalence(question.id, question.set_id)
        gold, sentences = gold_indices(question), split_sentences(question.answer)
        for index in dict.fromkeys(gold_index for gold_index in gold if gold_index in by_index):
            spans = [quoted_span(sentence, by_index[index]) for sentence in sentences]
            stated = list(dict.fromkeys(by_index[index][slice(*span)] for span in spans if span))
            for other, text in by_index.items():
                why = ""
                if other in gold:
                    continue
                if by_index[index].split() == text.split():
                    why = "near_duplicate"
                elif stated and all(quoted_span(span, text) for span in stated):
                    why = "same_statement"
                if why:
                    equivalence.gold.append(index)
                    equivalence.members.append(other)
                    equivalence.why.append(why)
        found.append(equivalence)
    return found


T = TypeVar("T", bound=Hashable)
STRICT: Mapping[Any, Collection[Any]] = MappingProxyType({})
"""No passage is equivalent to another."""


def share(part: float, whole: float) -> float:
    """Return part ÷ whole, 0 if the whole is 0."""
    return part / whole if whole else 0.0


def f1(precision: float, recall: float) -> float:
    """Return the harmonic mean; 0 if both are 0."""
    return share(2 * precision * recall, precision + recall)


def eq_hits(cited: Iterable[T], gold: Iterable[T], equivalents: Mapping[T, Collection[T]]) -> int:
    """Return the number of gold passages that are cited, themselves or by an equivalent passage."""
    named = set(cited)
    return sum(not named.isdisjoint(members) for members in classes(gold, equivalents))


def eq_right(cited: Iterable[T], gold: Iterable[T], equivalents: Mapping[T, Collection[T]]) -> int:
    """Return the number of cited passages that are gold or equivalent to a gold passage."""
    accepted: set[T] = set().union(*classes(gold, equivalents))
    return len(accepted.intersection(cited))


def classes(gold: Iterable[T], equivalents: Mapping[T, Collection[T]]) -> list[set[T]]:
    """Return for each distinct gold passage the set of itself and its equivalent passages."""
    return [{passage, *equivalents.get(passage, ())} for passage in dict.fromkeys(gold)]


def recall_at(
    k: int, ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT
) -> float:
    """Return the share of the gold passages that are among the first k, themselves or by an equivalent passage."""
    return share(eq_hits(_top(k, ranked), gold, equivalents), len(set(gold)))


def f1_at(k: int, ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT) -> float:
    """Return F1 of the first k as citations; precision is over the ranked passages, which may be fewer than k."""
    top = _top(k, ranked)
    precision = share(eq_right(top, gold, equivalents), len(top))
    return f1(precision, recall_at(k, ranked, gold, equivalents))


def reciprocal_rank(ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT) -> float:
    """Return 1 ÷ the rank of the first passage that is gold or equivalent to one; 0 if there is none."""
    accepted: set[T] = set().union(*classes(gold, equivalents))
    places = (rank for rank, passage in enumerate(dict.fromkeys(ranked), start=1) if passage in accepted)
    return share(1, next(places, 0))


def ndcg_at(k: int, ranked: Sequence[T], gold: Collection[T], equivalents: Mapping[T, Collection[T]] = STRICT) -> float:
    """Return normalized discounted cumulative gain: a gold passage that is found at a rank gains 1 ÷ log2(rank + 1).

    Each gold passage is found once, by itself or by an equivalent passage. A ranked passage finds at most one gold
    passage; if it is equivalent to several, the assignment is chosen so that later passages find the most.
    """
    found: dict[int, T] = {}
    wanted = classes(gold, equivalents)
    ranks = (rank for rank, passage in enumerate(_top(k, ranked), start=1) if _find(passage, wanted, found, set()))
    return share(sum(map(_gain, ranks)), sum(map(_gain, range(1, min(k, len(wanted)) + 1))))


RankingFunction = Callable[[Sequence[Any], Collection[Any], Mapping[Any, Collection[Any]]], float]
"""A metric of one ranking: of the ranked passages, the gold passages, and the passages equivalent to these."""

RANKING_METRICS: dict[str, RankingFunction] = {
    **{f"recall_{k}": partial(recall_at, k) for k in (1, 5, 10)},
    "recall_gold": lambda ranked, gold, equivalents: recall_at(len(gold), ranked, gold, equivalents),
    "f1_gold": lambda ranked, gold, equivalents: f1_at(len(gold), ranked, gold, equivalents),
    "mrr": reciprocal_rank,
    "ndcg_10": partial(ndcg_at, 10),
}
"""The metrics of a ranking by the names of the fields of `RetrievalScore`; `eq_` before a name: with equivalents."""


def _top(k: int, ranked: Sequence[T]) -> list[T]:
    return list(islice(dict.fromkeys(ranked), k))


def _gain(rank: int) -> float:
    return 1 / log2(rank + 1)


def _find(passage: T, wanted: list[set[T]], found: dict[int, T], tried: set[int]) -> bool:
    """Return whether the passage can find a gold passage, if needed by reassigning others (bipartite matching)."""
    for number, members in enumerate(wanted):
        if passage in members and number not in tried:
            tried.add(number)
            if number not in found or _find(found[number], wanted, found, tried):
                found[number] = passage
                return True
    return False
