"""The baseline for questions about documents: cited sentences, search texts and relevance scores, without a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import lru_cache
from math import fsum
from typing import Any

from fdarx_core.baseline.answering import (
    ITEM,
    LONGEST_LIST,
    CandidateSentence,
    ParsedText,
    SentenceIndex,
    absent_share,
    asked_terms,
    parse_label_text,
    scored,
    wants_number,
)
from fdarx_core.baseline.label_answering import from_labels, of_label
from fdarx_core.baseline.label_words import rarity
from fdarx_core.baseline.refusals import DOCUMENTS_SAY_NOTHING
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.baseline.stems import terms
from fdarx_core.baseline.tokens import pattern, vocabulary

_WORD = re.compile(r"[^\W_]+(?:[-'’./][^\W_]+)*")
_PART = re.compile(r"[^\W_]+")
_LEAD = pattern("question_lead", re.I)
_DEFINITION = pattern("definition", re.I)
_SHARE, _RUN = 0.6, 3
"""From which share of a title's words on, and from how many words in a row, a question names the title."""


def core(question: str, titles: Iterable[str] = ()) -> str:
    """Return the question without a title that it names, and without its introduction ("According to …, what")."""
    for title in titles:
        question = _without(question, title)
    return _LEAD.sub("", question.strip(), count=1).strip() or question


def key_words(question: str) -> list[str]:
    """Return the subject words of a question as it writes them, in order; all words if there are none."""
    _, telling = asked_terms(question, "")
    words = list(dict.fromkeys(_WORD.findall(question)))
    return [word for word in words if terms(word) & telling] or words


def defines(question: str) -> re.Pattern[str] | None:
    """Return a pattern for the beginning of a definition, for questions such as "What is …?"; None for others."""
    found = _DEFINITION.match(question.strip())
    if found is None:
        return None
    what = re.sub(r"^(?:an?|the)\s|[\"“”'’]", "", found["what"].strip(), flags=re.IGNORECASE)
    return re.compile(
        rf"(?:an?|the)?\W*{re.escape(what)}s?\W*(?:\([^()]*\)\s*)?(?:(?:is|are|means?|refers?|covers|consists?)\b|[-–—:])",
        re.IGNORECASE,
    )


def _without(question: str, title: str) -> str:
    """Return a question without its longest run of words in common with a title, if that is most of the title."""
    asked, named = list(_PART.finditer(question)), _PART.findall(title.lower())
    matcher = SequenceMatcher(None, [word[0].lower() for word in asked], named, autojunk=False)
    run = matcher.find_longest_match()
    if run.size < max(_RUN, _SHARE * len(named)):
        return question
    start, end = asked[run.a].start(), asked[run.a + run.size - 1].end()
    return f"{question[:start]}{question[end:]}"


_ANSWER: str = vocabulary()["hypothetical_answer"]
_PASSAGE: str = vocabulary()["made_up_passage"]
_OTHERS: list[str] = vocabulary()["other_questions"]


def hypothetical_answer(slots: Mapping[str, Any]) -> str:
    """Return a text in the style of an official reply, made of the question's words."""
    return _ANSWER.format(topic=_topic(slots["question"]))


def made_up_passage(slots: Mapping[str, Any]) -> str:
    """Return a text in the style of a guideline, with the question's topic as heading and subject."""
    topic = _topic(core(slots["question"]))
    return _PASSAGE.format(heading=topic[:1].upper() + topic[1:], topic=topic)


def other_questions(slots: Mapping[str, Any]) -> list[str]:
    """Return three rewordings of a question from its key words."""
    topic = _topic(slots["question"])
    return [wording.format(topic=topic) for wording in _OTHERS]


def _topic(question: str) -> str:
    return ", ".join(key_words(question)) or "the subject of the question"


