"""What a judge's reply means for a question."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quote:
    """Text that a reply claims to have copied from what the slot `slot` showed."""

    slot: str
    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """`drop` is the reason to drop the question, a fixed name to count by, or "" to keep it.

    `detail` is for a person to read. `quotes` is the evidence; one that must be there and is not has no text.
    """

    drop: str = ""
    detail: str = ""
    quotes: tuple[Quote, ...] = ()
    category: str = ""
    relevance: str = ""


def quotes(*claims: tuple[bool, str, str]) -> tuple[Quote, ...]:
    """Evidence from (whether the reply must show some, slot, what it shows); what is neither due nor shown is none."""
    return tuple(Quote(slot, text) for due, slot, text in claims if due or text)


def flagged(flags: list[str], note: str) -> Decision:
    """The decision on a question with these faults: it is dropped for the first, in the judge's order."""
    if not flags:
        return Decision()
    reason = "other_fault" if flags[0] == "other" else flags[0]
    return Decision(reason, f"{', '.join(dict.fromkeys(flags))}: {note}" if note else ", ".join(dict.fromkeys(flags)))
