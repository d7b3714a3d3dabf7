"""Chooses passages for a model to write questions on: single passages by section quotas, pairs by common terms."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from operator import itemgetter

from fdarx_core.generation.library import SectionPair, load_library, role_of, section_pairs, section_quotas
from fdarx_core.generation.terminology import SearchableText, terms
from fdarx_core.records import Label, Passage, content_id
from fdarx_core.text.sentences import split_sentences
from fdarx_core.text.tokens import content_words, strip_references

_CELL = " | "
_FIGURE_CELL = re.compile(r"(?: \| |: |; )[<>≤≥±]?\s?\d")
_MIN_FIGURE_CELLS = 4
"""The fewest cells with numbers of a table that questions on single cells are preferred for."""
_ITEM = re.compile(r"^\s*(?:-|\d{1,3}\.) ", re.M)
_MIN_ITEMS = 3
_MIN_CONTENT_WORDS = 5
"""The fewest content words of an informative passage, without its references to other places."""
_REFERENCE = re.compile(
    r"\b(?:tables?|figures?)\s+\d+|\b(?:shown|listed|presented|summari[sz]ed|provided|described|given|found)\s+(?:in|below)"
    r"|\b(?:following|below)\b[^.]*:?$|^\W*(?:see|refer to)\b|\bfull prescribing information\b",
    re.I,
)
_AMOUNT = re.compile(r"\d[\d,.]*\s?(?:mcg|mg|g|mL|units?|IU|mEq|mmol)\b(?!/)")
_RATE = re.compile(r"\d\s?%|%\)?:? \d|%: <?\d")
_NAME_WITH_DIGITS = re.compile(r"\b(?=\w*[A-Z])(?=\w*\d)\w{4,}\b")
"""A name with capitals and digits: CYP2C9, OATP1B1."""
_MIN_WEIGHT = 1.8
"""The least weight of the common terms of a pair, about that of one term that one passage in six names (log 6)."""
_MAX_OVERLAP = 0.7
"""A passage repeats another if they have at least this share of the content words of the shorter one in common."""


def choose_passages(passages: Sequence[Passage], seed: int, count: int) -> list[tuple[Passage, str]]:
    """Return at most `count` passages of a label, each with the kind of question that is preferred on it.

    Each role of sections gets one passage before any gets a second; the others are shared in proportion to the weights
    of the roles (the method of Sainte-Laguë). Within a role the order is by a hash. Passages that are not informative
    are left out.
    """
    quotas = section_quotas()
    by_role = _by_role([passage for passage in passages if is_informative(passage.text)], seed)
    groups = {role: by_role[role] for role in quotas if role in by_role}
    taken: Counter[str] = Counter()
    chosen: list[tuple[Passage, str]] = []
    while len(chosen) < count:
        left = [role for role, group in groups.items() if taken[role] < len(group)]
        if not left:
            break
        role = min(left, key=lambda name: (taken[name] > 0, -quotas[name].weight / (2 * taken[name] + 1)))
        passage = groups[role][taken[role]]
        kind = _preferred_kind(passage, quotas[role].kinds, taken[role], seed)
        chosen.append((passage, str(load_library("question_kinds")["kinds"][kind])))
        taken[role] += 1
    return chosen


def is_informative(text: str) -> bool:
    """Return whether a passage says more than that a table follows, or where else to look."""
    if _CELL in text:
        return True
    sentences = split_sentences(strip_references(text), "label")
    own = [sentence for sentence in sentences if not _REFERENCE.search(sentence) or _AMOUNT.search(sentence)]
    return len(content_words(" ".join(own))) >= _MIN_CONTENT_WORDS


def _preferred_kind(passage: Passage, kinds: Sequence[str], number: int, seed: int) -> str:
    """Return the kind of question for a passage. `number` counts the passages of the role; the kinds take turns."""
    text = passage.text
    if _CELL in text and len(_FIGURE_CELL.findall(text)) >= _MIN_FIGURE_CELLS:
        return "table"
    has_list = len(_ITEM.findall(text)) >= _MIN_ITEMS or max(map(text.count, ",;")) >= _MIN_ITEMS
    has_digit = any(map(str.isdigit, text))
    suitable = {"dose": has_digit, "numeric": has_digit, "list": has_list}
    first = number + int(content_id(str(seed), passage.set_id, passage.core_code), 16)
    turn = [kinds[(first + offset) % len(kinds)] for offset in range(len(kinds))]
    return next((kind for kind in turn if suitable.get(kind, True)), turn[0])


def choose_passage_pairs(
    label: Label, passages: Sequence[Passage], seed: int, count: int
) -> list[tuple[SectionPair, Passage, Passage]]:
    """Return at most `count` pairs of a label's passages for multi-hop questions, with the pair of their sections.

    The two passages are of different sections, neither repeats the other, and they have in common what `SectionPair.by`
    says: a term that few passages of the label name, or amounts. The section pairs of the library take turns, in an
    order by hashes of seed and set id. Of each, the passages that have most in common come first.
    """
    informative = [passage for passage in passages if is_informative(passage.text)]
    by_role = _by_role(informative, seed)
    pairs = [pair for pair in section_pairs() if by_role.keys() >= {pair.a, pair.b}]
    pairs.sort(key=lambda pair: content_id(str(seed), label.set_id, pair.a, pair.b))
    terms_in = _named_terms(label, informative)
    frequencies = Counter(term for named in terms_in.values() for term in named)
    weights = {term: math.log(len(terms_in) / number) for term, number in frequencies.items()}
    groups = [_related_passages(pair.by, by_role[pair.a], by_role[pair.b], terms_in, weights) for pair in pairs]
    used, chosen = Counter[int](), list[tuple[SectionPair, Passage, Passage]]()
    for turn in zip_longest(*groups):
        for pair, passages_of_pair in zip(pairs, turn, strict=True):
            indices = [passage.doc_chunk_index for passage in passages_of_pair or ()]
            if passages_of_pair and len(chosen) < count and all(used[index] < 2 for index in indices):
                used.update(indices)  # a passage is in two pairs at most
                chosen.append((pair, *passages_of_pair))
    return chosen


def _named_terms(label: Label, passages: Sequence[Passage]) -> dict[int, frozenset[str]]:
    """Return the terms that each passage names, without the drug itself, by the index of the passage."""
    own = SearchableText("\n".join((label.drug_name, *label.aliases, *label.substances))).names
    term_of = {name: term.name for term in terms().values() for name in term.names if own.isdisjoint(term.names)}
    return {
        passage.doc_chunk_index: frozenset(
            term_of[name] for name in SearchableText(passage.text).names if name in term_of
        ).union(_NAME_WITH_DIGITS.findall(passage.text))
        for passage in passages
    }


def _related_passages(
    by: str,
    ones: Sequence[Passage],
    others: Sequence[Passage],
    terms_in: Mapping[int, frozenset[str]],
    weights: Mapping[str, float],
) -> list[tuple[Passage, Passage]]:
    """Return the pairs of passages of two roles that have terms or amounts in common, the greatest weight first.

    `by` is as in `SectionPair`.
    """
    found: list[tuple[float, Passage, Passage]] = []
    least = min(_MIN_WEIGHT, math.log(len(terms_in) / 2))  # one term that only these two passages name is enough
    for first in ones:
        if by == "rate" and not _RATE.search(first.text):
            continue
        for other in others:
            words, other_words = content_words(first.text), content_words(other.text)
            repeats = len(words & other_words) >= _MAX_OVERLAP * min(len(words), len(other_words))
            if first.section_path == other.section_path or repeats:
                continue
            shared = terms_in[first.doc_chunk_index] & terms_in[other.doc_chunk_index]
            weight = sum(sorted((weights[term] for term in shared), reverse=True)[:2])
            if by == "amount" and _AMOUNT.search(first.text) and _AMOUNT.search(other.text):
                weight += _MIN_WEIGHT
            if weight >= least:
                found.append((weight, first, other))
    found.sort(key=itemgetter(0), reverse=True)
    return [(first, other) for _, first, other in found]


def _by_role(passages: Iterable[Passage], seed: int) -> dict[str, list[Passage]]:
    """Return the passages of each role of sections, in the order of a hash."""
    groups = defaultdict[str, list[Passage]](list)
    for passage in sorted(passages, key=lambda p: content_id(str(seed), p.set_id, str(p.doc_chunk_index))):
        groups[role_of(passage.core_code)].append(passage)
    return groups
