"""What a label says of a term, in its own words, with the passages; None where that is not certain to be complete."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TypeAlias

from fdarx_core.baseline.statements import speaks_for_itself
from fdarx_core.generation.terminology import SearchableText, Topic, TopicTerm, fold, names_that_begin, terms_of
from fdarx_core.generation.topic_sections import (
    DESCRIPTION,
    INTERACTIONS,
    PHARMACOLOGY,
    REACTIONS,
    SCOPES,
    WARNINGS,
    WIDER_ANSWERS,
    Scope,
)
from fdarx_core.generation.units import TopicStatement, read_units
from fdarx_core.records import Label, Passage

MAX_ANSWER = 600
"""Characters of the longest answer. Source: FDARxBench §B.4."""
_MIN_ANSWER_WORDS = 5
_STUDIES_OF_ALL = (" interaction stud",)
"""Words of statements on interactions in general, which say something of every other drug."""
_BY_MOUTH = (" orally", " oral admin", " by mouth", " oral use", " oral dose", " tablet", " capsule")
_ORAL = frozenset({"absolute bioavailability"})
"""Quantities of drugs that are taken by mouth alone."""
_PACKAGE_LABEL = "51945-4"
_MAX_STATEMENTS = 8
_SHORT_UNIT = 3
"""Statements of a unit of which one can be taken without the others."""
_MOST_ELSEWHERE = 2
"""Statements of an answer that do not stand under its heading; with more, the label speaks of it at length."""
_LEAST_NAMED = 0.5
"""The least share of the words of a heading that name a term which the heading is about."""
_CONNECTORS = frozenset(
    [
        "and",
        "or",
        "in",
        "of",
        "the",
        "with",
        "to",
        "for",
        "on",
        "by",
        "a",
        "an",
        "patients",
        "treatment",
        "management",
        "therapy",
        "use",
    ]
)
_NUMBER = re.compile(r"\d")
_PERCENT = re.compile(r"%")
_FREQUENCY = re.compile(r"\s*[<≤]?\s*\d+(?:\.\d+)?\s*%?\W*$")
_OF_SOME = re.compile(
    r"\bpatients? (?:with|who|on)\b|\brelative\b|\bmetabolites?\b|\bimpair|\belderly\b|\bchildren\b|\bpediatric\b"
    r"|\b(?:in|de)creased to\b|\breduced to\b|\bfurther\b",
    re.I,
)
"""Signs that a value is not that of the drug in general."""
_COUNTS = re.compile(r"\bn,?\s*\(\s*%\s*\)", re.I)


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """The complete answer of a label on a topic: the statements in its words, and the passages that they stand in.

    `conclusion` is what follows from the statements by calculation, "" where they answer by themselves; `anchor` is the
    name of what a comparison compares with.
    """

    topic: Topic
    statements: tuple[TopicStatement, ...]
    conclusion: str = ""
    anchor: str = ""

    @property
    def text(self) -> str:
        return " ".join((*filter(None, [self.conclusion]), *(one.text for one in self.statements)))

    @property
    def passages(self) -> list[int]:
        return sorted({one.passage for one in self.statements})


class LabelReader:
    """A label's text as questions are made from it: its units, and the names that stand in it."""

    def __init__(self, names: Sequence[str], substances: int, about: str, passages: Sequence[Passage]) -> None:
        """Read a label.

        Args:
            names: the names of the drug, as `Label.aliases`.
            substances: the number of active moieties.
            about: text of the label that is in no passage: its title, the titles of sections, the Highlights.
            passages: its passages, or some of them.
        """
        texts = [f"{one.section_path}\n{one.table_header}\n{one.text}" for one in passages]
        self.whole = SearchableText("\n".join((about, *names, *texts)))
        self._text = "\n".join(texts)
        self._names = SearchableText("\n".join(names))
        self._aliases = [folded for alias in names if (folded := fold(alias)).strip()]
        self._other_substances = [
            probe for term in terms_of("partner") if not self._names.names_any(term.names) for probe in term.names
        ]
        self._parts: dict[str, SearchableText] = {}
        self._names_in: dict[str, frozenset[str]] = {}
        self.several = substances > 1
        self.is_oral = self.whole.contains_any(_BY_MOUTH)
        self.units = read_units(passages)
        self.package_label = "\n".join(one.text for one in passages if one.core_code == _PACKAGE_LABEL)
        self._titles = [tuple(map(fold, unit.titles[1:])) for unit in self.units]
        self.folded = {one.text: fold(one.text) for unit in self.units for one in unit.statements}

    @classmethod
    def of_label(cls, label: Label, passages: Sequence[Passage]) -> LabelReader:
        """Return the reader of a whole label. It is kept for a while, since several steps read the same label."""
        return cached_reader(
            tuple(label.aliases), substance_count(label), text_beside_passages(label), _keyed(passages)
        )

    def texts_of(self, passage: int) -> list[str]:
        """Return the statements of a passage."""
        return [one.text for unit in self.units for one in unit.statements if one.passage == passage]

    def says_any(self, beginnings: Collection[str], codes: Collection[str] | None = None) -> bool:
        """Return whether the label, or its sections of these LOINC codes, have words with one of these beginnings.

        Args:
            beginnings: folded beginnings of words, each after a space.
            codes: the core LOINC codes of the sections; None for the whole label.
        """
        if codes is None:
            return self.whole.contains_any(beginnings)
        return any(
            beginning in self.folded[one.text]
            for unit in self.units
            if unit.code in codes
            for one in unit.statements
            for beginning in beginnings
        )

    def is_own(self, term: TopicTerm) -> bool:
        """Return whether a term is the drug itself, or a class that it belongs to."""
        return any(map(self._names.names_any, (term.names, term.members, term.wider)))

    def is_silent(self, topic: Topic, term: TopicTerm) -> bool:
        """Return whether nothing in the label names the term or a member of it, nor, where the topic is answered, its
        class."""
        if self.whole.names_any(term.names) or self.whole.names_any(term.members):
            return False
        if term.trace and re.search(term.trace, self._text):
            return False
        if topic.kind == "partner" and self.says_any(_STUDIES_OF_ALL, INTERACTIONS | PHARMACOLOGY):
            return False
        if topic.name in _ORAL and not self.is_oral:
            return False
        return not self._part(topic.kind).names_any(term.wider)

    def _part(self, kind: str) -> SearchableText:
        """Return the sections in which a statement on what a term belongs to would answer a topic of the kind."""
        codes = WIDER_ANSWERS.get(kind)
        if codes is None:
            return self.whole
        if kind not in self._parts:
            within = [unit for unit in self.units if unit.code in codes]
            texts = [line for unit in within for line in (*unit.titles, unit.text)]
            self._parts[kind] = SearchableText("\n".join(texts))
        return self._parts[kind]

    def answer(self, topic: Topic, term: TopicTerm) -> TopicAnswer | None:
        """Return the label's answer; None where it is not certain to be complete, or does not fit an answer."""
        if topic.kind == "quantity":
            chosen = self._values(term)
        elif topic.kind == "reaction":
            chosen = self._rows(term)
        else:
            chosen = self._titled(SCOPES[topic.kind], term)
        return self._answer(topic, chosen)

    def _titled(self, scope: Scope, term: TopicTerm) -> dict[TopicStatement, None]:
        """Return the statements under headings that name a term, and those that name it elsewhere in the scope.

        There are none where a statement elsewhere cannot be understood without what stands around it.
        """
        chosen: dict[TopicStatement, None] = {}
        for unit, titles in zip(self.units, self._titles, strict=True):
            if unit.code in scope.titled and any(self._is_about(title, term) for title in titles):
                chosen |= dict.fromkeys(unit.statements)
        if not chosen or (scope.value is not None and not any(scope.value.search(one.text) for one in chosen)):
            return {}
        elsewhere = 0
        held = " ".join(self.folded[one.text] for one in chosen)
        for unit in self.units:
            if unit.code in scope.stated:
                for one in unit.statements:
                    if one in chosen or not self._names_term(one, term) or self.folded[one.text].strip() in held:
                        continue
                    if len(unit.statements) > _SHORT_UNIT or not speaks_for_itself(one.text.lower()):
                        return {}
                    chosen |= dict.fromkeys(unit.statements)
                    elsewhere += 1
        return chosen if elsewhere <= _MOST_ELSEWHERE else {}

    def _values(self, term: TopicTerm) -> dict[TopicStatement, None]:
        """Return the sentences that give a value of a quantity of the drug.

        There are none for a label of several substances, and where a sentence that names the quantity gives another
        number, is on another substance, or on some patients alone.
        """
        if self.several:
            return {}
        chosen: dict[TopicStatement, None] = {}
        value = _value_pattern(term)
        for unit in self.units:
            if unit.code in PHARMACOLOGY | DESCRIPTION:
                for one in unit.statements:
                    if not self._names_term(one, term) or not _NUMBER.search(one.text):
                        continue
                    elsewhere = any(map(self.folded[one.text].__contains__, self._other_substances))
                    if (
                        one.is_row
                        or one.has_items
                        or elsewhere
                        or not value.search(one.text)
                        or _OF_SOME.search(one.text)
                    ):
                        return {}
                    chosen[one] = None
        return chosen

    def _rows(self, term: TopicTerm) -> dict[TopicStatement, None]:
        """Return the rows of tables of adverse reactions that give the frequency of a reaction.

        There are none where another statement gives a frequency of it, since a question cannot tell them apart.
        """
        chosen: dict[TopicStatement, None] = {}
        for unit in self.units:
            for one in unit.statements if unit.code in REACTIONS | WARNINGS else ():
                if not self._names_term(one, term):
                    continue
                cells = one.text.rstrip(".").split("; ")
                name, _, rest = cells[0].partition(": ")
                first = name if rest and len(cells) == 1 else cells[0].rsplit(": ", 1)[-1]
                if one.is_row and fold(first).strip() in {probe.strip() for probe in term.names}:
                    if self._has_several_tables() or not any(self.is_frequency(cell) for cell in cells[1:]):
                        return {}
                    chosen[one] = None
                elif _PERCENT.search(one.text):
                    return {}
        return chosen if len(chosen) == 1 else {}

    def _has_several_tables(self) -> bool:
        """Return whether rows of adverse reactions have different headings, so that a row does not say which trial."""
        headings = {
            cells[1].rpartition(": ")[0]
            for unit in self.units
            if unit.code in REACTIONS
            for one in unit.statements
            if one.is_row and len(cells := one.text.rstrip(".").split("; ")) > 1
        }
        return len(headings - {""}) > 1

    def is_frequency(self, cell: str) -> bool:
        """Return whether a cell of a table gives a percentage of those who took the drug."""
        header, _, value = cell.rpartition(": ")
        in_percent = "%" in value or ("%" in header and not _COUNTS.search(header))
        if not in_percent or not _FREQUENCY.match(value):
            return False
        return any(alias in fold(header) for alias in self._aliases)

    def _names_term(self, one: TopicStatement, term: TopicTerm) -> bool:
        return not self._named(one.text).isdisjoint(term.names)

    def _named(self, text: str) -> frozenset[str]:
        """Return all names of terms in a statement."""
        found = self._names_in.get(text)
        if found is None:
            folded = self.folded[text]
            candidates = {name for word in folded.split() for name in names_that_begin(word)}
            found = self._names_in[text] = frozenset(name for name in candidates if name in folded)
        return found

    @staticmethod
    def _answer(topic: Topic, chosen: dict[TopicStatement, None]) -> TopicAnswer | None:
        statements = sorted(_without_repeats(chosen), key=lambda one: one.passage)
        answer = TopicAnswer(topic, tuple(statements))
        if not statements or len(statements) > _MAX_STATEMENTS or any(one.points for one in statements):
            return None
        if len(answer.text) > MAX_ANSWER or len(answer.text.split()) < _MIN_ANSWER_WORDS:
            return None
        return answer

    @staticmethod
    def _is_about(title: str, term: TopicTerm) -> bool:
        """Return whether a heading names the term, and little else: no longer name of another term, and few words."""
        words = [word for word in title.split() if word not in _CONNECTORS]
        for probe in _longest_names(title).intersection(term.names):
            at = title.find(probe)
            end = title.find(" ", at + len(probe.rstrip()))
            named = [word for word in title[at : end if end > 0 else None].split() if word not in _CONNECTORS]
            if len(named) >= _LEAST_NAMED * len(words):
                return True
        return False


