"""What links a sentence of one section with a sentence of another: rules read from `multihop.yaml`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fdarx_core.generation.baseline.doses import DoseFacts, dose_facts
from fdarx_core.generation.baseline.lexicon import Lexicon
from fdarx_core.generation.baseline.statements import statements
from fdarx_core.generation.baseline.text import words
from fdarx_core.generation.library import load_library
from fdarx_core.generation.sections import role_of, roles

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
class Side:
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
    sides: tuple[Side, Side]
    ask: tuple[str, ...]
    tell: str


Socket = tuple[int, str, int]
"""Rank of a rule, a thing, and a side (0 or 1): passages link where they hold both sides of a rule about a thing."""


@dataclass(slots=True)
class Facts:
    """The sentences of one passage that can serve in links, best first, by socket; `fits` are the sockets they need."""

    role: str
    sockets: dict[Socket, list[str]]
    fits: frozenset[Socket]
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
def _lexicon() -> Lexicon:
    return Lexicon(_library().lexicons)


@cache
def link_rules() -> tuple[LinkRule, ...]:
    """The rules of `multihop.yaml`, best first."""
    library = _library()

    def side(row: _SideRow) -> Side:
        wanted, forbidden = (tuple(map(library.pattern, listed)) for listed in (row.all, row.none))
        return Side(frozenset(row.roles), wanted, forbidden, row.focus)

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


def facts(text: str, code: str) -> Facts:
    """What a passage under the section with LOINC `code` offers for links; nothing outside the table of sections."""
    role = role_of(code)
    served: dict[Socket, list[tuple[int, int, str]]] = {}
    for sentence in statements(text) if _sides_of_role(role) else ():
        for socket, place in _sockets(sentence.lower(), role):
            served.setdefault(socket, []).append((place, len(sentence), sentence))
    sockets = {socket: [entry[2] for entry in sorted(entries)] for socket, entries in served.items()}
    fits = frozenset((rank, thing, 1 - side) for rank, thing, side in sockets)
    return Facts(role, sockets, fits, dose_facts(role, text))


def _sockets(lowered: str, role: str) -> Iterator[tuple[Socket, int]]:
    named, occurs = _lexicon().find(lowered), _Occurs(lowered).__getitem__
    for rule, i in _sides_of_role(role):
        side = rule.sides[i]
        things = named.get(rule.key, {}) if rule.key else {"": 0}
        focused = [thing for thing, place in things.items() if place < side.focus]
        if focused and side.accepts(occurs):
            yield from (((rule.rank, thing, i), things[thing]) for thing in focused)


def links(a: Facts, b: Facts) -> list[Link]:
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
    one, other = set(words(first)), set(words(second))
    return len(one & other) > _ALIKE * min(len(one), len(other))
