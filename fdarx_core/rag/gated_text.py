"""The text of an answer out of the statements that the gate lets through, and its citations."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal
from unicodedata import category

from fdarx_core.rag.cited_text import CITATION, Statement, cited_numbers
from fdarx_core.rag.gate import CheckedStatement, DroppedStatement, GateReport
from fdarx_core.records import AnswerStatement, Citation, SearchHit

_MARKS = re.compile(rf"(?P<gap>\s*)(?P<marks>(?:{CITATION.pattern})(?:\s*(?:{CITATION.pattern}))*)", re.IGNORECASE)


Verdict = Literal["supported", "unsupported", "undecided", "uncited", "unchecked"]


@dataclass(slots=True)
class _Held:
    """A statement that has not left yet: its text, the text between it and the one before, its citations and verdict.

    `emptied` means that it introduces a statement which was dropped.
    """

    statement: Statement
    gap: str
    text: str
    citations: list[Citation]
    verdict: Verdict
    emptied: bool = False


class GatedText:
    """The text, the statements, the citations and the report of what has passed the gate of an answer.

    A statement without a citation waits until one with a citation has passed. A lead-in, heading or table header waits
    until a statement below it has passed, and is left out where none does.

    Args:
        contexts: the contexts of the answer.
        verifier: the name of the model or engine whose verdicts the statements have.
    """

    def __init__(self, contexts: Sequence[SearchHit], verifier: str) -> None:
        self.text, self.citations, self.report = "", list[Citation](), GateReport(verifier=verifier)
        self.statements = list[AnswerStatement]()
        self.passed = False
        self._contexts = contexts
        self._held = list[_Held]()
        self._gap, self._end = "", 0

    def add(self, answer: str, checked: CheckedStatement) -> None:
        """Add the next statement of an answer; `text` and `statements` have what may leave now."""
        one = checked.statement
        gap = _wider(self._gap, _layout(answer[self._end : one.start]))
        self._gap, self._end = gap, one.end
        self._leave_out_emptied(one)
        if checked.reason is not None:
            self._drop(one, checked)
            return
        self._gap = ""
        if not one.is_frame:
            self.report.statements += 1
            counted = checked.verdict if checked.places else "uncited"
            setattr(self.report, counted, getattr(self.report, counted) + 1)
        self._held.append(self._hold(answer, gap, checked))
        self.passed = self.passed or bool(checked.places and not one.is_frame)
        if self.passed and not one.is_frame:
            self._release()

    def close(self) -> None:
        """Count the statements that still wait as dropped: no statement with a citation has passed."""
        waiting = [held.statement for held in self._held if not held.statement.is_frame]
        self.report.dropped += (DroppedStatement(one.text, "uncited") for one in waiting)
        self.report.uncited -= len(waiting)

    def _drop(self, one: Statement, checked: CheckedStatement) -> None:
        assert checked.reason is not None
        self.report.statements += 1
        self.report.dropped.append(DroppedStatement(one.text, checked.reason))
        for held in reversed(self._held):
            if not held.statement.is_frame:
                break
            held.emptied = True

    def _leave_out_emptied(self, following: Statement) -> None:
        """Leave out frames without a statement where another frame, or a sentence after a list, follows."""
        ends = {"heading"} if following.kind == "heading" else {"lead", "header"}
        if following.kind in ("item", "row"):
            return
        while self._held and self._held[-1].emptied and (following.is_frame or self._held[-1].statement.kind in ends):
            self._gap = _wider(self._held.pop().gap, self._gap)

    def _hold(self, answer: str, gap: str, checked: CheckedStatement) -> _Held:
        one = checked.statement
        citations = [
            Citation(n, self._contexts[n - 1], place.start, place.end, (0, 0), checked.verdict)
            for n, place in checked.places
        ]
        numbers = {place.n for place in citations}
        text = _with_marks(answer[one.start : one.end], numbers, len(self._contexts))
        return _Held(one, gap, text, citations, self._verdict(checked))

    def _verdict(self, checked: CheckedStatement) -> Verdict:
        if checked.statement.is_frame:
            return "unchecked"
        return checked.verdict if checked.places else "uncited"

    def _release(self) -> None:
        for held in self._held:
            self.text += (held.gap if self.text else held.gap.lstrip()) + held.text
            place = len(self.text) - len(held.text), len(self.text)
            self.citations += (replace(one, statement=place) for one in held.citations)
            numbers = dict.fromkeys(one.n for one in held.citations)
            self.statements.append(AnswerStatement(*place, held.verdict, list(numbers)))
        self._held.clear()


def _layout(gap: str) -> str:
    """Return what of the text between two statements is layout: white space, punctuation and the signs of Markdown.

    A citation there belongs to no statement, and "[9†text]" may have any text; symbols may be letters in disguise.
    """
    return "".join(one for one in CITATION.sub("", gap) if one.isspace() or one in _SIGNS or category(one)[0] == "P")


_SIGNS = frozenset("+|=<>`^~")


def _wider(before: str, gap: str) -> str:
    """Return the gap that keeps more of the layout, of two around a statement that is left out."""
    bare = bool(before.strip()) and not gap.strip()
    return before if bare or ("\n" in before and "\n" not in gap) else gap


def _with_marks(text: str, kept: Collection[int], contexts: int) -> str:
    """Return a statement without the citations that are not kept."""

    def marks(found: re.Match[str]) -> str:
        numbers = [number for one in CITATION.finditer(found["marks"]) for number in cited_numbers(one[0], contexts)]
        left = "".join(f"[{number}]" for number in numbers if number in kept)
        return found["gap"] + left if left else ""

    return _MARKS.sub(marks, text).strip()
