"""The things that labels of many drugs speak of, with their names: interaction partners, conditions, populations,
measured quantities. They are exact names, by which a label is searched for what it says and for what it does not say.

The files were written from knowledge of pharmacology, not from labels. `name` is how a question names the thing;
`synonyms` are other names of the same thing; `wider` are names of its classes, members and mechanisms: a label that has
one of these may say something about the thing without naming it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from itertools import pairwise

_NOT_WORD = re.compile(r"\W+")
_HYPHENS = re.compile(r"[\u00ad\u200b\u2010-\u2015\u2212-]")
_ACCENTS = re.compile(r"[\u0300-\u036f]+")
_POSSESSIVE = re.compile(r"['\u2019\u02bc]s\b")
_SHORTEST_PREFIX = 5
"""Letters from which a name is searched as the beginning of a word; shorter names and acronyms are whole words."""
_PAIRED = 3
"""Letters of a word by which it is known that it follows another."""
_SHORTEST_TELLING_WORD = 6
"""Letters from which a word of a condition's name is searched for by itself where its absence must be certain."""

TERM_KINDS = ("partner", "risk", "reaction", "indication", "population", "quantity", "subsection")
"""What a term can be asked as. A condition may be a risk, a reaction and an indication."""


@dataclass(frozen=True, slots=True)
class TopicTerm:
    """A thing that a label may speak of.

    Attributes:
        name: its name in questions.
        kinds: those of `TERM_KINDS` that it can be asked as.
        names: the name and its synonyms, as they are searched for.
        members: the names of what belongs to it, as they are searched for.
        wider: the names of classes and mechanisms, and words of its name, as they are searched for.
        value: of a quantity: a regular expression for a value of it, with its unit.
        trace: a regular expression of what tells of it without its name, "" for nothing.
    """

    name: str
    kinds: frozenset[str]
    names: tuple[str, ...]
    members: tuple[str, ...]
    wider: tuple[str, ...]
    value: str = ""
    trace: str = ""


@dataclass(frozen=True, slots=True)
class Topic:
    """A term as it is asked about; `kind` is one of `TERM_KINDS`, or one of the kinds of multi-hop questions."""

    kind: str
    name: str


@cache
def terms() -> Mapping[str, TopicTerm]:
    """Return all terms by name."""
    found: dict[str, TopicTerm] = {}
    for name, synonyms, members, broader in _rows("partners.tsv"):
        found[name] = _term(name, ["partner"], synonyms, broader, members)
    for file in ("conditions.tsv", "reactions.tsv"):
        for name, uses, synonyms, broader in _rows(file):
            words = [word for word in name.split() if len(word) >= _SHORTEST_TELLING_WORD]
            term = _term(name, uses.replace(" ", "").split(","), synonyms, "|".join((broader, *words)))
            found[name] = _joined(found[name], term) if name in found else term
    for name, kind, synonyms, broader, value, trace in _rows("aspects.tsv"):
        found[name] = replace(_term(name, [kind], synonyms, broader), value=value, trace=trace)
    return found


def _joined(term: TopicTerm, other: TopicTerm) -> TopicTerm:
    names = tuple(dict.fromkeys(term.names + other.names))
    wider = tuple(probe for probe in dict.fromkeys(term.wider + other.wider) if probe not in names)
    return TopicTerm(term.name, term.kinds | other.kinds, names, term.members, wider)


@cache
def terms_of(kind: str) -> tuple[TopicTerm, ...]:
    """Return the terms that can be asked as one kind, by name."""
    return tuple(term for _, term in sorted(terms().items()) if kind in term.kinds)


def _rows(file: str) -> Iterable[tuple[str, ...]]:
    text = files(__package__).joinpath(file).read_text("utf-8")
    return (tuple(line.split("\t")) for line in text.splitlines()[1:] if line)


