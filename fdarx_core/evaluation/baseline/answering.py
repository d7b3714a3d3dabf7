"""The baseline's answers: the sentences that hold most of a question's rare words. Rules, no language model.

It is the lower bound of every table: it finds, and cites, by words alone, and declines where a question's own words
stand nowhere in what it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fdarx_core.evaluation.baseline.answering_text import Evidence, evidence_of
from fdarx_core.evaluation.baseline.answering_words import absent_share, asked_terms, wants_number, wants_two

_FRAME_WEIGHT = 0.3
"""Of words in which one asks about any drug, beside those that tell what a question is about."""
_PASSAGE_WEIGHT = 0.5
_HEADING_WEIGHT = 0.6
"""Of a word that stands elsewhere in the sentence's passage, or in its section's titles."""
_NUMBER_WEIGHT = 1.5
"""Factor for a sentence with a figure where one is asked for."""
_HEADING_ITSELF = 0.4
"""Factor for a heading: it has the question's words, but says nothing."""
_SHORTEST = 4
"""Terms of the shortest sentence that can be an answer by itself; shorter ones are mostly headings."""
_ABSENT = 0.2
"""Share of a question's telling words from which on it is declined if they stand nowhere."""
_SECOND = 0.5
"""Least score of a second sentence, as a share of the first one's, where a question sets two things side by side."""
_REFUSAL = "NOT_ANSWERABLE\nCITED_PASSAGES: []"


def from_memory(slots: Mapping[str, Any]) -> str:
    """The answer without a label: rules know nothing of any drug, and say so."""
    return "I do not know what the label says."


def from_gold(slots: Mapping[str, Any]) -> str:
    """The answer from passages that hold it: the best sentence of each, of two at most; it never declines."""
    evidence = evidence_of(slots)
    scores, statements = scored(slots["question"], slots["drug"], evidence), evidence.statements
    best: dict[int, int] = {}
    for place in sorted(
        range(len(scores)), key=lambda place: (-scores[place], len(statements[place].terms) < _SHORTEST)
    ):
        best.setdefault(evidence.passage_of[place], place)
    return _said(evidence, sorted(list(best.values())[:2]))


def from_passages(slots: Mapping[str, Any]) -> str:
    """The answer from a label or from passages found, with citations, or a refusal."""
    evidence = evidence_of(slots)
    _, telling = asked_terms(slots["question"], slots["drug"])
    scores = scored(slots["question"], slots["drug"], evidence)
    if not any(scores) or absent_share(telling, evidence) >= _ABSENT:
        return _REFUSAL
    chosen = _best(scores, evidence, two=wants_two(slots["question"]))
    cited = dict.fromkeys(evidence.markers[evidence.passage_of[place]] for place in chosen)
    return f"{_said(evidence, chosen)}\nCITED_PASSAGES: [{', '.join(cited)}]"


def scored(question: str, drug: str, evidence: Evidence) -> list[float]:
    """How well each sentence answers: BM25 over the sentences, with some weight of its passage and titles."""
    asked, telling = asked_terms(question, drug)
    found, around = [0.0] * len(evidence.statements), [0.0] * len(evidence.markers)
    for term in sorted(asked):  # equal questions get equal sums
        weight = evidence.rarity(term) * (1 if term in telling else _FRAME_WEIGHT)
        for place in evidence.in_passages(term):
            around[place] += weight * _PASSAGE_WEIGHT
        for place in evidence.in_titles(term):
            around[place] += weight * _HEADING_WEIGHT
        for place in evidence.in_statements(term):
            found[place] += weight * evidence.bm25[place]
    numbers = wants_number(question)
    for place, one in enumerate(evidence.statements):
        found[place] += around[evidence.passage_of[place]]
        if len(one.terms) < _SHORTEST:
            found[place] = 0.0
        elif one.is_heading:
            found[place] *= _HEADING_ITSELF
        elif numbers and one.has_number:
            found[place] *= _NUMBER_WEIGHT
    return found


def _best(scores: Sequence[float], evidence: Evidence, *, two: bool) -> list[int]:
    """The best sentence; where two things are asked for, also the best of another passage if it is nearly as good."""
    first = max(range(len(scores)), key=scores.__getitem__)
    if not two:
        return [first]
    passages, taken = evidence.passage_of, evidence.statements[first].text
    others = [
        place
        for place, one in enumerate(evidence.statements)
        if passages[place] != passages[first] and one.text != taken
    ]
    second = max(others, key=scores.__getitem__, default=first)
    return [first, second] if second != first and scores[second] >= _SECOND * scores[first] else [first]


def _said(evidence: Evidence, chosen: Sequence[int]) -> str:
    return " ".join(evidence.statements[place].spoken for place in chosen)
