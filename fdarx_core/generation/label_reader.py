"""Reads the answer of a label on a topic, in its own words and with its passages, if it is certain to be complete."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from operator import itemgetter

from fdarx_core.generation.section_answers import NO_CONTRAINDICATIONS, SECTION_CODES, SELECTED, section_answer
from fdarx_core.generation.terminology import SearchableText, Topic, TopicTerm, fold, names_that_begin, terms_of
from fdarx_core.generation.topic_sections import (
    DESCRIPTION,
    OVERDOSAGE,
    PHARMACOLOGY,
    REACTIONS,
    STUDIES,
    TOPIC_KINDS,
    WARNINGS,
    TopicKind,
)
from fdarx_core.generation.units import SectionUnit, TopicStatement, read_units, without_references
from fdarx_core.generation.values import only_value, reaction_rates
from fdarx_core.labels.loinc import SECTION_NAMES
from fdarx_core.records import Label, Passage

MAX_ANSWER = 600
"""Characters of the longest answer. Source: FDARxBench §B.4."""
_MIN_ANSWER_WORDS = 4
_TOGETHER = re.compile(
    r"\b(?:concomitan|concurren|simultan|co-?administ|combin|interact|together|taking|receiving|other (?:drug|medic))",
    re.I,
)
"""Signs of a statement on the use of other drugs."""
_MAX_STATEMENTS = 8
_LONG_NAME = 8
"""Letters of a name that is hardly ever a part of another word."""
_ENDING = 3
"""Letters at the end of a long name that may differ."""
_MIN_HEADING_SHARE = 0.5
"""A heading is about a term if at least this share of its words name the term."""
_CONNECTORS = frozenset(
    ["and", "or", "in", "of", "the", "with", "to", "for", "on", "by", "a", "an", "patients", "treatment", "management",
     "therapy", "use"]
)  # fmt: skip
_NUMBER = re.compile(r"\d")
_SUBGROUP_SIGNS = re.compile(
    r"\bpatients? (?:with|who|on)\b|\brelative\b|\bmetabolites?\b|\bimpair|\belderly\b|\bchildren\b|\bpediatric\b"
    r"|\b(?:in|de)creased to\b|\breduced to\b|\bfurther\b|\b(?:animals?|rats?|mice|dogs?|monkeys?|rabbits?)\b",
    re.I,
)
"""Signs that a value is not that of the drug in people in general."""
_METABOLITE_CODE = re.compile(r"(?=.*[A-Za-z])(?:.*\d.*|.*[A-Z]{2}.*)")
"""A name that may be that of a metabolite: "6MNA"."""
_OWNER = re.compile(r"\b(?:of|for) (?:the )?([\w-]+)")
"""The substance whose value a sentence gives: "the half-life of 6MNA"."""
_TABLE = re.compile(r"\btable\b", re.I)
_NO_RATE = re.compile(r"\bnot (?:always )?(?:be )?possible to (?:reliably )?(?:estimate|establish)[^.]{0,200}\.", re.I)
_RATE = re.compile(
    r"%|\bper ?cent|\bincidence|\bfrequen|\b(?:un)?common|\brare|\boccasional|\bseldom|\d\s*/\s*\d|\b1 in \d|\bone in\b"
    r"|\b(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten) (?:of|patients?|subjects?|cases?)\b",
    re.I,
)
"""Signs of how often something happens."""


@dataclass(frozen=True, slots=True)
class TopicAnswer:
    """The text of a label's complete answer on a topic, with the statements that it rests on."""

    topic: Topic
    statements: tuple[TopicStatement, ...]
    text: str

    @property
    def passages(self) -> list[int]:
        return sorted({one.passage for one in self.statements})


