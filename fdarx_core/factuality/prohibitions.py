"""The statements by which a label forbids the use of its drug, and the phrases that name what each forbids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from fdarx_core.baseline.clauses import finite_at
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.tokens import pattern, strip_references, tokenize
from fdarx_core.factuality.prohibition_subjects import in_sentence, without_head, without_reason
from fdarx_core.labels.loinc import DOSAGE_SECTION
from fdarx_core.records import Label, Passage

CONTRAINDICATIONS = "34070-3"
BOXED_WARNING = "34066-1"
INTERACTIONS = "34073-7"
TABLE = (CONTRAINDICATIONS, BOXED_WARNING, INTERACTIONS)
FURTHER = ("43685-7", "34071-1", "42232-9", "43684-0", DOSAGE_SECTION)
"""Warnings and Precautions, Warnings, Precautions, Use in Specific Populations, Dosage: what they forbid is less
certain to be forbidden to all."""

_pattern = partial(pattern, file="prohibitions.yaml", package=__package__)

_ITEM = re.compile(
    r"(?P<indent>\s*)(?:(?P<section>\d{1,2}\.\d{1,2}\s+(?=[A-Z]))|[-•·●▪◦*○−–—]|o(?= [A-Z])|"
    r"\(?\d{1,2}[.)](?=\s*[A-Za-z])|\(?[a-z][.)](?=\s))\s*"
)
_REFERENCE = re.compile(r"\s*[\[(]\s*(?:also )?(?:[Ss]ee|SEE)(?![a-z])[^\[\]()]{0,240}[\])]")
_WRAPPED = re.compile(r"(?<=[a-z,)])(\s?-)?[ \t]*\n[ \t]*(?=(?!o )[a-z])")
_GLUED = re.compile(r"(?<=[A-Za-z)]{3})\.(?=[A-Z][A-Za-z]{2})")
_EMPTY = _pattern("empty", re.I)
_HEADING_WORDS = 8

_FORBIDS = _pattern("forbids", re.I)
_OPENS = _pattern("opens", re.I)
_AMOUNT = _pattern("amount", re.I)
_ABOUT = _pattern("about", re.I)
_USE = _pattern("use", re.I)
_LINKS = _pattern("links", re.I)
_CLAUSE = _pattern("clause", re.I)
_ORDER = _pattern("order", re.I)


@dataclass(frozen=True, slots=True)
class Line:
    """A line: its sentences without cross-references, the sign and depth of its bullet ("" for none), its passage."""

    sentences: list[str]
    bullet: str
    passage: Passage

    @property
    def is_heading(self) -> bool:
        """Whether it has few words, no bullet, and no mark at its end."""
        words = " ".join(self.sentences)
        return not self.bullet and len(words.split()) <= _HEADING_WORDS and not words.endswith((".", ":", ";", ","))


@dataclass(frozen=True, slots=True)
class Prohibition:
    """What one sentence or list item forbids: the statement, and the phrase that names what is forbidden.

    `section` is the LOINC code of where it stands, `marker` that of its passage.
    """

    statement: str
    phrase: str
    section: str
    marker: str

    @property
    def strength(self) -> str:
        """ "forbidden", or "avoid" where the statement only advises to avoid the use or does not recommend it."""
        found = _FORBIDS.search(self.statement)
        return "avoid" if found and found[0].lower().startswith(("avoid", "not recommended")) else "forbidden"


def prohibitions_of(
    label: Label, passages: Sequence[Passage], own: re.Pattern[str], sections: Sequence[str] = TABLE
) -> Iterator[Prohibition]:
    """Yield what the sections of a label forbid, in order.

    `own` finds the drug's names. If a part of
    Contraindications has a title ("Nursing mothers") and no text that forbids, its title is the statement.
    """
    for code in sections:
        paths = dict.fromkeys(section.path for section in label.sections if section.core_code == code)
        for path in paths:
            texts = [one for one in passages if one.section_path == path and one.core_code == code]
            found = list(_read(texts, code, own))
            parent, _, title = path.rpartition(" > ")
            if not found and code == CONTRAINDICATIONS and parent in paths and _names_only(title):
                found = [Prohibition(f"Contraindications: {title}", title, code, texts[0].marker if texts else "")]
            yield from found


def _lines_of(passages: Sequence[Passage]) -> Iterator[Line]:
    """Yield the lines that have words; an empty line that has a bullet passes it to the next."""
    bullet = ""
    for passage in passages:
        joined = _WRAPPED.sub(lambda found: "-" if found[1] else " ", _REFERENCE.sub("", passage.text))
        for raw in _GLUED.sub(". ", joined).split("\n"):
            rest = raw
            while found := _ITEM.match(rest):
                bullet = bullet or ("" if found["section"] else f"{len(found['indent'])}{found[0].strip()[:1]}")
                rest = rest[found.end() :]
            if sentences := split_sentences(strip_references(rest).strip(), "label"):
                yield Line(sentences, "1" if bullet[-1:].isalnum() else bullet, passage)
                bullet = ""


def _read(passages: Sequence[Passage], code: str, own: re.Pattern[str]) -> Iterator[Prohibition]:
    """Yield what one section forbids. What Contraindications names without a verb is forbidden too.

    `lead` is the sentence that opened the list whose items are read, `inner` an item that opened a list within it,
    `over` what the lead says of all items, `bullet` the bullet of the items.
    """
    lead = over = inner = ""
    bullet: str | None = None
    lines = list(_lines_of(passages))
    for line, following in zip(lines, [*lines[1:], None], strict=False):
        first, *others = line.sentences
        marker, names_only = line.passage.marker, not _FORBIDS.search(first) and _names_only(first)
        text = " ".join(line.sentences)
        if _EMPTY.fullmatch(text) or text.casefold() == line.passage.section_title.casefold():
            continue
        if not lead and line.is_heading and following and any(map(_FORBIDS.search, following.sentences)):
            continue
        if lead and not _FORBIDS.search(first) and (line.bullet or (not bullet and names_only)):
            bullet = line.bullet if bullet is None else bullet
            inner = "" if line.bullet == bullet else inner
            if first.endswith(":") and " " in first:
                inner = first
            else:
                statement = " ".join(filter(None, (lead, inner, first)))
                phrase = f"{inner.rstrip(': ') or over} {in_sentence(first)}".strip()
                yield Prohibition(statement, phrase, code, marker)
        else:
            lead, others = "", line.sentences
            if code == CONTRAINDICATIONS and names_only:
                yield Prohibition(first, first, code, marker)
        for sentence, found in ((one, _FORBIDS.search(one)) for one in others):
            phrase = object_of(sentence, found, own) if found else ""
            if found and _OPENS.search(sentence):
                lead, over, inner, bullet = sentence, without_head(phrase), "", None
            elif phrase:
                yield Prohibition(sentence, phrase, code, marker)


def _names_only(sentence: str) -> bool:
    """Return whether a sentence has no finite verb, so that it only names something."""
    return not _ORDER.match(sentence) and finite_at(tokenize(_CLAUSE.sub("", sentence).lower(), "clause")) is None


def object_of(sentence: str, found: re.Match[str], own: re.Pattern[str]) -> str:
    """Return the phrase that names what a sentence forbids, "" for none.

    `found` are the words of it that forbid; `own` finds the names of the label's drug.
    """
    before, after = sentence[: found.start()].strip(), without_reason(sentence[found.end() :]).strip(" .;:,")
    if _AMOUNT.match(own.sub("", after).strip()):
        return ""
    if found[0][:2].lower() not in ("do", "ne", "av"):
        if _ABOUT.match(after) and not own.match(after.removeprefix("with ")):
            return after
        after = re.split(r"[:|]\s", before)[-1]
    use = _USE.search(after)
    pieces = own.split(after[use.end() :] if use else after, maxsplit=1)
    combined = bool(use) or any(map(_LINKS.search, pieces))
    phrase = " ".join(filter(None, (_LINKS.sub("", one).strip(" ,") for one in pieces)))
    return f"concomitant use of {phrase}" if phrase and combined and not _ABOUT.match(phrase) else phrase
