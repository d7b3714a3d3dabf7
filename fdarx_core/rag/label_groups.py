"""Questions for several labels: the drugs whose labels say what is asked, with the passages that say it.

A question such as "which statins warn of myopathy" asks for drugs of a class, and for what a passage of their labels
says, perhaps in one section. "Which labels mention warfarin" asks for all labels that have a term.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from fdarx_core.baseline.label_statements import LabelStatement, parse_passage
from fdarx_core.labels.loinc import SECTION_GROUPS
from fdarx_core.rag.class_words import membership_expression
from fdarx_core.rag.group_question import DrugClass, LabelsQuestion, Term, asked_by_words, read_question
from fdarx_core.rag.search import search_hit
from fdarx_core.records import LabelGroup, LabelGroups
from fdarx_core.retrieval.index import ChunkFilter, IndexReader
from fdarx_core.retrieval.lexical import Integers, Mask, tokenize

MOST_GROUPS = 12
"""Drugs of an answer."""
LEAST_SAID = 0.7
"""The least share, by rarity, of the words of the question that a drug's passage has."""
LEAST_SAID_BY_ANY = 0.4
"""The same where no drug's passage has so many of them."""
AS_GOOD, MOST_IN_PART = 0.95, 3
"""Where no label says enough, drugs that score this share of the best one's are returned, unless there are more."""
LEAST_STATED = 0.6
"""The least share of what a passage says that one statement of it has, its headings included."""
_IN_HEADS = 0.8
"""What a word counts for in the headings above a statement, beside 1 in the statement itself."""
_READ = 6
"""Passages of each drug in which statements are compared."""
_MOST_ITEMS, _MOST_NAMES = 6, 5
"""Items of a list that are quoted, and names of a drug that are given."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Members:
    """The passages that say that a drug belongs to a class, and the expression that matches where they do."""

    positions: Integers
    expression: re.Pattern[str]


@dataclass(frozen=True, slots=True)
class _Stated:
    """A statement of the passage at a position, and the share of what is asked that it says."""

    position: int
    text: str
    share: float


def find_label_groups(
    index: IndexReader, question: str, filter: ChunkFilter, most: int = MOST_GROUPS
) -> LabelGroups | None:
    """Return the drugs whose labels say what a question asks for, best first; None where no label does.

    Args:
        index: the index to search.
        question: a question for which `asks_for_labels` is true.
        filter: which chunks may be found.
        most: how many drugs to return with their passages.
    """
    if not index.has_labels:
        return None
    asked = read_question(index, question)
    drugs = index.label_drugs.numbers[index.documents]
    passing = index.matching(filter) & ~index.headings & (drugs >= 0) & ~np.isin(drugs, sorted(asked.named))
    whole = _Matches(index, asked, passing, drugs)
    attempts, no_class = [whole], ""
    if asked.classes is not None and not whole.members:
        by_words = _Matches(index, asked_by_words(index, asked, asked.classes), passing, drugs)
        attempts, no_class = [by_words, *([whole] if asked.said else [])], asked.classes.text
    for least, matches in product((LEAST_SAID, LEAST_SAID_BY_ANY), attempts):
        if found := matches.groups(least):
            found.sort(key=lambda one: (-one.score, -one.labels, one.names))
            complete = least == LEAST_SAID
            if not complete:
                found = [one for one in found if one.score >= AS_GOOD * found[0].score]
                if len(found) > MOST_IN_PART:  # what many labels have of the question is not what it asks
                    return None
            labels = sum(one.labels for one in found)
            no_class = no_class if matches is whole else ""
            return LabelGroups(found[:most], len(found), labels, complete, asked.unknown, no_class)
    return None


class _Matches:
    """The passages of an index that say what is asked.

    Args:
        index: the index.
        asked: what is asked.
        passing: the passages that may be found, shape (passages,).
        drugs: the drug of each passage, shape (passages,).

    Attributes:
        members: by drug, the passages that say that it belongs to the class.
    """

    def __init__(self, index: IndexReader, asked: LabelsQuestion, passing: Mask, drugs: Integers) -> None:
        self._index, self._asked, self._drugs = index, asked, drugs
        self._passing, self._distinct = passing, index.near_copies.representatives(passing)
        self._ranks = index.reference_ranks()[index.documents]
        self._coverage = _coverage(asked.said, len(index))
        self.members = dict[int, _Members]()
        if asked.classes is not None:
            self.members = self._find_members(asked.classes)

    def groups(self, least: float) -> list[LabelGroup]:
        """Return the drugs that match, in no order, with passages that have at least this share of what is asked."""
        asked, members = self._asked, self.members
        if not asked.said and asked.unknown:
            return []
        if not asked.said and not asked.groups:
            return [self._group_of_class(drug, one) for drug, one in members.items()]
        found = list[LabelGroup]()
        for drug, positions in self._saying(least).items():
            if not members or drug in members:
                found += [group] if (group := self._group(positions, members.get(drug))) else []
        return found

    def _by_drug(self, passing: Mask) -> dict[int, Integers]:
        positions = np.flatnonzero(passing)
        order = positions[np.argsort(self._drugs[positions], kind="stable")]
        numbers, starts = np.unique(self._drugs[order], return_index=True)
        return dict(zip(numbers.tolist(), np.split(order, starts[1:]), strict=True)) if len(order) else {}

    def _find_members(self, classes: DrugClass) -> dict[int, _Members]:
        """Return, by drug, the passages that say that it belongs to the class."""
        found = dict[int, _Members]()
        for drug, positions in self._by_drug(self._distinct & classes.passing).items():
            among = np.zeros(len(self._passing), np.bool_)
            among[positions] = True
            expression = membership_expression(self._names(positions), classes.expression)
            saying = np.flatnonzero(self._index.passage_words.matching(expression, among))
            if len(saying):
                found[drug] = _Members(saying, re.compile(expression))
        return found

    def _names(self, positions: Integers) -> list[str]:
        """Return the names of the products, substances and moieties of the labels of some passages."""
        labels = [self._index.labels[one] for one in self._set_ids(positions)]
        products = [one for label in labels for one in label.products]
        names = (name for one in products for name in (*one.names, *one.moieties, *one.substances))
        return list(dict.fromkeys(name for name in names if name))

    def _set_ids(self, positions: Integers) -> list[str]:
        documents = np.unique(self._index.documents[positions])
        return [one for one in self._index.set_ids_of(documents.tolist()) if one in self._index.labels]

    def _saying(self, least: float) -> dict[int, Integers]:
        """Return the passages that say enough of what is asked, in the section that is asked for, by drug."""
        passing = self._passing & (self._coverage >= least)
        if self._asked.groups:
            wanted = [code for code, group in SECTION_GROUPS.items() if group in self._asked.groups]
            passing = passing & np.isin(self._index.section_codes, wanted)
        return self._by_drug(passing)

    def _group(self, positions: Integers, members: _Members | None) -> LabelGroup | None:
        """Return the group of a drug with the best of the passages that match, and one that says its class."""
        hits = [self._best(positions)]
        if hits[0].share < LEAST_STATED * self._coverage[hits[0].position]:
            return None
        if members is not None and not members.expression.search(hits[0].text):
            hits.append(self._naming_class(members))
        return self._made(positions, hits)

    def _group_of_class(self, drug: int, members: _Members) -> LabelGroup:
        """Return the group of all labels of a drug that belongs to the class."""
        return self._made(np.flatnonzero(self._passing & (self._drugs == drug)), [self._naming_class(members)])

    def _made(self, positions: Integers, hits: Sequence[_Stated]) -> LabelGroup:
        set_ids = self._set_ids(positions)
        chunks = self._index.chunks([one.position for one in hits])
        drugs = Counter(self._index.drug_of_label(one) for one in set_ids)
        names = dict[str, str]()
        for name in (chunks[0].drug, *(one for one, _ in drugs.most_common())):
            names.setdefault(name.casefold(), name)
        return LabelGroup(
            names=list(names.values())[:_MOST_NAMES],
            moieties=chunks[0].label.moieties if chunks[0].label else [],
            labels=len(set_ids),
            newest=max((self._index.labels[one].effective_date for one in set_ids), default=""),
            hits=[
                search_hit(self._index, chunk, one.position, one.share) for chunk, one in zip(chunks, hits, strict=True)
            ],
            statements=[one.text for one in hits],
            score=hits[0].share,
        )

    def _best(self, positions: Integers) -> _Stated:
        """Return the statement that says most of what is asked, of the passages that say most of it."""
        order = np.lexsort((self._ranks[positions], -self._coverage[positions]))[:_READ]
        found = list[_Stated]()
        for at in positions[order].tolist():
            chunk = self._index.chunk(at)
            title = frozenset(tokenize(chunk.section.rsplit(" > ", 1)[-1]))
            found += (_Stated(at, self._quoted(one), self._share(one, title)) for one in parse_passage(chunk.text))
        return max(found, key=lambda one: one.share, default=_Stated(int(positions[order[0]]), "", 0.0))

    def _naming_class(self, members: _Members) -> _Stated:
        """Return the shortest statement of the reference labels that says that the drug belongs to the class."""
        order = np.argsort(self._ranks[members.positions], kind="stable")[:_READ]
        found = [
            _Stated(at, one.text, 1.0)
            for at in members.positions[order].tolist()
            for one in parse_passage(self._index.chunk(at).text)
            if members.expression.search(one.text)
        ]
        at = int(members.positions[order[0]])
        return min(found, key=lambda one: len(one.text), default=_Stated(at, self._index.chunk(at).text, 1.0))

    def _share(self, one: LabelStatement, title: frozenset[str]) -> float:
        """Return the share, by weight, of what is asked that a statement says."""
        own = frozenset(tokenize("\n".join((one.text, *one.items))))
        above = frozenset(tokenize("\n".join(one.heads))) | title
        said = self._asked.said
        held = (term.weight * max(term.holds(own), _IN_HEADS * term.holds(own | above)) for term in said)
        return sum(held) / sum(term.weight for term in said) if said else 1.0

    def _quoted(self, one: LabelStatement) -> str:
        """Return a statement on one line, with the items of a list that say what is asked, each on a line."""
        saying = [item for item in one.items if any(term.holds(frozenset(tokenize(item))) for term in self._asked.said)]
        return "\n".join((one.text, *(saying or one.items)[:_MOST_ITEMS]))


def _coverage(said: Sequence[Term], passages: int) -> Floats:
    """Return the share, by weight, of what is asked that each passage says, shape (passages,)."""
    found = np.zeros(passages)
    for one in said:
        found[one.passing] += one.weight
    total = sum(one.weight for one in said)
    return found / total if total else np.ones(passages)
