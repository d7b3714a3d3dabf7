"""Index of the sentences of a text and the words that they contain, for the baseline."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any

from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.stems import terms
from fdarx_core.baseline.tokens import pattern, word_set

LONGEST_LIST = 500
"""The most characters of a sentence that announces a list, with the items."""

ITEM = re.compile(r"\s*(?:[-*](?=\s)|[•·]|\(?\d{1,2}[.)](?=\s))\s*")
"""The mark before an item of a list."""
_ENDS = (".", "!", "?", ":", ";", ")", "]", '"', "”")
_REFERENCE = pattern("cross_reference", re.I)
_CELLS = " | "
_CELL_HEADER = re.compile(r"[^:|]{1,80}: ")
"""The header of a column before the value of a cell."""
_GAP = re.compile(r"(?<=\.)\s*\.$|\s+(?=[.,;](?:\s|$))")
"""The rest of a removed cross-reference: a space before a full stop, or a second full stop."""


@dataclass(frozen=True)
class CandidateSentence:
    """A sentence, one that announces a list with the list's items, and its terms; or a heading within a passage."""

    text: str
    terms: frozenset[str]
    has_number: bool
    is_heading: bool

    @property
    def spoken(self) -> str:
        """Return the sentence as an answer: without bullet and cross-references, and with a full stop."""
        bullet = ITEM.match(self.text)
        text = _REFERENCE.sub("", self.text[bullet.end() if bullet else 0 :])
        text = _GAP.sub("", text)
        text = text.replace(f":{_CELLS}", ": ").replace(_CELLS, "; ").strip(" ;,:|")
        return text if text.endswith((".", "!", "?", ".)", '."')) else f"{text}."


class ParsedText:
    """The statements of a text, and for each term the places of the statements that contain it."""

    def __init__(self, sentences: Iterable[str]) -> None:
        self.statements = [_statement(one) for one in sentences if not _refers_only(one)]
        self.places: dict[str, list[int]] = {}
        for place, one in enumerate(self.statements):
            for term in one.terms:
                self.places.setdefault(term, []).append(place)


@lru_cache(maxsize=2048)
def parse_label_text(text: str) -> ParsedText:
    """Parse a label's passage into sentences; one that announces a list includes the list's items."""
    sentences: list[str] = []
    announced = False
    for line in text.split("\n"):
        if announced and ITEM.match(line) and len(sentences[-1]) + len(line) <= LONGEST_LIST:
            sentences[-1] = f"{sentences[-1]} {ITEM.sub('', line, count=1).rstrip(' ;,.')};"
            continue
        sentences += _row_sentences(line) if _CELLS in line else split_sentences(line)
        announced = bool(sentences) and sentences[-1].endswith(":")
    return ParsedText(sentences)


def _row_sentences(row: str) -> list[str]:
    """Return the sentences of a table row; a sentence within a cell has the name of the row and of the column too."""
    name, *cells = row.split(_CELLS)
    found, current = list[str](), name
    for cell in cells:
        first, *others = split_sentences(cell) or [""]
        current += f"{_CELLS}{first}"
        if others:
            header = _CELL_HEADER.match(cell)
            lead = f"{name}{_CELLS}{header[0] if header else ''}"
            found += [current, *(f"{lead}{one}" for one in others)]
            current = name
    return found if found and current == name else [*found, current]


def _refers_only(text: str) -> bool:
    """Return whether a text contains only cross-references ("[see Warnings (5)].")."""
    return not text[:1].isalnum() and not re.search(r"\w", _REFERENCE.sub("", text))


def _statement(text: str) -> CandidateSentence:
    words = terms(text)
    is_heading = not (text.endswith(_ENDS) or " | " in text or ITEM.match(text))
    return CandidateSentence(text, words, any(word[0].isdigit() for word in words), is_heading)


_MARKED = re.compile(r"^\|\|(PASSAGE_\d+)\|\| ?(.*)$", re.MULTILINE)
_K1, _B = 1.5, 0.75
_STEM = 5
"""The number of first letters by which two forms of a word are the same: "dialysis" and "dialyzable"."""


