"""The baseline's answers, and the texts it searches with, without a model.

An answer quotes the statements of the passages that have most words of a question, or is a refusal. Texts to search
with, rewordings and relevance scores are made of the words of the question.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from fdarx_core.baseline.label_statements import ENDS, REFERENCE, LabelStatement, parse_passage
from fdarx_core.text.stems import terms
from fdarx_core.text.tokens import pattern, vocabulary, word_set

_MARKED = re.compile(r"^\|\|(PASSAGE_\d+)\|\| ?(.*)$", re.MULTILINE)
_K1, _B = 1.5, 0.75
_STEM = 5
"""The number of first letters by which two forms of a word are the same: "dialysis" and "dialyzable"."""
_FRAME = frozenset(term for word in word_set("question_words") for term in terms(word))
_STANDING = frozenset(term for word in word_set("label_words") for term in terms(word))
"""Words whose content every label has, in this or another wording. Their absence is ignored."""
_CODE = re.compile(r"[^\W\d]+\d")
_NUMBER_ASKED = pattern("number_asked", re.I)
_TWO_ASKED = pattern("two_asked", re.I)

_FRAME_WEIGHT = 0.3
"""The weight of words in which one asks about any drug, beside words that say what a question is about."""
_PASSAGE_WEIGHT, _TITLE_WEIGHT = 0.5, 0.6
"""The weight of a word in the passage or in the titles of its section; those of the titles count as both."""
_NUMBER_WEIGHT = 1.5
"""Factor for a statement with a figure where one is asked for."""
_UNENDED = 0.4
"""Factor for a line without a mark at its end, or one behind a few words ("Made by:"), such as a company's address."""
_SHORTEST = 4
"""Terms of the shortest statement that can be an answer by itself."""
_ABSENT = 0.2
"""The share of a question's specific words from which it is declined, if they are in no passage."""
_SECOND = 0.5
"""The least score of a second statement, as a share of the first one's, for a question that combines two things."""


@dataclass(frozen=True, slots=True)
class _Passage:
    marker: str
    titles: frozenset[str]
    terms: frozenset[str]
    statements: tuple[LabelStatement, ...]


@lru_cache(maxsize=4)
def _read(passages: tuple[tuple[str, str, str], ...]) -> tuple[list[_Passage], Counter[str], frozenset[str]]:
    """Return passages of (marker, titles, text), the statements of each term, and the stems of all terms."""
    found = list[_Passage]()
    for marker, titles, text in passages:
        found.append(_Passage(marker, terms(titles), terms(titles) | terms(text), parse_passage(text)))
    frequencies = Counter(term for passage in found for one in passage.statements for term in one.terms)
    return found, frequencies, frozenset(term[:_STEM] for passage in found for term in passage.terms)


