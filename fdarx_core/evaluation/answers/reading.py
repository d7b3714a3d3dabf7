"""A reply in free text, read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fdarx_core.evaluation.answers.citations import in_list, split_citations
from fdarx_core.evaluation.answers.refusals import declines
from fdarx_core.records import Passage

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
class Reading:
    """What a reply says. `outcome` is answered, refused, or unparsed for the `reason`.

    `cited` are the passages that it names and was shown, each once, in the order of their naming; `unknown` counts
    those that it names and was not shown. `answer` is the reply without thoughts, lead-ins and citations.
    """

    outcome: str
    answer: str = ""
    cited: list[Passage] = field(default_factory=list)
    unknown: int = 0
    reason: str = ""


def read_reply(reply: str, numbered: Mapping[int, Passage]) -> Reading:
    """Reads a reply; `numbered` is what the markers mean (`Shown.numbered`). Never raises.

    1. Thoughts in tags are dropped; one that does not end leaves no answer (unclosed_thought).
    2. A JSON object with an answer in it, fenced or not, is read by its fields; an answer of null is a refusal.
    3. Citations are taken out (`split_citations`), then Markdown fences and lead-ins such as "Answer:".
    4. What is left is the answer, or a refusal (`declines`); nothing left is no_answer.
    """
    text = without_thoughts(reply)
    if text is None:
        return Reading(UNPARSED, reason="unclosed_thought")
    if fields := _json_fields(text):
        answer, ranges, refuses = fields
    else:
        found = split_citations(_unfenced(text))
        answer, ranges, refuses = found.text, found.ranges, False
    answer = _LEAD_IN.sub("", _unfenced(answer)).strip()
    cited, unknown = _resolved(ranges, numbered)
    if refuses or declines(answer):
        return Reading(REFUSED, answer, cited, unknown)
    if not any(character.isalnum() for character in answer):
        return Reading(UNPARSED, answer, cited, unknown, "no_answer")
    return Reading(ANSWERED, answer, cited, unknown)


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
            answer = next((fields[key] for key in _ANSWER_KEYS if key in fields), _MISSING)
            if answer is not _MISSING:
                listed: Any = next((fields[key] for key in _CITED_KEYS if key in fields), [])
                said = split_citations("" if answer is None else str(answer))
                return said.text, _listed(listed) or said.ranges, answer is None
    return None


_MISSING = object()


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return {str(key).lower().replace(" ", "_"): item for key, item in value.items()} if isinstance(value, dict) else {}


def _listed(value: Any) -> list[tuple[int, int]]:
    items = value if isinstance(value, list) else [value]
    return [pair for item in items for pair in in_list(str(item))]
