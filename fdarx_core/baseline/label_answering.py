"""Answers from passages of labels: quoted statements, chosen by the question's words and the sections they are in."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cached_property
from itertools import pairwise
from typing import Any

from fdarx_core.baseline.answering import asked_terms, wants_number
from fdarx_core.baseline.label_statements import LabelStatement, parse_passage, quoted
from fdarx_core.baseline.label_words import label_word, section_probabilities
from fdarx_core.baseline.stems import stem, terms
from fdarx_core.baseline.tokens import pattern, vocabulary, word_set, words_of
from fdarx_core.labels.loinc import PATIENT_SECTIONS

_FRAME_WEIGHT = 0.3
_IN_TITLES, _IN_HEADS, _IN_PASSAGE = 0.9, 0.9, 0.3
"""What a word of the question counts for in the titles of the section, the headings above a statement, and elsewhere in
its passage, beside 1 in the statement itself."""
_OF_SECTION = 0.2
"""What a word counts for that labels have in this section, for each unit of its evidence."""
_PAIR = 0.3
"""The weight of two words that follow each other in the question and in the statement, beside that of the words."""
_RANK = 0.03
"""How much less a statement counts for each context before it."""
_NO_NUMBER = 0.5
"""The factor for a statement without a figure of the kind that is asked for, or without one that the question has."""
_FOR_PATIENTS = 0.85
"""The factor for statements of sections for patients, which say less than those for physicians."""
_SECTION = 0.5
"""How much more a statement counts whose section the question asks for."""
_OTHER = 0.2
"""The exponent of the share of a statement's words that the question, its headings and its section do not have."""
_COVERED = 0.45
"""The least share of the question's subject words, by rarity, in a statement, its headings and its section's titles."""
_FEW, _COVERED_OF_FEW = 2, 0.7
"""So few words are found together by chance: of two, a statement must have both."""
_COVERED_WITHOUT_NUMBER = 0.75
"""The same for a statement without a figure where one is asked for."""
_COVERED_OF_DRUGS = 0.6
"""The same for a question on no drug in particular."""
_USE = "34067-9"
_OF_USE = 0.5
"""The factor for words of the question that are in the indications of the drug, for which a label holds anyway."""
_ELSEWHERE = 0.35
"""The greatest share of them that only other statements have."""
_COMPARED = 40
"""Statements that are compared with the question by an embedding model."""
_BOTH = 0.9
"""The least sum of the score by words and the similarity of a statement that has fewer of the subject words, chosen on
questions from Highlights and on refusal questions, to labels of drugs that served for tuning."""
_ALSO, _NEXT = 0.9, 0.75
"""The least score of a further statement, as a share of the best one's; of one beside it in the same passage."""
_MOST, _MOST_DRUGS = 3, 6
"""The most statements of an answer on a drug, and drugs of an answer on no drug in particular."""
_MOST_ITEMS, _LONG_LIST = 12, 800
"""Items and characters from which a list is long."""
_SAME = 0.6
"""The share of common terms from which a statement adds nothing to another."""
_NAME = 0.84
"""The similarity from which a word of the question is a drug's name with a typing error."""
_SHORTEST = 3
"""Terms of the shortest statement."""
_FORM = 8
"""The number of first letters by which two forms of a word are the same."""
_ENDING = re.compile(r"(?<=\w{5})(?:ment|ive|iv|i)$")


_ASKED_UNITS = [
    (re.compile(one["question"], re.IGNORECASE), frozenset(one["units"].split())) for one in vocabulary()["asked_units"]
]
_VERSION_ASKED = pattern("label_version_asked", re.I)
_VERSION_WORDS = frozenset(term for word in word_set("label_version_words") for term in terms(word))

_STOPS = frozenset(
    stem(one, "term")
    for word in ("stop_words", "question_stop_words", "stem_stop_words", "persons")
    for one in words_of(" ".join(word_set(word)))
)


def _form(term: str) -> str:
    return term if term[0].isdigit() else _ENDING.sub("", term)[:_FORM]


def _forms(found: frozenset[str]) -> frozenset[str]:
    return frozenset(map(_form, found))