def _term(name: str, kinds: Iterable[str], synonyms: str, wider: str, members: str = "") -> TopicTerm:
    names = _probes(f"{name}|{synonyms}", _SHORTEST_PREFIX)
    # A short name is recognized as a word alone, but where its absence must be certain, other forms of it count too.
    beginnings = _probes(f"{wider}|{name}|{synonyms}", _SHORTEST_PREFIX - 1, names)
    return TopicTerm(name, frozenset(kinds), names, _probes(members, _SHORTEST_PREFIX, names), beginnings)


def _probes(names: str, shortest: int, without: Sequence[str] = ()) -> tuple[str, ...]:
    found = (probe for one in names.split("|") if (probe := _probe(one, shortest)) and probe not in without)
    return tuple(dict.fromkeys(found))


def _probe(name: str, shortest: int) -> str:
    """Return a name as it is searched for: from the start of a word, and to its end if it has fewer letters."""
    plain = fold(name.strip()).strip()
    if not plain:
        return ""
    if (name.isupper() and len(name) <= 6) or len(plain) < shortest:
        return f" {plain} "
    return f" {_singular(plain)}"


def _singular(phrase: str) -> str:
    """Return a stem that singular and plural share."""
    if len(phrase) > 7 and phrase.endswith("ies"):
        return phrase[:-3]
    if len(phrase) > 5 and phrase.endswith("s") and not phrase.endswith(("ss", "us", "is")):
        return phrase[:-1]
    return phrase[:-1] if len(phrase) > 5 and phrase.endswith("y") else phrase


def fold(text: str) -> str:
    """Return a text for the search for names: lower case, no accents, possessives or punctuation, spaces around."""
    lowered = text.lower()
    if not lowered.isascii():
        lowered = _ACCENTS.sub("", unicodedata.normalize("NFKD", lowered))
    return f" {_NOT_WORD.sub(' ', _HYPHENS.sub(' ', _POSSESSIVE.sub('', lowered))).strip()} "


class SearchableText:
    """A text in which the names of terms are looked up. A hyphenated word is found in two words, and in one."""

    def __init__(self, text: str) -> None:
        self._plain = fold(text)
        self._joined = fold(_HYPHENS.sub("", text))

    @cached_property
    def without_spaces(self) -> str:
        return self._plain.replace(" ", "")

    @cached_property
    def names(self) -> frozenset[str]:
        """All names of terms that are in the text, as terms hold them."""
        by_word = _by_first_word(whole_terms=True)
        texts = [self._plain.split(), self._joined.split()]
        words = {word for text in texts for word in text}
        beginnings = {word[:length] for word in words for length in range(1, len(word) + 1)}
        follows = {(one, other[:_PAIRED]) for text in texts for one, other in pairwise(text)}

        def has(probe: str) -> bool:
            *first, last = probe.split()
            if last not in (words if probe.endswith(" ") else beginnings) or not words.issuperset(first):
                return False
            if not first:
                return True
            # Searching the whole text takes long, and most names have words that never follow each other.
            pairs = pairwise((*first, last))
            if any((one, other[:_PAIRED]) not in follows for one, other in pairs if len(other) >= _PAIRED):
                return False
            return probe in self._plain or probe in self._joined

        candidates = (probe for word in beginnings & by_word.keys() for probe in by_word[word])
        return frozenset(filter(has, candidates))

    def names_any(self, probes: Iterable[str]) -> bool:
        """Return whether at least one of the names of terms is in the text."""
        return not self.names.isdisjoint(probes)


@cache
def _by_first_word(*, whole_terms: bool) -> Mapping[str, tuple[str, ...]]:
    """Return the names of all terms by their first word; of `whole_terms` those of members and classes too."""
    groups: dict[str, set[str]] = {}
    for term in terms().values():
        for name in (*term.names, *term.members, *term.wider) if whole_terms else term.names:
            groups.setdefault(name.split(None, 1)[0], set()).add(name)
    return {word: tuple(sorted(names)) for word, names in groups.items()}


@lru_cache(maxsize=4096)
def names_that_begin(word: str) -> tuple[str, ...]:
    """Return the names of terms whose first word is this word or a beginning of it."""
    by_word = _by_first_word(whole_terms=False)
    return tuple(name for length in range(1, len(word) + 1) for name in by_word.get(word[:length], ()))