def _passages(slots: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    """Return marker, titles and text of each passage of an answering task; a heading holds up to the next one."""
    if "label" not in slots:
        return tuple((one.get("marker", ""), one["section"], one["text"]) for one in slots["passages"])
    _, *parts = _MARKED.split(slots["label"])
    titles, found = "", []
    for marker, heading, text in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        titles = heading or titles
        found.append((marker, titles, text.strip()))
    return tuple(found)


@lru_cache(maxsize=1024)
def asked_terms(question: str, drug: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the terms of a question without the drug's name, and those of them that name its subject.

    Words of questions about any drug ("according", "label", "recommended") do not name the subject.
    """
    asked = terms(question) - terms(drug)
    return asked, asked - _FRAME


def from_memory(slots: Mapping[str, Any]) -> str:
    """Return the closed-book answer. Rules have no knowledge of drugs, so the answer says that it is not known."""
    return "I do not know what the label says."


def from_gold(slots: Mapping[str, Any]) -> str:
    """Return an answer from the gold passages: the best statement of each of at most two passages; it never refuses."""
    return " ".join(_spoken(statement) for _, _, statement in _best_of_passages(slots)[:2])


def from_passages(slots: Mapping[str, Any]) -> str:
    """Return an answer with citations from a label or from retrieved passages, or a refusal."""
    best = sorted(_best_of_passages(slots), key=lambda found: -found[0])
    _, telling = asked_terms(slots["question"], slots["drug"])
    if not best or not best[0][0] or _absent_share(telling, _passages(slots)) >= _ABSENT:
        return "NOT_ANSWERABLE\nCITED_PASSAGES: []"
    first, *others = best
    second = [one for one in others if one[2].text != first[2].text and one[0] >= _SECOND * first[0]]
    chosen = [first, *second[: 1 if _TWO_ASKED.search(slots["question"]) else 0]]
    answer = " ".join(_spoken(statement) for _, _, statement in chosen)
    return f"{answer}\nCITED_PASSAGES: [{', '.join(dict.fromkeys(marker for _, marker, _ in chosen))}]"


def _best_of_passages(slots: Mapping[str, Any]) -> list[tuple[float, str, LabelStatement]]:
    """Return the best statement of each passage with its score (BM25) and marker, in the order of the passages."""
    passages, frequencies, _ = _read(_passages(slots))
    asked, telling = asked_terms(slots["question"], slots["drug"])
    number = sum(len(passage.statements) for passage in passages)
    mean = max(1.0, frequencies.total() / max(1, number))
    weights = {
        term: (1 if term in telling else _FRAME_WEIGHT)
        * math.log(1 + (number - frequencies[term] + 0.5) / (frequencies[term] + 0.5))
        for term in sorted(asked)
    }
    wants_number = _NUMBER_ASKED.search(slots["question"]) is not None

    def score(statement: LabelStatement, around: float) -> tuple[float, bool]:
        if len(statement.terms) < _SHORTEST:
            return 0.0, False
        length = _K1 * (1 - _B + _B * len(statement.terms) / mean)
        unended = not (statement.items or statement.is_row or statement.text.endswith(ENDS))
        unended |= len(statement.items) == 1 and len(terms(statement.text)) < _SHORTEST
        own = sum(weight for term, weight in weights.items() if term in statement.terms)
        has_number = any(term[0].isdigit() for term in statement.terms)
        factor = _UNENDED if unended else _NUMBER_WEIGHT if wants_number and has_number else 1.0
        return factor * (own * (_K1 + 1) / (1 + length) + around), True

    found = []
    for passage in passages:
        around = sum(
            weight * (_PASSAGE_WEIGHT + _TITLE_WEIGHT * (term in passage.titles))
            for term, weight in weights.items()
            if term in passage.terms
        )
        scores = [score(statement, around) for statement in passage.statements]
        if scores:
            best = max(range(len(scores)), key=scores.__getitem__)
            found.append((scores[best][0], passage.marker, passage.statements[best]))
    return found


def _absent_share(telling: frozenset[str], passages: tuple[tuple[str, str, str], ...]) -> float:
    """Return the share of a question's subject terms that occur nowhere in the passages, in any form.

    If a name with figures in it (CYP2D6) occurs nowhere, the share is 1.
    """
    _, _, stems = _read(passages)
    absent = [term for term in telling - _STANDING if term[:_STEM] not in stems and len(term) > 1]
    return 1.0 if any(map(_CODE.match, absent)) else len(absent) / max(1, len(telling))


def _spoken(statement: LabelStatement) -> str:
    """Return a statement as an answer: with its items, without cross-references, and with a full stop."""
    text = " ".join((statement.text, "; ".join(item.rstrip(" ;,.") for item in statement.items)))
    text = REFERENCE.sub("", text).replace(": | ", ": ").replace(" | ", "; ")
    text = re.sub(r"\s+(?=[.,;](?:\s|$))", "", text).strip(" ;,:|")
    return text if text.endswith(("!", "?", ".)", '."')) else f"{text.rstrip(' .')}."


_QUESTION_WORD = re.compile(r"[^\W_]+(?:[-'’./][^\W_]+)*")
_ANSWER: str = vocabulary()["hypothetical_answer"]
_PASSAGE: str = vocabulary()["made_up_passage"]
_OTHERS: list[str] = vocabulary()["other_questions"]


def key_words(question: str) -> list[str]:
    """Return the subject words of a question as it writes them, in order; all words if there are none."""
    _, telling = asked_terms(question, "")
    words = list(dict.fromkeys(_QUESTION_WORD.findall(question)))
    return [word for word in words if terms(word) & telling] or words


def hypothetical_answer(slots: Mapping[str, Any]) -> str:
    """Return a text in the style of an official reply, made of the question's words."""
    return _ANSWER.format(topic=_topic(slots["question"]))


def made_up_passage(slots: Mapping[str, Any]) -> str:
    """Return a text in the style of a guideline, with the question's topic as heading and subject."""
    topic = _topic(slots["question"])
    return _PASSAGE.format(heading=topic[:1].upper() + topic[1:], topic=topic)


def other_questions(slots: Mapping[str, Any]) -> list[str]:
    """Return three rewordings of a question from its key words."""
    topic = _topic(slots["question"])
    return [wording.format(topic=topic) for wording in _OTHERS]


def _topic(question: str) -> str:
    return ", ".join(key_words(question)) or "the subject of the question"


def relevance(slots: Mapping[str, Any]) -> tuple[int, str]:
    """Return a score from 1 (no word of the question) to 10 (all of them), and a reason."""
    asked = terms(slots["question"])
    held = asked & terms("\n".join((slots["title"], slots["section"], slots["text"])))
    score = 1 + round(9 * len(held) / max(1, len(asked)))
    return score, f"It has {len(held)} of the question's {len(asked)} words."