@dataclass(frozen=True)
class Question:
    """A question on labels.

    Attributes:
        text: the question.
        words: its stems in order.
        asked: its terms without names of drugs.
        telling: those of them that name its subject.
        used_for: the forms of terms in the indications of the drugs.
        names_drug: whether it names one of the drugs, or there is only one.
    """

    text: str
    words: tuple[str, ...]
    asked: frozenset[str]
    telling: frozenset[str]
    used_for: frozenset[str]
    names_drug: bool

    @classmethod
    def read(cls, text: str, contexts: Sequence[Mapping[str, Any]], others: Sequence[str] = ()) -> Question:
        """Read a question on the drugs of some contexts; a drug's name with a typing error is a name too.

        `others` are the names of further drugs in the question, which do not name its subject.
        """
        names = (name for one in contexts for name in (one["title"], *one.get("moieties", ())))
        uses = (one["text"] for one in contexts if one.get("section_code") == _USE)
        named = _named(text, names)
        asked, telling = asked_terms(text, named)
        telling -= terms(_named(text, others)) | _STOPS
        words = tuple(stem(word, "term") for word in words_of(text))
        one_drug = len({tuple(one.get("moieties", ())) for one in contexts}) == 1
        names_drug = bool(named) or one_drug
        used_for = _forms(terms("\n".join(uses))) if names_drug else frozenset[str]()
        return cls(text, words, asked - _STOPS, telling, used_for, names_drug)

    @cached_property
    def weights(self) -> dict[str, float]:
        """The weight of each term."""
        return {
            term: _rarity(term)
            * (1 if term in self.telling else _FRAME_WEIGHT)
            * (_OF_USE if _form(term) in self.used_for else 1)
            for term in sorted(self.asked)
        }

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        return frozenset((_form(one), _form(two)) for one, two in pairwise(self.words) if {one, two} <= self.asked)

    @cached_property
    def sections(self) -> dict[str, float]:
        return section_probabilities(self.asked)

    @cached_property
    def units(self) -> frozenset[str]:
        """The base units of which an answer must have one; empty where the question asks for no quantity."""
        return frozenset[str]().union(*(units for asks, units in _ASKED_UNITS if asks.search(self.text)))

    @cached_property
    def wants_number(self) -> bool:
        return bool(self.units) or wants_number(self.text)

    @cached_property
    def numbers(self) -> frozenset[str]:
        return frozenset(term for term in self.asked if term[0].isdigit())


def _named(text: str, names: Iterable[str]) -> str:
    """Return the words of a text that are words of names, also with a typing error."""
    known = {word for name in names for word in words_of(name)}
    return " ".join(word for word in words_of(text) if word in known or any(_alike(word, name) for name in known))


def _alike(word: str, name: str) -> bool:
    return len(name) > 4 and word[0] == name[0] and SequenceMatcher(None, word, name).ratio() >= _NAME


@dataclass(frozen=True)
class Candidate:
    """A statement of a context: the forms of its terms, those of its headings, its section's titles and its passage."""

    statement: LabelStatement
    context: int
    number: int
    at: int
    similarity: float
    code: str
    own: frozenset[str]
    heads: frozenset[str]
    titles: frozenset[str]
    leaf: frozenset[str]
    passage: frozenset[str]

    def holds(self, term: str) -> float:
        """Return how far a term of the question is in the statement or about it, 0 to 1."""
        form = _form(term)
        return max(
            1.0 * (form in self.own),
            _IN_TITLES * (form in self.titles),
            _IN_HEADS * (form in self.heads),
            _IN_PASSAGE * (form in self.passage),
            min(_OF_SECTION * label_word(term).sections.get(self.code, 0.0), 0.6),
        )


def of_label(context: Mapping[str, Any]) -> bool:
    """Return whether a context is a passage of a label; most have the title of a section, all the label's version."""
    return bool(context["section"]) or "version" in context


def compared_statements(
    question: str, contexts: Sequence[Mapping[str, Any]], others: Sequence[str] = ()
) -> list[tuple[int, int, str]]:
    """Return the statements to compare with a question by an embedding model, the best by their words.

    Each has the number of its context, its place there, and its text with the drug, the section and the heading.
    """
    labels = [one for one in contexts if of_label(one)]
    asked = Question.read(question, labels, others)
    candidates = list(_candidates(labels))
    scores = [_score(asked, one) for one in candidates]
    best = sorted(range(len(candidates)), key=lambda place: -scores[place])[:_COMPARED]
    return [(candidates[at].number, candidates[at].at, _compared_text(labels, candidates[at])) for at in best]


def _compared_text(contexts: Sequence[Mapping[str, Any]], one: Candidate) -> str:
    context, statement = contexts[one.context], one.statement
    section = context["section"].rsplit(" > ", 1)[-1]
    return f"{context['title']}. {section}. {' '.join((*statement.heads[-1:], statement.text, *statement.items))}"


