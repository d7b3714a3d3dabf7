"""Parsing of a model's reply: its answer, its citations and whether it refuses.

A reply refuses where one of its clauses declines and no clause answers. Each clause is classified as declining, empty
(it refers the reader elsewhere, or says why there is no answer) or an answer: "the label gives no dose for children,
but recommends 5 mg for adults" is an answer. Statements that labels make themselves, such as "is not recommended",
"have not been established" and "no data are available", are answers too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.records import Passage

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
class SplitReply:
    """The reply without its citations, and these as pairs of first and last number, in the order of their naming."""

    text: str
    ranges: list[tuple[int, int]]


def split_citations(reply: str) -> SplitReply:
    """Split a reply into its text and its citations.

    Citations are read from citation lines; where the reply has none, from the markers within the text. A citation line
    starts with a heading such as CITED_PASSAGES, "Cited passages", "Citations" or "Sources" and ends with its list,
    which may continue on the lines below. Numbers without a marker count only in a list that holds nothing else; a
    list may hold ranges. Text after a citation line that repeats the prompt's own lines is dropped.
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
    return SplitReply(_BRACKETS.sub(_without_citation, text).strip(), ranges or in_text(text))


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


TOKEN = re.compile(r"\bNOT[ _\\-]{1,2}ANSWERABLE\b|\bUNANSWERABLE\b", re.IGNORECASE)
_ALONE = re.compile(rf"(?:^|(?<=[.!?]\s))[\W_]*(?:{TOKEN.pattern})[\W_]*$", re.IGNORECASE | re.MULTILINE)
_FIRST = re.compile(rf"^[\W_]*(?:{TOKEN.pattern})", re.IGNORECASE)
_HINT = re.compile(
    r"answerable|answer|n['’]t|\bnot\b|\bno\b|\bnothing\b|\bnone\b|unable|unclear|unknown|insufficient|neither|\bn/a\b|"
    r"\bcannot\b|sorry|unaware",
    re.IGNORECASE,
)