_LEFTOVERS = re.compile(
    r"\[(?:MISSING_PAGE|/?(?:END)?FOOTNOTE)[^\]\n]{0,40}\]|\[\d{2,5}\]|\*\*|"
    r"\\(?:begin|end)\{\w+\*?\}(?:\{[^{}\n]*\})?|\\hline"
)
_LINE_STARTS = re.compile(r"#{1,6}\s|Footnote \d{1,3}: |(?:[QA]|question|answer)\s?\d{0,3}[.:] ", re.IGNORECASE)
_NO_CONTENT = pattern("page_header", re.I)
"""Page headers and marks."""
_CONTENTS = ("....", ". . . .")
"""Signs of the lines of a table of contents."""
_NOTE_MARK = re.compile(
    r"(?=\d)(?:(?<=[a-z]{4})\d{1,2}(?=[\s.,;:]|$)|(?<=[a-z]{2}[.,;])\d{1,3}(?=\s|$)|"
    r"(?<=\)[.,;])\d{1,3}(?=\s|$)|(?<=[a-z]\))\d{1,2}(?=\s))"
)
"""The number of a footnote that is no longer superscript: "process.14 The", "calendar days14 after"."""
_EMPHASIS = re.compile(r"(?<!\w)_(?=\w)|(?<=\w)_(?!\w)")
_STUCK = re.compile(r"(?<=[\w)\"”]\?)(?=[A-Z])")
_SECTION_SIGN = re.compile(r"\b(?:SS){1,2}(?= \d)")
_SYMBOLS = vocabulary()["latex_symbols"]
_SYMBOL = re.compile(r"\\([A-Za-z]+|[%&_])")
_STYLE = re.compile(r"\\(?:mathrm|mathbf|mathit|text|textbf|textit|textsuperscript|multicolumn\{\d+\}\{[^{}]*\})\s?")
_FORMULA = re.compile(r"\\[()\[\]]|\^(?=[{\\°])|(?<=\})_|[{}]|_(?=\{)")
_ROW_END = re.compile(r"\s*\\\\\s*")
_WEB = re.compile(r"\s*\((?:/|https?://)[^()\s]*\)")
_SPLIT_AFTER = pattern("joined_after")
"""Abbreviations and numbers that do not end a sentence."""
_DONE = (".", "!", "?", ":", ";", "|")
_ITEM_END = re.compile(r"[;,]?(?:\s+(?:and|or))?$|[;,.]$")
_SHORT_ITEM = 220
_HEADING = pattern("document_heading", re.I)
"""Headings that look like sentences."""


@lru_cache(maxsize=512)
def parse_document_text(text: str) -> ParsedText:
    """Return the sentences of a chunk; a sentence that introduces a list includes the items.

    A first sentence without its beginning is left out.
    """
    lines = _joined(_lines(_plain(text)))
    if lines and lines[0][:1].islower():
        _, _, lines[0] = lines[0].partition(". ")
    return ParsedText(one for one in _with_lists(lines) if not _HEADING.match(one))


