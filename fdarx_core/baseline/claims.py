"""The claims of an answer by rules: sentences, clauses, and what they certainly speak of. Source: FAS §3.2."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from fdarx_core.baseline.claim_text import (
    CITATION,
    CoreferenceResolver,
    is_no_claim,
    lists_sources,
    names_doctor,
    reading_of,
    without_citations,
    words_of,
)
from fdarx_core.baseline.clauses import Clause, clauses_of
from fdarx_core.baseline.grammar import asks, begins_question, commands, core_of, has_verb, is_said, is_simple
from fdarx_core.baseline.refusals import declines
from fdarx_core.baseline.sentences import sentence_spans
from fdarx_core.records import CheckedAnswer, Claim, content_id

BlockKind = Literal["text", "item", "row", "heading"]


@dataclass(frozen=True, slots=True)
class AnswerBlock:
    """`answer[start:end]`, without the marks it begins with; `headers` name a row's cells, where its table has any."""

    start: int
    end: int
    kind: BlockKind
    headers: tuple[str, ...] = ()


_LINE = re.compile(r"[^\n\r\v\f\x1c-\x1e\x85\u2028\u2029]+")
_QUOTED = re.compile(r"\s*(?:>\s*)*")
_HASHES = re.compile(r"#{1,6}\s+|#{2,6}(?=\S)")
_ITEM = re.compile(
    r"(?:[-–—+](?=\s|[^\W\d])|[*](?=\s|[^\W\d*][^*]*$)|[•·◦▪‣●○■□➢✓✔]|\(?\d{1,2}[.)](?=\s)|\(?[a-zA-Z]\)(?=\s)|"
    r"[a-z]\.(?=\s)|"
    r"\(?[ivx]{1,4}[.)](?=\s))\s*"
)
_LABEL = re.compile(r"(?:[QA]|answer|response|question)\s?\d{0,2}\s?[:：]\s*", re.IGNORECASE)
_BOLD = re.compile(r"(\*{2,3}|__)[^*_]+\1\W{0,2}$")
_RULE = re.compile(r"[\s|:+=_*-]+$")
_FENCE = re.compile(r"(?:```|~~~)")
_ENDED = re.compile(r"[.!?;:。…][*_\"”’')\]]*$")
_CONTINUES = re.compile(r"[a-z]")
_LONGEST_HEADING = 10


def blocks_of(answer: str) -> list[AnswerBlock]:
    """Return the blocks of the answer in order, without horizontal rules and code fences."""
    lines = [(found.start(), found.end()) for found in _LINE.finditer(answer)]
    said = [
        line
        for line in _tables(answer, lines)
        if line.end > line.start and not _RULE.match(answer[line.start : line.end])
    ]
    joined = _joined(answer, said)
    return [_as_heading(answer, block, alone=len(joined) == 1) for block in joined]


def _tables(answer: str, lines: list[tuple[int, int]]) -> Iterator[AnswerBlock]:
    """Yield each line as a block; a table row also has the cells of the table's header."""
    headers: tuple[str, ...] = ()
    for at, (start, end) in enumerate(lines):
        line = answer[start:end]
        if line.count("|") < 2 and not (headers and "|" in line):
            headers = ()
            yield _block(answer, start, end)
            continue
        if at + 1 < len(lines) and _is_rule(answer[slice(*lines[at + 1])]):
            headers = cells(line)
        elif not _is_rule(line):
            yield _stripped(answer, start, end, "row", headers)


def _is_rule(line: str) -> bool:
    return "|" in line and "-" in line and bool(_RULE.match(line))


def cells(row: str) -> tuple[str, ...]:
    """Return the cells of a row, stripped of white space."""
    return tuple(cell.strip() for cell in row.strip().strip("|").split("|"))


def _stripped(answer: str, start: int, end: int, kind: BlockKind, headers: tuple[str, ...] = ()) -> AnswerBlock:
    """Return a block without the white space (and, for a row, the pipes) around it."""
    marks = " \t|" if kind == "row" else None
    text = answer[start:end]
    start += len(text) - len(text.lstrip(marks))
    return AnswerBlock(start, max(start, start + len(answer[start:end].rstrip(marks))), kind, headers)