class SentenceIndex:
    """An index of passages, each given as marker ("" if the prompt has none), titles of its section, and statements.

    `passage_of[i]` is the place of the passage of `statements[i]`, `bm25[i]` what a word in it counts for.
    """

    def __init__(self, passages: Sequence[tuple[str, str, ParsedText]]) -> None:
        self.markers = [marker for marker, _, _ in passages]
        self._titles = [terms(title) for _, title, _ in passages]
        self._parsed = [parsed for _, _, parsed in passages]
        self._starts = list(accumulate((len(one.statements) for one in self._parsed), initial=0))
        self._places: dict[str, list[int]] = {}
        self.statements = [one for parsed in self._parsed for one in parsed.statements]
        self.passage_of = [place for place, parsed in enumerate(self._parsed) for _ in parsed.statements]
        lengths = [len(one.terms) for one in self.statements]
        mean = max(sum(lengths) / max(len(lengths), 1), 1)
        self.bm25 = [(_K1 + 1) / (1 + _K1 * (1 - _B + _B * length / mean)) for length in lengths]

    def in_statements(self, term: str) -> list[int]:
        """Return the places of the statements that contain a term."""
        if term not in self._places:
            shifted = zip(self._starts, self._parsed, strict=False)
            self._places[term] = [start + place for start, one in shifted for place in one.places.get(term, ())]
        return self._places[term]

    def in_titles(self, term: str) -> list[int]:
        """Return the places of the passages whose titles contain a term."""
        return [place for place, title in enumerate(self._titles) if term in title]

    def in_passages(self, term: str) -> list[int]:
        """Return the places of the passages that contain a term in their text or titles."""
        both = zip(self._titles, self._parsed, strict=True)
        return [place for place, (titles, one) in enumerate(both) if term in titles or term in one.places]

    def has_form(self, term: str) -> bool:
        """Return whether any passage contains the term, or another form of it."""
        return any(term in one.places for one in self._parsed) or term[:_STEM] in self._stems

    @cached_property
    def _stems(self) -> frozenset[str]:
        return frozenset(
            term[:_STEM] for group in (*self._titles, *(one.places for one in self._parsed)) for term in group
        )

    def titles_of(self, place: int) -> frozenset[str]:
        """Return the terms of the titles above a statement."""
        return self._titles[self.passage_of[place]]

    def rarity(self, term: str) -> float:
        """Return the idf of a term over the statements, as in BM25; it is above 0 also for frequent terms."""
        frequency = len(self.in_statements(term))
        return math.log(1 + (len(self.statements) - frequency + 0.5) / (frequency + 0.5))


def evidence_of(slots: Mapping[str, Any]) -> SentenceIndex:
    """Parse the passages in the slots of an answering task; a label is kept for the questions that follow on it."""
    if "label" in slots:
        return _of_label(slots["label"])
    return SentenceIndex(
        [(one.get("marker", ""), one["section"], parse_label_text(one["text"])) for one in slots["passages"]]
    )


@lru_cache(maxsize=4)
def _of_label(label: str) -> SentenceIndex:
    found = list(_MARKED.finditer(label))
    ends = [*(one.start() for one in found[1:]), len(label)]
    passages, titles = [], ""
    for one, end in zip(found, ends, strict=False):
        titles = one[2] or titles
        passages.append((one[1], titles, parse_label_text(label[one.end() : end].strip())))
    return SentenceIndex(passages)


_FRAME = frozenset(term for word in word_set("question_words") for term in terms(word))
_STANDING = frozenset(term for word in word_set("label_words") for term in terms(word))
"""Words whose content every label has, in this or another wording. Their absence is ignored."""
_CODE = re.compile(r"[^\W\d]+\d")
_NUMBER_ASKED = pattern("number_asked", re.I)
_TWO_ASKED = pattern("two_asked", re.I)


@lru_cache(maxsize=1024)
def asked_terms(question: str, drug: str) -> tuple[frozenset[str], frozenset[str]]:
    """Return the terms of a question without the drug's name, and those of them that name its subject.

    Words of questions about any drug ("according", "label", "recommended") do not name the subject.
    """
    asked = terms(question) - terms(drug)
    return asked, asked - _FRAME


