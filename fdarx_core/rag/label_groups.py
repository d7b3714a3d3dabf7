"""Questions for several labels: the drugs whose labels say what is asked, with the passages that say it.

A question such as "which statins warn of myopathy" asks for drugs of a class, and for what a passage of their labels
says, perhaps in one section. "Which labels mention warfarin" asks for all labels that have a term.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np
import numpy.typing as npt

from fdarx_core.baseline.label_statements import LabelStatement, parse_passage
from fdarx_core.labels.drugs import Mention
from fdarx_core.labels.loinc import SECTION_GROUPS
from fdarx_core.labels.question_scopes import WordRole, asked_group, asked_words, question_scope
from fdarx_core.labels.question_sections import DRUG, NO_SECTION
from fdarx_core.rag.class_words import class_expression, membership_expression
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
LEAST_STATED = 0.6
"""The least share of what a passage says that one statement of it has, its headings included."""
_IN_HEADS = 0.8
"""What a word counts for in the headings above a statement, beside 1 in the statement itself."""
_INDICATIONS = "34067-9"
_OF_DRUG = frozenset((_INDICATIONS, "34089-3", "34090-1", "43679-0"))
"""The sections that say what a drug is: indications, description, clinical pharmacology, mechanism of action."""
_READ = 6
"""Passages of each drug in which statements are compared."""
_MOST_ITEMS, _MOST_NAMES = 6, 5
"""Items of a list that are quoted, and names of a drug that are given."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Term:
    """A word or name that a passage must have: any of some words, or all words of one of some phrases.

    `passing` are the passages that have it, shape (passages,); `weight` is higher the fewer have it.
    """

    words: frozenset[str]
    phrases: tuple[tuple[str, ...], ...]
    passing: Mask
    weight: float

    def holds(self, tokens: frozenset[str]) -> bool:
        """Return whether a text with these words has the term."""
        return bool(self.words & tokens) or any(tokens.issuperset(phrase) for phrase in self.phrases)


@dataclass(frozen=True, slots=True)
class _Class:
    """A class of drugs: its name in the question, an expression for its names, and the passages that have one."""

    text: str
    expression: str
    passing: Mask


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


@dataclass(frozen=True, slots=True)
class _Asked:
    """What a question asks of labels.

    Attributes:
        said: what a passage must say.
        classes: the class that the drug belongs to; None where the question names none.
        groups: the groups of sections that may say it, none for any.
        named: the numbers of the drugs that the question names: their own labels are no answer.
        unknown: words of the question that no passage has.
    """

    said: list[_Term] = field(default_factory=list)
    classes: _Class | None = None
    groups: frozenset[str] = frozenset()
    named: frozenset[int] = frozenset()
    unknown: list[str] = field(default_factory=list)


def asks_for_labels(question: str, mentions: Sequence[Mention], absent: Sequence[str] = ()) -> bool:
    """Return whether a question asks for several labels, and names drugs at most as what the labels mention.

    Args:
        question: the question.
        mentions: the places where it names drugs, in order.
        absent: the names, as it has them, of medicines that no label is of.
    """
    return question_scope(_masked(question, mentions, absent)) != "one"


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
    asked = _read_question(index, question)
    drugs = index.label_drugs.numbers[index.documents]
    passing = index.matching(filter) & ~index.headings & (drugs >= 0) & ~np.isin(drugs, sorted(asked.named))
    matches = _Matches(index, asked, passing, drugs)
    if asked.classes is not None and not matches.members and not asked.said:
        matches = _Matches(index, _by_words(index, asked, asked.classes), passing, drugs)
    found = matches.groups(LEAST_SAID)
    complete = bool(found)
    found = found or matches.groups(LEAST_SAID_BY_ANY)
    if not found:
        return None
    found.sort(key=lambda one: (-one.score, -one.labels, one.names))
    return LabelGroups(found[:most], len(found), sum(one.labels for one in found), complete, matches.unknown)


def _masked(question: str, mentions: Sequence[Mention], absent: Sequence[str]) -> str:
    """Return a question with `DRUG` in place of the names of drugs."""
    for mention in reversed(mentions):
        question = f"{question[: mention.start]} {DRUG} {question[mention.end :]}"
    for name in absent:
        question = question.replace(name, f" {DRUG} ")
    return question


