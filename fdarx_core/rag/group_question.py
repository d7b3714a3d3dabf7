"""What a question for several labels asks of them: words, names, a class of drugs, a section."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TypeAlias

import numpy as np

from fdarx_core.labels.drugs import Mention
from fdarx_core.labels.question_scopes import WordRole, asked_group, asked_words, question_scope
from fdarx_core.labels.question_sections import DRUG, NO_SECTION
from fdarx_core.rag.class_words import class_expression
from fdarx_core.retrieval.index import IndexReader
from fdarx_core.retrieval.lexical import Mask, tokenize

Compound: TypeAlias = tuple[frozenset[str], frozenset[str]]
"""The words with the first part of a compound, and those with the second."""

_OR = "or"
_RARE = 20
"""Passages below which a word is looked for in its parts as well: "gastroprotective" in "gastric" and "protective"."""
_INDICATIONS = "34067-9"
_OF_DRUG = frozenset((_INDICATIONS, "34089-3", "34090-1", "43679-0"))
"""The sections that say what a drug is: indications, description, clinical pharmacology, mechanism of action."""


@dataclass(frozen=True, slots=True)
class Term:
    """A word or name that a passage must have: any of some words, all words of a phrase, or both parts of a compound.

    Of `choices`, all terms of one must hold. `passing` are the passages that have it, shape (passages,); `weight` is
    higher the fewer have it.
    """

    words: frozenset[str]
    phrases: tuple[tuple[str, ...], ...]
    passing: Mask
    weight: float
    compounds: tuple[Compound, ...] = ()
    choices: tuple[tuple[Term, ...], ...] = ()

    def holds(self, tokens: frozenset[str]) -> bool:
        """Return whether a text with these words has the term."""
        if self.words & tokens or any(tokens.issuperset(phrase) for phrase in self.phrases):
            return True
        if any(all(term.holds(tokens) for term in terms) for terms in self.choices):
            return True
        return any(first & tokens and second & tokens for first, second in self.compounds)


@dataclass(frozen=True, slots=True)
class DrugClass:
    """A class of drugs: its name in the question, an expression for its names, and the passages that have one."""

    text: str
    expression: str
    passing: Mask


@dataclass(frozen=True, slots=True)
class LabelsQuestion:
    """What a question asks of labels.

    Attributes:
        said: what a passage must say.
        classes: the class that the drug belongs to; None where the question names none.
        groups: the groups of sections that may say it, none for any.
        named: the numbers of the drugs that the question names: their own labels are no answer.
        unknown: words of the question that no passage has.
    """

    said: list[Term] = field(default_factory=list)
    classes: DrugClass | None = None
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


def _masked(question: str, mentions: Sequence[Mention], absent: Sequence[str]) -> str:
    """Return a question with `DRUG` in place of the names of drugs."""
    for mention in reversed(mentions):
        question = f"{question[: mention.start]} {DRUG} {question[mention.end :]}"
    for name in absent:
        question = question.replace(name, f" {DRUG} ")
    return question


def read_question(index: IndexReader, question: str) -> LabelsQuestion:
    """Return what a question for which `asks_for_labels` is true asks of the labels of an index."""
    mentions = index.label_drugs.names.find(question)
    absent = index.label_drugs.absent(question)
    masked = _masked(question, mentions, [name for name, _ in absent])
    named = {int(index.label_drugs.numbers[at]) for one in index.label_drugs.named(question) for at in one.documents}
    roles = asked_words(masked)
    asked = LabelsQuestion(groups=frozenset((asked_group(roles),)) - {NO_SECTION}, named=frozenset(named))
    for one in mentions:
        asked.said.append(_name_term(index, {one.name, one.text, *(one.moieties if len(one.moieties) == 1 else ())}))
    asked.said.extend(_name_term(index, {*names}) for names in absent)
    spans = list(_spans(roles))
    class_spans = [span for role, choice in spans if role == "class" for span in choice]
    named_class = _class_named(index, class_spans) if class_spans else None
    for role, choice in spans:
        if role == "said":
            _add_choice(index, asked, choice)
        elif named_class is None:
            asked.unknown.extend(word for span in choice for word in span)
    # "which drugs of this class do you have": all have indications
    asks_all = named_class is not None and not asked.said and asked.groups == {_INDICATIONS}
    return replace(asked, classes=named_class, groups=frozenset() if asks_all else asked.groups)


def _spans(roles: Sequence[tuple[str, WordRole]]) -> Iterator[tuple[WordRole, list[tuple[str, ...]]]]:
    """Yield the spans of words of a question that do more than ask, with their role; those joined by "or" together."""
    role: WordRole = "frame"
    choice, joined = list[tuple[str, ...]](), False
    for (own, is_or), words in groupby(roles, key=lambda one: (one[1], one[0].casefold() == _OR)):
        span = tuple(word for word, _ in words if word != DRUG)
        if is_or:
            joined = bool(choice)
        elif joined and own == role and span:
            choice.append(span)
            joined = False
        else:
            if choice:
                yield role, choice
            role, choice, joined = own, [span] if span and own != "frame" else [], False
    if choice:
        yield role, choice


def _add_choice(index: IndexReader, asked: LabelsQuestion, choice: Sequence[Sequence[str]]) -> None:
    """Add a term for each word of a span; of several spans, one term that holds where all words of one do."""
    if len(choice) == 1:
        _add_words(index, asked, choice[0])
        return
    spans = list[tuple[Term, ...]]()
    for span in choice:
        own = LabelsQuestion()
        _add_words(index, own, span)
        asked.unknown.extend(own.unknown)
        if own.said and not own.unknown:
            spans.append(tuple(own.said))
    if spans:
        passing = np.logical_or.reduce([np.logical_and.reduce([one.passing for one in terms]) for terms in spans])
        asked.said.append(Term(frozenset(), (), passing, _weight(passing), choices=tuple(spans)))


def _weight(passing: Mask) -> float:
    return float(np.log((1 + len(passing)) / (1 + np.count_nonzero(passing))))


def _name_term(index: IndexReader, names: Collection[str]) -> Term:
    """Return the term for a drug that a question names, by any of its names."""
    passing = np.zeros(len(index), np.bool_)
    for name in names:
        passing |= index.passage_words.with_phrase(name)
    phrases = tuple(tuple(tokenize(name)) for name in sorted(names))
    return Term(frozenset(), tuple(filter(None, phrases)), passing, _weight(np.zeros(len(index), np.bool_)))


def _add_words(index: IndexReader, asked: LabelsQuestion, span: Sequence[str]) -> None:
    """Add a term for each word, in all its forms, with what it stands for as an abbreviation; if rare, its parts."""
    words = index.passage_words
    for word in tokenize(" ".join(span)):
        forms = words.forms(word)
        passing = words.having(forms)
        long = [tuple(tokenize(form)) for form in words.long_forms(word)] if word in forms else []
        for form in long:
            passing |= words.with_phrase(" ".join(form))
        compounds = words.compounds(word) if np.count_nonzero(passing) < _RARE else []
        for first, second in compounds:
            passing |= words.having(first) & words.having(second)
        if passing.any():
            asked.said.append(Term(forms, tuple(long), passing, _weight(passing), tuple(compounds)))
        else:
            asked.unknown.append(word)


def _class_named(index: IndexReader, spans: Sequence[Sequence[str]]) -> DrugClass | None:
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
    return DrugClass(text, class_expression(phrases), having) if having.any() else None


def asked_by_words(index: IndexReader, asked: LabelsQuestion, classes: DrugClass) -> LabelsQuestion:
    """Return what is asked where no label says its drug to be of the class: the words of the class.

    Where nothing else is asked, they must stand in a section that says what a drug is.
    """
    groups = asked.groups or (frozenset() if asked.said else _OF_DRUG)
    found = replace(asked, classes=None, groups=groups, said=[*asked.said], unknown=[*asked.unknown])
    _add_words(index, found, classes.text.split())
    return found
