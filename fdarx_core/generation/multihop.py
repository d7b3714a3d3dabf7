"""Multi-hop questions by rules: a sentence of each passage, linked. Source: FDARxBench §B.3, §B.4."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain, islice, product
from typing import Any

from fdarx_core.baseline.statements import Dose, DoseFacts, dose_facts, statements
from fdarx_core.baseline.tokens import expand, question_words, tokenize
from fdarx_core.generation.library import has_right_length, load_library, role_of
from fdarx_core.records import content_id

PhraseHits = dict[str, dict[str, int]]
"""List -> thing -> how many other things of that list come before it."""


Phrases = dict[str, list[tuple[tuple[str, ...], str, str]]]
"""First word -> phrases that begin with it, longest first, each with its list and its thing."""


def find_phrases(phrases: Phrases, lowered: str) -> PhraseHits:
    """Return the things that a lower-case text names; of overlapping phrases of a list, the first and longest."""
    words = tokenize(lowered, "phrase")
    found: PhraseHits = {}
    ends: dict[str, int] = {}
    for position, word in enumerate(words):
        entries = phrases.get(word)
        if entries is None and word[-1] == "s":
            entries = phrases.get(word[:-1])
        for phrase, name, thing in entries or ():
            end = position + len(phrase)
            if ends.get(name, 0) <= position and _same(words[position:end], phrase):
                things = found.setdefault(name, {})
                things.setdefault(thing, len(things))
                ends[name] = end
    return found


def _same(words: list[str], phrase: tuple[str, ...]) -> bool:
    return len(words) == len(phrase) and all(
        word == wanted or word == wanted + "s" for word, wanted in zip(words, phrase, strict=True)
    )


_DEGREE = re.compile(r"\b(?:mild|moderate|severe|end-stage)", re.I)
_TRIED = 4
_ALIKE = 0.7


@dataclass(frozen=True, slots=True)
class LinkSide:
    """Conditions of one side of a rule; the shared subject must be among the first `focus` that the sentence names."""

    roles: frozenset[str]
    all: tuple[re.Pattern[str], ...]
    none: tuple[re.Pattern[str], ...]
    focus: int


@dataclass(frozen=True, slots=True)
class LinkRule:
    """A relation between two sections; `rank` is its place in the file, best first."""

    rank: int
    name: str
    key: str
    sides: tuple[LinkSide, LinkSide]
    ask: Sequence[str]
    tell: str


LinkKey = tuple[int, str, int]
"""Rank of a rule, a thing, and a side (0 or 1): passages link where they hold both sides of a rule about a thing."""


@dataclass(slots=True)
class PassageFacts:
    """The sentences of one passage that can serve in links, best first, by socket; `fits` are the sockets they need."""

    sockets: dict[LinkKey, list[str]]
    fits: frozenset[LinkKey]
    doses: DoseFacts | None


Link = tuple[LinkRule, str, tuple[str, str]]
"""A rule that two passages satisfy, the thing that they share, and the sentences of its sides."""


@cache
def _lexicon() -> Phrases:
    phrases: Phrases = {}
    for name, things in load_library("multihop")["lexicons"].items():
        for thing, wordings in things.items():
            for phrase in (tuple(wording.split()) for wording in wordings):
                phrases.setdefault(phrase[0], []).append((phrase, name, thing))
    for entries in phrases.values():
        entries.sort(key=lambda entry: -len(entry[0]))
    return phrases


@cache
def link_rules() -> tuple[LinkRule, ...]:
    """Return the rules of `multihop.yaml`, best first."""
    library = load_library("multihop")

    def pattern(text: str) -> re.Pattern[str]:
        return re.compile(expand(text, library["words"]))

    def side(roles: list[str], all: list[str], none: Sequence[str] = (), focus: int = 2) -> LinkSide:
        return LinkSide(frozenset(roles), tuple(map(pattern, all)), tuple(map(pattern, none)), focus)

    def rule(rank: int, a: Any, b: Any, tell: str = "{a} {b}", **row: Any) -> LinkRule:
        return LinkRule(rank, sides=(side(**a), side(**b)), tell=tell, **row)

    return tuple(rule(rank, **row) for rank, row in enumerate(library["rules"]))


@cache
def _sides_of_role(role: str) -> tuple[tuple[LinkRule, int], ...]:
    return tuple((rule, i) for rule in link_rules() for i, side in enumerate(rule.sides) if role in side.roles)


def passage_facts(text: str, code: str) -> PassageFacts:
    """Return what a passage of the section with LOINC `code` offers for links; nothing for other sections."""
    role = role_of(code)
    served: dict[LinkKey, list[tuple[int, int, str]]] = {}
    for sentence in statements(text) if _sides_of_role(role) else ():
        for socket, place in _sockets(sentence.lower(), role):
            served.setdefault(socket, []).append((place, len(sentence), sentence))
    sockets = {socket: [entry[2] for entry in sorted(entries)] for socket, entries in served.items()}
    fits = frozenset((rank, thing, 1 - side) for rank, thing, side in sockets)
    return PassageFacts(sockets, fits, dose_facts(role, text))


def _sockets(lowered: str, role: str) -> Iterator[tuple[LinkKey, int]]:
    named = find_phrases(_lexicon(), lowered)

    @cache  # many rules share a pattern
    def occurs(pattern: re.Pattern[str]) -> bool:
        return pattern.search(lowered) is not None

    for rule, i in _sides_of_role(role):
        side = rule.sides[i]
        things = named.get(rule.key, {}) if rule.key else {"": 0}
        focused = [thing for thing, place in things.items() if place < side.focus]
        if focused and all(map(occurs, side.all)) and not any(map(occurs, side.none)):
            yield from (((rule.rank, thing, i), things[thing]) for thing in focused)


def find_links(a: PassageFacts, b: PassageFacts) -> list[Link]:
    """Return the links between two passages, each a rule and a subject, best first."""
    if b.fits.isdisjoint(a.sockets):
        return []
    found = []
    for socket in sorted(b.fits & a.sockets.keys()):
        rank, thing, side = socket
        own, other = a.sockets[socket], b.sockets[rank, thing, 1 - side]
        if pair := _compatible(*((own, other) if side == 0 else (other, own))):
            found.append((link_rules()[rank], thing, pair))
    return found


def _compatible(first: list[str], second: list[str]) -> tuple[str, str] | None:
    """Return the best pair of sentences with different content and the same degree of severity."""
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
    """Return questions on a passage with doses and one with strengths, in either order; none for others."""
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
"""The most questions for a pair of passages: further ones ask nearly the same."""

_MIN_OVERLAP = 0.10


def multihop_questions(slots: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return questions that need both passages, with their answers; none if no rule links the two.

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
    """Return the topics of questions on two passages, best first: the kind of question and the thing asked about."""
    computed = [("dose", question) for question, _ in dose_questions("", a, b)]
    return computed + [(rule.name, thing) for rule, thing, _ in find_links(a, b)]


def _link_questions(drug: str, linked: Iterable[Link]) -> Iterator[tuple[str, str]]:
    for rule, thing, (first, second) in linked:
        if not thing or not _names_itself(drug, thing):
            ask = rule.ask[int(content_id(drug, first, second), 16) % len(rule.ask)]
            yield ask.format(drug=drug, key=thing), rule.tell.format(a=first, b=second)


def _names_itself(drug: str, thing: str) -> bool:
    """Return whether a subject is the drug itself: warfarin does not interact with warfarin."""
    names, things = ({word.rstrip("s") for word in question_words(text)} for text in (drug, thing))
    return bool(names & things)


def _fits(question: str, answer: str, a: str, b: str) -> bool:
    shares = (_overlap(answer, context) for context in (a, b))
    return has_right_length(question, answer) and all(share >= _MIN_OVERLAP for share in shares)


def _overlap(answer: str, context: str) -> float:
    said, there = question_words(answer), set(question_words(context))
    return sum(word in there for word in said) / len(said) if said else 0.0
