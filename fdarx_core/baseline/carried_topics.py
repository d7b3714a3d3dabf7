"""Whether a question takes over the topic of the one before it: a logistic regression on its form and its sections.

The form is how the question begins and which words it has. The sections are those that it and the question before ask
for by the classifier of `fdarx_core.labels.question_sections`. `benchmarks/follow_ups.py` learns the weights and
measures the decisions.
"""

from __future__ import annotations

import math
import re
from functools import cache

from fdarx_core.baseline.tokens import tokenize, word_set
from fdarx_core.labels.loinc import FORMS, POPULATIONS, SECTION_GROUPS, SECTION_NAMES, topic_of
from fdarx_core.labels.question_sections import asked_sections, word_stems

_FUNCTION_WORDS = word_set("stop_words") | word_set("stem_stop_words")
_AUXILIARIES = word_set("auxiliaries")
_ASKING = word_set("asking_words")
_RELATING = (word_set("prepositions") | word_set("subordinators")) - _ASKING
_COMPARING = word_set("comparing_words")
_PRONOUNS = word_set("drug_pronouns")
_OPENING = re.compile(r"^\W*(?:(?:and|or|but|also|then|ok|so|same|(?:what|how) about)\b\W*)+", re.IGNORECASE)
_MOST_WORDS = 4
"""More content words than this count as so many."""
_POPULATION_SECTIONS = frozenset(group for code, group in SECTION_GROUPS.items() if topic_of(code) == POPULATIONS)
"""Groups of sections on patients, who qualify another topic: "and in renal impairment?" """
_PRODUCT_SECTIONS = frozenset(group for code, group in SECTION_GROUPS.items() if topic_of(code) == FORMS)
"""Groups of sections on the product, a topic that patients do not qualify."""
_HARM_SECTIONS = frozenset(("43685-7", "34084-4"))
"""Warnings and adverse reactions: a question that names a harm alone ("low magnesium?") has a topic."""

WEIGHTS = {
    "relation": 2.24,
    "asking without a verb": 1.32,
    "clause": -1.14,
    "clause on a drug": -1.74,
    "comparison": 2.35,
    "pronoun": -1.78,
    "words": -0.64,
    "words of both without a verb": 7.20,
    "title": -3.59,
    "other section": -0.66,
    "harm": -2.44,
    "patients after product": -7.59,
    "constant": 2.28,
}
"""The weight of each feature in the log odds that a question takes over the topic; "constant" is added always."""


@cache
def _title_stems() -> frozenset[str]:
    """Return the stems of the names of sections, without those of sections on patients."""
    stems: dict[bool, set[str]] = {True: set(), False: set()}
    for code, name in SECTION_NAMES.items():
        stems[SECTION_GROUPS[code] in _POPULATION_SECTIONS].update(word_stems(name))
    return frozenset(stems[False] - stems[True] - _FUNCTION_WORDS)


def topic_words(text: str) -> list[str]:
    """Return the lower-case words of a question that are no function words, in order."""
    return [word for word in tokenize(text.lower(), "phrase") if word not in _FUNCTION_WORDS]


def topic_features(question: str, before: str, *, names_drug: bool) -> dict[str, float]:
    """Return the features of a question by the keys of `WEIGHTS`.

    Args:
        question: the question, in which names of drugs are left out.
        before: the question before, in the same form.
        names_drug: whether the question names a drug.
    """
    words = tokenize(_OPENING.sub("", question, count=1).lower(), "phrase")
    first, all_words = (words[0] if words else ""), set(tokenize(question.lower(), "phrase"))
    has_verb, compares = bool(all_words & _AUXILIARIES), bool(all_words & _COMPARING)
    stems, stems_before = (_content_stems(text) for text in (question, before))
    odds, odds_before = asked_sections(question), asked_sections(before)
    patients = _share(odds, _POPULATION_SECTIONS)
    information = math.log(len(odds)) + sum(one * math.log(one) for one in odds.values() if one)
    return {
        "relation": float(first in _RELATING),
        "asking without a verb": float(first in _ASKING and not has_verb),
        "clause": float(has_verb and not compares),
        "clause on a drug": float(has_verb and names_drug),
        "comparison": float(compares),
        "pronoun": float(bool(all_words & _PRONOUNS)),
        "words": float(min(len(topic_words(question)), _MOST_WORDS)),
        "words of both without a verb": (not has_verb) * len(stems & stems_before) / max(1, len(stems)),
        "title": float(not _title_stems().isdisjoint(stems)),
        "other section": (1 - patients) * information,
        "harm": _share(odds, _HARM_SECTIONS),
        "patients after product": patients * _share(odds_before, _PRODUCT_SECTIONS),
        "constant": 1.0,
    }


def carries_topic(question: str, before: str, *, names_drug: bool) -> bool:
    """Return whether a question takes over the topic of the one before it. The arguments are as for the features."""
    features = topic_features(question, before, names_drug=names_drug)
    return sum(WEIGHTS[name] * value for name, value in features.items()) > 0


def _content_stems(text: str) -> set[str]:
    return set(word_stems(" ".join(topic_words(text))))


def _share(odds: dict[str, float], groups: frozenset[str]) -> float:
    return sum(odds.get(group, 0.0) for group in groups)
