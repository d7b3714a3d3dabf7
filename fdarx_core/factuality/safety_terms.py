"""Words of questions, answers and contraindications in the form in which the safety checks compare them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial

from fdarx_core.baseline.stems import is_stop_word, stem
from fdarx_core.baseline.tokens import normalize, pattern, tokenize, vocabulary
from fdarx_core.records import Label, Passage

_CLASS = re.compile(
    r"(?P<phrase>(?:[\w-]+ ){0,5}[\w-]+s)(?: \([A-Za-z0-9, -]{2,20}\))?,? ?(?:\(?such as|\((?:e\. ?g\.?|for example|"
    r"including),?) (?P<members>[^.;:()\n]{4,200})"
)
_BEFORE_CLASS = re.compile(r"\b(?:with|of|to|by|or|and|other|are|is|using|taking)\b")
_IS_A = re.compile(r"\b(?:is|are) (?:an? )?(?P<phrase>[^.;:,()]{5,90}?) (?:\([A-Z]+\) )?indicated\b")
_SEPARATOR = re.compile(r",\s*(?:and |or )?|\s+(?:and|or)\s+|/")
_INTERACTIONS = ("34070-3", "34073-7", "34066-1", "43685-7")


safety_terms = partial(vocabulary, __package__, "safety.yaml")
"""Returns the names and cues of the safety checks."""
safety_pattern = partial(pattern, file="safety.yaml", package=__package__)
"""Returns an entry of `safety.yaml` as a regular expression."""


@cache
def _patterns(entry: str) -> tuple[tuple[str, re.Pattern[str]], ...]:
    found = {name: re.compile(rf"(?<![\w-])(?:{words})(?![\w-])") for name, words in safety_terms()[entry].items()}
    return tuple(sorted(found.items(), key=lambda item: -len(item[0].split())))


@cache
def _light() -> frozenset[str]:
    return frozenset(stem(word, "term") for word in safety_terms()["light"].split())


@lru_cache(maxsize=4096)
def plain(text: str) -> str:
    """Return a text in lower case, with one name for synonyms."""
    said = normalize(text)
    for name, synonyms in _patterns("names"):
        said = synonyms.sub(name, said)
    return said


@lru_cache(maxsize=8192)
def terms(text: str) -> tuple[str, ...]:
    """Return the stems of the words of a text that tell something, in order."""
    words = (word for word in tokenize(plain(text), "letters") if not is_stop_word(word))
    return tuple(one for one in (stem(word, "term") for word in words) if one not in _light())


def class_terms(text: str, classes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the terms of the classes of the drugs that a text names.

    `classes` are those of `classes_in`; classes by the stems of nonproprietary names are known without them.
    """
    words = re.findall(r"[a-z0-9-]+", normalize(text))
    named = {" ".join(words[at : at + size]) for at in range(len(words)) for size in (1, 2, 3)}
    found = {term for name in named for term in classes.get(name, ())}
    for phrase, members in _patterns("classes"):
        if members.search(" ".join(words)):
            found |= set(terms(phrase))
    return frozenset(found)


def classes_in(label: Label, passages: Iterable[Passage]) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield names of drugs with the terms of their class, by what a label lists: "nitrates such as isosorbide".

    The class of the label's own drug is that of its Highlights: "X is a beta-blocker indicated for".
    """
    listed = [
        (found["phrase"], label.substances) for one in label.highlights if (found := _IS_A.search(one.text[:400]))
    ]
    for passage in (one for one in passages if one.core_code in _INTERACTIONS):
        for found in _CLASS.finditer(passage.text):
            listed.append((_BEFORE_CLASS.split(found["phrase"])[-1], _SEPARATOR.split(found["members"])))
    for phrase, members in listed:
        told = frozenset(terms(phrase))
        names = (normalize(member).strip() for member in members)
        yield from ((name, told) for name in names if told and len(name) > 3 and len(name.split()) <= 3)