def _block(answer: str, start: int, end: int) -> AnswerBlock:
    start = _after(_QUOTED, answer, start, end)
    if _FENCE.match(answer, start, end):
        return AnswerBlock(start, start, "text")
    if hashed := _HASHES.match(answer, start, end):
        return _stripped(answer, hashed.end(), end, "heading")
    item = _ITEM.match(answer, start, end)
    begins = _after(_LABEL, answer, item.end() if item else start, end)
    return _stripped(answer, begins, end, "item" if item else "text")


def _after(pattern: re.Pattern[str], answer: str, start: int, end: int) -> int:
    found = pattern.match(answer, start, end)
    return found.end() if found else start


def _joined(answer: str, blocks: list[AnswerBlock]) -> list[AnswerBlock]:
    """Join a line to the line before if it continues that line's sentence, as in wrapped text."""
    joined = list[AnswerBlock]()
    for block in blocks:
        before = joined[-1] if joined else None
        if before and _goes_on(answer, before, block):
            joined[-1] = AnswerBlock(before.start, block.end, before.kind)
        else:
            joined.append(block)
    return joined


def _goes_on(answer: str, before: AnswerBlock, block: AnswerBlock) -> bool:
    wrapped = before.kind in ("text", "item") and block.kind == "text"
    gap = answer[before.end : block.start]
    return (
        wrapped
        and gap.count("\n") + (gap.count("\r") if "\n" not in gap else 0) == 1
        and bool(_CONTINUES.match(answer, block.start, block.end))
        and not _ENDED.search(answer[max(before.start, before.end - 8) : before.end])
    )


def _as_heading(answer: str, block: AnswerBlock, *, alone: bool) -> AnswerBlock:
    """Return a block as a heading if it is in bold, or short without a verb and a full stop.

    Not one that is `alone`.
    """
    if block.kind != "text" or alone:
        return block
    text = answer[block.start : block.end]
    short = not _ENDED.search(text) and (len(text.split()) <= _LONGEST_HEADING or text.isupper())
    heads = _BOLD.match(text) or (short and (text.isupper() or begins_question(text) or not has_verb(text)))
    return AnswerBlock(block.start, block.end, "heading") if heads else block


_LEADING = re.compile(rf"(?:{CITATION.pattern}|[\s*_,;:…•|]|[.)\]](?=[\s.,;]))+", re.IGNORECASE)
_CITED_LAST = re.compile(rf"(?:{CITATION.pattern})+[\s.,;:*_]*$", re.IGNORECASE)
_LAST_JOINT = re.compile(r"[;,]\s+(?:and|or)\s*$", re.IGNORECASE)
_AROUND = " \t\r\n\v\f\x1c\x1d\x1e\x85\u00a0\u2028\u2029*_,;:|"


def trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """Return `start` and `end` without introduction, citations and punctuation; they are equal if nothing is left."""
    if leading := _LEADING.match(text, start, end):
        start = leading.end()
    piece = _LAST_JOINT.sub("", text[start:end]).rstrip(_AROUND)
    while cited := _CITED_LAST.search(piece):
        piece = piece[: cited.start()].rstrip(_AROUND)
    return start, start + len(piece)


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
_ENDED_CLAIMS = re.compile(r"[.!?…][\"”’')\]*_]*$")
_LONG = 1000


def claims_of(answer: CheckedAnswer) -> list[Claim]:
    """Return the claims of the answer in order. A refusal or a failed answer has none; a repeated claim counts once.

    A pronoun is replaced if its reference is certain. Words without a verb ("5 mg twice daily") are combined with what
    introduces them: the line above a list, a heading or the question.
    """
    if answer.outcome in _SILENT or declines(answer.answer):
        return []
    told = dict[str, Clause]()
    for said in _Reader(answer).claims():
        told.setdefault(said.reading.casefold(), said)
    return numbered(answer, list(told.values()))


def numbered(answer: CheckedAnswer, said: list[Clause]) -> list[Claim]:
    """Return clauses, in order, as claims of the answer."""
    return [
        Claim(
            id=content_id("claim", answer.id, str(one.start), str(one.end)),
            answer_id=answer.id,
            number=number,
            start=one.start,
            end=one.end,
            text=answer.answer[one.start : one.end],
            resolved=one.reading,
        )
        for number, one in enumerate(said)
    ]