def absent_share(telling: frozenset[str], evidence: SentenceIndex) -> float:
    """Return the share of a question's subject terms that occur nowhere in the evidence, in any form.

    If a name with figures in it (CYP2D6) occurs nowhere, the share is 1.
    """
    absent = [term for term in telling - _STANDING if not evidence.has_form(term) and len(term) > 1]
    if any(_CODE.match(term) for term in absent):
        return 1.0
    return len(absent) / len(telling) if telling else 0.0


def wants_number(question: str) -> bool:
    """Return whether a question asks for a figure, such as a dose, a share or a duration."""
    return _NUMBER_ASKED.search(question) is not None


def wants_two(question: str) -> bool:
    """Return whether a question compares two things, as multi-hop questions do."""
    return _TWO_ASKED.search(question) is not None


_FRAME_WEIGHT = 0.3
"""The weight of words in which one asks about any drug, beside words that say what a question is about."""
_PASSAGE_WEIGHT = 0.5
_HEADING_WEIGHT = 0.6
"""The weight of a word in another sentence of the passage, or in the titles of its section."""
_NUMBER_WEIGHT = 1.5
"""Factor for a sentence with a figure where one is asked for."""
_HEADING_ITSELF = 0.4
"""Factor for headings, which have words of the question but no statement."""
_SHORTEST = 4
"""Terms of the shortest sentence that can be an answer by itself; shorter ones are mostly headings."""
_ABSENT = 0.2
"""The share of a question's specific words from which it is declined, if they are in no passage."""
_SECOND = 0.5
"""The least score of a second sentence, as a share of the first one's, for a question that combines two things."""
_REFUSAL = "NOT_ANSWERABLE\nCITED_PASSAGES: []"


def from_memory(slots: Mapping[str, Any]) -> str:
    """Return the closed-book answer. Rules have no knowledge of drugs, so the answer says that it is not known."""
    return "I do not know what the label says."


def from_gold(slots: Mapping[str, Any]) -> str:
    """Return an answer from the gold passages: the best sentence of each of at most two passages; it never refuses."""
    evidence = evidence_of(slots)
    scores, statements = scored(slots["question"], slots["drug"], evidence), evidence.statements
    best: dict[int, int] = {}
    for place in sorted(
        range(len(scores)), key=lambda place: (-scores[place], len(statements[place].terms) < _SHORTEST)
    ):
        best.setdefault(evidence.passage_of[place], place)
    return _join_sentences(evidence, sorted(list(best.values())[:2]))


def from_passages(slots: Mapping[str, Any]) -> str:
    """Return an answer with citations from a label or from retrieved passages, or a refusal."""
    evidence = evidence_of(slots)
    _, telling = asked_terms(slots["question"], slots["drug"])
    scores = scored(slots["question"], slots["drug"], evidence)
    if not any(scores) or absent_share(telling, evidence) >= _ABSENT:
        return _REFUSAL
    chosen = _best(scores, evidence, two=wants_two(slots["question"]))
    cited = dict.fromkeys(evidence.markers[evidence.passage_of[place]] for place in chosen)
    return f"{_join_sentences(evidence, chosen)}\nCITED_PASSAGES: [{', '.join(cited)}]"


def scored(question: str, drug: str, evidence: SentenceIndex) -> list[float]:
    """Score each sentence by BM25, with some weight for words in its passage and titles."""
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


def _best(scores: Sequence[float], evidence: SentenceIndex, *, two: bool) -> list[int]:
    """Return the best sentence; for two things, also the best of another passage if its score is close."""
    first = max(range(len(scores)), key=scores.__getitem__)
    if not two:
        return [first]
    passages, text = evidence.passage_of, evidence.statements[first].text
    others = [
        place
        for place, one in enumerate(evidence.statements)
        if passages[place] != passages[first] and one.text != text
    ]
    second = max(others, key=scores.__getitem__, default=first)
    return [first, second] if second != first and scores[second] >= _SECOND * scores[first] else [first]


def _join_sentences(evidence: SentenceIndex, chosen: Sequence[int]) -> str:
    return " ".join(evidence.statements[place].spoken for place in chosen)
