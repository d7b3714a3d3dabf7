"""The claims of an answer by rules: sentences, clauses, and what they certainly speak of.

Source: FAS §3.2. Rules stand in for the paper's spaCy model: no weights are needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from fdarx_core.evaluation.answers.refusals import declines
from fdarx_core.factuality.claims.blocks import Block, Kind, blocks_of, cells
from fdarx_core.factuality.claims.clauses import clauses_of
from fdarx_core.factuality.claims.left_out import is_no_claim, lists_sources, names_doctor, without_citations
from fdarx_core.factuality.claims.readings import reading_of, words_of
from fdarx_core.factuality.claims.scene import Clause
from fdarx_core.factuality.claims.sentences import sentences_of
from fdarx_core.factuality.claims.spans import trimmed
from fdarx_core.factuality.claims.subjects import Thread
from fdarx_core.factuality.claims.words import asks, commands, core_of, has_verb, is_said, is_simple
from fdarx_core.records import CheckedAnswer, Claim, content_id

_SILENT = ("refused", "failed")
_LABELLED = re.compile(
    r"[*_]*(?P<label>[^\s:*_.!?][^:.!?\n]{1,60}?)[*_]*\s?[:：][*_]*\s+(?=\S)|"
    r"[*_]+(?P<bold>[^*_\n]{2,60})[*_]+\s+[–—-]\s+"
)
_POINTS_BACK = re.compile(r"(?:it|its|they|their|these|this)\b", re.IGNORECASE)
_CUT_WORD = re.compile(
    r"\b(?:the|an?|of|and|or|to|in|with|for|by|is|are|can|may|that|which|from|as|such|your|be|has|have|on|at|if|its)$",
    re.IGNORECASE,
)
_ENDED = re.compile(r"[.!?…][\"”’')\]*_]*$")
_LONG = 1000


@dataclass(frozen=True, slots=True)
class Said:
    """A claim before it is numbered: `text[start:end]`, and how it reads by itself."""

    start: int
    end: int
    resolved: str


def claims_of(answer: CheckedAnswer) -> list[Claim]:
    """The answer's claims in their order. None of a refusal or a failed answer; one that is repeated counts once.

    A pronoun is replaced where it is certain what it stands for; what is said in a few words without a verb ("5 mg
    twice daily") reads together with what announces it, a list's introduction, a heading or the question.
    """
    if answer.outcome in _SILENT or declines(answer.answer):
        return []
    told = dict[str, Said]()
    for said in _Reader(answer).claims():
        told.setdefault(said.resolved.casefold(), said)
    return numbered(answer, list(told.values()))


def numbered(answer: CheckedAnswer, said: list[Said]) -> list[Claim]:
    """What was said, in its order, as claims of the answer."""
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
        for number, one in enumerate(said)
    ]


@dataclass(slots=True)
class _Reader:
    """One walk through an answer. `topic` is what few words are said on, `lead` what announced the list at hand."""

    answer: CheckedAnswer
    text: str = ""
    topic: str = ""
    lead: str = ""
    in_sources: bool = False
    thread: Thread = field(default_factory=Thread)
    alone: bool = False
    ended: bool = False

    def __post_init__(self) -> None:
        self.text, self.topic = self.answer.answer, self.answer.question.strip()
        self.thread.given = self.answer.drug

    def claims(self) -> Iterator[Said]:
        blocks = blocks_of(self.text)
        self.alone = len(blocks) == 1
        for block in blocks:
            if block.kind is Kind.HEADING:
                self._headed(reading_of(self.text[block.start : block.end]))
            elif block.kind is Kind.ROW:
                yield from self._row(block)
            elif not (self.in_sources and block.kind is Kind.ITEM):
                yield from self._sentences(block, last=block is blocks[-1])

    def _headed(self, heading: str) -> None:
        self.thread.interrupted()
        self.topic, self.lead, self.in_sources = heading, "", lists_sources(heading)

    def _row(self, block: Block) -> Iterator[Said]:
        found = cells(self.text[block.start : block.end])
        named = [
            f"{header}: {cell}" if header else cell for header, cell in _headed_cells(block.headers, found) if cell
        ]
        start, end = trimmed(self.text, block.start, block.end)
        if len(named) > 1 and end > start:
            yield Said(start, end, reading_of(without_citations("; ".join(named))))

    def _sentences(self, block: Block, *, last: bool) -> Iterator[Said]:
        spans = sentences_of(self.text, block.start, block.end)
        if block.kind is Kind.TEXT:
            self.lead, self.in_sources = "", False
        for at, (start, end) in enumerate(spans):
            followed = at + 1 < len(spans)
            if last and not followed and self._is_cut(start, end):
                return
            self.ended = bool(_ENDED.search(self.text[start:end]))
            yield from self._sentence(start, end, block.kind, followed)

    def _is_cut(self, start: int, end: int) -> bool:
        """Whether an answer breaks off here, as one does that reaches the length it was allowed."""
        text = self.text[start:end]
        if _ENDED.search(text) or (self.alone and len(text.split()) < 4):
            return False
        return bool(_CUT_WORD.search(text)) or (self.ended and len(self.text) >= _LONG)

    def _sentence(self, start: int, end: int, kind: Kind, followed: bool) -> Iterator[Said]:
        text = without_citations(self.text[start:end]).strip()
        if asks(text):
            self._headed(reading_of(text) if is_said(text) else self.topic)
        elif is_no_claim(text):
            self.thread.named("Doctors" if names_doctor(text) else "")
            self.in_sources = lists_sources(text)
        elif text.rstrip("*_ ").endswith((":", "：")):
            self.lead = self.thread.resolved(reading_of(text)) + ":"
            self.in_sources = lists_sources(text)
        elif self._says_by_itself(text, kind):
            yield from self._statement(start, end)
        elif kind is Kind.ITEM and followed:
            self.thread.named(reading_of(text).rstrip("."))
        elif self._says_something(text, kind, followed):
            yield from self._said(start, end, self._in_context(words_of(text)))

    def _says_by_itself(self, text: str, kind: Kind) -> bool:
        if _labelled(text):
            return True
        said = reading_of(text)
        if kind is Kind.ITEM and self.lead:
            return core_of(said) is not None or commands(said)
        return has_verb(said)

    def _says_something(self, text: str, kind: Kind, followed: bool) -> bool:
        """Whether few words without a verb answer: not an exclamation, an aside, a "Yes." before more."""
        aside = text.endswith("!") or (text.startswith("(") and text.rstrip(".").endswith(")"))
        return kind is Kind.ITEM or (self.alone and not followed) or (len(text.split()) > 2 and not aside)

    def _in_context(self, few: str) -> str:
        before = self.lead or self.topic
        return f"{before}{'' if before.endswith((':', '?')) else ':'} {few}" if before else few

    def _statement(self, start: int, end: int) -> Iterator[Said]:
        label = _LABELLED.match(self.text, start, end)
        if not label or not has_verb(self.text[label.end() : end]):
            for clause in self._clauses(start, end):
                yield from self._said(clause.start, clause.end, clause.reading)
            return
        name = reading_of(label["label"] or label["bold"])
        if is_simple(name):
            self.thread.named(name)
        for clause in self._clauses(label.end(), end):
            first = clause.start == label.end()
            whole = first and not (is_simple(name) and _POINTS_BACK.match(clause.reading))
            reading = f"{name}: {clause.reading}" if whole else clause.reading
            yield from self._said(start if first else clause.start, clause.end, reading)

    def _clauses(self, start: int, end: int) -> Iterator[Clause]:
        """Those of a sentence that claim something: "… and ask your doctor" does not."""
        return (clause for clause in clauses_of(self.text, start, end) if not is_no_claim(clause.reading))

    def _said(self, start: int, end: int, reading: str) -> Iterator[Said]:
        resolved = self.thread.resolved(without_citations(reading).strip())
        self.thread.told(resolved)
        if names_doctor(reading):
            self.thread.named("" if self.thread.subject else "Doctors")
        start, end = trimmed(self.text, start, end)
        if end > start and resolved:
            yield Said(start, end, resolved)


def _labelled(text: str) -> bool:
    found = _LABELLED.match(text)
    return bool(found and has_verb(text[found.end() :]))


def _headed_cells(headers: tuple[str, ...], found: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for at, cell in enumerate(found):
        yield (reading_of(headers[at]) if at < len(headers) else ""), reading_of(cell)
