"""A sentence while it is taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass

from fdarx_core.factuality.claims.readings import intro_end, joined
from fdarx_core.factuality.claims.words import Core, core_of, frame_end, is_adverb, plain, spoken

_BRACKETED = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|“[^”]*”|\"[^\"]*\"")


@dataclass(frozen=True, slots=True)
class Clause:
    """`text[start:end]`, and how it reads by itself: what it shares with the clause before it put in front."""

    start: int
    end: int
    reading: str


@dataclass(frozen=True, slots=True)
class Scene:
    """Where a splitting stands: in which sentence, `shown` with what is bracketed or quoted blotted out, and in which
    clause of it.

    `frame` stands before the subject, which begins at `main`, and holds for all clauses ("In children, "). The clause
    at hand begins at `start`, and reads as `lead` and what it says from `own` on; `core` is None of a command.
    """

    said: str
    shown: str
    frame: str
    subject: str
    core: Core | None
    main: int
    start: int = 0
    own: int = 0
    lead: str = ""

    @property
    def told(self) -> int:
        """Where it has said enough for another clause to follow."""
        return self.core.verb_end if self.core else self.own

    def clause(self, end: int) -> Clause:
        return Clause(self.start, end, joined(self.lead, self.said[self.own : end]))


def opening(said: str) -> Scene:
    """Where a sentence begins."""
    shown = _BRACKETED.sub(lambda found: "_" * len(found[0]), said)
    begun = intro_end(shown)
    main = frame_end(shown, begun)
    core = core_of(shown, main)
    return Scene(said, shown, said[begun:main], subject_of(said, core), core, main)


def subject_of(said: str, core: Core | None) -> str:
    """A clause's subject, with the space that follows it."""
    if core is None:
        return ""
    words = spoken(said, core.start, core.verb)
    end = core.verb
    while len(words) > 1 and is_adverb(plain(words[-1])):
        end = words.pop().start()
    return f"{said[core.start : end].rstrip()} "
