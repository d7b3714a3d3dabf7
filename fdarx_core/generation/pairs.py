"""Which passages of one label to ask a multi-hop question about. Source: FDARxBench §B.3 (context selection)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain, islice, zip_longest

from fdarx_core.generation.baseline.links import Facts, facts
from fdarx_core.generation.baseline.multihop import topics
from fdarx_core.generation.sections import SectionPair, role_of, section_pairs
from fdarx_core.records import Passage, content_id

__all__ = ["SectionPair", "choose_pairs", "section_pairs"]

_LINKED = 8
"""Linked pairs of passages kept a pair of sections: the turns seldom reach further."""
_ONE_KIND = 2
"""Linked pairs that lead to the same kind of question, a label."""

Chosen = tuple[Passage, Passage]
Candidate = tuple[tuple[str, str], Chosen]


def choose_pairs(passages: Sequence[Passage], seed: int, count: int) -> list[Chosen]:
    """At most `count` pairs of one label's passages, one from each section of a pair in the table.

    Pairs of sections take turns. Passages that share something to ask about come first, no topic twice in a label;
    where too few do, others fill up, since a model may see a link that the rules miss. The order is that of hashes of
    seed, set id and passage indices, so it is the same in every run.
    """
    by_role = _by_role(passages, seed)
    present = [pair for pair in section_pairs() if by_role.get(pair.role_a) and by_role.get(pair.role_b)]
    present.sort(key=lambda pair: content_id(str(seed), passages[0].set_id, pair.role_a, pair.role_b))
    known = {p.doc_chunk_index: facts(p.text, p.core_code) for listed in by_role.values() for p in listed}
    linked = [list(islice(_linked(pair, by_role, known), _LINKED)) for pair in present]
    others = [list(zip(by_role[pair.role_a], by_role[pair.role_b], strict=False)) for pair in present]
    return _distinct(chain(_new_topics(linked), _in_turn(others)), count)


def _by_role(passages: Sequence[Passage], seed: int) -> dict[str, list[Passage]]:
    by_role: dict[str, list[Passage]] = defaultdict(list)
    for passage in passages:
        if role := role_of(passage.core_code):
            by_role[role].append(passage)
    for listed in by_role.values():
        listed.sort(key=lambda p: content_id(str(seed), p.set_id, str(p.doc_chunk_index)))
    return by_role


def _linked(pair: SectionPair, by_role: dict[str, list[Passage]], known: dict[int, Facts]) -> Iterator[Candidate]:
    seen: set[tuple[str, str]] = set()
    for a in by_role[pair.role_a]:
        for b in by_role[pair.role_b]:
            found = topics(known[a.doc_chunk_index], known[b.doc_chunk_index])
            if found and found[0] not in seen:
                seen.add(found[0])
                yield found[0], (a, b)


def _new_topics(queues: list[list[Candidate]]) -> Iterator[Chosen]:
    """The candidates in turn, of each topic only the first, and of each kind of question only a few."""
    seen: set[tuple[str, str]] = set()
    kinds: Counter[str] = Counter()
    waiting = [iter(queue) for queue in queues]
    while waiting:
        still = []
        for queue in waiting:
            fresh = ((t, chosen) for t, chosen in queue if t not in seen and kinds[t[0]] < _ONE_KIND)
            for topic, chosen in islice(fresh, 1):
                seen.add(topic)
                kinds[topic[0]] += 1
                still.append(queue)
                yield chosen
        waiting = still


def _in_turn(queues: list[list[Chosen]]) -> Iterator[Chosen]:
    return (chosen for turn in zip_longest(*queues) for chosen in turn if chosen is not None)


def _distinct(chosen: Iterator[Chosen], count: int) -> list[Chosen]:
    found: dict[tuple[int, int], Chosen] = {}
    for a, b in chosen:
        if len(found) >= count:
            break
        found.setdefault((a.doc_chunk_index, b.doc_chunk_index), (a, b))
    return list(found.values())