@dataclass(slots=True)
class _Reader:
    """Reads the claims of an answer in one pass.

    `topic` is the subject that a claim without a verb gets, `lead` the introduction of the current list.
    """

    answer: CheckedAnswer
    text: str = ""
    topic: str = ""
    lead: str = ""
    in_sources: bool = False
    thread: CoreferenceResolver = field(default_factory=CoreferenceResolver)
    alone: bool = False
    ended: bool = False

    def __post_init__(self) -> None:
        self.text, self.topic = self.answer.answer, self.answer.question.strip()
        self.thread.given = self.answer.drug

    def claims(self) -> Iterator[Clause]:
        blocks = blocks_of(self.text)
        self.alone = len(blocks) == 1
        for block in blocks:
            if block.kind == "heading":
                self._headed(reading_of(self.text[block.start : block.end]))
            elif block.kind == "row":
                yield from self._row(block)
            elif not (self.in_sources and block.kind == "item"):
                yield from self._sentences(block, last=block is blocks[-1])

    def _headed(self, heading: str) -> None:
        self.thread.interrupted()
        self.topic, self.lead, self.in_sources = heading, "", lists_sources(heading)

    def _row(self, block: AnswerBlock) -> Iterator[Clause]:
        found = cells(self.text[block.start : block.end])
        named = [
            f"{header}: {cell}" if header else cell for header, cell in _headed_cells(block.headers, found) if cell
        ]
        start, end = trimmed(self.text, block.start, block.end)
        if len(named) > 1 and end > start:
            yield Clause(start, end, reading_of(without_citations("; ".join(named))))

    def _sentences(self, block: AnswerBlock, *, last: bool) -> Iterator[Clause]:
        found = sentence_spans(self.text[block.start : block.end], "answer")
        spans = [(block.start + first, block.start + last) for first, last in found]
        if block.kind == "text":
            self.lead, self.in_sources = "", False
        for at, (start, end) in enumerate(spans):
            followed = at + 1 < len(spans)
            if last and not followed and self._is_cut(start, end):
                return
            self.ended = bool(_ENDED_CLAIMS.search(self.text[start:end]))
            yield from self._sentence(start, end, block.kind, followed)

    def _is_cut(self, start: int, end: int) -> bool:
        """Return whether the answer stops within a sentence here, because it reached its maximum length."""
        text = self.text[start:end]
        if _ENDED_CLAIMS.search(text) or (self.alone and len(text.split()) < 4):
            return False
        return bool(_CUT_WORD.search(text)) or (self.ended and len(self.text) >= _LONG)

    def _sentence(self, start: int, end: int, kind: BlockKind, followed: bool) -> Iterator[Clause]:
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
        elif kind == "item" and followed:
            self.thread.named(reading_of(text).rstrip("."))
        elif self._says_something(text, kind, followed):
            yield from self._said(start, end, self._in_context(words_of(text)))

    def _says_by_itself(self, text: str, kind: BlockKind) -> bool:
        if _labelled(text):
            return True
        said = reading_of(text)
        if kind == "item" and self.lead:
            return core_of(said) is not None or commands(said)
        return has_verb(said)

    def _says_something(self, text: str, kind: BlockKind, followed: bool) -> bool:
        """Return whether words without a verb can be a claim: no exclamation, aside, or "Yes." before more text."""
        aside = text.endswith("!") or (text.startswith("(") and text.rstrip(".").endswith(")"))
        return kind == "item" or (self.alone and not followed) or (len(text.split()) > 2 and not aside)

    def _in_context(self, few: str) -> str:
        before = self.lead or self.topic
        return f"{before}{'' if before.endswith((':', '?')) else ':'} {few}" if before else few

    def _statement(self, start: int, end: int) -> Iterator[Clause]:
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
        """Return the clauses of a sentence that claim something: "… and ask your doctor" does not."""
        return (clause for clause in clauses_of(self.text, start, end) if not is_no_claim(clause.reading))

    def _said(self, start: int, end: int, reading: str) -> Iterator[Clause]:
        resolved = self.thread.resolved(without_citations(reading).strip())
        self.thread.told(resolved)
        if names_doctor(reading):
            self.thread.named("" if self.thread.subject else "Doctors")
        start, end = trimmed(self.text, start, end)
        if end > start and resolved:
            yield Clause(start, end, resolved)


def _labelled(text: str) -> bool:
    found = _LABELLED.match(text)
    return bool(found and has_verb(text[found.end() :]))


def _headed_cells(headers: tuple[str, ...], found: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    for at, cell in enumerate(found):
        yield (reading_of(headers[at]) if at < len(headers) else ""), reading_of(cell)