_LABEL = (
    r"(?:labels?|labell?ing|passages?|texts?|contexts?|documents?|excerpts?|package insert|prescribing information|"
    r"sections?|sources?|materials?|(?:provided|given|available|supplied|above) information|"
    r"information (?:provided|given|above|supplied))"
)
_NOT = r"(?:(?:does|do|did) not|(?:does|do|did)n['’]?t)"
_SAYS = (
    r"(?:specify|mention|state|address|discuss|describe|detail|define|say|indicate|answer|list|report|identify|"
    r"clarify|reference|cover|disclose|explain|tell|comment|outline|quantify|refer to|"
    r"make (?:any )?(?:mention|reference))"
)
_HOLDS = r"(?:contain|provide|include|give|offer|have|present|show|supply)"
_INFORMATION = (
    r"(?:information|mention|data|details?|specifics?|recommendations?|guidance|instructions?|answers?|statements?|"
    r"references?|dos(?:e|es|ing|age)|values?|figures?|numbers?|thresholds?|percentages?|frequenc(?:y|ies)|rates?|"
    r"explanations?|descriptions?|durations?|schedules?|criteria|advice|evidence)"
)
_IN_LABEL = (
    r"(?:in|within|from|by|on|with|using) (?:(?:the|this|that|these|those|any|any of the|your) )?(?:[\w’'-]+ ){0,3}"
    + _LABEL
)
_CANNOT = r"(?:cannot|can not|can['’]?t|could not|couldn['’]t)"
_SOFTLY = r"(?: \w+ly| appear to| seem to| currently| even){0,3}"
_MISSING = (
    r"(?:provided|specified|mentioned|stated|given|addressed|discussed|described|listed|found|available|included|"
    r"contained|reported|present|indicated|disclosed|defined|detailed|covered|identified|answered|stated|documented)"
)
_SORRY = (
    r"(?:(?:i['’]?m|i am|we are)?\s?(?:very )?(?:sorry|afraid)[,.]?\s?(?:but|that)?\s?|unfortunately,? |apologies,? )?"
)
_CLAUSES = (
    TOKEN.pattern,
    # "The label does not specify …", "it doesn't provide information on …"
    rf"\b(?:{_LABEL}|it|they)\b.{{0,80}}?\b{_NOT}{_SOFTLY} {_SAYS}\b",
    rf"\b(?:{_LABEL}|it|they)\b.{{0,80}}?\b{_NOT}{_SOFTLY} {_HOLDS}\b.{{0,60}}?\b{_INFORMATION}\b",
    rf"\b(?:no|none of the|neither|nothing in the) (?:\w+ ){{0,2}}{_LABEL}\b.{{0,40}}? {_SAYS}s?\b",
    rf"\b{_LABEL}\b.{{0,40}}?\b(?:is silent|(?:has|have|contains?|provides?|gives?|makes?|includes?) no "
    rf"(?:\w+ ){{0,2}}{_INFORMATION})\b",
    # "… is not mentioned in the label", "no information on … in the passages"
    rf"\b(?:not|n['’]t)\b{_SOFTLY} {_MISSING}\b.{{0,60}}?\b{_IN_LABEL}\b",
    r"\b(?:is|are|was|were|has been|have been)(?: not|n['’]t)"
    rf"{_SOFTLY} (?:specified|mentioned|stated|addressed|discussed|disclosed|provided|detailed|explained)$",
    rf"\b(?:no|not any|insufficient|not enough|nothing|none)\b.{{0,120}}?\b{_IN_LABEL}\b",
    # "cannot be determined from the label", "there is not enough information to answer"
    rf"\b(?:{_CANNOT}|unable to|not possible to|impossible to)\b.{{0,60}}?\b{_IN_LABEL}\b",
    rf"\b(?:this|the|your|that) (?:question|answer)\b.{{0,40}}? (?:{_CANNOT}|is not|isn['’]t)"
    r"(?: be)? (?:answered|determined|found|established|available|possible|inferred|given|provided|known)\b",
    r"\b(?:insufficient|not enough|not sufficient|no|inadequate) (?:\w+ ){0,2}"
    r"(?:information|data|evidence|details?|context)\b"
    r".{0,40}?\b(?:to|for) (?:\w+ ){0,2}?(?:answer|determin|respond|say)\w*",
    # "I don't know", "I cannot answer this"
    rf"^{_SORRY}(?:.{{0,60}}?, ?)?(?:i|we) (?:also )?(?:really |simply |honestly |just )?"
    rf"(?:do not|don['’]?t|{_CANNOT}|did not|didn['’]t|(?:am|was) (?:unable|not able) to|['’]m (?:unable|not able) to|"
    r"have not been able to)(?: \w+ly)? "
    r"(?:know|answer|find|determine|provide|locate|say|tell|see|confirm|recall|identify|access|give|state|respond|verify|"
    r"have (?:any |enough |sufficient |direct |the |specific |reliable |full )*"
    rf"(?:access|{_INFORMATION}|knowledge|label|recall))\b",
    rf"^{_SORRY}(?:i am|i['’]m|we are) (?:not (?:sure|certain|aware|familiar)|unsure|unaware|uncertain|"
    r"unable to (?:answer|determine|find|provide|locate|say|verify|confirm|access))\b",
    rf"^{_SORRY}i have no (?:\w+ ){{0,2}}(?:{_INFORMATION}|knowledge|access|idea|way)\b",
    rf"^{_SORRY}(?:unable to|{_CANNOT}) (?:answer|determine|be (?:determined|answered)|find|provide an answer)\b",
    # Whole replies of a few words.
    r"^(?:the )?(?:requested |relevant |specific )?(?:information|answer|data) (?:is |was )?"
    r"(?:not |un)(?:found|available|provided|specified|given)$",
    r"^no (?:relevant |specific |such )?(?:information|answer|data|mention)"
    r"(?: (?:is |was )?(?:found|available|provided|given|specified))?$",
    rf"^(?:it is |it['’]s |this is )?(?:not|never) {_MISSING}(?: {_IN_LABEL})?$",
    r"^(?:n/?a|not applicable|no answer|none found|nothing found)$",
    rf"^(?:this|it) {_CANNOT} be (?:determined|answered|found)$",
)
_DECLINES = re.compile("|".join(f"(?:{one})" for one in _CLAUSES), re.IGNORECASE)
_THE_LABEL = rf"(?:the|this|these|those|provided) (?:[\w’'-]+ ){{0,3}}{_LABEL}"
_EMPTY = re.compile(
    r"(?:please|kindly|you (?:should|may|can|could|might)|it is (?:best|advisable|recommended) to|"
    r"i (?:would )?(?:recommend|suggest|advise)|(?:patients?|readers?|reviewers?|providers?) (?:should|may)|"
    r"to (?:answer|find|determine|get)\b|for|if you)\b.{0,80}?"
    r"\b(?:consult|refer|check|contact|see|review|ask|speak|seek|look|share|consulting|checking|reviewing|referring|"
    r"verify|confirm|let me know)\b"
    r"|(?:consult|refer to|see|check|contact|sorry|i apologi[sz]e|apologies|unfortunately)\b"
    r"|i(?: can only| can just|['’]d be| would be| am only|['’]m only| am sorry|['’]m sorry| am an ai)\b"
    rf"|(?:it|they|{_THE_LABEL})\b.{{0,40}}? (?:only|merely|solely)\b"
    rf"|(?:the )?only (?:\w+ ){{0,3}}(?:{_LABEL}|{_INFORMATION})\b"
    rf"|(?:it|they|{_THE_LABEL})(?: (?:does|do|\w+ly))* (?:mentions?|discuss(?:es)?|lists?|covers?|address(?:es)?|"
    r"describes?|focus(?:es)?|contains?|provides?|includes?|concerns?|relates?|refers?)\b\D*$"
    rf"|(?:based on|according to|per|from|in) {_THE_LABEL}(?: provided| text)?$"
    r"|(?:as an? (?:ai|language model|large language model)(?: \w+){0,3}|answer|reason|explanation|note)$"
)
_CONCEDES = re.compile(r"(?:although|though|while|whereas|even though|despite|because|since)\b")
_CLAUSE_END = re.compile(
    r"(?<=[.!?])[\"”')\]*]*\s+|\n+|;\s*|,?\s+but\s+|,?\s+(?=(?:however|although|though|whereas|while)\b)|"
    r"(?<=however),?\s+|,\s+(?=(?:it|they|the \w+|this|so|and) )"
)
_LEAD = re.compile(
    r"^(?:[\W_]|\d[.)]\s)*(?:(?:however|therefore|thus|so|and|but|also|nevertheless|hence|as such|as a result|"
    r"in addition|additionally|specifically|overall|in summary|unfortunately|note that|"
    r"based on [^,]{0,80}|according to [^,]{0,80}|from [^,]{0,60})(?:,\s*|\s+|$))*"
)
_LONGEST = 4000


