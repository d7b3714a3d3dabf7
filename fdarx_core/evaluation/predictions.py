"""The answer tasks of the four settings, and predictions parsed from replies. Source: FDARxBench §3.4, §B.6."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fdarx_core.baseline.answering import from_gold, from_memory, from_passages
from fdarx_core.evaluation.scoring import GRADE_ANSWER
from fdarx_core.evaluation.settings import CLOSED_BOOK, FULL_LABEL, ORACLE, RETRIEVED, PromptContext
from fdarx_core.llm import Task, Unparsable, source_digest
from fdarx_core.llm.reply import json_values, without_fences, without_thoughts
from fdarx_core.llm.task import reply_text
from fdarx_core.records import Passage, Prediction, QuestionAnswer, Response, content_id
from fdarx_core.storage.imported_predictions import ImportedPrediction
from fdarx_core.text.refusals import declines

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
_CITED = re.compile(rf"(?P<name>{_NAME})?{_DIGITS % 'first'}(?:{_TO}(?:{_NAME})?{_DIGITS % 'last'})?", re.IGNORECASE)
_ENUMERATOR = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")
_LIST_WORDS = re.compile(
    r"PASSAGES?|IDS?\b|NONE|NULL|N/?A\b|EMPTY|NO\.|AND|OR|TO|THROUGH|[\s\d\[\](){}<>|,;:&*_\\\-–—.`\"'#+/•]",
    re.IGNORECASE,
)
_BRACKETS = re.compile(r" ?(?:\[[^\[\]\n]{1,400}\]|\([^()\n]{1,400}\)|\|\| ?PASSAGE[ _]?\d{1,6} ?\|\|)", re.IGNORECASE)
_SEE = re.compile(r"\b(?:see|cited?|sources?)\b", re.IGNORECASE)
_BARE = re.compile(r"[\s\]}*`]*$")
_RUN_ON = re.compile(r"^[\s*_#]*(?:QUESTION|DRUG|PASSAGES|LABEL)[*_]*\s*:", re.MULTILINE | re.IGNORECASE)
"""Lines of the prompt that a model writes if it does not stop after its answer."""


CitedRange = tuple[int, int]
"""The first and the last number of a citation."""


def split_citations(reply: str) -> tuple[str, list[CitedRange]]:
    """Split a reply into its text without citations, and its citations in the order of their naming.

    Citations are read from citation lines; where the reply has none, from the markers within the text. A citation line
    starts with a heading such as CITED_PASSAGES, "Cited passages", "Citations" or "Sources" and ends with its list,
    which may continue on the lines below. Numbers without a marker count only in a list that holds nothing else; a
    list may hold ranges. Text after a citation line that repeats the prompt's own lines is dropped.
    """
    kept, ranges, at = [], list[CitedRange](), 0
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
    named_in_text = [pair for pair, bare in _pairs(text) if not bare]

    def without_citation(found: re.Match[str]) -> str:
        inner = _SEE.sub("", found[0].strip()[1:-1])  # of brackets
        return "" if _MARKER.search(inner) and _is_list(inner) else found[0]

    return _BRACKETS.sub(without_citation, text).strip(), ranges or named_in_text


def in_list(listed: str) -> list[CitedRange]:
    """Return the passages of a list, line by line: by marker, and by number in lines with numbers only."""
    found, named = [], bool(_MARKER.search(listed))
    for line in listed.split("\n"):
        plain = _ENUMERATOR.sub("", line) if named else line
        found += [pair for pair, bare in _pairs(plain) if not bare or _is_list(plain)]
    return found


def _pairs(text: str) -> Iterator[tuple[CitedRange, bool]]:
    """Yield the first and last number of each citation, and whether it has no marker; a reversed range is two."""
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
    """Return the end of a list: after its line, and the lines below with only passages or within its bracket."""
    end, opened = line_end, reply.count("[", start, line_end) > reply.count("]", start, line_end)
    while end < len(reply):
        following = reply.find("\n", end + 1)
        following = len(reply) if following < 0 else following
        line = reply[end + 1 : following]
        if not (
            (_MARKER.search(line) and (opened or _is_list(line))) or (_is_list(line) and (opened or _BARE.match(line)))
        ):
            break
        end, opened = following, opened and "]" not in line
    return end


ANSWERED, REFUSED, UNPARSED = "answered", "refused", "unparsed"

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
    """A parsed reply. `outcome` is answered, refused, or unparsed for the `reason`.

    `cited` are the passages that it names and was shown, each once, in the order of their naming; `unknown` counts
    those that it names and was not shown. `answer` is the reply without thoughts, lead-ins and citations.
    """

    outcome: str
    answer: str = ""
    cited: list[Passage] = field(default_factory=list)
    unknown: int = 0
    reason: str = ""


def parse_reply(reply: str, numbered: Mapping[int, Passage]) -> ParsedReply:
    """Parse a reply; `numbered` maps the markers to passages (`PromptContext.numbered`). Never raises.

    1. Thoughts in tags are dropped; one that does not end leaves no answer (unclosed_thought).
    2. A JSON object with an answer in it, fenced or between sentences, is read by its fields; an
       answer of null is a refusal.
    3. Citations are taken out (`split_citations`), then Markdown fences and lead-ins such as "Answer:".
    4. What is left is the answer, or a refusal (`declines`); nothing left is no_answer.
    """
    text = without_thoughts(reply)
    if text is None:
        return ParsedReply(UNPARSED, reason="unclosed_thought")
    if fields := _json_fields(text):
        answer, ranges, refuses = fields
    else:
        answer, ranges = split_citations(without_fences(text))
        refuses = False
    answer = _LEAD_IN.sub("", without_fences(answer)).strip()
    meant: dict[int, None] = {}
    absent: set[int] = set()  # of a range, only its ends can be absent
    for first, last in ranges:
        meant |= dict.fromkeys(number for number in sorted(numbered) if first <= number <= last)
        absent |= {first, last} - numbered.keys()
    cited, unknown = [numbered[number] for number in meant], len(absent)
    if refuses or declines(answer):
        return ParsedReply(REFUSED, answer, cited, unknown)
    if not any(character.isalnum() for character in answer):
        return ParsedReply(UNPARSED, answer, cited, unknown, "no_answer")
    return ParsedReply(ANSWERED, answer, cited, unknown)


def _json_fields(text: str) -> tuple[str, list[CitedRange], bool] | None:
    """Answer, citations and whether the answer is null, of a reply that is a JSON object or has one in it."""
    for value in json_values(text) if "{" in text else ():
        items = value.items() if isinstance(value, dict) else ()
        fields = {str(key).lower().replace(" ", "_"): item for key, item in items}
        answer_key = next((key for key in _ANSWER_KEYS if key in fields), None)
        if answer_key is not None:
            answer = fields[answer_key]
            listed: Any = next((fields[key] for key in _CITED_KEYS if key in fields), [])
            text, ranges = split_citations("" if answer is None else str(answer))
            cited = [pair for item in (listed if isinstance(listed, list) else [listed]) for pair in in_list(str(item))]
            return text, cited or ranges, answer is None
    return None


ANSWER_TASKS: dict[str, Task[str]] = {
    CLOSED_BOOK: Task.load("answer_closed_book", str, from_memory),
    FULL_LABEL: Task.load("answer_full_label", str, from_passages),
    ORACLE: Task.load("answer_oracle", str, from_gold),
    RETRIEVED: Task.load("answer_retrieved", str, from_passages),
}
"""The task of each setting."""

EVALUATION_TASKS: dict[str, Task[Any]] = {
    **{task.name: task for task in ANSWER_TASKS.values()},
    GRADE_ANSWER.name: GRADE_ANSWER,
}
"""All tasks of an evaluation, by name."""

EVALUATION_RULES_VERSION = source_digest("fdarx_core.baseline", "fdarx_core.text", "fdarx_core.verify")
"""The version of the baseline's rules, for `Baseline(EVALUATION_TASKS, EVALUATION_RULES_VERSION)`."""


