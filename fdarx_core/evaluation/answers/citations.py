"""The passages that a reply cites, in the forms in which models write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_EDGE = r"[ \t*_#>`~\-•]{0,12}(?:\d[.)][ \t]{0,3})?[*_`]{0,4}"
_EXACT = r"CITED[ _\\]{1,3}PASSAGES?(?:[ _]IDS?)?|CITED[ _]IDS?|PASSAGES?[ _]CITED"
_LOOSE = r"CITATIONS?|CITED|SOURCES?|REFERENCES?|(?:(?:SUPPORTING|RELEVANT|SOURCE)[ _])?PASSAGES?(?:[ _]IDS?)?"
_STOP = r"[*_`\"]{0,4}[ \t]{0,3}(?:[:=]|[-–—](?=\s)|(?=\[)|(?=\|\|)|(?= PASSAGE_))[*_`\"]*"
_LINE = re.compile(
    rf"(?:^{_EDGE}(?:{_EXACT}|{_LOOSE})|(?<!\w)[*_`\"\[(]{{0,4}}(?:{_EXACT})){_STOP}(?P<list>.*)$",
    re.MULTILINE | re.IGNORECASE,
)
_NAME = r"\|{0,2}[ ]?PASSAGES?(?:[ _\\\-#:]|ID|NO\.?|NUMBER){0,4}"
_MARKER = re.compile(rf"{_NAME}(\d{{1,6}})(?!\d)\|{{0,2}}", re.IGNORECASE)
_DIGITS = r"(?<![\d.])(?P<%s>\d{1,6})(?!\d|\.\d)\|{0,2}"
_TO = r"\s*(?:-|–|—|\bto\b|\bthrough\b|\.{2,3})\s*"
_CITED = re.compile(
    rf"(?P<name>{_NAME})?{_DIGITS % 'first'}(?:{_TO}(?:{_NAME})?{_DIGITS % 'last'})?",
    re.IGNORECASE,
)
_ENUMERATOR = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_LIST_WORDS = re.compile(
    r"PASSAGES?|IDS?\b|NONE|NULL|N/?A\b|EMPTY|NO\.|AND|OR|TO|THROUGH|[\s\d\[\](){}<>|,;:&*_\\\-–—.`\"'#+/•]",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r" ?(?:\[[^\[\]\n]{1,400}\]|\([^()\n]{1,400}\)|\|\| ?PASSAGE[ _]?\d{1,6} ?\|\|)", re.IGNORECASE)
_SEE = re.compile(r"\b(?:see|cited?|sources?)\b", re.IGNORECASE)
_BARE = re.compile(r"[\s\]}*`]*$")
_RUN_ON = re.compile(r"^[\s*_#]*(?:QUESTION|DRUG|PASSAGES|LABEL)[*_]*\s*:", re.MULTILINE | re.IGNORECASE)
"""What a model that does not stop writes next: the prompt's own lines."""


@dataclass(frozen=True)
class Cited:
    """The reply without its citations, and these as pairs of first and last number, in the order of their naming."""

    text: str
    ranges: list[tuple[int, int]]


def split_citations(reply: str) -> Cited:
    """Takes a reply apart. Where it has citation lines they count, else the markers within the text.

    A citation line starts with a word for it (CITED_PASSAGES, Cited passages, Citations, Sources …) and ends with its
    list, which may run over several lines. Numbers without a marker count only in a list of nothing but such; a list
    may hold ranges. What a model writes past a citation line that looks like the prompt's next question is dropped.
    """
    kept, ranges, at = [], list[tuple[int, int]](), 0
    while found := _LINE.search(reply, at):
        end = _list_end(reply, found.start("list"), found.end())
        listed = reply[found.start("list") : end]
        if not _is_list(listed) and not _MARKER.search(listed):
            kept.append(reply[at : found.end()])
            at = found.end()
            continue
        kept.append(reply[at : found.start()])
        ranges += in_list(listed)
        at = end
        if run_on := _RUN_ON.search(reply, at):
            reply = reply[: run_on.start()]
    kept.append(reply[at:])
    text = "".join(kept).strip()
    return Cited(_BRACKETS.sub(_without_citation, text).strip(), ranges or in_text(text))


def _without_citation(found: re.Match[str]) -> str:
    """Nothing, where brackets hold passages alone."""
    inner = _SEE.sub("", found[0].strip()[1:-1])
    return "" if _MARKER.search(inner) and _is_list(inner) else found[0]


def in_text(text: str) -> list[tuple[int, int]]:
    """The passages that are named by marker."""
    return [pair for pair, bare in _pairs(text) if not bare]


def in_list(listed: str) -> list[tuple[int, int]]:
    """The passages of a list, line by line: by marker, and by number where a line holds nothing else."""
    found, named = [], bool(_MARKER.search(listed))
    for line in listed.split("\n"):
        plain = _ENUMERATOR.sub("", line) if named else line
        found += [pair for pair, bare in _pairs(plain) if not bare or _is_list(plain)]
    return found


def _pairs(text: str) -> Iterator[tuple[tuple[int, int], bool]]:
    """First and last number of each citation, and whether it is a mere number; a range that runs backwards is two."""
    for found in _CITED.finditer(text):
        first, last, bare = int(found["first"]), int(found["last"] or found["first"]), found["name"] is None
        if first <= last:
            yield (first, last), bare
        else:
            yield (first, first), bare
            yield (last, last), bare


def _is_list(text: str) -> bool:
    return not _LIST_WORDS.sub("", text)


def _list_end(reply: str, start: int, line_end: int) -> int:
    """Where a list ends: its line, and the lines below it that hold only passages, or stand within its bracket."""
    end, opened = line_end, reply.count("[", start, line_end) > reply.count("]", start, line_end)
    while (following := _line_end(reply, end + 1)) > end:
        line = reply[end + 1 : following]
        if not (
            (_MARKER.search(line) and (opened or _is_list(line))) or (_is_list(line) and (opened or _BARE.match(line)))
        ):
            break
        end, opened = following, opened and "]" not in line
    return end


def _line_end(reply: str, start: int) -> int:
    if start > len(reply):
        return -1
    end = reply.find("\n", start)
    return len(reply) if end < 0 else end
