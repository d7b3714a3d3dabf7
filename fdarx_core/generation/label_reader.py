"""What a label says of a topic, in its own words, with the passages; None where that is not certain to be complete."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import TypeAlias

from fdarx_core.baseline.statements import speaks_for_itself
from fdarx_core.generation.section_answers import section_answer
from fdarx_core.generation.table_answers import reaction_rates
from fdarx_core.generation.terminology import SearchableText, Topic, TopicTerm, fold, names_that_begin, terms_of
from fdarx_core.generation.topic_sections import (
    CONTRAINDICATIONS,
    DESCRIPTION,
    FORBIDS,
    INTERACTIONS,
    KINDS,
    OVERDOSAGE,
    PHARMACOLOGY,
    POPULATIONS,
    REACTIONS,
    SCOPED,
    STUDIES,
    WARNINGS,
    Kind,
)
from fdarx_core.generation.units import TopicStatement, read_units
from fdarx_core.generation.values import only_value
from fdarx_core.records import Label, Passage

MAX_ANSWER = 600
"""Characters of the longest answer. Source: FDARxBench §B.4."""
_MIN_ANSWER_WORDS, _SENTENCE_WORDS = 5, 3
_STUDIES_OF_ALL = (" interaction stud",)
"""Words of statements on interactions in general, which say something of every other drug."""
_SERIOUS = WARNINGS | CONTRAINDICATIONS | INTERACTIONS | POPULATIONS
"""Sections whose terms are plausible in a boxed warning, a contraindication or a dosing instruction."""
_MAX_STATEMENTS = 8
_MOST_ELSEWHERE = 2
"""Statements of an answer that do not stand under its heading; with more, the label speaks of it at length."""
_LEAST_NAMED = 0.5
"""The least share of the words of a heading that name a term which the heading is about."""
_CONNECTORS = frozenset(
    ["and", "or", "in", "of", "the", "with", "to", "for", "on", "by", "a", "an", "patients", "treatment", "management",
     "therapy", "use"]
)  # fmt: skip
_NUMBER = re.compile(r"\d")
_REFERS_BACK = re.compile(
    r"(?:its?|this|these|those|they|their|such|he|she|both|neither|other|another|however|therefore|thus|also|hence|"
    r"similarly|moreover|furthermore|consequently|additionally|in addition|in (?:these|this|such|those)|of these|"
    r"(?:if|when|because|although|since|while) (?:it|this|these|they|such)|the (?:latter|former|same|above|following)|"
    r"as a result|for (?:this|these)|but|and|or|the (?:stud|trial|effect|result|difference|increase|decrease|symptom|"
    r"reaction|event|risk|change|incidence|majority)\w*)\b",
    re.I,
)
_OF_SOME = re.compile(
    r"\bpatients? (?:with|who|on)\b|\brelative\b|\bmetabolites?\b|\bimpair|\belderly\b|\bchildren\b|\bpediatric\b"
    r"|\b(?:in|de)creased to\b|\breduced to\b|\bfurther\b|\b(?:animals?|rats?|mice|dogs?|monkeys?|rabbits?)\b",
    re.I,
)
"""Signs that a value is not that of the drug in people in general."""
_NO_RATE = re.compile(r"\bnot (?:always )?(?:be )?possible to (?:reliably )?(?:estimate|establish)[^.]{0,200}\.", re.I)
_RATE = re.compile(
    r"%|\bper ?cent|\bincidence|\bfrequen|\b(?:un)?common|\brare|\boccasional|\bseldom|\d\s*/\s*\d|\b1 in \d|\bone in\b"
    r"|\b(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten) (?:of|patients?|subjects?|cases?)\b",
    re.I,
)
"""Signs of how often something happens."""


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """The complete answer of a label on a topic, with the statements that it rests on.

    `short` is the answer where it is a part of a statement, a value or the cells of a row; "" where the statements are
    the answer.
    """

    topic: Topic
    statements: tuple[TopicStatement, ...]
    short: str = ""

    @property
    def text(self) -> str:
        return self.short or " ".join(one.text for one in self.statements)

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
        texts: dict[str, list[str]] = {"": [about, *names]}
        for one in passages:
            texts.setdefault(one.core_code, []).append(f"{one.section_path}\n{one.table_header}\n{one.text}")
        self._sections = {code: SearchableText("\n".join(parts)) for code, parts in texts.items()}
        self._text = "\n".join("\n".join(parts) for parts in texts.values())
        self._passages = passages
        self._names = SearchableText("\n".join(names))
        self._aliases = [folded for alias in names if (folded := fold(alias)).strip()]
        self._other_substances = [
            probe for term in terms_of("partner") if not self._names.names_any(term.names) for probe in term.names
        ]
        self._names_in: dict[str, frozenset[str]] = {}
        self.several = substances > 1
        self.units = read_units(passages)
        self._titles = [tuple(map(fold, unit.titles[1:])) for unit in self.units]
        self.folded = {one.text: fold(one.text) for unit in self.units for one in unit.statements}

    @classmethod
    def of_label(cls, label: Label, passages: Sequence[Passage]) -> LabelReader:
        """Return the reader of a whole label. It is kept for a while, since several steps read the same label."""
        return cached_reader(
            tuple(label.aliases), substance_count(label), text_beside_passages(label), _keyed(passages)
        )

    @cached_property
    def _named_anywhere(self) -> frozenset[str]:
        return frozenset().union(*(one.names for one in self._sections.values()))

    def names_any(self, probes: Iterable[str], codes: Collection[str] | None = None) -> bool:
        """Return whether one of the names is in sections of these LOINC codes; None for the whole label."""
        if codes is None:
            return not self._named_anywhere.isdisjoint(probes)
        return any(code in self._sections and self._sections[code].names_any(probes) for code in codes)

    def is_own(self, term: TopicTerm) -> bool:
        """Return whether a term is the drug itself, or a class that it belongs to."""
        return any(map(self._names.names_any, (term.names, term.members, term.wider)))

    def is_silent(self, topic: Topic, term: TopicTerm) -> bool:
        """Return whether nothing in the label names the term or a member of it, nor, where the topic is answered, its
        class. The topics of `SCOPED` are asked only where the section is there, see `is_near_miss`."""
        if topic.kind in SCOPED or self.names_any(term.names) or self.names_any(term.members):
            return False
        if term.trace and re.search(term.trace, self._text):
            return False
        if topic.kind == "partner" and self._mentions(_STUDIES_OF_ALL, INTERACTIONS | PHARMACOLOGY):
            return False
        return not self.names_any(term.wider, KINDS[topic.kind].wider)

    def _mentions(self, beginnings: Collection[str], codes: Collection[str]) -> bool:
        return any(self._sections[code].contains_any(beginnings) for code in codes if code in self._sections)

    def is_near_miss(self, topic: Topic, term: TopicTerm) -> bool:
        """Return whether the label names the term, and provably does not say what the topic asks of it.

        The section that would say it is there and names neither the term nor its classes and members. What the label
        says of the term elsewhere is of another kind: of a risk that it was reported as an adverse reaction, of a
        contraindication nothing that forbids the use, of a reaction no frequency.
        """
        every = (*term.names, *term.members, *term.wider)
        if not self.names_any(term.names):
            return False
        if topic.kind == "risk":
            elsewhere = self._sections.keys() - REACTIONS - OVERDOSAGE
            return self._has(WARNINGS) and not self.names_any((*term.names, *term.members), elsewhere) and not (
                self.names_any(every, WARNINGS | CONTRAINDICATIONS)
            )  # fmt: skip
        if topic.kind == "reaction":
            named = self.names_any(term.names, REACTIONS)
            return named and not self._has_rates_of_reactions and self._rated.isdisjoint(every)
        if topic.kind not in SCOPED:
            return False
        scope = KINDS[topic.kind].stated
        if not self._has(scope) or self.names_any(every, scope):
            return False
        if topic.kind != "overdose" and not self.names_any(term.names, _SERIOUS - scope):
            return False
        return topic.kind != "contraindication" or self._forbidden.isdisjoint(term.names)

    @cached_property
    def _forbidden(self) -> frozenset[str]:
        """The names of terms in statements that forbid something."""
        texts = (one.text for unit in self.units for one in unit.statements if FORBIDS.search(one.text))
        return frozenset().union(*map(self._named, texts))

    def _has(self, codes: Collection[str]) -> bool:
        return not self._sections.keys().isdisjoint(codes)

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[int, str, TopicStatement]]]:
        """The statements that have each name of a term, with their places and the LOINC codes of their sections."""
        found: dict[str, list[tuple[int, str, TopicStatement]]] = {}
        statements = ((unit.code, one) for unit in self.units for one in unit.statements)
        for at, (code, one) in enumerate(statements):
            for name in self._named(one.text):
                found.setdefault(name, []).append((at, code, one))
        return found

    def _naming(self, term: TopicTerm, codes: Collection[str]) -> list[TopicStatement]:
        """Return the statements of sections that name a term, in order."""
        found = {at: (code, one) for name in term.names for at, code, one in self._by_name.get(name, ())}
        return [one for _, (code, one) in sorted(found.items(), key=itemgetter(0)) if code in codes]

    @cached_property
    def _named_in_titles(self) -> frozenset[str]:
        return frozenset().union(*(_longest_names(title) for titles in self._titles for title in titles))

    @cached_property
    def _rated(self) -> frozenset[str]:
        """The names of terms in passages that say how often something happens."""
        return SearchableText("\n".join(one.text for one in self._passages if _has_rate(one.text))).names

    @cached_property
    def _has_rates_of_reactions(self) -> bool:
        texts = (f"{one.table_header}\n{one.text}" for one in self._passages if one.core_code in REACTIONS | STUDIES)
        return any(map(_has_rate, texts))

    def answer(self, topic: Topic, term: TopicTerm | None) -> TopicAnswer | None:
        """Return the label's answer; None where it is not certain to be complete, or does not fit an answer.

        `term` is that of the topic, None for a topic of kind "section".
        """
        if term is None:
            found, short = section_answer(topic.name, self.units)
            return self._answer(topic, found, short) if found else None
        if topic.kind == "quantity":
            return self._quantity(topic, term)
        if topic.kind == "reaction":
            named = self._naming(term, REACTIONS | WARNINGS | STUDIES)
            found, short = reaction_rates(named, term, self._aliases)
            return self._answer(topic, found, short) if found else None
        if topic.kind in SCOPED:
            return self._answer(topic, self._stated(KINDS[topic.kind], term))
        return self._answer(topic, self._titled(KINDS[topic.kind], term))

    def _stated(self, kind: Kind, term: TopicTerm) -> list[TopicStatement]:
        """Return the statements of a section that name a term, of lists the items; none if one cannot stand alone."""
        chosen: dict[TopicStatement, None] = {}
        for one in self._naming(term, kind.stated):
            if _longest_names(self._fold(one.text)).isdisjoint(term.names):
                continue
            part = one.with_items(lambda text: not _longest_names(self._fold(text)).isdisjoint(term.names))
            if not _stands_alone(part) or (kind.value is not None and not kind.value.search(part.text)):
                return []
            chosen[part] = None
        return list(chosen)

    def _titled(self, kind: Kind, term: TopicTerm) -> list[TopicStatement]:
        """Return the statements under headings that name a term, and those that name it elsewhere in the scope.

        There are none where a statement elsewhere cannot be understood without what stands around it.
        """
        if self._named_in_titles.isdisjoint(term.names):
            return []
        chosen: dict[TopicStatement, None] = {}
        for unit, titles in zip(self.units, self._titles, strict=True):
            if unit.code in kind.titled and titles:
                if self._is_about(titles[-1], term):
                    chosen |= dict.fromkeys(unit.statements)
                elif any(self._is_about(title, term) for title in titles):
                    return []
        if not chosen or (kind.value is not None and not any(kind.value.search(one.text) for one in chosen)):
            return []
        elsewhere = 0
        held = " ".join(self._fold(one.text) for one in chosen)
        for one in self._naming(term, kind.stated):
            if one in chosen or self._fold(one.text).strip() in held:
                continue
            if not _stands_alone(one):
                return []
            chosen[one] = None
            elsewhere += 1
        return list(chosen) if elsewhere <= _MOST_ELSEWHERE else []

    def _quantity(self, topic: Topic, term: TopicTerm) -> TopicAnswer | None:
        """Return the only value of a quantity of the drug, with the sentences that give it.

        There is none for a label of several substances, and where a sentence that names the quantity gives another
        number, is on another substance, or on some patients alone.
        """
        chosen: dict[TopicStatement, str] = {}
        for one in () if self.several else self._naming(term, PHARMACOLOGY | DESCRIPTION):
            if not _NUMBER.search(one.text):
                continue
            elsewhere = any(map(self._fold(one.text).__contains__, self._other_substances))
            value = only_value(one.text, term)
            if one.is_row or one.items or elsewhere or not value or _OF_SOME.search(one.text):
                return None
            chosen[one] = value
        if len({re.sub(r"\W", "", value) for value in chosen.values()}) != 1:
            return None
        return self._answer(topic, list(chosen)[:1], next(iter(chosen.values())))

    def _fold(self, text: str) -> str:
        found = self.folded.get(text)
        if found is None:
            found = self.folded[text] = fold(text)
        return found

    def _named(self, text: str) -> frozenset[str]:
        """Return all names of terms in a statement."""
        found = self._names_in.get(text)
        if found is None:
            folded = self._fold(text)
            candidates = {name for word in folded.split() for name in names_that_begin(word)}
            found = self._names_in[text] = frozenset(name for name in candidates if name in folded)
        return found

    @staticmethod
    def _answer(topic: Topic, chosen: Collection[TopicStatement], short: str = "") -> TopicAnswer | None:
        statements = sorted(_without_repeats(chosen), key=lambda one: one.passage)
        answer = TopicAnswer(topic, tuple(statements), short)
        if not statements or len(statements) > _MAX_STATEMENTS or len(answer.text) > MAX_ANSWER:
            return None
        if short:
            return answer
        if any(one.points or not _is_whole(one) for one in statements) or _REFERS_BACK.match(statements[0].text):
            return None
        return answer if len(answer.text.split()) >= _MIN_ANSWER_WORDS else None

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


def _has_rate(text: str) -> bool:
    return bool(_RATE.search(_NO_RATE.sub("", text)))


def _stands_alone(one: TopicStatement) -> bool:
    """Return whether a statement is understood without those around it."""
    said = one.lead if one.items else one.text
    if one.is_row or not (said[:1].isupper() or said[:1].isdigit()):
        return False
    return not _REFERS_BACK.match(said) and (bool(one.items) or speaks_for_itself(said.lower()))


def _is_whole(one: TopicStatement) -> bool:
    """Return whether a statement is a sentence, a list or a row, and not a piece of one, a heading for example."""
    begins = one.text[:1].isupper() or one.text[:1].isdigit()
    return one.is_row or bool(one.items) or (begins and len(one.text.split()) >= _SENTENCE_WORDS)


@lru_cache(maxsize=4096)
def _longest_names(text: str) -> frozenset[str]:
    """Return the names of terms in a folded heading or statement that are in no longer name there."""
    found = {probe for word in text.split() for probe in names_that_begin(word) if probe in text}
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


def _without_repeats(statements: Collection[TopicStatement]) -> list[TopicStatement]:
    """Return the statements without those whose words all stand, in order, in another one."""
    kept: list[TopicStatement] = []
    folded = {one: fold(one.text) for one in statements}
    for one in statements:
        if not any(folded[one] in folded[other] for other in kept):
            kept = [other for other in kept if folded[other] not in folded[one]]
            kept.append(one)
    return kept