def _read_question(index: IndexReader, question: str) -> _Asked:
    mentions = index.label_drugs.names.find(question)
    absent = index.label_drugs.absent(question)
    masked = _masked(question, mentions, [name for name, _ in absent])
    named = {int(index.label_drugs.numbers[at]) for one in index.label_drugs.named(question) for at in one.documents}
    roles = asked_words(masked)
    asked = _Asked(groups=frozenset((asked_group(roles),)) - {NO_SECTION}, named=frozenset(named))
    for one in mentions:
        asked.said.append(_name_term(index, {one.name, one.text, *(one.moieties if len(one.moieties) == 1 else ())}))
    asked.said.extend(_name_term(index, {*names}) for names in absent)
    spans = list(_spans(roles))
    class_spans = [span for role, span in spans if role == "class"]
    named_class = _class_named(index, class_spans) if class_spans else None
    for role, span in spans:
        if role == "said":
            _add_words(index, asked, span)
        elif named_class is None:
            asked.unknown.extend(span)
    # "which drugs of this class do you have": all have indications
    asks_all = named_class is not None and not asked.said and asked.groups == {_INDICATIONS}
    return replace(asked, classes=named_class, groups=frozenset() if asks_all else asked.groups)


def _spans(roles: Sequence[tuple[str, WordRole]]) -> Iterator[tuple[WordRole, tuple[str, ...]]]:
    """Yield the spans of words of a question that do more than ask, with their role."""
    for role, words in groupby(roles, key=lambda one: one[1]):
        span = tuple(word for word, _ in words if word != DRUG)
        if role != "frame" and span:
            yield role, span


def _weight(passing: Mask) -> float:
    return float(np.log((1 + len(passing)) / (1 + np.count_nonzero(passing))))


def _name_term(index: IndexReader, names: Collection[str]) -> _Term:
    """Return the term for a drug that a question names, by any of its names."""
    passing = np.zeros(len(index), np.bool_)
    for name in names:
        passing |= index.passage_words.with_phrase(name)
    phrases = tuple(tuple(tokenize(name)) for name in sorted(names))
    return _Term(frozenset(), tuple(filter(None, phrases)), passing, _weight(np.zeros(len(index), np.bool_)))


def _add_words(index: IndexReader, asked: _Asked, span: Sequence[str]) -> None:
    """Add a term for each word, in all its forms and with what it stands for as an abbreviation."""
    words = index.passage_words
    for word in tokenize(" ".join(span)):
        forms = words.forms(word)
        passing = words.having(forms)
        long = [tuple(tokenize(form)) for form in words.long_forms(word)] if word in forms else []
        for form in long:
            passing |= words.with_phrase(" ".join(form))
        if passing.any():
            asked.said.append(_Term(forms, tuple(long), passing, _weight(passing)))
        else:
            asked.unknown.append(word)


def _class_named(index: IndexReader, spans: Sequence[Sequence[str]]) -> _Class | None:
    """Return the class that spans of words name, any of several; None where no passage has the words of one."""
    words, having = index.passage_words, np.zeros(len(index), np.bool_)
    phrases = list[tuple[str, ...]]()
    for span in spans:
        phrases.append(tuple(tokenize(" ".join(span))))
        for word in span:
            for form in words.long_forms(word):
                phrases.append(tuple(tokenize(" ".join(form if one == word else one for one in span))))
    for phrase in phrases:
        having |= np.logical_and.reduce([words.having(words.forms(word)) for word in phrase])
    text = " ".join(" ".join(span) for span in spans)
    return _Class(text, class_expression(phrases), having) if having.any() else None


def _by_words(index: IndexReader, asked: _Asked, classes: _Class) -> _Asked:
    """Return what is asked where no label says its drug to be of the class: the words of the class.

    They must stand in the section that is asked for, or else in one that says what a drug is.
    """
    found = replace(asked, classes=None, groups=asked.groups or _OF_DRUG)
    _add_words(index, found, classes.text.split())
    return found


class _Matches:
    """The passages of an index that say what is asked.

    Args:
        index: the index.
        asked: what is asked.
        passing: the passages that may be found, shape (passages,).
        drugs: the drug of each passage, shape (passages,).

    Attributes:
        members: by drug, the passages that say that it belongs to the class.
        unknown: the words of the question that no passage has, and the class that no label says its drug to be of.
    """

    def __init__(self, index: IndexReader, asked: _Asked, passing: Mask, drugs: Integers) -> None:
        self._index, self._asked, self._drugs = index, asked, drugs
        self._passing, self._distinct = passing, index.near_copies.representatives(passing)
        self._ranks = index.reference_ranks()[index.documents]
        self._coverage = _coverage(asked.said, len(index))
        self.members = dict[int, _Members]()
        self.unknown = [*asked.unknown]
        if asked.classes is not None:
            self.members = self._find_members(asked.classes)
            self.unknown += [] if self.members else [asked.classes.text]

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

    def _find_members(self, classes: _Class) -> dict[int, _Members]:
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
        products = [product for label in labels for product in label.products]
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


def _coverage(said: Sequence[_Term], passages: int) -> Floats:
    """Return the share, by weight, of what is asked that each passage says, shape (passages,)."""
    found = np.zeros(passages)
    for one in said:
        found[one.passing] += one.weight
    total = sum(one.weight for one in said)
    return found / total if total else np.ones(passages)