FAILED = "failed"
_USAGE = ("prompt_tokens", "cached_tokens", "completion_tokens", "latency_s")


def prediction_from_response(
    cell: tuple[str, str, str],
    question: QuestionAnswer,
    shown: PromptContext,
    task: Task[str],
    response: Response,
    cost: float | None = None,
) -> Prediction:
    """Return the prediction of a model (`cell`: its name, the setting, the retriever or "") from its response.

    `shown` is the evidence in the prompt. A request that failed permanently gives the outcome failed with the reason of
    the response; a reply that is empty or truncated is unparsed.
    """
    reading = _read(response, shown.numbered)
    cited, cited_set_ids = _named(reading.cited, question)
    seen, seen_set_ids = _named(shown.passages, question)
    return replace(
        _prediction(cell, question, reading, response.text),
        cited=cited,
        cited_set_ids=cited_set_ids,
        cited_unknown=reading.unknown,
        shown=seen,
        shown_set_ids=seen_set_ids,
        cuts=shown.cuts,
        task=task.name,
        task_version=task.version,
        response_key=response.key,
        **{name: getattr(response, name) for name in _USAGE},
        cost=cost,
    )


def _read(response: Response, numbered: Mapping[int, Passage]) -> ParsedReply:
    try:
        reply = reply_text(response)
    except Unparsable as fault:
        if fault.reason == "failed_request":
            return ParsedReply(FAILED, reason=response.reason)
        return ParsedReply(UNPARSED, reason=fault.reason)
    return parse_reply(reply, numbered)