def _plain(text: str) -> str:
    """Return the text without typesetting; a table row is one line, with its cells separated by " | "."""
    plain = _LEFTOVERS.sub("", text)
    if "\\" in plain:
        plain = _ROW_END.sub("\n", plain).replace(" & ", " | ")
        plain = _SYMBOL.sub(lambda found: _SYMBOLS.get(found[1], ""), _STYLE.sub("", plain))
        plain = _FORMULA.sub("", plain).replace("\\", "")
    if "_" in plain:
        plain = _EMPHASIS.sub("", plain)
    if "SS " in plain:
        plain = _SECTION_SIGN.sub(lambda found: "§" * (len(found[0]) // 2), plain)
    return _STUCK.sub(" ", _NOTE_MARK.sub("", _WEB.sub("", plain)))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines with content, stripped of white space and of marks before the first word."""
    for line in text.split("\n"):
        said = line.strip()
        if start := _LINE_STARTS.match(said):
            said = said[start.end() :].strip()
        if said and not _NO_CONTENT.match(said) and not any(dots in said for dots in _CONTENTS):
            yield said


def _joined(lines: Iterable[str]) -> list[str]:
    """Return the lines, with those joined that a page break cut."""
    joined = list[str]()
    for line in lines:
        if joined and line[0].islower() and not joined[-1].endswith(_DONE):
            joined[-1] = f"{joined[-1]} {line}"
        else:
            joined.append(line)
    return joined


def _with_lists(lines: Iterable[str]) -> list[str]:
    found, announced, ended = list[str](), False, False
    for line in lines:
        if announced and _is_item(line, ended) and len(found[-1]) + len(line) <= LONGEST_LIST:
            found[-1] = f"{found[-1]} {_ITEM_END.sub('', ITEM.sub('', line, count=1))};"
            ended = line.endswith(".")
            continue
        found += _sentences(line)
        announced, ended = bool(found) and found[-1].endswith(":"), False
    return found


def _is_item(line: str, ended: bool) -> bool:
    """Return whether a line has a bullet, or is short before any item `ended` the list with a full stop."""
    short = len(line) <= _SHORT_ITEM and ". " not in line and not line.endswith(("?", ":"))
    return bool(ITEM.match(line)) or (short and not ended)


def _sentences(line: str) -> list[str]:
    """Split a line into sentences, without breaks after abbreviations and after a "Yes." that begins a reply."""
    whole = list[str]()
    for piece in split_sentences(line):
        if whole and (whole[-1] == "Yes." or _SPLIT_AFTER.search(whole[-1])):
            whole[-1] = f"{whole[-1]} {piece}"
        else:
            whole.append(piece)
    return whole


_ABSENT = 0.25
"""The share of a question's specific words from which it is declined, if they are in no context."""
_COVERED, _COVERED_ALONE = 0.8, 0.9
"""The least share of a question's telling words, by rarity, in the reply to a question or a definition with what is
before it, and in another sentence with what is before it."""
_SEVERAL = 4
"""So many telling words are hardly found together by chance."""
_MOST = 3
_ALSO = 0.8
"""The least score of a further sentence, as a share of the best one's."""
_SAME = 0.6
"""The share of common terms from which a sentence adds nothing to another."""
_REPLIES_TO = (0.95, 0.85)
"""The shares of the score of a question that the sentences after it get."""
_DEFINES = 2.0
"""The factor for a sentence that defines something, where a question asks for a definition."""
_SHORTEST = 3
"""Terms of the shortest sentence that can be an answer."""
_VERDICT = re.compile(r"(?:yes|no)\.$", re.IGNORECASE)
"""A complete reply of one word."""
_LONG = 700
"""The number of characters from which a sentence is a table or a list, and no answer."""


def from_contexts(slots: Mapping[str, Any]) -> str:
    """Return up to three sentences, each with the numbers of all contexts that contain it, or a refusal.

    Labels come first; uploaded ones are quoted where the others hold no answer.
    """
    contexts = slots["contexts"]
    labels = [one for one in contexts if of_label(one)]
    indexed = [one for one in labels if not one.get("uploaded_by")]
    for some in [indexed] if len(indexed) == len(labels) else [indexed, labels]:
        if some and (answer := from_labels(slots["question"], some, slots["others"])):
            return answer
    contexts = [one for one in contexts if not of_label(one)]
    evidence = SentenceIndex(
        [(f"[{one['n']}]", f"{one['title']} {one['section']}", parse_context(one)) for one in contexts]
    )
    question = core(slots["question"], dict.fromkeys(one["title"] for one in contexts))
    _, telling = asked_terms(question, "")
    if absent_share(telling, evidence) >= _ABSENT:
        return DOCUMENTS_SAY_NOTHING
    scores = _answering(scored(question, "", evidence), question, evidence)
    chosen = _chosen(scores, evidence)
    best = max(chosen, key=scores.__getitem__, default=-1)
    figure = wants_number(question) and best >= 0 and evidence.statements[best].has_number
    if best < 0 or not _bears_on(best, telling, evidence, defines(question), figure=figure):
        return DOCUMENTS_SAY_NOTHING
    return " ".join(_cited(evidence, place) for place in chosen)


def parse_context(context: Mapping[str, Any]) -> ParsedText:
    """Parse a context: passages of labels have a section, pieces of other documents have none."""
    return parse_label_text(context["text"]) if of_label(context) else parse_document_text(context["text"])


def _answering(scores: list[float], question: str, evidence: SentenceIndex) -> list[float]:
    """Return the scores of sentences; the score of a question is passed on to the sentences after it.

    This finds answers in guidelines that have the form of questions and answers. A sentence that only repeats the
    question counts as a question.
    """
    asked, defined = terms(question), defines(question)
    handed = [0.0] * (len(scores) + len(_REPLIES_TO))
    for place, one in enumerate(evidence.statements):
        if evidence.passage_of[place] != evidence.passage_of[place - 1]:
            handed[place : place + len(_REPLIES_TO)] = [0.0] * len(_REPLIES_TO)
        if one.text.endswith("?") or one.terms <= asked:
            for step, share in enumerate(_REPLIES_TO, 1):
                handed[place + step] = max(handed[place + step], share * scores[place])
            scores[place] = 0.0
        elif not _VERDICT.match(one.text) and _no_answer(one):
            handed[place + 1] = max(handed[place + 1], handed[place])
            scores[place] = 0.0
        else:
            scores[place] = max(scores[place], handed[place]) * (_DEFINES if defined and defined.match(one.text) else 1)
    return scores


def _no_answer(one: CandidateSentence) -> bool:
    return one.is_heading or one.text.endswith(":") or len(one.terms) < _SHORTEST or len(one.text) > _LONG


def _bears_on(
    place: int, telling: frozenset[str], evidence: SentenceIndex, defined: re.Pattern[str] | None, *, figure: bool
) -> bool:
    """Return whether enough of a question's subject words are in a sentence, just before it or in its titles.

    A chunk of 10,000 characters of a guideline contains nearly any few words, so that a sentence answers only if it is
    the reply to such a question, defines what is asked for, or has nearly all of several words; of fewer words where
    it has the `figure` that is asked for.
    """
    near = [one for one in range(max(0, place - len(_REPLIES_TO)), place) if _in_one_passage(evidence, one, place)]
    statements = evidence.statements
    held = evidence.titles_of(place).union(statements[place].terms, *(statements[one].terms for one in near))
    weights = {term: rarity(term) for term in sorted(telling)}
    share = _sum(weights, telling & held) / (_sum(weights, telling) or 1)
    replies = any(telling & statements[one].terms for one in near if statements[one].text.endswith("?"))
    if replies or (defined and defined.match(statements[place].text)):
        return share >= _COVERED
    return share >= _COVERED_ALONE and (figure or len(telling) >= _SEVERAL)


def _in_one_passage(evidence: SentenceIndex, one: int, other: int) -> bool:
    return evidence.passage_of[one] == evidence.passage_of[other]


def _chosen(scores: Sequence[float], evidence: SentenceIndex) -> list[int]:
    """Return the best sentence and others of similar score and other content, in order within each passage."""
    order = sorted((place for place, score in enumerate(scores) if score), key=lambda place: -scores[place])
    chosen = list[int]()
    for place in order:
        if len(chosen) == _MOST or scores[place] < _ALSO * scores[order[0]]:
            break
        if all(_new(evidence, place, other) for other in chosen):
            chosen.append(place)
    passages = list(dict.fromkeys(evidence.passage_of[place] for place in chosen))
    return sorted(chosen, key=lambda place: (passages.index(evidence.passage_of[place]), place))


def _new(evidence: SentenceIndex, place: int, other: int) -> bool:
    one, two = evidence.statements[place].terms, evidence.statements[other].terms
    return len(one & two) < _SAME * min(len(one), len(two))


def _cited(evidence: SentenceIndex, place: int) -> str:
    """Return a sentence with its citations before the full stop."""
    said, text = evidence.statements[place].spoken, evidence.statements[place].text
    holders = {evidence.passage_of[other] for other, one in enumerate(evidence.statements) if one.text == text}
    if _VERDICT.match(text):
        holders = {evidence.passage_of[place]}
    marks = "".join(evidence.markers[holder] for holder in sorted(holders))
    end = next((end for end in (".", "!") if said.endswith(end)), "")
    return f"{said.removesuffix(end)} {marks}{end}"


_FRAME_WEIGHT = 0.3
"""The weight of words in which one asks about anything, beside words that say what a question is about."""
_TOGETHER = 0.5
"""The weight of the words that are in one sentence, beside that of words anywhere in the text."""


def relevance(slots: Mapping[str, Any]) -> tuple[int, str]:
    """Return a score from 1 (no word of the question) to 10 (all of them in one sentence), and a reason."""
    asked, telling = asked_terms(core(slots["question"], [slots["title"]]), "")
    weights = {term: 1.0 if term in telling else _FRAME_WEIGHT for term in asked}
    said = parse_context(slots)
    anywhere = (
        {term for term in asked if term in said.places}
        | (asked & terms(slots["title"]))
        | (asked & terms(slots["section"]))
    )
    together = max((_sum(weights, one.terms & asked) for one in said.statements), default=0.0)
    share = (1 - _TOGETHER) * _sum(weights, anywhere) + _TOGETHER * together
    score = 1 + round(9 * share / (fsum(weights.values()) or 1))
    return score, f"{len(anywhere)} of the question's {len(asked)} words stand in it."


def _sum(weights: Mapping[str, float], found: set[str] | frozenset[str]) -> float:
    return fsum(weights[term] for term in found)  # exact, so that the order of a set does not change a score