class LabelReader:
    """The text of a label, split into units, with an index of the names in it."""

    def __init__(self, label: Label, passages: Sequence[Passage]) -> None:
        titles = (section.title for section in label.sections)
        about = "\n".join((label.title, *titles, *(highlight.text for highlight in label.highlights)))
        texts: dict[str, list[str]] = {"": [about, *label.aliases]}
        for passage in passages:
            parts = (passage.section_path, passage.table_header, passage.text)
            texts.setdefault(passage.core_code, []).append("\n".join(parts))
        self._sections = {code: SearchableText("\n".join(parts)) for code, parts in texts.items()}
        self._text = "\n".join("\n".join(parts) for parts in texts.values())
        self._passages = passages
        self._names = SearchableText("\n".join(label.aliases))
        self._aliases = [folded for alias in label.aliases if (folded := fold(alias)).strip()]
        self._other_substances = [
            name for term in terms_of("partner") if not self._names.names_any(term.names) for name in term.names
        ]
        self._has_several_substances = "+" in label.drug
        self._fold = cache(fold)
        self._units = read_units(passages)
        self._folded_titles = [tuple(map(fold, unit.titles[1:])) for unit in self._units]

    @cached_property
    def _named_anywhere(self) -> frozenset[str]:
        return frozenset().union(*(one.names for one in self._sections.values()))

    def names_any(self, names: Iterable[str], codes: Collection[str] | None = None) -> bool:
        """Return whether one of the names is in sections of these LOINC codes; `codes=None` searches all sections."""
        if codes is None:
            return not self._named_anywhere.isdisjoint(names)
        return any(code in self._sections and self._sections[code].names_any(names) for code in codes)

    def names_without_spaces(self, term: TopicTerm, codes: Collection[str] | None = None) -> bool:
        """Return whether a long name of a term stands within other words or with another ending: "dehydrated".

        The search is slow: it is for topics that will be asked. `codes` are as in `names_any`.
        """
        codes = self._sections.keys() if codes is None else codes
        unspaced_texts = [self._sections[code].without_spaces for code in codes if code in self._sections]
        unspaced_names = ("".join(name.split()) for name in (*term.names, *term.members))
        stems = [name[: max(_LONG_NAME, len(name) - _ENDING)] for name in unspaced_names if len(name) >= _LONG_NAME]
        return any(stem in text for text in unspaced_texts for stem in stems)

    def is_drug_or_its_class(self, term: TopicTerm) -> bool:
        """Return whether a term is the drug itself, or a class that it belongs to."""
        return any(self._names.names_any(names) for names in (term.names, term.members, term.wider))

    def is_silent(self, topic: Topic, term: TopicTerm) -> bool:
        """Return whether nothing in the label names the term or a member of it.

        Nothing may name its class either, in the sections that may answer the topic. Topics of kind "overdose" are
        never silent: they are asked only if the label names the term, see `names_without_answer`.
        """
        if topic.kind == "overdose" or self.names_any(term.names) or self.names_any(term.members):
            return False
        if term.trace and re.search(term.trace, self._text):
            return False
        if topic.kind in ("effect", "reaction") and self._lacks_tables_of_reactions:
            return False
        if topic.kind == "partner" and not self._taken_together.isdisjoint(term.wider):
            return False
        class_codes, own_codes = TOPIC_KINDS[topic.kind].class_scope, self._sections.keys()
        # A section without a known code may be any section.
        codes = None if class_codes is None else (own_codes & class_codes) | (own_codes - SECTION_NAMES.keys())
        return not self.names_any(term.wider, codes)

    def names_without_answer(self, topic: Topic, term: TopicTerm) -> bool:
        """Return whether the label names the term, and provably does not say what the topic asks of it.

        Either the section on overdosage exists and does not name the term, its classes or members; or the label lists
        the reaction and gives no frequency.
        """
        all_names = (*term.names, *term.members, *term.wider)
        if not self.names_any(term.names):
            return False
        if topic.kind == "reaction":
            named = self.names_any(term.names, REACTIONS)
            silent = not (self._has_rates_of_reactions or self._lacks_tables_of_reactions)
            return named and silent and self._terms_with_rates.isdisjoint(all_names)
        has_section = not self._sections.keys().isdisjoint(OVERDOSAGE)
        return topic.kind == "overdose" and has_section and not self.names_any(all_names, OVERDOSAGE)

    @cached_property
    def _unit_names(self) -> list[frozenset[str]]:
        return [SearchableText("\n".join((*unit.titles, unit.text))).names for unit in self._units]

    @cached_property
    def _taken_together(self) -> frozenset[str]:
        """The names of terms in statements on the use of other drugs, in whatever section they stand."""
        texts = (f"{unit.title}\n{one.text}" for unit in self._units for one in unit.statements)
        return SearchableText("\n".join(text for text in texts if _TOGETHER.search(text))).names

    @cached_property
    def _by_name(self) -> dict[str, list[tuple[int, str, TopicStatement]]]:
        """The statements with each name of a term, perhaps twice, their positions and the codes of their sections."""
        found: dict[str, list[tuple[int, str, TopicStatement]]] = {}
        statements = ((unit.code, statement) for unit in self._units for statement in unit.statements)
        for at, (code, statement) in enumerate(statements):
            text = self._fold(statement.text)
            for word in set(text.split()):
                for name in names_that_begin(word):
                    if name in text:
                        found.setdefault(name, []).append((at, code, statement))
        return found

    def _statements_naming(self, term: TopicTerm, codes: Collection[str]) -> list[TopicStatement]:
        """Return the statements of sections that name a term, in order."""
        found = {at: (code, statement) for name in term.names for at, code, statement in self._by_name.get(name, ())}
        return [statement for _, (code, statement) in sorted(found.items(), key=itemgetter(0)) if code in codes]

    @cached_property
    def _terms_with_rates(self) -> frozenset[str]:
        """The names of terms in passages that say how often something happens."""
        return SearchableText("\n".join(one.text for one in self._passages if _has_rate(one.text))).names

    @cached_property
    def _has_rates_of_reactions(self) -> bool:
        texts = (f"{one.table_header}\n{one.text}" for one in self._passages if one.core_code in REACTIONS | STUDIES)
        return any(map(_has_rate, texts))

    @cached_property
    def _lacks_tables_of_reactions(self) -> bool:
        """Whether a section on adverse reactions refers to a table, and neither it nor the studies have one."""
        own = [one for one in self._passages if one.core_code in REACTIONS | STUDIES]
        refers = any(_TABLE.search(one.text) for one in own if one.core_code in REACTIONS)
        return refers and not any(one.table_header or " | " in one.text for one in own)

    def answer(self, topic: Topic, term: TopicTerm | None) -> TopicAnswer | None:
        """Return the label's answer; None where it is not certain to be complete, or does not fit an answer.

        `term` is that of the topic, None for a topic of kind "section".
        """
        if term is None or topic.kind == "subsection":
            found, text = section_answer(topic.name, self._units)
            if text == NO_CONTRAINDICATIONS:
                return TopicAnswer(topic, tuple(found), text)
            answer = self._answer(topic, found, text)
            return answer if answer and (topic.name in SELECTED or self._is_whole_section(answer, topic.name)) else None
        if topic.kind == "quantity":
            return self._quantity(topic, term)
        if topic.kind == "reaction":
            named = self._statements_naming(term, REACTIONS | WARNINGS | STUDIES)
            found, cells = reaction_rates(named, term, self._aliases)
            return TopicAnswer(topic, tuple(found), cells) if found else None
        return self._answer(topic, *self._statements_on_term(TOPIC_KINDS[topic.kind], term))

    def _is_whole_section(self, answer: TopicAnswer, name: str) -> bool:
        """Return whether an answer has all words of a section, headings within its text included.

        The answer is incomplete if parts of the section, or sections beside it without a title, have another code.
        """
        codes = SECTION_CODES[name]
        own = [one for one in self._passages if one.core_code in codes]
        paths = {one.section_path for one in own}
        others = (one.section_path for one in self._passages if one.core_code not in codes)
        if any(other == path or other.startswith(f"{path} > ") for other in others for path in paths):
            return False
        section = Counter(fold(without_references("\n".join(one.text for one in own))).split())
        return not section - Counter(fold(answer.text).split())

    def _statements_on_term(self, kind: TopicKind, term: TopicTerm) -> tuple[list[TopicStatement], str]:
        """Return all that a section, or the label, says of a term, and the answer with the headings above it.

        Includes what stands under headings that name the term, and each other paragraph or list item that names it.
        Returns nothing if a table or another heading names the term too, or if a paragraph names a member of it or
        cannot be understood alone.
        """
        chosen: list[TopicStatement] = []
        answer: list[str] = []
        under_heading = in_scope = False
        if not self.names_any(term.names, kind.scope):
            return [], ""
        all_names = (*term.names, *term.members)
        for unit, titles, names in zip(self._units, self._folded_titles, self._unit_names, strict=True):
            within = unit.code in kind.scope
            if (not within and not kind.whole_label) or names.isdisjoint(all_names):
                continue
            # Of headings within the text only the last one is certain to apply, since their levels are not marked.
            applying = (*titles[: len(titles) - unit.depth], titles[-1]) if titles else ()
            if any(self._is_about(title, term) for title in applying):
                under_heading = True
                in_scope |= within
                chosen += unit.statements
                answer += (one.text for one in unit.statements)
                continue
            if any(not _longest_names(title).isdisjoint(term.names) for title in titles):
                return [], ""
            found = self._paragraphs(unit, kind, term)
            if found is None:
                return [], ""
            in_scope |= within and bool(found)
            for paragraph in found:
                chosen += paragraph
                answer.append(unit.under_title(paragraph, bool(titles)))
        text = " ".join(answer)
        lacks_heading = kind.needs_heading and not under_heading
        lacks_wording = kind.wording is not None and not kind.wording.search(text)
        if not in_scope or lacks_heading or lacks_wording:
            return [], ""
        return chosen, text

    def _paragraphs(self, unit: SectionUnit, kind: TopicKind, term: TopicTerm) -> list[list[TopicStatement]] | None:
        """Return the paragraphs of a unit that name a term; None where one of them is not clear by itself.

        A paragraph that refers back to one that names the term belongs to it.
        """
        found: list[list[TopicStatement]] = []
        continues = False
        for paragraph in unit.paragraphs:
            text = " ".join(self._fold(statement.text) for statement in paragraph)
            if not _longest_names(text).isdisjoint(term.names):
                part = [
                    statement.with_items(lambda item: not _longest_names(self._fold(item)).isdisjoint(term.names))
                    for statement in paragraph
                ]
                if not part[0].stands_alone or any(statement.is_row for statement in part):
                    return None
                if kind.wording is not None and not kind.wording.search(" ".join(statement.text for statement in part)):
                    return None
                found.append(part)
                continues = True
            elif any(name in text for name in term.members):
                return None
            elif continues and paragraph[0].refers_back:
                found[-1] = [*found[-1], *paragraph]
            else:
                continues = False
        return found

    def _quantity(self, topic: Topic, term: TopicTerm) -> TopicAnswer | None:
        """Return the only value of a quantity of the drug, with the sentences that give it.

        There is none for a label of several substances, or if a sentence that names the quantity gives another number,
        is on another substance, or is about only some patients.
        """
        if self._has_several_substances:
            return None
        chosen: dict[TopicStatement, str] = {}
        for statement in self._statements_naming(term, PHARMACOLOGY | DESCRIPTION):
            text, folded = statement.text, self._fold(statement.text)
            if not _NUMBER.search(text):
                continue
            names_other_substance = any(name in folded for name in self._other_substances)
            if statement.is_row or statement.items or names_other_substance or _SUBGROUP_SIGNS.search(text):
                return None
            value = only_value(text, term)
            codes = filter(_METABOLITE_CODE.fullmatch, _OWNER.findall(text))
            if not value or not all(any(fold(code) in alias for alias in self._aliases) for code in codes):
                return None
            chosen[statement] = value
        if len({re.sub(r"\W", "", value) for value in chosen.values()}) != 1:
            return None
        return TopicAnswer(topic, tuple(chosen)[:1], next(iter(chosen.values())))

    @staticmethod
    def _answer(topic: Topic, statements: Sequence[TopicStatement], text: str) -> TopicAnswer | None:
        """Return what statements say in full; None if it does not fit an answer, or a statement refers to text outside.

        `text` is the answer if it is not the text of the statements, "" if the statements are the answer.
        """
        answer = TopicAnswer(topic, tuple(statements), text or " ".join(one.text for one in statements))
        if not statements or len(statements) > _MAX_STATEMENTS or len(answer.text) > MAX_ANSWER:
            return None
        if any(one.points or not one.is_whole for one in statements) or statements[0].begins_back:
            return None
        return answer if len(answer.text.split()) >= _MIN_ANSWER_WORDS else None

    @staticmethod
    def _is_about(title: str, term: TopicTerm) -> bool:
        """Return whether a heading names the term, and little else: no longer name of another term, and few words."""
        words = [word for word in title.split() if word not in _CONNECTORS]
        for name in _longest_names(title).intersection(term.names):
            at = title.find(name)
            end = title.find(" ", at + len(name.rstrip()))
            named = [word for word in title[at : end if end > 0 else None].split() if word not in _CONNECTORS]
            if len(named) >= _MIN_HEADING_SHARE * len(words):
                return True
        return False


def _has_rate(text: str) -> bool:
    return bool(_RATE.search(_NO_RATE.sub("", text)))


@lru_cache(maxsize=4096)
def _longest_names(text: str) -> frozenset[str]:
    """Return the names of terms in a folded heading or statement that are not part of a longer name there."""
    found = {name for word in text.split() for name in names_that_begin(word) if name in text}
    return frozenset(one for one in found if not any(one != other and one.strip() in other for other in found))
