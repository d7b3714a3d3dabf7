"""Multi-hop questions by rules: a sentence of each passage, linked. Source: FDARxBench §B.3, §B.4."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, product
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fdarx_core.baseline.statements import Dose, DoseFacts, dose_facts, statements
from fdarx_core.baseline.tokens import question_words
from fdarx_core.generation.library import load_library, role_of, roles
from fdarx_core.records import content_id

_WORD = re.compile(r"[^\W_]+")

PhraseHits = dict[str, dict[str, int]]
"""List -> thing -> how many other things of that list come before it."""


class PhraseMatcher:
    """Phrases of several lists, all looked for in one pass over a text's words."""

    def __init__(self, lists: Mapping[str, Mapping[str, Sequence[str]]]) -> None:
        self._phrases: dict[str, list[tuple[tuple[str, ...], str, str]]] = {}
        for name, things in lists.items():
            for thing, wordings in things.items():
                for wording in wordings:
                    phrase = tuple(wording.split())
                    self._phrases.setdefault(phrase[0], []).append((phrase, name, thing))
        for entries in self._phrases.values():
            entries.sort(key=lambda entry: -len(entry[0]))

    def find(self, lowered: str) -> PhraseHits:
        """The things that a lower-case text names, by list; of overlapping phrases of a list, the first and longest."""
        words = _WORD.findall(lowered)
        found: PhraseHits = {}
        ends: dict[str, int] = {}
        for position, word in enumerate(words):
            entries = self._phrases.get(word)
            if entries is None and word[-1] == "s":
                entries = self._phrases.get(word[:-1])
            if entries:
                _match(entries, words, position, found, ends)
        return found


def _match(
    entries: list[tuple[tuple[str, ...], str, str]],
    words: list[str],
    position: int,
    found: PhraseHits,
    ends: dict[str, int],
) -> None:
    """Add what begins at a position, longest first, unless a longer phrase of its list covers the position already."""
    for phrase, name, thing in entries:
        end = position + len(phrase)
        if ends.get(name, 0) <= position and _same(words[position:end], phrase):
            things = found.setdefault(name, {})
            things.setdefault(thing, len(things))
            ends[name] = end


def _same(words: list[str], phrase: tuple[str, ...]) -> bool:
    return len(words) == len(phrase) and all(
        word == wanted or word == wanted + "s" for word, wanted in zip(words, phrase, strict=True)
    )


_NAMED = re.compile(r"<([a-z_]+)>")
_DEGREE = re.compile(r"\b(?:mild|moderate|severe|end-stage)", re.I)
_TRIED = 4
_ALIKE = 0.7


class _SideRow(BaseModel):
    model_config = ConfigDict(extra="forbid")

    roles: list[str]
    all: list[str]
    none: list[str] = Field(default_factory=list)
    focus: int = 2


