"""The engine without a model: it decides if a text has the same words in the same order, and abstains otherwise.

A statement is supported if one sentence of the text has all of its words in the same order, except for inflection and
a short list of synonyms, with the same quantities, bounds and negations, and has no restriction that the statement
leaves out. It is contradicted if such a sentence differs in exactly one quantity, unit, bound or polarity. All other
statements are undecided.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple
from unicodedata import category

from fdarx_core.baseline.sentences import sentence_spans
from fdarx_core.verify.engine import Inference, RuleEngine, TextPair
from fdarx_core.verify.exact_tokens import DRUG, Token, lexicon, tokenize_sentence, uninflected, words

Difference = Literal["number", "unit", "interval", "bound", "polarity"]

UNDECIDED = 1 / 3
"""The probability of each class if the engine is undecided."""
_BULLETS = ("- ", "• ", "o ", "* ")
_BRACKETS = {"(": ")", "[": "]"}
_CROSS_REFERENCE = ("see", "refer")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text, or an item of a list with the sentence that introduces the list."""

    tokens: tuple[Token, ...]
    start: int
    end: int


class Match(NamedTuple):
    """A match of a statement with a sentence: the kind of difference (None if equal), its words, and the position."""

    difference: Difference | None
    detail: str
    start: int
    end: int


def _judge(pair: TextPair) -> Inference:
    """Judge a pair by exact matching; the probabilities are equal if the engine is undecided."""
    statement = pair.hypothesis
    if added := _signs(statement) - _signs(pair.premise):
        detail = f"the text has no sign {', '.join(sorted(added))}"
        return Inference(UNDECIDED, UNDECIDED, UNDECIDED, 0, 0, detail)
    spans = sentence_spans(statement, "label")
    tokens = [tokenize_sentence(statement[start:end], pair.drug) for start, end in spans]
    parts = [one for one in tokens if any(token.kind != "mark" for token in one)]
    sentences = _sentences(pair.premise, pair.drug)
    matches = [find_match(part, sentences) for part in parts]
    differing = [one for one in matches if one is not None and one.difference]
    if differing:
        first = differing[0]
        return Inference(0.0, 0.0, 1.0, first.start, first.end, f"{first.difference}: {first.detail}")
    matched = [one for one in matches if one is not None]
    if matches and len(matched) == len(matches):
        start, end = min(one.start for one in matched), max(one.end for one in matched)
        return Inference(1.0, 0.0, 0.0, start, end, "the same words in the same order")
    missing = "no sentence of the text has these words in this order" if parts else "the statement has no words"
    return Inference(UNDECIDED, UNDECIDED, UNDECIDED, 0, 0, missing)


_MINUS = re.compile(r"(?<![\w)\]])[-\u2010-\u2015\u2212](?=\d)")
_OF_TOKENS = frozenset("<>≤≥=%°®™©")
"""Symbols that tokens compare, or that change no meaning."""


def _signs(text: str) -> frozenset[str]:
    """Return the signs of a text that may turn its meaning, and that tokens leave out: symbols, a minus, a question."""
    symbols = {one for one in text if not one.isascii() and category(one)[0] == "S"} if not text.isascii() else set()
    symbols |= {one for one in "+~^$" if one in text}
    minus = {"-"} if _MINUS.search(text) else set()
    question = {"?"} if text.rstrip().endswith("?") else set()
    return frozenset((symbols | minus | question) - _OF_TOKENS)


ENGINE = RuleEngine("exact", _judge)


@lru_cache(maxsize=256)
def _sentences(text: str, drug: str) -> tuple[Sentence, ...]:
    return tuple(_read_sentences(text, drug))


def sentences_of(text: str, drug: str = "") -> list[Sentence]:
    """Return the sentences of a text that have words; an item of a list also together with its introduction."""
    return [one for one in _sentences(text, drug) if any(token.kind != "mark" for token in one.tokens)]


def _read_sentences(text: str, drug: str) -> Iterator[Sentence]:
    introduction: tuple[Token, ...] = ()
    for start, end in sentence_spans(text, "label"):
        sentence = text[start:end]
        item = sentence.startswith(_BULLETS)
        tokens = tuple(tokenize_sentence(sentence[2:] if item else sentence, drug))
        yield Sentence(tokens, start, end)
        if item and introduction:
            yield Sentence((*introduction, *tokens), start, end)
        elif not item:
            introduction = tokens[:-1] if sentence.endswith(":") else ()


def find_match(statement: Sequence[Token], sentences: Sequence[Sentence]) -> Match | None:
    """Return the first match of a statement without a difference, else the first with one difference, else None.

    A label often leaves out the name of its drug: "the dosage should be reduced". A statement that adds it, as in "the
    dosage of carvedilol", is compared without it with sentences that do not name the drug.
    """
    whole = [one for one in statement if one.kind != "mark"]
    bare = [whole[:at] + whole[at + 2 :] for at in range(len(whole) - 1) if _names_drug(whole[at], whole[at + 1])]
    differing: Match | None = None
    for tokens, elliptical in ((whole, False), *((one, True) for one in bare)):
        wanted = Counter(one.key for one in tokens)
        for sentence in sentences:
            present = Counter(one.key for one in sentence.tokens)
            if (wanted - present).total() > 1 or (elliptical and DRUG in present):
                continue
            match = _align(tokens, sentence)
            if match is not None and not match.difference:
                return match
            differing = differing or match
    return differing


def _names_drug(one: Token, following: Token) -> bool:
    return following.kind == "drug" and one.key in words("of_the_drug")


