"""A passage as the question rules read it: sentences with headings and lists, table rows, and names for questions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.tokens import capitalise, clean_label_text, decapitalise, plain_case
from fdarx_core.generation.library import MAX_ANSWER, any_of, load_library

_INLINE_HEADING = re.compile(r"^([A-Z][A-Za-z0-9 ,/()'’&-]{2,70}?)\s?:\s+(?=[A-Z])")
_BULLET = re.compile(r"^\s*(?:[-•·●▪◦*○]+|o(?= [A-Z]))\s*(?:[•·●▪◦○]\s*)?")
_QUESTION_HEADING = re.compile(r"(?:What|How|Who|When|Where|Why|Can|Should|Are|Is|Do|Does)\b[^?.!]{5,150}\?")
_CAPTION = re.compile(r"^Table\s+\w+\s*[.:–-]?\s*", re.I)
_FOOTNOTE = re.compile(r"^\[?[a-z0-9*†‡]{1,3}\]\s")
_INTRODUCES = re.compile(
    r"\b(?:include|includes|including|following|such as|if you|if you have|in patients with)$", re.I
)
_MARKS = re.compile(r"\s*\[[a-z0-9,* ]{1,8}\]|\*+")


@dataclass(slots=True)
class SentenceUnit:
    """One sentence. `items` are those of the list it introduces; `order` counts through the passage."""

    text: str
    heading: str
    order: int
    items: list[str] = field(default_factory=list)


@dataclass(slots=True)
class TableRow:
    """One table row: its own header, its cells ("column header: value"), the heading of its group and the caption."""

    header: str
    cells: list[str]
    group: str
    caption: str
    order: int


QuestionBlock = tuple[str, list[str], int]
"""A question that the label itself asks as a heading, the lines of text under it, and its place in the passage."""


class PassageOutline:
    """All sentences, table rows and question headings of one passage, in its order."""

    def __init__(self, context: str) -> None:
        self.units: list[SentenceUnit] = []
        self.rows: list[TableRow] = []
        self.blocks: list[QuestionBlock] = []
        self._heading = self._caption = ""
        self._list_open = False
        for order, raw in enumerate(context.split("\n")):
            line = clean_label_text(raw)
            if line and not _FOOTNOTE.match(line):
                self._read(line, order)

    def _read(self, line: str, order: int) -> None:
        if "?" in line and (found := _QUESTION_HEADING.match(line)):
            self.blocks.append((found[0], [], order))
            line = line[found.end() :].strip()
            self._list_open = False
            if not line:
                return
        if self.blocks:
            self.blocks[-1][1].append(line)
        if " | " in line:
            self._add_row(line, order)
        elif (bullet := _BULLET.match(line)) and bullet.end() > 0:
            self._add_item(line[bullet.end() :])
        elif _is_heading(line):
            self._add_heading(line)
        else:
            self._add_sentences(line)

    def _add_row(self, line: str, order: int) -> None:
        header, *cells = (_MARKS.sub("", part).strip() for part in line.split(" | "))
        self._list_open = False
        running = len(cells) == 1 and len(cells[0].split()) > 5 and not cells[0].partition(": ")[2].isdigit()
        caption = "" if running else self._caption
        self.rows.append(TableRow(header.strip(" :"), cells, self._heading, caption, order))
        for sentence in split_sentences(cells[0], "label") if running else ():
            self._add_unit(sentence, self._heading)

    def _add_heading(self, line: str) -> None:
        if caption := _CAPTION.match(line):
            self._caption = _MARKS.sub("", line[caption.end() :]).strip(" .:")
            self._heading = ""
        else:
            self._heading = _MARKS.sub("", line).rstrip(": ")
        self._list_open = line.endswith(":") or bool(_INTRODUCES.search(line))
        if self._list_open:
            self._add_unit(f"{line.rstrip(':')}:", "")

    def _add_item(self, item: str) -> None:
        if self._list_open and self.units:
            self.units[-1].items.append(item)
        elif item:
            self._add_sentences(item)

    def _add_sentences(self, line: str) -> None:
        heading = self._heading
        if found := _INLINE_HEADING.match(line):
            heading, line = found.group(1).strip(), line[found.end() :]
        for sentence in split_sentences(line, "label"):
            self._add_unit(sentence, heading)
        self._list_open = line.endswith(":")

    def _add_unit(self, text: str, heading: str) -> None:
        self.units.append(SentenceUnit(text, heading, len(self.units)))


def _is_heading(line: str) -> bool:
    if len(line) > 110 and not _CAPTION.match(line):
        return False
    return (
        len(line) <= 200
        and not line.endswith((".", "!", ";", ",", "?"))
        and len(line.split()) <= (30 if _CAPTION.match(line) else 12)
    )


_CONNECTIVE = re.compile(rf"^(?:{any_of('connectives')})[,:]\s+")
_DANGLING_START = re.compile(rf"^(?:(?:{any_of('dangling')})\b|The (?:{any_of('dangling_nouns')})s? (?!of\b))")
_ELSEWHERE = re.compile(rf"\b(?:{any_of('elsewhere')})\b", re.I)
_LIST_TO_COME = re.compile(any_of("list_to_come"), re.I)
_POINTER = re.compile(rf"\b(?:{any_of('pointers')})\b", re.I)
_UNSOUND = re.compile(rf"\b(?:{any_of('unsound')})\b", re.I)
_CLAUSE = re.compile(any_of("clauses"), re.I)
_SUPPLIED_AS = re.compile(
    r"(?:,| and|, and)?(?: are| is)?(?: supplied| available| packaged)(?: as| in)?(?: follows)?:$"
)
_LEAD = re.compile(rf"^(?:{any_of('leads')})\b")
_CLAUSE_STARTS = frozenset(load_library("sentences")["clause_starts"])


@dataclass(slots=True)
class SentenceContext:
    """A sentence, its main clause without connective and leading condition (`lead`), and what surrounds it.

    `about_drug`: whether the passage speaks of the drug that the label is named for. `low` is the sentence in lower
    case.
    """

    drug: str
    title: str
    code: str
    unit: SentenceUnit
    sentence: str
    lead: str
    clause: str
    low: str
    about_drug: bool


def sentence_context(unit: SentenceUnit, drug: str, title: str, code: str, about_drug: bool) -> SentenceContext | None:
    """Return the context of a sentence, or None if the sentence depends on others or is too long."""
    sentence = _SUPPLIED_AS.sub(".", capitalise(_CONNECTIVE.sub("", unit.text)))
    if len(sentence) > MAX_ANSWER or not sentence[:1].isalnum() or not _stands_alone(sentence):
        return None
    if not unit.items and (sentence.endswith(":") or _LIST_TO_COME.search(sentence)):
        return None
    lead, clause = split_lead(sentence)
    return SentenceContext(drug, title, code, unit, sentence, lead, clause, sentence.lower(), about_drug)


def _stands_alone(sentence: str) -> bool:
    """Return whether a sentence can be understood alone. An early "such" or "these" refers to another sentence."""
    pointer = _POINTER.search(sentence)
    early = pointer is not None and len(sentence[: pointer.start()].split()) < 14
    return not (early or _DANGLING_START.match(sentence) or _ELSEWHERE.search(sentence))


def split_lead(sentence: str) -> tuple[str, str]:
    """Return a leading condition and its clause: "In adults, the dose is …" gives "in adults", "the dose is …"."""
    if not _LEAD.match(sentence):
        return "", sentence
    cut = sentence.find(", ")
    while 0 < cut < 150:
        clause = sentence[cut + 2 :]
        first = clause.split(None, 1)[0].lower() if clause.strip() else ""
        if first in _CLAUSE_STARTS or (sentence.count(", ") == 1 and first not in ("and", "or")):
            return decapitalise(sentence[:cut]), clause
        cut = sentence.find(", ", cut + 2)
    return "", sentence


def sound(phrase: str, longest: int = 110) -> bool:
    """Return whether a phrase can be part of a question: short, brackets closed, no reference to other text."""
    return (
        0 < len(phrase) <= longest
        and phrase.count("(") == phrase.count(")")
        and phrase.count("[") == phrase.count("]")
        and not _UNSOUND.search(phrase)
    )


def is_noun_phrase(phrase: str) -> bool:
    """Return whether a phrase is `sound`, without a verb, a relative clause or an incomplete end."""
    return sound(phrase) and not _CLAUSE.search(phrase)


_FORMS = frozenset(load_library("sentences")["forms"])
_KIT = re.compile(r"\b(?:kit|plus|combo|duo)\b|pa[ck]k?\b", re.I)
_PRODUCT = re.compile(rf"\b(?:{any_of('products')})\b", re.I)
_ADJECTIVE = re.compile(r"(?:ger|ped)iatric|elderly", re.I)
_SAYS_ONLY_ITS_KIND = re.compile(rf"^(?:{any_of('section_kinds')})$", re.I)


def name_subject(subject: str, drug: str) -> str:
    """Return the subject for a question: the drug's name if the label means the drug, else as it is written."""
    subject = decapitalise(subject.strip(), keep=drug)
    low, name = subject.lower(), drug.lower()
    if name in low:
        return subject
    if low in ("the drug", "drug", "this drug", "this medicine"):
        return drug
    own = set(low.split()) - _FORMS
    return drug if own and own <= set(name.split()) and not is_combination(drug) else subject


