"""The claims of an answer without a model: sentences, independent clauses, items of lists, rows of tables.

No list of nouns, verbs or adjectives is used, only structure: marks, lines, closed word classes. If structure does not
decide, a sentence stays whole. A sentence that begins with a pronoun reads with the sentence before it. Source: FAS
§3.2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from fdarx_core.baseline.clauses import clauses_of, finite_at, lower_words, refers_back
from fdarx_core.baseline.refusals import declines
from fdarx_core.baseline.sentences import sentence_spans
from fdarx_core.baseline.tokens import capitalise, pattern
from fdarx_core.records import CheckedAnswer, Claim, content_id


class ClaimSpan(NamedTuple):
    """A claim at `answer[start:end]`, and how it reads without context."""

    start: int
    end: int
    resolved: str


class _Block(NamedTuple):
    """A line or wrapped paragraph of an answer without its marks; `headers` are those of a table."""

    start: int
    end: int
    kind: Literal["text", "item", "row", "heading"]
    headers: tuple[str, ...] = ()


_BREAK = r"\n\r\v\f\x1c-\x1e\x85\u2028\u2029"
_LINE = re.compile(
    rf"[ \t]*#[^{_BREAK}]*|[^{_BREAK}|]*\|[^{_BREAK}]*|"
    rf"[^{_BREAK}]+(?:(?<![.!?;:。…])\r?\n[ \t]*(?=[a-z]+[^.)a-z|])[^{_BREAK}|]+(?=[{_BREAK}]|$))*"
)
"""A heading, a row of a table, or a line with those that go on with its sentence."""
_LEAD_MARKS = re.compile(r"[\s>]*(?:(?:[QA]|answer|response)\s?[:：]\s+)?", re.IGNORECASE)
_HASHES = re.compile(r"#{1,6}\s*")
_ITEM = re.compile(
    r"(?:[-–—+*](?=\s)|[•·◦▪‣●○■□➢✓✔]|\(?\d{1,2}[.)](?=\s)|[a-z]\.(?=\s)|\(?[a-zA-Z]\)(?=\s)|\(?[ivx]{1,4}[.)](?=\s))\s*"
)
_BOLD = re.compile(r"(\*{2,3}|__)[^*_]+\1\W{0,2}$")
_ENDED = re.compile(r"[.!?;:。…][*_\"”’')\]]*$")
_SENTENCE_END = re.compile(r"[.!?…][*_\"”’')\]]*$")
_RULE = re.compile(r"(?=.*\|)(?=.*-)[ \t|:-]+")
_LETTERS = re.compile(r"[^\W\d_]{2}")
_QUESTION = re.compile(r"(?:what|who|whose|which|where|why|how|when)\b", re.IGNORECASE)
_LONGEST_HEADING = 10
_UNFINISHED = pattern("unfinished", re.I)
_LONG = 1000
"""Answers of so many characters whose last sentence has no end were probably cut by a limit of tokens."""

_NUMBERS = r"\d{1,3}(?:\.\d{1,2}){0,2}(?:\s*(?:[,;–-]|and)\s*\d{1,3}(?:\.\d{1,2}){0,2})*"
_URL = r"(?:https?://|www\.)[^\s<>\"”\])]+"
_PASSAGE = r"\|{0,2}\s?PASSAGES?[\s_\\:#-]{0,2}\d{1,6}\s?\|{0,2}"
_PLACE = r"(?:also\s)?(?:see|refer to|sources?|refs?|references?|sections?|tables?|passages?)\b[^()\[\]]{0,200}"
_CITATION = re.compile(
    rf"\s{{0,2}}(?:[\[(]\s*(?:{_PASSAGE}[\s,;–-]*)+[\])]|\[\s*\^?{_NUMBERS}\s*\](?:\([^()\s]*\))?|"
    rf"[\[(]\s*{_URL}\s*[\])]|{_URL}|{_PASSAGE}|\(\s*{_PLACE}(?:\([^()]*\)[^()]{{0,80}}){{0,4}}\)|\[\s*{_PLACE}"
    r"(?:\([^()]*\))?\s*\])",
    re.IGNORECASE,
)
_MARKDOWN = re.compile(r"\*+|(?<!\w)_+|_+(?!\w)|`+")
_CONNECTIVE = pattern("connective", re.I)
_EDGES = " \t\r\n\v\f\x1c\x1d\x1e\x85\u00a0\u2028\u2029*_,;:|"
_LEADING = re.compile(rf"(?:{_CITATION.pattern}|[\s*_,;:…•|]|[.)\]](?=[\s.,;]))+", re.IGNORECASE)
_TRAILING = re.compile(rf"(?:{_CITATION.pattern})+[\s.,;:*_]*$", re.IGNORECASE)

_SOURCES = re.compile(r"(?:cited[ _]passages?|citations|sources|references|bibliography)\W*$", re.IGNORECASE)


def claims_of(answer: CheckedAnswer) -> list[Claim]:
    """Return the claims of the answer in order. A refusal or a failed answer has none; a repeated claim counts once.

    Questions, headings and ends that break off are no claims. `resolved` begins with the sentence before if a pronoun
    refers to it, and with the name of the drug if the claim does not contain it.
    """
    if answer.outcome in ("refused", "failed") or declines(answer.answer):
        return []
    found: dict[str, ClaimSpan] = {}
    for one in _Reader(answer).claims():
        found.setdefault(one.resolved.casefold(), one)
    return numbered(answer, list(found.values()))


def numbered(answer: CheckedAnswer, spans: list[ClaimSpan]) -> list[Claim]:
    """Return spans, in order, as claims of the answer."""
    return [
        Claim(
            id=content_id("claim", answer.id, str(one.start), str(one.end)),
            answer_id=answer.id,
            number=number,
            start=one.start,
            end=one.end,
            text=answer.answer[one.start : one.end],
            resolved=one.resolved,
        )
        for number, one in enumerate(spans)
    ]


def _blocks(answer: str) -> list[_Block]:
    """Return the blocks of an answer that have words."""
    lines = [found.span() for found in _LINE.finditer(answer)]
    headers, blocks = tuple[str, ...](), list[_Block]()
    for at, (first, last) in enumerate(lines):
        line = answer[first:last]
        if not _LETTERS.search(line) and not any(char.isdigit() for char in line):
            continue
        if line.count("|") > 1 or (headers and "|" in line):
            if at + 1 < len(lines) and _RULE.fullmatch(answer, *lines[at + 1]):
                headers = tuple(_reading(cell) for cell in line.strip(" \t|").split("|"))
                continue
            blocks.append(_Block(first, last, "row", headers))
        else:
            headers = ()
            blocks.append(_block(answer, first, last, alone=len(lines) == 1))
    return blocks


def _block(answer: str, start: int, end: int, *, alone: bool) -> _Block:
    marks = _LEAD_MARKS.match(answer, start, end)
    start = marks.end() if marks else start
    if hashes := _HASHES.match(answer, start, end):
        return _Block(hashes.end(), end, "heading")
    if item := _ITEM.match(answer, start, end):
        return _Block(item.end(), end, "item")
    text = answer[start:end].strip()
    words = lower_words(text)
    short = len(words) <= _LONGEST_HEADING and not _ENDED.search(text) and text[:1].isupper()
    title = not alone and (_BOLD.match(text) or (short and (finite_at(words) is None or _QUESTION.match(text))))
    return _Block(start, end, "heading" if title else "text")


def _reading(text: str) -> str:
    """Return a piece of an answer as a sentence: without citations, markdown and an opening connective."""
    said = _CITATION.sub("", text) if re.search(r"[\[(|]|http|www|passage", text, re.IGNORECASE) else text
    line = " ".join(_MARKDOWN.sub("", said).split()).strip(" ,;:–—-|")
    return _capitalised(_CONNECTIVE.sub("", line, count=1) if _CONNECTIVE.match(line) else line)


def _capitalised(text: str) -> str:
    return capitalise(text) if "".join(text.split(None, 1)[:1]).islower() else text


@dataclass(slots=True)
class _Reader:
    """Reads the claims of an answer in one pass.

    `before` is what a sentence with a pronoun is joined to: a sentence, a heading or the question. `anchor` is what a
    fragment is joined to; `lead` introduces the items of a list.
    """

    answer: CheckedAnswer
    before: str = ""
    lead: str = ""
    first: bool = True
    anchor: str = ""
    ended: bool = False

    def claims(self) -> Iterator[ClaimSpan]:
        self.before = self.anchor = self.answer.question.strip()
        blocks = _blocks(self.answer.answer)
        for block in blocks:
            if block.kind == "heading":
                self._headed(self.answer.answer[block.start : block.end])
            elif block.kind == "row":
                yield from self._row(block)
            elif block.kind == "text" or not _SOURCES.match(self.lead or self.anchor):
                yield from self._sentences(block, last=block is blocks[-1])

    @property
    def drug(self) -> str:
        """The name of the drug as the answer or the question writes it."""
        name = self.answer.drug
        for wanted in (name, *name.split()[: 0 if re.search(r"\band\b|[,/]", name) else 1]):
            spelt = rf"(?<!\w){re.escape(wanted)}(?!\w)"
            if wanted and (found := re.search(spelt, f"{self.answer.answer} {self.answer.question}", re.IGNORECASE)):
                return _capitalised(found[0])
        return name

    def _names_drug(self, text: str) -> bool:
        said = set(lower_words(text))
        return any(len(word) > 3 and word in said for word in lower_words(self.answer.drug))

    def _headed(self, text: str) -> None:
        self.anchor = _reading(text)
        self.before = self.anchor if self.anchor.endswith(("?", "!", ".", ":")) else f"{self.anchor}:"
        self.lead, self.first = "", True

    def _row(self, block: _Block) -> Iterator[ClaimSpan]:
        cells = [_reading(cell) for cell in self.answer.answer[block.start : block.end].strip(" \t|").split("|")]
        names = [*block.headers, *[""] * len(cells)]
        named = [f"{name}: {cell}" if name else cell for name, cell in zip(names, cells, strict=False) if cell]
        if len(named) > 1:
            yield from self._span(block.start, block.end, "; ".join(named))

    def _sentences(self, block: _Block, *, last: bool) -> Iterator[ClaimSpan]:
        text = self.answer.answer
        spans = [(block.start + a, block.start + b) for a, b in sentence_spans(text[slice(*block[:2])], "answer")]
        if block.kind == "text":
            self.lead = ""
        for at, (start, end) in enumerate(spans):
            said, more = text[start:end], at + 1 < len(spans)
            before, self.ended = self.ended, bool(_SENTENCE_END.search(said))
            if last and not more and (_UNFINISHED.search(said) or (before and not self.ended and len(text) >= _LONG)):
                return
            reading = _reading(said)
            if not _LETTERS.search(reading) and not (self.first or self.lead):
                continue
            if said.rstrip("*_\"”’')] \t").endswith("?"):
                self._headed(said)
            elif _CITATION.sub("", said).rstrip("*_ ,[]").endswith((":", "：")):
                self.lead = self._resolved(reading) + ":"
            elif _LETTERS.search(reading) or any(char.isdigit() for char in reading):
                yield from self._sentence(start, end, reading, block.kind, more)

    def _sentence(self, start: int, end: int, reading: str, kind: str, more: bool) -> Iterator[ClaimSpan]:
        words = lower_words(reading)
        fragment = finite_at(words) is None and (kind == "item" or len(words) < 3 or not _ENDED.search(reading))
        if fragment and reading.endswith("!"):
            return
        if kind == "item" and self.lead and (fragment or reading[:1].islower() or refers_back(reading)):
            yield from self._span(start, end, f"{self.lead} {reading}")
        elif fragment and kind == "item" and more:
            self.before = reading
        elif fragment and (self.first or kind == "item") and not refers_back(reading):
            joint = "" if self.anchor.endswith(("?", ":")) or not self.anchor else ":"
            yield from self._span(start, end, f"{self.anchor.rstrip('.')}{joint} {reading}".strip())
        else:
            for first, past, subject in clauses_of(self.answer.answer[start:end]):
                clause = _reading(subject + self.answer.answer[start + first : start + past])
                yield from self._span(start + first, start + past, self._resolved(clause))
            if not refers_back(reading):
                self.before = reading
            self.anchor = self.anchor if kind == "item" else self.before
        self.first = False

    def _span(self, start: int, end: int, resolved: str) -> Iterator[ClaimSpan]:
        """Yield a claim, its text without citations and marks around it, and the drug's name before one without it."""
        text = self.answer.answer
        if leading := _LEADING.match(text, start, end):
            start = leading.end()
        piece = text[start:end].rstrip(_EDGES)
        while cited := _TRAILING.search(piece):
            piece = piece[: cited.start()].rstrip(_EDGES)
        if piece and (resolved := resolved.strip()):
            named = self._names_drug(resolved) or not self.drug
            yield ClaimSpan(start, start + len(piece), resolved if named else f"{self.drug}: {resolved}")

    def _resolved(self, reading: str) -> str:
        """Return a sentence or clause that can be read by itself."""
        return f"{self.before} {reading}".strip() if refers_back(reading) else reading