def declines(answer: str) -> bool:
    """Whether a reply, without its citations, is a refusal.

    NOT_ANSWERABLE at its start, or on a line or in a sentence of its own, settles it, whatever stands besides: the
    model gives the verdict that it was asked for. Elsewhere it is a clause that declines, like others.
    """
    if not _HINT.search(answer):
        return False
    if _FIRST.match(answer) or _ALONE.search(answer):
        return True
    kinds = {clause_kind(clause) for clause in _clauses(answer[:_LONGEST].lower())}
    return "declines" in kinds and "answers" not in kinds


def clause_kind(clause: str) -> str:
    """What a clause in lower case does: declines, empty or answers."""
    clause = _LEAD.sub("", clause).rstrip(" .,:;!?*_\"'")
    if _DECLINES.search(clause) and not _CONCEDES.match(clause):
        return "declines"
    return "empty" if not clause or _CONCEDES.match(clause) or _EMPTY.match(clause) else "answers"


def _clauses(text: str) -> list[str]:
    return [clause for clause in _CLAUSE_END.split(text) if clause and clause.strip()]


ANSWERED, REFUSED, UNPARSED = "answered", "refused", "unparsed"

_THOUGHT = re.compile(r"<(think|thinking|thought|reasoning|reflection)>.*?</\1>", re.DOTALL | re.IGNORECASE)
_THOUGHT_OPENS = re.compile(r"<(?:think|thinking|thought|reasoning|reflection)>", re.IGNORECASE)
_THOUGHT_CLOSES = re.compile(r"</(?:think|thinking|thought|reasoning|reflection)>", re.IGNORECASE)
_FENCE = re.compile(r"```[a-z]*[ ]*\n?(.*?)\n?\s*```", re.DOTALL | re.IGNORECASE)
_LEAD_IN = re.compile(
    r"^[\s>#]*(?:here is (?:the|my) (?:answer|reply|response)\s*:\s*)?"
    r"(?P<b>[*_]{0,2})(?:the |my )?(?:final |short )?(?:answer|reply|response)\s*"
    r"(?:(?P=b)\s*[:：]|[:：]\s*(?P=b)|\s[-–—](?=\s))\s*",
    re.IGNORECASE,
)
_ANSWER_KEYS = ("answer", "final_answer", "response", "reply")
_CITED_KEYS = ("cited_passages", "citations", "cited", "passages", "cited_passage_ids", "sources", "passage_ids")