def with_similarities(
    contexts: Sequence[Mapping[str, Any]], statements: Sequence[tuple[int, int, str]], values: Sequence[float]
) -> list[dict[str, Any]]:
    """Return the contexts, each with the similarities of its statements to the question: (place, similarity)."""
    found: dict[int, list[tuple[int, float]]] = {}
    for (number, at, _), value in zip(statements, values, strict=True):
        found.setdefault(number, []).append((at, value))
    return [{**one, "similarities": found.get(one["n"], [])} for one in contexts]


def from_labels(question: str, contexts: Sequence[Mapping[str, Any]], others: Sequence[str] = ()) -> str:
    """Return quotations with the numbers of their contexts, or "" where the contexts hold no answer.

    `others` are further drugs that the question names: what it asks about them is answered from their own labels. Where
    the contexts have `with_similarities`, those count as much as the words.
    """
    asked = Question.read(question, contexts, others)
    if version := _versions(asked, contexts):
        return version
    candidates = list(_candidates(contexts))
    by_words = [_score(asked, one) for one in candidates]
    scores = [score and score + one.similarity for score, one in zip(by_words, candidates, strict=True)]
    drugs = [tuple(contexts[one.context].get("moieties", ())) for one in candidates]
    chosen = _chosen(candidates, scores, _forms(asked.asked))
    if not asked.names_drug:
        chosen = _best_of_drugs(scores, drugs)
    best = max(chosen, key=lambda place: scores[place], default=-1)
    if best < 0 or not (
        _covers(asked, candidates[best], candidates) or _is_similar(asked, candidates[best], scores[best])
    ):
        return ""
    return "\n".join(_quotation(candidates[place], asked) for place in chosen)


def _best_of_drugs(scores: Sequence[float], drugs: Sequence[tuple[str, ...]]) -> list[int]:
    """Return the best statement on each drug, best first, of similar scores."""
    best = dict[tuple[str, ...], int]()
    for place in sorted(range(len(scores)), key=lambda place: -scores[place]):
        best.setdefault(drugs[place], place)
    return [place for place in best.values() if scores[place] >= _ALSO * max(scores)][:_MOST_DRUGS]


def _versions(asked: Question, contexts: Sequence[Mapping[str, Any]]) -> str:
    """Return labeler, date and version of the labels, where the question asks for nothing else."""
    if not _VERSION_ASKED.search(asked.text):
        return ""
    told, found = frozenset[str](), dict[tuple[str, str, str, int], str]()
    for one in contexts:
        labeler = terms(one.get("labeler", ""))
        told |= labeler
        if one.get("effective_date") and (labeler & asked.asked or not found):
            key = (one["title"], one["labeler"], one["effective_date"], one["version"])
            found.setdefault(key, f"[{one['n']}]")
    if not asked.telling <= told | _VERSION_WORDS:
        return ""
    return "\n".join(f"{version_sentence(*version)} {mark}." for version, mark in found.items())


def version_sentence(drug: str, labeler: str, date: str, version: int) -> str:
    """Return the sentence, without a full stop, that tells labeler, effective date and version of a label."""
    return f"The label of {drug} by {labeler} has the effective date {date} and the version {version}"


def _candidates(contexts: Sequence[Mapping[str, Any]]) -> Iterator[Candidate]:
    for place, one in enumerate(contexts):
        statements = [(each, _forms(each.terms), _forms(each.head_terms)) for each in parse_passage(one["text"])]
        passage = frozenset[str]().union(*(own | heads for _, own, heads in statements))
        titles = _forms(terms(one["section"]))
        leaf = terms(one["section"].rsplit(" > ", 1)[-1])
        similar = dict(one.get("similarities", ()))
        for at, (each, own, heads) in enumerate(statements):
            about = (place, one["n"], at, similar.get(at, 0.0), one.get("section_code", ""))
            yield Candidate(each, *about, own, heads, titles, leaf, passage)


