"""The text of an answer out of the statements that the gate lets through, and its citations."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from fdarx_core.rag.cited_text import CITATION, Statement, cited_numbers
from fdarx_core.rag.gate import CheckedStatement, DroppedStatement, GateReport
from fdarx_core.records import Citation, SearchHit

_MARKS = re.compile(rf"(?P<gap>\s*)(?P<marks>(?:{CITATION.pattern})(?:\s*(?:{CITATION.pattern}))*)", re.IGNORECASE)


@dataclass(slots=True)
class _Held:
    """A statement that has not left yet: its text, the text between it and the one before, and its citations.

    `emptied` means that it introduces a statement which was dropped.
    """

    statement: Statement
    gap: str
    text: str
    citations: list[Citation]
    emptied: bool = False


class GatedText:
    """The text, the citations and the report of the statements of an answer that have passed the gate.

    A statement without a citation waits until one with a citation has passed. A lead-in, heading or table header waits
    until a statement below it has passed, and is left out where none does.
    """

    def __init__(self, contexts: Sequence[SearchHit]) -> None:
        self.text, self.citations, self.report = "", list[Citation](), GateReport()
        self.passed = False
        self._contexts = contexts
        self._held = list[_Held]()
        self._gap, self._end = "", 0

    def add(self, answer: str, checked: CheckedStatement) -> str:
        """Add the next statement of an answer, and return the text that may leave now."""
        one = checked.statement
        gap = _wider(self._gap, answer[self._end : one.start])
        self._gap, self._end = gap, one.end
        self._leave_out_emptied(one)
        if checked.reason is not None:
            self._drop(one, checked)
            return ""
        self._gap = ""
        if not one.is_frame:
            self.report.statements += 1
            self.report.supported += checked.supported
            self.report.undecided += not checked.supported
        self._held.append(self._hold(answer, gap, checked))
        self.passed = self.passed or bool(checked.places and not one.is_frame)
        return self._release() if self.passed and not one.is_frame else ""

    def close(self) -> None:
        """Count the statements that still wait as dropped: no statement with a citation has passed."""
        waiting = [held.statement for held in self._held if not held.statement.is_frame]
        self.report.dropped += (DroppedStatement(one.text, "uncited") for one in waiting)
        self.report.undecided -= len(waiting)

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
        one, verdict = checked.statement, "supported" if checked.supported else "undecided"
        citations = [
            Citation(n, self._contexts[n - 1], place.start, place.end, (0, 0), verdict)  # type: ignore[arg-type]
            for n, place in checked.places
        ]
        numbers = {place.n for place in citations}
        return _Held(one, gap, _with_marks(answer[one.start : one.end], numbers, len(self._contexts)), citations)

    def _release(self) -> str:
        before = len(self.text)
        for held in self._held:
            self.text += (held.gap if self.text else held.gap.lstrip()) + held.text
            place = len(self.text) - len(held.text), len(self.text)
            self.citations += (replace(one, statement=place) for one in held.citations)
        self._held.clear()
        return self.text[before:]


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
