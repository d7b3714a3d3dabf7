"""Answers from passages of labels: quoted statements, chosen by a model of which statement answers a question."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fdarx_core.baseline.answering import asked_terms
from fdarx_core.baseline.label_statements import LabelStatement, quoted
from fdarx_core.baseline.statement_ranking import (
    Candidate,
    Floats,
    LabelQuestion,
    answer_probability,
    read_candidates,
    statement_scores,
    statement_weights,
)
from fdarx_core.baseline.stems import terms
from fdarx_core.baseline.tokens import pattern, word_set

_COMPARED = 64
"""Statements that are compared with the question by an embedding model."""
_ANSWERS, _ANSWERS_COMPARED = 0.44, 0.35
"""The least probability that the contexts answer the question; if it also asks about other drugs, whose words the
contexts lack."""
_ALSO, _BESIDE = 0.15, 0.1
"""The least odds of a further statement against the best one; of the one before or after the best one."""
_MOST, _MOST_DRUGS = 3, 6
"""The most statements of an answer on a drug, and drugs of an answer on no drug in particular."""
_ALSO_OF_DRUG = 0.1
"""The least odds of the best statement on a further drug against the best one on any."""
_MOST_ITEMS, _LONG_LIST = 12, 800
"""Items and characters from which a list is long."""
_SAME = 0.6
"""The share of common stems from which a statement adds nothing to another."""
_SHORTEST = 3
"""Stems of the shortest statement that is no list."""

_VERSION_ASKED = pattern("label_version_asked", re.I)
_VERSION_WORDS = frozenset(
    term
    for name in ("label_version_words", "stem_stop_words", "persons")
    for word in word_set(name)
    for term in terms(word)
)


def of_label(context: Mapping[str, Any]) -> bool:
    """Return whether a context is a passage of a label; most have the title of a section, all the label's version."""
    return bool(context["section"]) or "version" in context


def compared_statements(
    question: str, contexts: Sequence[Mapping[str, Any]], others: Sequence[str] = ()
) -> tuple[str, list[tuple[int, int, str]]]:
    """Return the question without names, and the statements to compare with it by an embedding model.

    They are the best by their words. Each has the number of its context, its place there, and its text with the title
    of the section and the heading above it.
    """
    labels = [one for one in contexts if of_label(one)]
    asked = LabelQuestion.read(question, labels, others)
    candidates = list(read_candidates(labels))
    scores = statement_scores(asked, candidates, statement_weights(similarity=False))
    best = np.argsort(-scores, kind="stable")[:_COMPARED].tolist()
    return asked.text, [(candidates[at].number, candidates[at].at, candidates[at].compared_text) for at in best]


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

    Args:
        question: the question.
        contexts: the passages, best first. Where they have `with_similarities`, these count too.
        others: further drugs that the question names: what it asks about them is answered from their own labels.
    """
    if version := _versions(question, contexts):
        return version
    asked = LabelQuestion.read(question, contexts, others)
    weights = statement_weights(similarity=any("similarities" in one for one in contexts))
    candidates = [one for one in read_candidates(contexts) if len(one.own) >= _SHORTEST or one.statement.items]
    if not candidates or not asked.weights:
        return ""
    scores = statement_scores(asked, candidates, weights)
    if answer_probability(asked, candidates, scores, weights) < (_ANSWERS_COMPARED if others else _ANSWERS):
        return ""
    if asked.names_drug:
        chosen = choose_statements(candidates, scores)
    else:
        chosen = _best_of_drugs(scores, [tuple(contexts[one.context].get("moieties", ())) for one in candidates])
    return "\n".join(_quotation(candidates[place], asked) for place in chosen)


def choose_statements(candidates: Sequence[Candidate], scores: Floats) -> list[int]:
    """Return the best statement and others of similar odds and other content, in order within each context.

    The statement before the best one and the one after it need less, since two often say together what is asked for.
    """
    order = np.argsort(-scores, kind="stable").tolist()
    chosen = list[int]()
    for place in order:
        least = _BESIDE if _is_beside(candidates[place], candidates[order[0]]) else _ALSO
        if len(chosen) == _MOST:
            break
        if np.exp(scores[place] - scores[order[0]]) < least:
            continue
        if all(_is_new(candidates[place], candidates[other]) for other in chosen):
            chosen.append(place)
    contexts = list(dict.fromkeys(candidates[place].context for place in chosen))
    return sorted(chosen, key=lambda place: (contexts.index(candidates[place].context), place))


def _is_beside(one: Candidate, other: Candidate) -> bool:
    """Return whether two sentences of a context follow each other."""
    follows = one.context == other.context and abs(one.at - other.at) == 1
    return follows and not (one.statement.is_row or other.statement.is_row)


def _is_new(one: Candidate, other: Candidate) -> bool:
    if one.context == other.context and one.statement.is_row:
        return True
    return len(one.own & other.own) < _SAME * min(len(one.own), len(other.own))


def _best_of_drugs(scores: Floats, drugs: Sequence[tuple[str, ...]]) -> list[int]:
    """Return the best statement on each drug, best first, of similar odds."""
    best = dict[tuple[str, ...], int]()
    for place in np.argsort(-scores, kind="stable").tolist():
        best.setdefault(drugs[place], place)
    least = scores.max() + np.log(_ALSO_OF_DRUG)
    return [place for place in best.values() if scores[place] >= least][:_MOST_DRUGS]


def _versions(question: str, contexts: Sequence[Mapping[str, Any]]) -> str:
    """Return labeler, date and version of the labels, where the question asks for nothing else."""
    if not _VERSION_ASKED.search(question):
        return ""
    asked, known = terms(question), frozenset[str]()
    found = dict[tuple[str, str, str, int], str]()
    for one in contexts:
        labeler = terms(one.get("labeler", ""))
        known |= labeler
        if one.get("effective_date") and (labeler & asked or not found):
            key = (one["title"], one["labeler"], one["effective_date"], one["version"])
            found.setdefault(key, f"[{one['n']}]")
    _, telling = asked_terms(LabelQuestion.read(question, contexts).text, "")
    if not telling or not telling <= known | _VERSION_WORDS:
        return ""
    return "\n".join(f"{version_sentence(*version)} {mark}." for version, mark in found.items())


def version_sentence(drug: str, labeler: str, date: str, version: int) -> str:
    """Return the sentence, without a full stop, that tells labeler, effective date and version of a label."""
    return f"The label of {drug} by {labeler} has the effective date {date} and the version {version}"


def _quotation(one: Candidate, asked: LabelQuestion) -> str:
    statement, mark = one.statement, f"[{one.number}]"
    if statement.items:
        items = "".join(f"\n- {quoted(item)} {mark}." for item in _items(statement, asked))
        return f"{quoted(statement.text)} {mark}:{items}"
    if statement.is_row and statement.heads:
        return f"{quoted(statement.heads[-1])} {mark}:\n{quoted(statement.text)} {mark}."
    return f"{quoted(statement.text)} {mark}."


def _items(statement: LabelStatement, asked: LabelQuestion) -> tuple[str, ...]:
    """Return all items of a list; of a long list those with words of the question, if there are any."""
    if len(statement.items) <= _MOST_ITEMS and sum(map(len, statement.items)) <= _LONG_LIST:
        return statement.items
    own = terms(asked.text) - terms(statement.text)
    return tuple(item for item in statement.items if own & terms(item))[:_MOST_ITEMS] or statement.items[:_MOST_ITEMS]
