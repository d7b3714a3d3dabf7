"""The Highlights as statements to ask about: grouped under their lead-ins, without references and notices."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fdarx_core.generation.baseline.naming import telling_topic
from fdarx_core.generation.baseline.text import strip_references
from fdarx_core.records import Highlight, Label

_NOTICE = re.compile(
    r"^(?:to report suspected|see (?:full prescribing|boxed|17\b|section)|for more information|revised|.{0,40}medwatch"
    r"|additional pediatric use|\[?see\b|warning\s*:?)",
    re.I,
)
_POINTER = re.compile(
    r"\s*(?:[.;(]\s*)?\bsee (?:the )?(?:full prescribing information|boxed warning|17)\b[^.]*\.?\)?", re.I
)
_LEAD_IN = re.compile(r"^([A-Z][^:.;]{2,90}?)\s*:\s*(?=\S)")
_INTRODUCES = re.compile(
    r"\b(?:indicated|used|contraindicated|include|includes|are|is|for|in|with|following"
    r"|of|patients|the|to|as|who|if|when|or|and)\s*:?$",
    re.I,
)


@dataclass(slots=True)
class Statement:
    """One matter that a heading states. `topic` is "" where nothing names it; `references` are section numbers."""

    code: str
    topic: str
    parts: list[str]
    references: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return " ".join(part if part.endswith((".", ":", ";", "!", "?")) else f"{part}." for part in self.parts)


def statements(label: Label) -> list[Statement]:
    """The label's Highlights in order; statements of one heading on one topic are one."""
    titles = {section.number: section.title for section in label.sections if "." in section.number}
    merged: dict[tuple[str, str], Statement] = {}
    plain: list[Statement] = []
    for one in _grouped(label.highlights, titles):
        if not one.topic:
            plain.append(one)
        elif kept := merged.get((one.code, one.topic.lower())):
            kept.parts += one.parts
            kept.references += one.references
        else:
            merged[one.code, one.topic.lower()] = one
    return [*merged.values(), *plain]


def _grouped(highlights: Iterable[Highlight], titles: dict[str, str]) -> Iterable[Statement]:
    group, code = "", ""
    for one in highlights:
        whole = strip_references(one.text.replace("\n- ", "; ").replace(" | ", ": ")).replace(":; ", ": ")
        text = _POINTER.sub("", whole).strip().replace("..", ".")
        if one.code != code:
            group, code = "", one.code
        if not text or _NOTICE.match(text) or (text != whole and text.endswith(":")):
            continue
        if whole.endswith(":") and len(text.split()) <= 12 and not _INTRODUCES.search(text.rstrip(": ")):
            group = text.rstrip(": ")
            continue
        topic = _topic(one, text, group, titles)
        if text.removeprefix(topic).strip(" :.;,"):
            yield Statement(code, topic, [text], list(one.references))


def _topic(one: Highlight, text: str, group: str, titles: dict[str, str]) -> str:
    """The lead-in, within its group if there is one; else the group; else the title of the one section it refers to."""
    lead = _LEAD_IN.match(text)
    own = lead.group(1).strip() if lead and not _INTRODUCES.search(lead.group(1)) else ""
    if own:
        return f"{own} ({group})" if group else own
    if group:
        return group
    named = [titles[number] for number in one.references if titles.get(number)]
    return named[0] if len(named) == 1 and telling_topic(named[0], "") else ""