def _named(passages: list[Passage], question: QuestionAnswer) -> tuple[list[int], list[str]]:
    """Return the indices, and the set ids of the labels unless all passages are of the label of the question."""
    set_ids = [passage.set_id for passage in passages]
    own = all(set_id == question.set_id for set_id in set_ids)
    return [passage.doc_chunk_index for passage in passages], [] if own else set_ids


def citing_settings(answers: Iterable[ImportedPrediction]) -> frozenset[str]:
    """Return the settings in which any answer cites, by the answers for which it is not known what their prompts mark.

    In these settings an answer without citations counts as one; in others no citations were asked for.
    """
    others = (answer for answer in answers if answer.citable is None)
    return frozenset(answer.setting for answer in others if answer.cited or parse_reply(answer.text, {}).unknown)


def prediction_from_given(
    question: QuestionAnswer, passages: Sequence[Passage], given: ImportedPrediction
) -> Prediction:
    """Return the prediction of an answer from elsewhere, which may cite these passages of the label: those that its
    prompt marks, or all if this is unknown.

    Citations in a column of the row replace those in the text. An answer that was cut short is unparsed.
    """
    numbered = {
        passage.doc_chunk_index: passage
        for passage in passages
        if given.citable is None or passage.doc_chunk_index in given.citable
    }
    response = Response("", "", 0, given.model, given.text, finish_reason=given.finish_reason)
    reading = _read(response, numbered)
    cited, unknown = [passage.doc_chunk_index for passage in reading.cited], reading.unknown
    if given.cited is not None:
        named = list(dict.fromkeys(given.cited))
        cited = [index for index in named if index in numbered]
        unknown = len(named) - len(cited)
    cell = given.model, given.setting, given.retriever
    return replace(
        _prediction(cell, question, reading, given.text), cited=cited, cited_unknown=unknown, shown=list(given.shown)
    )


def _prediction(cell: tuple[str, str, str], question: QuestionAnswer, reading: ParsedReply, text: str) -> Prediction:
    id = content_id(question.id, *cell)
    return Prediction(id, question.id, question.set_id, *cell, reading.outcome, reading.answer, text, reading.reason)
