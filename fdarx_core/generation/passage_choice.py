"""Chooses the passages that a model writes questions on: single ones by quotas of sections, pairs by common terms."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest

from fdarx_core.generation.library import SectionPair, load_library, role_of, section_pairs, section_quotas
from fdarx_core.generation.terminology import SearchableText, terms
from fdarx_core.records import Label, Passage, content_id
from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.tokens import content_words, strip_references

_CELL = " | "
_FIGURE_CELL = re.compile(r"(?: \| |: |; )[<>≤≥±]?\s?\d")
_FEWEST_FIGURES = 4
"""Cells with figures of a passage whose single cells can be asked for."""
_ITEM = re.compile(r"^\s*(?:-|\d{1,3}\.) ", re.M)
_FEWEST_ITEMS = 3
_FEWEST_WORDS = 5
"""Content words of a passage that something can be asked about, without the sentences that only point elsewhere."""
_POINTER = re.compile(
    r"\b(?:tables?|figures?)\s+\d+|\b(?:shown|listed|presented|summari[sz]ed|provided|described|given|found)\s+(?:in|below)"
    r"|\b(?:following|below)\b[^.]*:?$|^\W*(?:see|refer to)\b|\bfull prescribing information\b",
    re.I,
)
_AMOUNT = re.compile(r"\d[\d,.]*\s?(?:mcg|mg|g|mL|units?|IU|mEq|mmol)\b(?!/)")
_RATE = re.compile(r"\d\s?%|%\)?:? \d|%: <?\d")
_CODED = re.compile(r"\b(?=\w*[A-Z])(?=\w*\d)\w{4,}\b")
"""A name with capitals and digits: CYP2C9, OATP1B1."""
_LEAST_WEIGHT = 1.8
"""The weight of what two passages have in common: a term that one passage in six has."""
_REPEATED = 0.7
"""The share of the words of the shorter passage that the other one has, from which it repeats it."""


def choose_passages(passages: Sequence[Passage], seed: int, count: int) -> list[tuple[Passage, str]]:
    """Return at most `count` passages of a label, each with the kind of question that is preferred on it.

    Each section that a quota names gets one before any gets its second, and then as many as its weight gives (the
    method of Sainte-Laguë). Within a section the order is by a hash. Passages that say nothing by themselves are left
    out.
    """
    quotas = section_quotas()
    asked = ((role, one) for one in passages if (role := role_of(one.core_code)) in quotas and says_something(one.text))
    groups = _shuffled_groups(asked, seed)
    taken: Counter[str] = Counter()
    order = {role: place for place, role in enumerate(quotas)}
    chosen: list[tuple[Passage, str]] = []
    while len(chosen) < count:
        left = [role for role, group in groups.items() if taken[role] < len(group)]
        if not left:
            break
        role = min(left, key=lambda one: (taken[one] > 0, -quotas[one].weight / (2 * taken[one] + 1), order[one]))
        passage = groups[role][taken[role]]
        kind = _kind(passage, quotas[role].kinds, taken[role], seed)
        chosen.append((passage, str(load_library("question_kinds")["kinds"][kind])))
        taken[role] += 1
    return chosen


def says_something(text: str) -> bool:
    """Return whether a passage says something by itself: not only that a table follows, or where else to look."""
    if _CELL in text:
        return True
    sentences = split_sentences(strip_references(text), "label")
    own = [one for one in sentences if not _POINTER.search(one) or _AMOUNT.search(one)]
    return len(content_words(" ".join(own))) >= _FEWEST_WORDS


def _kind(passage: Passage, kinds: Sequence[str], number: int, seed: int) -> str:
    """Return what is preferred on the passage of this number within its section: the kinds take turns."""
    if _CELL in passage.text and len(_FIGURE_CELL.findall(passage.text)) >= _FEWEST_FIGURES:
        return "table"
    first = number + int(content_id(str(seed), passage.set_id, passage.core_code), 16)
    turn = [kinds[(first + place) % len(kinds)] for place in range(len(kinds))]
    return next((kind for kind in turn if _allows(passage.text, kind)), turn[0])


def _allows(text: str, kind: str) -> bool:
    if kind in ("dose", "numeric"):
        return any(map(str.isdigit, text))
    if kind == "list":
        return len(_ITEM.findall(text)) >= _FEWEST_ITEMS or max(map(text.count, ",;")) >= _FEWEST_ITEMS
    return True


def choose_passage_pairs(
    label: Label, passages: Sequence[Passage], seed: int, count: int
) -> list[tuple[SectionPair, Passage, Passage]]:
    """Return at most `count` pairs of a label's passages for multi-hop questions, with the pair of their sections.

    The two are of different sections, have in common what the pair of sections needs, a term that few passages of the
    label have or amounts, and neither repeats the other. The section pairs of the library take turns, in an order by
    hashes of seed and set id; of each, the passages that have most in common come first.
    """
    asked = [one for one in passages if says_something(one.text)]
    by_role = _shuffled_groups(((role, one) for one in asked if (role := role_of(one.core_code))), seed)
    pairs = [pair for pair in section_pairs() if by_role.keys() >= {pair.a, pair.b}]
    pairs.sort(key=lambda pair: content_id(str(seed), label.set_id, pair.a, pair.b))
    named = _named_things(label, asked)
    passages_with = Counter(thing for things in named.values() for thing in things)
    weights = {thing: math.log(len(named) / number) for thing, number in passages_with.items()}  # the rarer, the more
    groups = [list(_linked(pair, by_role[pair.a], by_role[pair.b], named, weights)) for pair in pairs]
    used, chosen = Counter[int](), list[tuple[SectionPair, Passage, Passage]]()
    for one in (one for turn in zip_longest(*groups) for one in turn if one is not None):
        places = [passage.doc_chunk_index for passage in one[1:]]
        if len(chosen) < count and all(used[place] < 2 for place in places):  # two pairs at most have a passage
            used.update(places)
            chosen.append(one)
    return chosen


def _named_things(label: Label, passages: Sequence[Passage]) -> dict[int, frozenset[str]]:
    """Return the things that each passage names, without the drug itself, by the index of the passage."""
    own = SearchableText("\n".join((label.drug_name, *label.aliases, *label.substances))).names
    term_of = {name: one.name for one in terms().values() for name in one.names if own.isdisjoint(one.names)}
    return {
        one.doc_chunk_index: frozenset(
            term_of[name] for name in SearchableText(one.text).names if name in term_of
        ).union(_CODED.findall(one.text))
        for one in passages
    }


def _linked(
    pair: SectionPair,
    ones: Sequence[Passage],
    others: Sequence[Passage],
    named: Mapping[int, frozenset[str]],
    weights: Mapping[str, float],
) -> Iterator[tuple[SectionPair, Passage, Passage]]:
    """Yield the passages of two sections that have something in common, those that have most of it first."""
    found: list[tuple[float, int, Passage, Passage]] = []
    least = min(_LEAST_WEIGHT, math.log(len(named) / 2))  # a thing that no third passage names is enough
    for first in ones:
        if pair.by == "rate" and not _RATE.search(first.text):
            continue
        for other in others:
            words, others_words = content_words(first.text), content_words(other.text)
            repeats = len(words & others_words) >= _REPEATED * min(len(words), len(others_words))
            if first.section_path == other.section_path or repeats:
                continue
            shared = named[first.doc_chunk_index] & named[other.doc_chunk_index]
            weight = sum(sorted((weights[thing] for thing in shared), reverse=True)[:2])
            if pair.by == "amount" and _AMOUNT.search(first.text) and _AMOUNT.search(other.text):
                weight += _LEAST_WEIGHT
            if weight >= least:
                found.append((-weight, len(found), first, other))
    return ((pair, first, other) for _, _, first, other in sorted(found, key=lambda linked: linked[:2]))


def _shuffled_groups(keyed: Iterable[tuple[str, Passage]], seed: int) -> dict[str, list[Passage]]:
    """Group passages by key, and order each group by a hash."""
    groups: dict[str, list[Passage]] = defaultdict(list)
    for key, passage in keyed:
        groups[key].append(passage)
    for group in groups.values():
        group.sort(key=lambda p: content_id(str(seed), p.set_id, str(p.doc_chunk_index)))
    return dict(groups)