@lru_cache(maxsize=4096)
def _longest_names(title: str) -> frozenset[str]:
    """Return the names of terms in a folded heading that are in no longer name there."""
    found = {probe for word in title.split() for probe in names_that_begin(word) if probe in title}
    return frozenset(one for one in found if not any(one != other and one.strip() in other for other in found))


def substance_count(label: Label) -> int:
    """Return the number of active moieties of a label."""
    return label.drug.count("+") + 1


def text_beside_passages(label: Label) -> str:
    """Return the text of a label that is in no passage: its title, the titles of its sections, and the Highlights."""
    titles = (section.title for section in label.sections)
    return "\n".join((label.title, *titles, *(highlight.text for highlight in label.highlights)))


PassageKey: TypeAlias = tuple[int, str, str, str, str, str]
"""What is read of a passage: its index, core LOINC code, section path, section title, text and table header."""


def _keyed(passages: Sequence[Passage]) -> tuple[PassageKey, ...]:
    return tuple(
        (one.doc_chunk_index, one.core_code, one.section_path, one.section_title, one.text, one.table_header)
        for one in passages
    )


@lru_cache(maxsize=64)
def cached_reader(names: tuple[str, ...], substances: int, about: str, passages: tuple[PassageKey, ...]) -> LabelReader:
    """Return the reader of some passages, see `LabelReader`."""
    made = [
        Passage("", index, 0, code, code, "", title, path, text, header)
        for index, code, path, title, text, header in passages
    ]
    return LabelReader(names, substances, about, made)


@cache
def _value_pattern(term: TopicTerm) -> re.Pattern[str]:
    """Return the pattern of a quantity's name with a value near it: "half-life is 3 hours", "99% bound to plasma"."""
    names = "|".join(r"\W+".join(map(re.escape, probe.split())) for probe in term.names)
    between = r"(?:[^.;%]|\.(?=\d)){0,60}?"
    return re.compile(rf"(?:{names}){between}{term.value}|{term.value}[^.;,]{{0,20}}(?:{names})", re.I)


def _without_repeats(statements: Collection[TopicStatement]) -> list[TopicStatement]:
    """Return the statements without those whose words all stand, in order, in another one."""
    kept: list[TopicStatement] = []
    folded = {one: fold(one.text) for one in statements}
    for one in statements:
        if not any(folded[one] in folded[other] for other in kept):
            kept = [other for other in kept if folded[other] not in folded[one]]
            kept.append(one)
    return kept
