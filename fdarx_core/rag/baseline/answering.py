"""The baseline's cited answers: the sentences of the contexts that hold most of a question's rare words, as they stand.

Rules, no language model: it finds by words alone, and declines where a question's own words stand nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fdarx_core.evaluation.baseline.answering import scored
from fdarx_core.evaluation.baseline.answering_statements import Statement, Told, told_by_label
from fdarx_core.evaluation.baseline.answering_text import Evidence
from fdarx_core.evaluation.baseline.answering_words import absent_share, asked_terms
from fdarx_core.filters.baseline.terms import terms
from fdarx_core.rag.baseline.asked import core, defines
from fdarx_core.rag.baseline.document_text import told_by_document
from fdarx_core.rag.refusal import REFUSAL

_ABSENT = 0.25
"""Share of a question's telling words from which on it is declined if they stand nowhere."""
_COVERED = 0.45
"""Least share of a question's telling words, by rarity, that an answer must have about it. On 300 official questions,
below it 1 answer in 20 shared most words with the reference, above 0.9 7 in 10."""
_FEW, _COVERED_OF_FEW = 2, 0.7
"""So few telling words are found together by chance: of two, an answer must have both."""
_MOST = 3
_ALSO = 0.8
"""Least score of a further sentence, as a share of the best one's."""
_SAME = 0.6
"""Share of its terms in common from which on a sentence adds nothing to another."""
_REPLIES_TO = (0.95, 0.85)
"""What the sentences that follow a question get of its score."""
_DEFINES = 2.0
"""Factor for a sentence that says what something is, where that is asked."""
_SHORTEST = 3
"""Terms of the shortest sentence that can be an answer."""
_VERDICT = re.compile(r"(?:yes|no)\.$", re.IGNORECASE)
"""A whole reply, short as it is."""
_LONG = 700
"""Characters from which on a sentence is a table or a list, and no answer."""


def from_contexts(slots: Mapping[str, Any]) -> str:
    """Up to three sentences, each with the number of every context that has it; or the refusal."""
    contexts = slots["contexts"]
    evidence = Evidence([(f"[{one['n']}]", f"{one['title']} {one['section']}", told(one)) for one in contexts])
    question = core(slots["question"], dict.fromkeys(one["title"] for one in contexts))
    drugs = " ".join({one["title"]: "" for one in contexts if one["section"]})
    _, telling = asked_terms(question, drugs)
    if absent_share(telling, evidence) >= _ABSENT:
        return REFUSAL
    scores = _answering(scored(question, drugs, evidence), question, evidence)
    chosen = _chosen(scores, evidence)
    if not chosen or not (drugs or _bears_on(max(chosen, key=scores.__getitem__), telling, evidence)):
        return REFUSAL
    return " ".join(_cited(evidence, place) for place in chosen)


def told(context: Mapping[str, Any]) -> Told:
    """What a context says: a label's passages come with their section, pieces of other documents without."""
    return told_by_label(context["text"]) if context["section"] else told_by_document(context["text"])


def _answering(scores: list[float], question: str, evidence: Evidence) -> list[float]:
    """The scores of sentences that can be answers; those of questions are handed on to what follows them.

    So guidelines in the form of questions and answers are read. What says nothing beyond the question is one too.
    """
    asked, defined = terms(question), defines(question)
    handed = [0.0] * (len(scores) + len(_REPLIES_TO))
    for place, one in enumerate(evidence.statements):
        if evidence.passage_of[place] != evidence.passage_of[place - 1]:
            handed[place : place + len(_REPLIES_TO)] = [0.0] * len(_REPLIES_TO)
        if one.text.endswith("?") or one.terms <= asked:
            for step, share in enumerate(_REPLIES_TO, 1):
                handed[place + step] = max(handed[place + step], share * scores[place])
            scores[place] = 0.0
        elif not _VERDICT.match(one.text) and _no_answer(one):
            handed[place + 1] = max(handed[place + 1], handed[place])
            scores[place] = 0.0
        else:
            scores[place] = max(scores[place], handed[place]) * (_DEFINES if defined and defined.match(one.text) else 1)
    return scores


def _no_answer(one: Statement) -> bool:
    return one.is_heading or one.text.endswith(":") or len(one.terms) < _SHORTEST or len(one.text) > _LONG


def _bears_on(place: int, telling: frozenset[str], evidence: Evidence) -> bool:
    """Whether enough of a question's telling words stand in a sentence, just before it or above it.

    A guideline's 10,000 characters hold any few words somewhere. A label's passages are short: there, absence tells.
    """
    near = range(max(0, place - len(_REPLIES_TO)), place + 1)
    held = evidence.titles_of(place).union(*(evidence.statements[one].terms for one in near))
    rarity = {term: evidence.rarity(term) for term in sorted(telling)}
    least = _COVERED if len(telling) > _FEW else _COVERED_OF_FEW
    return sum(rarity[term] for term in rarity if term in held) >= least * sum(rarity.values())


def _chosen(scores: Sequence[float], evidence: Evidence) -> list[int]:
    """The best, and others nearly as good that say something else; those of a passage in its order."""
    order = sorted((place for place, score in enumerate(scores) if score), key=lambda place: -scores[place])
    chosen = list[int]()
    for place in order:
        if len(chosen) == _MOST or scores[place] < _ALSO * scores[order[0]]:
            break
        if all(_new(evidence, place, other) for other in chosen):
            chosen.append(place)
    passages = list(dict.fromkeys(evidence.passage_of[place] for place in chosen))
    return sorted(chosen, key=lambda place: (passages.index(evidence.passage_of[place]), place))


def _new(evidence: Evidence, place: int, other: int) -> bool:
    one, two = evidence.statements[place].terms, evidence.statements[other].terms
    return len(one & two) < _SAME * min(len(one), len(two))


def _cited(evidence: Evidence, place: int) -> str:
    """A sentence with its citations before its full stop."""
    said, text = evidence.statements[place].spoken, evidence.statements[place].text
    holders = {evidence.passage_of[other] for other, one in enumerate(evidence.statements) if one.text == text}
    if _VERDICT.match(text):
        holders = {evidence.passage_of[place]}
    marks = "".join(evidence.markers[holder] for holder in sorted(holders))
    end = next((end for end in (".", "!") if said.endswith(end)), "")
    return f"{said.removesuffix(end)} {marks}{end}"