def _align(statement: Sequence[Token], sentence: Sentence) -> Match | None:
    """Return the match of a statement with a sentence; None for two differences or more, or an omitted restriction."""
    places = [place for place, one in enumerate(sentence.tokens) if one.kind != "mark"]
    path = _path(statement, [sentence.tokens[place] for place in places])
    if path is None:
        return None
    differences: list[tuple[Token | None, Token | None]] = []
    matched: list[int] = []
    for mine, there in zip(statement, path, strict=True):
        theirs = None if there is None else sentence.tokens[places[there]]
        if there is not None:
            matched.append(places[there])
        if theirs is None or theirs.key != mine.key:
            differences.append((mine, theirs))
    for gap in _gaps(sentence.tokens, matched):
        if gap.negates:
            differences.append((None, gap.tokens[0]))
        elif not gap.adds:
            return None
    if not differences:
        return Match(None, "", sentence.start, sentence.end)
    [(mine_or_none, theirs), *more] = differences
    kind = None if more else _difference(mine_or_none, theirs)
    if kind is None:
        return None
    own, other = (one.key if one else "no negation" for one in (mine_or_none, theirs))
    return Match(kind, f"{own} instead of {other}", sentence.start, sentence.end)


_Cost = tuple[int, int]
_IMPOSSIBLE: _Cost = (9, 0)


def _path(statement: Sequence[Token], sentence: Sequence[Token]) -> list[int | None] | None:
    """Align the tokens of a statement and a sentence in order, with the fewest differences and then the fewest gaps.

    Returns the place in the sentence of each token of the statement, None for a negation that the sentence lacks; or
    None if there is no alignment with at most one difference.
    """
    width = len(sentence)
    # For each number of consumed tokens of the sentence: cost, number consumed before, whether a token was matched.
    row: list[tuple[_Cost, int, bool]] = [((0, 0), 0, False)] * (width + 1)
    rows = []
    for place, token in enumerate(statement):
        above, row = row, [(_IMPOSSIBLE, 0, False)]
        gap, gap_at = _IMPOSSIBLE, 0
        for there, other in enumerate(sentence):
            cost, at = min((above[there][0], there), (gap, gap_at))
            apart = 0 if token.key == other.key else 1 if _difference(token, other) else _IMPOSSIBLE[0]
            row.append(((cost[0] + apart, cost[1]), at, True))
            if place:  # tokens of the sentence before the statement are not a gap
                gap, gap_at = min((gap, gap_at), ((above[there][0][0], above[there][0][1] + 1), there))
        if token.kind == "negation":
            for there in range(width + 1):
                without = (above[there][0][0] + 1, above[there][0][1])
                if without < row[there][0]:
                    row[there] = without, there, False
        rows.append(row)
    end = min(range(width + 1), key=lambda there: rows[-1][there][0])
    if rows[-1][end][0][0] > 1:
        return None
    path: list[int | None] = []
    for row in reversed(rows):
        _, at, is_matched = row[end]
        path.append(end - 1 if is_matched else None)
        end = at
    return path[::-1]


def _difference(one: Token | None, other: Token | None) -> Difference | None:
    """Return the kind of difference of two tokens if it alone makes a contradiction, else None."""
    if one is None or other is None:
        return "polarity" if (one or other).kind == "negation" else None  # type: ignore[union-attr]
    if one.kind != other.kind:
        return None
    if one.kind == "quantity":
        if one.unit == other.unit:
            return "number"
        return "unit" if one.value == other.value and one.unit and other.unit else None
    if one.kind == "interval":
        return "interval"
    if one.kind == "bound":
        return "bound"
    return "polarity" if one.kind == "word" and (one.key, other.key) in _opposites() else None


@cache
def _opposites() -> frozenset[tuple[str, str]]:
    pairs = [tuple(map(uninflected, pair.split())) for pair in lexicon()["opposites"]]
    return frozenset((one, other) for first, second in pairs for one, other in ((first, second), (second, first)))


class _Gap(NamedTuple):
    """Tokens of a sentence that a statement leaves out; `first` and `last`: at the start or end of the sentence."""

    tokens: Sequence[Token]
    first: bool
    last: bool

    @property
    def negates(self) -> bool:
        """Whether the tokens are only a negation."""
        return [one.kind for one in self.tokens if one.kind != "mark"] == ["negation"]

    @property
    def adds(self) -> bool:
        """Whether the tokens restrict nothing: a bracket, a heading, another clause, or further items of a list."""
        bare = list(self.tokens)
        while bare and bare[-1].key in (",", ".", ";", ":"):
            bare.pop()
        while bare and bare[0].key in _BRACKETS.values():  # it closes a bracket of the statement
            bare.pop(0)
        bracketed = len(bare) > 1 and _BRACKETS.get(bare[0].key) == bare[-1].key
        if bracketed and bare[1].key in _CROSS_REFERENCE:
            return True
        if any(one.kind in ("negation", "bound") or one.key in words("restricting") for one in self.tokens):
            return False
        if bracketed:
            return True
        if self.first:
            return self.tokens[-1].key in (":", ";")
        return self.tokens[0].key in words("joining") or (not self.last and self.tokens[-1].key in words("joining"))


def _gaps(tokens: Sequence[Token], matched: Sequence[int]) -> Iterator[_Gap]:
    for before, after in zip((-1, *matched), (*matched, len(tokens)), strict=True):
        gap = tokens[before + 1 : after]
        if any(one.kind != "mark" for one in gap):
            yield _Gap(gap, before < 0, after == len(tokens))
