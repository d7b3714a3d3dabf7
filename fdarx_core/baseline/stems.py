"""Word stems, synonyms and concepts, and the weight of each in a comparison.

Three sets of suffixes give three stems: `term` for judges and retrieval by words, `grading` for grades and verdicts,
`conjunction` for the filter of joined questions. A concept is a stem without further suffixes, with synonyms as one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from math import fsum
from typing import Literal

from fdarx_core.baseline.numbers import number_strings
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.tokens import content_words, tokenize, vocabulary, word_set

_SUFFIXES = {
    "term": re.compile(r"(?<=\w{3})(?:ations?|ions?|ings?|ages?|ed|es|e|s|ly|al|y|ies)$"),
    "grading": re.compile(r"(?<=\w{3})(?:ations?|ions?|ings?|ages?|ated?|ates|ed|es|e|s|ly|ally|al|y|ies)$"),
    "conjunction": re.compile(r"(?<=\w{3})(?:ages?|ations?|ings?|ed|es|e)$"),
}
MOST_SENTENCES = 4
"""The most sentences that `best_sentences` returns."""
_STEM_STOP = word_set("stem_stop_words")
_SYNONYMS = vocabulary()["synonyms"]
_SYNONYM_PATTERNS = [(re.compile(words), name) for words, name in _SYNONYMS.items()]
_SYNONYM = re.compile(rf"\b(?:{'|'.join(_SYNONYMS)})\b")
_SYNONYM_OR_WORD = re.compile(rf"(?P<synonym>{_SYNONYM.pattern})|[a-z0-9]*[a-z][a-z0-9]*")
_PATIENT_GROUPS = vocabulary()["patient_groups"]
_CONCEPT_SUFFIX = re.compile(
    r"(?<=\w{4})(?:iveness|fulness|ability|ibility|ment|ness|ible|ibl|able|abl|ance|anc|ence|enc|ancy|ency|ant|ent|ity|"
    r"it|ive|iv|ous|ical|ic|ist|ize|iz|ise|is|ier|er|or|ar|if|ul|y|i|n)$"
)


@lru_cache(maxsize=1 << 17)
def stem(word: str, suffixes: Literal["term", "grading", "conjunction"] = "grading") -> str:
    """Return a word without its suffix. In gradings a word with a digit ("cyp3a4") is a name and stays whole."""
    return word if suffixes == "grading" and _has_digit(word) else _SUFFIXES[suffixes].sub("", word)


def _has_digit(word: str) -> bool:
    return any(map(str.isdigit, word))


@lru_cache(maxsize=4096)
def terms(text: str) -> frozenset[str]:
    """Return the stems of the content words of a text, and its numbers."""
    words = (word for word in content_words(text) if not word[0].isdigit())
    return frozenset(stem(word, "term") for word in words) | number_strings(text)


def term_weight(found: Collection[str]) -> int:
    """Return the weight of `terms`: a number counts as two words."""
    return sum(2 if term[0].isdigit() else 1 for term in found)


@lru_cache(maxsize=64)
def sentence_terms(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    """Return the sentences of a text, each with its terms."""
    return tuple((sentence, terms(sentence)) for sentence in split_sentences(text))


def best_sentences(wanted: Collection[str], text: str) -> list[str]:
    """Return the fewest sentences, in order, that hold most of the wanted terms; at most `MOST_SENTENCES`.

    Greedy: the sentence that adds most, then the next, while one adds two words or a number.
    """
    pool = sentence_terms(text)
    missing, chosen = set(wanted), list[int]()
    while missing and len(chosen) < MOST_SENTENCES:
        gains = [term_weight(terms & missing) for _, terms in pool]
        best = max(range(len(pool)), key=lambda place: (gains[place], -place), default=-1)
        if best < 0 or gains[best] < (2 if chosen else 1):
            break
        chosen.append(best)
        missing -= pool[best][1]
    return [pool[place][0] for place in sorted(chosen)]


def canonical_names(text: str) -> str:
    """Return a normalized text with one name for synonyms: kidney becomes renal, bleeding becomes hemorrhage."""
    return _SYNONYM.sub(lambda found: _canonical(found[0]), text)


@lru_cache(maxsize=1024)
def _canonical(synonym: str) -> str:
    # "failure" and "disease" match only after an organ's name, which is absent here.
    return next((name for pattern, name in _SYNONYM_PATTERNS if pattern.fullmatch(synonym)), "impairment")


def is_stop_word(word: str) -> bool:
    """Return whether a lower-case word carries no meaning of its own."""
    return word in _STEM_STOP or len(word) < 2


def stems(text: str) -> list[str]:
    """Return the stems of a normalized text's words in order, without stop words."""
    return [stem(word) for word in tokenize(text, "letters") if not is_stop_word(word)]


def stem_spans(text: str) -> Iterator[tuple[int, int, frozenset[str]]]:
    """Yield (start, end, stems) of each word of a normalized text that is no stop word, and of each synonym."""
    for found in _SYNONYM_OR_WORD.finditer(text):
        if own := frozenset(stems(_canonical(found[0]) if found["synonym"] else found[0])):
            yield found.start(), found.end(), own


_LIGHT_STEMS = frozenset(map(stem, word_set("light_stems")))


def stem_weight(found: Iterable[str]) -> float:
    """Return the weight of stems: 1/3 for a word that all labels use, 2 for a name with digits, else 1."""
    return fsum(map(_stem_weight, found))  # exact, so that the order of a set does not change a grade


@lru_cache(maxsize=1 << 16)
def _stem_weight(one: str) -> float:
    return 1 / 3 if one in _LIGHT_STEMS else 2.0 if _has_digit(one) else 1.0


def patient_groups(text: str) -> frozenset[str]:
    """Return the groups of patients that a normalized text names."""
    return frozenset(name for name, pattern in _PATIENT_GROUPS.items() if re.search(pattern, text))


@lru_cache(maxsize=1 << 16)
def root(one: str) -> str:
    """Return a stem without the suffixes of nouns, verbs and adjectives; one with a digit stays whole."""
    shorter = one if _has_digit(one) else _CONCEPT_SUFFIX.sub("", one)
    return one if shorter == one else root(shorter)


def _concept_names() -> dict[str, str]:
    names: dict[str, str] = {}
    for name, others in vocabulary()["concepts"]:
        for other in (name, *others.split()):
            names.setdefault(root(stem(other)), name)
    return names


_CONCEPT_OF_ROOT = _concept_names()


@lru_cache(maxsize=1 << 16)
def concept(one: str) -> str:
    """Return the concept of a stem: its root, or the name that stands for its synonyms."""
    bare = root(one)
    return _CONCEPT_OF_ROOT.get(bare, bare)


def concepts(text: str) -> list[str]:
    """Return the concepts of a normalized text in order."""
    return [concept(one) for one in stems(text)]


_LIGHT_CONCEPTS = frozenset(concept(stem(word)) for word in word_set("light_concepts"))


@lru_cache(maxsize=1 << 16)
def weight_of_concept(one: str) -> float:
    """Return the weight of a concept: 0.2 for one that says little by itself, 2 for a name with digits, else 1."""
    return 0.2 if one in _LIGHT_CONCEPTS else 2.0 if _has_digit(one) else 1.0


def concept_weight(found: Iterable[str]) -> float:
    """Return the sum of the concepts' weights."""
    return fsum(map(weight_of_concept, found))