@dataclass(frozen=True)
class ParsedReply:
    """What a reply says. `outcome` is answered, refused, or unparsed for the `reason`.

    `cited` are the passages that it names and was shown, each once, in the order of their naming; `unknown` counts
    those that it names and was not shown. `answer` is the reply without thoughts, lead-ins and citations.
    """

    outcome: str
    answer: str = ""
    cited: list[Passage] = field(default_factory=list)
    unknown: int = 0
    reason: str = ""


def parse_reply(reply: str, numbered: Mapping[int, Passage]) -> ParsedReply:
    """Reads a reply; `numbered` is what the markers mean (`PromptContext.numbered`). Never raises.

    1. Thoughts in tags are dropped; one that does not end leaves no answer (unclosed_thought).
    2. A JSON object with an answer in it, fenced or not, is read by its fields; an answer of null is a refusal.
    3. Citations are taken out (`split_citations`), then Markdown fences and lead-ins such as "Answer:".
    4. What is left is the answer, or a refusal (`declines`); nothing left is no_answer.
    """
    text = without_thoughts(reply)
    if text is None:
        return ParsedReply(UNPARSED, reason="unclosed_thought")
    if fields := _json_fields(text):
        answer, ranges, refuses = fields
    else:
        found = split_citations(_unfenced(text))
        answer, ranges, refuses = found.text, found.ranges, False
    answer = _LEAD_IN.sub("", _unfenced(answer)).strip()
    cited, unknown = _resolved(ranges, numbered)
    if refuses or declines(answer):
        return ParsedReply(REFUSED, answer, cited, unknown)
    if not any(character.isalnum() for character in answer):
        return ParsedReply(UNPARSED, answer, cited, unknown, "no_answer")
    return ParsedReply(ANSWERED, answer, cited, unknown)


def without_thoughts(reply: str) -> str | None:
    """A reply without the thoughts that stand in tags, and without space around it; None where one does not end."""
    text = _THOUGHT.sub("", reply) if "</" in reply else reply
    if _THOUGHT_OPENS.search(text):
        return None
    return _THOUGHT_CLOSES.split(text)[-1].strip()  # the prompt's template may have opened it


def _resolved(ranges: list[tuple[int, int]], numbered: Mapping[int, Passage]) -> tuple[list[Passage], int]:
    """The passages meant. Of a range that spans what was not shown, only its ends can be unknown."""
    meant: dict[int, None] = {}
    unknown: set[int] = set()
    for first, last in ranges:
        meant |= dict.fromkeys(number for number in sorted(numbered) if first <= number <= last)
        unknown |= {first, last} - numbered.keys()
    return [numbered[number] for number in meant], len(unknown)


def _unfenced(text: str) -> str:
    """The text without the marks of Markdown fences; what they hold stays."""
    return _FENCE.sub(r"\1", text).strip() if "```" in text else text


def _json_fields(text: str) -> tuple[str, list[tuple[int, int]], bool] | None:
    """Answer, citations and whether the answer is null, of a reply that is a JSON object or has one in a fence."""
    for candidate in (text, *(found[1] for found in _FENCE.finditer(text))):
        if candidate.lstrip().startswith("{") and (fields := _object(candidate)):
            answer = next((fields[key] for key in _ANSWER_KEYS if key in fields), _MISSING_READING)
            if answer is not _MISSING_READING:
                listed: Any = next((fields[key] for key in _CITED_KEYS if key in fields), [])
                said = split_citations("" if answer is None else str(answer))
                return said.text, _listed(listed) or said.ranges, answer is None
    return None


_MISSING_READING = object()


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {str(key).lower().replace(" ", "_"): item for key, item in value.items()} if isinstance(value, dict) else {}


def _listed(value: Any) -> list[tuple[int, int]]:
    items = value if isinstance(value, list) else [value]
    return [pair for item in items for pair in in_list(str(item))]