def is_combination(drug: str) -> bool:
    """Return whether the name is of several drugs, so that "its half-life" is ambiguous."""
    return bool(re.search(r" and |/|,|\bwith\b|\+", drug, re.I))


def is_about(drug: str, path: str, text: str) -> bool:
    """Return whether a passage is about the drug of the label, and not about another part of a kit.

    This is so if it contains a word of the name that is not a salt or form, or if neither the name nor the section path
    suggests a kit.
    """
    own = [word for word in re.findall(r"[a-z]{3,}", drug.lower()) if word not in _FORMS and word != "and"]
    low = f"{path} {text}".lower()
    return not own or any(word in low for word in own) or not (_KIT.search(drug) or _PRODUCT.search(path))


def telling_topic(title: str, drug: str) -> str:
    """Return a title in lower case, "" if it only names the kind of section ("Clinical Trials Experience")."""
    phrase = re.sub(r"^[\W\d]+", "", title).strip(" :.")
    if not 4 <= len(phrase) <= 70 or _SAYS_ONLY_ITS_KIND.match(phrase) or re.search(r"[?;]|\d", phrase):
        return ""
    return running_title(phrase, drug)


def running_title(title: str, drug: str) -> str:
    """Return a title as part of a sentence; an adjective alone gets a noun: "geriatric patients"."""
    phrase = plain_case(title, drug)
    return f"{phrase} patients" if _ADJECTIVE.fullmatch(phrase) else phrase


def ask(core: str, drug: str, topic: str = "") -> str:
    """Return a question that names the drug: the core itself, or with "according to the … label" (and its section)."""
    core = re.sub(r"\s+", " ", core).strip(" ,;:.")
    if topic and topic.lower() not in core.lower():
        if f"{drug} label" in core:
            return f"In its section on {topic}, {decapitalise(core)}?"
        return f"According to the {drug} label's section on {topic}, {decapitalise(core)}?"
    if drug.lower() in core.lower():
        return f"{capitalise(core)}?"
    return f"According to the {drug} label, {decapitalise(core)}?"