def _score(asked: Question, one: Candidate) -> float:
    statement = one.statement
    if len(statement.terms) < _SHORTEST and not statement.items:
        return 0.0
    found = math.fsum(weight * one.holds(term) for term, weight in asked.weights.items())
    words = [_form(stem(word, "term")) for word in words_of(statement.text)]
    pairs = asked.pairs & {*pairwise(words), *zip(words, words[2:], strict=False)}
    found += _PAIR * math.fsum(
        min(asked.weights[term] for term in asked.weights if _form(term) in pair) for pair in sorted(pairs)
    )
    score = found / (math.fsum(asked.weights.values()) or 1)
    score *= (1 - _RANK * one.context) * (1 + _SECTION * asked.sections.get(one.code, 0.0))
    if (asked.units and not asked.units & statement.units) or (
        asked.wants_number and not re.search(r"\d", "\n".join((statement.text, *statement.items)))
    ):
        score *= _NO_NUMBER
    if one.code in PATIENT_SECTIONS:
        score *= _FOR_PATIENTS
    if not asked.numbers <= one.own | one.heads | one.titles:
        score *= _NO_NUMBER
    words_of_all = [term for term in sorted(statement.terms | one.leaf) if not term[0].isdigit()]
    known = frozenset(map(_form, asked.asked))
    mass = math.fsum(map(_rarity, words_of_all))
    other = math.fsum(_rarity(term) for term in words_of_all if _form(term) not in known)
    return score * math.pow((mass - other + 1) / (mass + 1), _OTHER)


def _rarity(term: str) -> float:
    return label_word(term).rarity


def _chosen(candidates: Sequence[Candidate], scores: Sequence[float], asked: frozenset[str]) -> list[int]:
    """Return the best statement and others of similar score and other content, which have one of the asked forms."""
    order = sorted((place for place, score in enumerate(scores) if score), key=lambda place: -scores[place])
    chosen = list[int]()
    for place in order:
        beside = any(
            abs(place - other) == 1 and candidates[place].context == candidates[other].context for other in chosen
        )
        if len(chosen) == _MOST or scores[place] < _NEXT * scores[order[0]]:
            break
        if scores[place] < _ALSO * scores[order[0]] and not beside:
            continue
        if chosen and not (candidates[place].own & asked):
            continue
        if all(_new(candidates[place], candidates[other], beside=beside) for other in chosen):
            chosen.append(place)
    contexts = list(dict.fromkeys(candidates[place].context for place in chosen))
    return sorted(chosen, key=lambda place: (contexts.index(candidates[place].context), place))


def _new(one: Candidate, other: Candidate, *, beside: bool) -> bool:
    if beside and not one.statement.is_row and _numbers(one) - _numbers(other):
        return True
    return len(one.own & other.own) < _SAME * min(len(one.own), len(other.own))


def _numbers(one: Candidate) -> set[str]:
    return {term for term in one.own if term[0].isdigit()}


def _covers(asked: Question, one: Candidate, candidates: Sequence[Candidate]) -> bool:
    """Return whether a statement has enough of the question's subject, and no other one much of the rest."""
    subject = {term: asked.weights[term] for term in sorted(asked.telling)}
    total = math.fsum(subject.values())
    held = {term: weight * one.holds(term) for term, weight in subject.items()}
    told = frozenset[str]().union(*(other.own for other in candidates))
    elsewhere = math.fsum(subject[term] - held[term] for term in subject if _form(term) in told)
    least = _COVERED if len(subject) > _FEW else _COVERED_OF_FEW
    if not asked.names_drug:
        least = max(least, _COVERED_OF_DRUGS)
    if asked.units and not asked.units & one.statement.units:
        least = max(least, _COVERED_WITHOUT_NUMBER)
    about = _forms(asked.asked) & (one.own | one.heads) or _forms(asked.telling) <= one.titles
    return bool(about) and math.fsum(held.values()) >= least * total and elsewhere <= _ELSEWHERE * total


def _is_similar(asked: Question, one: Candidate, score: float) -> bool:
    """Return whether words and similarity together make a statement an answer, with a unit that is asked for."""
    return score >= _BOTH and not (asked.units and not asked.units & one.statement.units)


def _quotation(one: Candidate, asked: Question) -> str:
    statement, mark = one.statement, f"[{one.number}]"
    if statement.items:
        items = "".join(f"\n- {quoted(item)} {mark}." for item in _items(statement, asked))
        return f"{quoted(statement.text)} {mark}:{items}"
    if statement.is_row and statement.heads:
        return f"{quoted(statement.heads[-1])} {mark}:\n{quoted(statement.text)} {mark}."
    return f"{quoted(statement.text)} {mark}."


def _items(statement: LabelStatement, asked: Question) -> tuple[str, ...]:
    """Return all items of a list; of a long list those with words of the question, if there are any."""
    if len(statement.items) <= _MOST_ITEMS and sum(map(len, statement.items)) <= _LONG_LIST:
        return statement.items
    own = asked.telling - terms(statement.text)
    return tuple(item for item in statement.items if own & terms(item))[:_MOST_ITEMS] or statement.items[:_MOST_ITEMS]