class _RuleRow(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    key: str
    a: _SideRow
    b: _SideRow
    ask: list[str]
    tell: str = "{a} {b}"


class LinkLibrary(BaseModel):
    """`multihop.yaml`, checked: every rule's roles, lexicon, named patterns and question slots exist."""

    model_config = ConfigDict(extra="forbid")

    lexicons: dict[str, dict[str, list[str]]]
    words: dict[str, str]
    rules: list[_RuleRow]

    @model_validator(mode="after")
    def _names_exist(self) -> LinkLibrary:
        for rule in self.rules:
            if unknown := set(rule.a.roles + rule.b.roles) - roles():
                raise ValueError(f"multihop.yaml: rule {rule.name} names unknown section roles {sorted(unknown)}")
            if rule.key and rule.key not in self.lexicons:
                raise ValueError(f"multihop.yaml: rule {rule.name} names unknown lexicon {rule.key!r}")
            if any("{drug}" not in ask or ("{key}" in ask) != bool(rule.key) for ask in rule.ask):
                raise ValueError(
                    f"multihop.yaml: rule {rule.name}: a question needs {{drug}}, and {{key}} if it has one"
                )
        return self

    def pattern(self, text: str) -> re.Pattern[str]:
        """A pattern with its named pieces put in."""
        while _NAMED.search(text):
            text = _NAMED.sub(lambda found: self.words[found.group(1)], text)
        return re.compile(text)


@dataclass(frozen=True, slots=True)
class LinkSide:
    """What a sentence must be to serve one side of a rule; its thing must be among the first `focus` it names."""

    roles: frozenset[str]
    all: tuple[re.Pattern[str], ...]
    none: tuple[re.Pattern[str], ...]
    focus: int

    def accepts(self, occurs: Callable[[re.Pattern[str]], bool]) -> bool:
        """Whether all patterns occur in a sentence and none of the forbidden ones."""
        return all(map(occurs, self.all)) and not any(map(occurs, self.none))


@dataclass(frozen=True, slots=True)
class LinkRule:
    """One way two sections bear on each other; `rank` is its place in the file, best first."""

    rank: int
    name: str
    key: str
    sides: tuple[LinkSide, LinkSide]
    ask: tuple[str, ...]
    tell: str


LinkKey = tuple[int, str, int]
"""Rank of a rule, a thing, and a side (0 or 1): passages link where they hold both sides of a rule about a thing."""


@dataclass(slots=True)
class PassageFacts:
    """The sentences of one passage that can serve in links, best first, by socket; `fits` are the sockets they need."""

    role: str
    sockets: dict[LinkKey, list[str]]
    fits: frozenset[LinkKey]
    doses: DoseFacts | None


@dataclass(frozen=True, slots=True)
class Link:
    """A rule that two passages satisfy, with its sides' sentences."""

    rule: LinkRule
    thing: str
    sentences: tuple[str, str]


@cache
def _library() -> LinkLibrary:
    return LinkLibrary.model_validate(load_library("multihop"))


@cache
def _lexicon() -> PhraseMatcher:
    return PhraseMatcher(_library().lexicons)


@cache
def link_rules() -> tuple[LinkRule, ...]:
    """The rules of `multihop.yaml`, best first."""
    library = _library()

    def side(row: _SideRow) -> LinkSide:
        wanted, forbidden = (tuple(map(library.pattern, listed)) for listed in (row.all, row.none))
        return LinkSide(frozenset(row.roles), wanted, forbidden, row.focus)

    return tuple(
        LinkRule(rank, row.name, row.key, (side(row.a), side(row.b)), tuple(row.ask), row.tell)
        for rank, row in enumerate(library.rules)
    )


@cache
def _sides_of_role(role: str) -> tuple[tuple[LinkRule, int], ...]:
    return tuple((rule, i) for rule in link_rules() for i, side in enumerate(rule.sides) if role in side.roles)


class _Occurs(dict[re.Pattern[str], bool]):
    """Which patterns occur in a sentence: each is searched for once, though many rules share it."""

    def __init__(self, lowered: str) -> None:
        self._lowered = lowered

    def __missing__(self, pattern: re.Pattern[str]) -> bool:
        found = self[pattern] = pattern.search(self._lowered) is not None
        return found


def passage_facts(text: str, code: str) -> PassageFacts:
    """What a passage under the section with LOINC `code` offers for links; nothing outside the table of sections."""
    role = role_of(code)
    served: dict[LinkKey, list[tuple[int, int, str]]] = {}
    for sentence in statements(text) if _sides_of_role(role) else ():
        for socket, place in _sockets(sentence.lower(), role):
            served.setdefault(socket, []).append((place, len(sentence), sentence))
    sockets = {socket: [entry[2] for entry in sorted(entries)] for socket, entries in served.items()}
    fits = frozenset((rank, thing, 1 - side) for rank, thing, side in sockets)
    return PassageFacts(role, sockets, fits, dose_facts(role, text))


def _sockets(lowered: str, role: str) -> Iterator[tuple[LinkKey, int]]:
    named, occurs = _lexicon().find(lowered), _Occurs(lowered).__getitem__
    for rule, i in _sides_of_role(role):
        side = rule.sides[i]
        things = named.get(rule.key, {}) if rule.key else {"": 0}
        focused = [thing for thing, place in things.items() if place < side.focus]
        if focused and side.accepts(occurs):
            yield from (((rule.rank, thing, i), things[thing]) for thing in focused)


def find_links(a: PassageFacts, b: PassageFacts) -> list[Link]:
    """The rules and things that link two passages, best first."""
    if b.fits.isdisjoint(a.sockets):
        return []
    found = []
    for socket in sorted(b.fits & a.sockets.keys()):
        rank, thing, side = socket
        own, other = a.sockets[socket], b.sockets[rank, thing, 1 - side]
        if pair := _compatible(*((own, other) if side == 0 else (other, own))):
            found.append(Link(link_rules()[rank], thing, pair))
    return found


def _compatible(first: list[str], second: list[str]) -> tuple[str, str] | None:
    """The best sentences that differ in what they say and do not speak of different degrees of severity."""
    for pair in product(first[:_TRIED], second[:_TRIED]):
        degrees, others = (set(_DEGREE.findall(sentence)) for sentence in pair)
        if (not degrees or not others or degrees & others) and not _alike(*pair):
            return pair
    return None


def _alike(first: str, second: str) -> bool:
    one, other = set(question_words(first)), set(question_words(second))
    return len(one & other) > _ALIKE * min(len(one), len(other))


_MAX_UNITS = 12


def dose_questions(drug: str, a: PassageFacts, b: PassageFacts) -> list[tuple[str, str]]:
    """Questions and answers on a passage with doses and one with strengths, in either order; none on other passages."""
    for dosing, supply in ((a.doses, b.doses), (b.doses, a.doses)):
        # A passage with a single strength may be one of several on a product's strengths.
        if dosing and supply and len(supply.strengths) > 1:
            made = [
                _units_of_maximum(drug, dosing.maximum, supply.form, supply.strengths),
                _strength_of_start(drug, dosing.start, supply.form, supply.strengths),
            ]
            return [question for question in made if question]
    return []


def _units_of_maximum(drug: str, limit: Dose | None, form: str, available: tuple[Dose, ...]) -> tuple[str, str] | None:
    largest = available[-1]
    count = limit.milligrams / largest.milligrams if limit and largest.milligrams else 0
    if limit is None or count != int(count) or not 1 <= count <= _MAX_UNITS:
        return None
    units = f"{int(count)} {form}" + ("s" if count > 1 else "")
    return (
        f"How many of the highest-strength {form}s of {drug} add up to the maximum daily dose?",
        f"{units}, as computed from the maximum daily dose ({limit.printed}) with the highest strength "
        f"({largest.printed}). {limit.sentence}",
    )


def _strength_of_start(drug: str, start: Dose | None, form: str, available: tuple[Dose, ...]) -> tuple[str, str] | None:
    if start is None or start.milligrams not in {dose.milligrams for dose in available}:
        return None
    listed = ", ".join(dose.printed for dose in available)
    return (
        f"Which available {form} strength of {drug} gives the recommended starting dose in a single {form}?",
        f"The {start.printed} {form}, one of the strengths available ({listed}). {start.sentence}",
    )


MAX_QUESTIONS = 1
"""Questions a pair of passages: further ones ask much the same."""

_MIN_QUESTION, _MAX_QUESTION = 10, 200
_MIN_ANSWER, _MAX_ANSWER = 5, 600
_MIN_OVERLAP = 0.10


def multihop_questions(slots: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Questions that need both passages, with their answers; none where no rule links the two.

    Args:
        slots: those of the task generate_multihop.

    Returns:
        Up to `MAX_QUESTIONS` of (question, answer) within the bounds of FDARxBench §B.4.
    """
    drug, a, b = str(slots["drug"]), str(slots["context_a"]), str(slots["context_b"])
    facts_a, facts_b = passage_facts(a, str(slots["section_code_a"])), passage_facts(b, str(slots["section_code_b"]))
    found = chain(dose_questions(drug, facts_a, facts_b), _link_questions(drug, find_links(facts_a, facts_b)))
    return list(islice((pair for pair in found if _fits(*pair, a, b)), MAX_QUESTIONS))


def topics(a: PassageFacts, b: PassageFacts) -> list[tuple[str, str]]:
    """What the questions on two passages would be about, best first: a kind of question and the thing asked about."""
    computed = [("dose", question) for question, _ in dose_questions("", a, b)]
    return computed + [(link.rule.name, link.thing) for link in find_links(a, b)]


def _link_questions(drug: str, linked: Iterable[Link]) -> Iterator[tuple[str, str]]:
    for link in linked:
        if link.thing and _names_itself(drug, link.thing):
            continue
        asks = link.rule.ask
        ask = asks[int(content_id(drug, *link.sentences), 16) % len(asks)]
        first, second = link.sentences
        yield ask.format(drug=drug, key=link.thing), link.rule.tell.format(a=first, b=second)


def _names_itself(drug: str, thing: str) -> bool:
    """Whether the thing is the drug: warfarin is no interaction of warfarin's."""
    return not {word.rstrip("s") for word in question_words(drug)}.isdisjoint(
        word.rstrip("s") for word in question_words(thing)
    )


def _fits(question: str, answer: str, a: str, b: str) -> bool:
    if not (_MIN_QUESTION <= len(question) <= _MAX_QUESTION and _MIN_ANSWER <= len(answer) <= _MAX_ANSWER):
        return False
    return all(_overlap(answer, context) >= _MIN_OVERLAP for context in (a, b))


def _overlap(answer: str, context: str) -> float:
    said, there = question_words(answer), set(question_words(context))
    return sum(word in there for word in said) / len(said) if said else 0.0
