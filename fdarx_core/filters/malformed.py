"""Signs that a question or an answer was damaged on its way: what a template, JSON or a page leaves behind."""

from __future__ import annotations

import re
import unicodedata

_ANYWHERE = (
    ("control character", re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufffe\uffff]")),
    ("lost character", re.compile("\ufffd|â€|Ã[\x80-\xbf]")),
    ("escape sequence", re.compile(r"\\(?:[nrt\"'/]|u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2})")),
    ("character reference", re.compile(r"&(?:#\d+|#x[0-9a-fA-F]+|[a-z]{2,8});")),
    ("markup", re.compile(r"</?[A-Za-z][\w:]*(?:\s+[\w:]+=[^<>]*)?\s*/?>")),
    ("code fence", re.compile(r"```")),
    ("JSON", re.compile(r"\"\s*:\s*[\"\[{]|[{\[,]\s*\"\w+\"\s*:|^\s*\[\s*\"|\"\s*\]\s*$")),
    (
        "placeholder",
        re.compile(r"\{\{|\}\}|[{\[<]\s*(?:drug|entity|name|condition|population|topic|insert)\b[^}\]>]*[}\]>]", re.I),
    ),
)
_QUESTION_ONLY = (
    ("brace", re.compile(r"[{}]")),
    ("markdown", re.compile(r"\*\*|__|^\s*(?:#|[-*•]\s|>)|`|\]\(")),
    (
        "numbering or name of a field",
        re.compile(r"^\s*(?:\d+[.)]\s|Q\s*\d*\s*[:.]|(?:question|answer)\s*\d*\s*:)", re.I),
    ),
    ("null value", re.compile(r"\b(?:null|NULL|undefined|NaN)\b|(?<!\w)(?:N/A|n/a)(?!\w)|\bNone\b(?=\s*\?)")),
    ("line break", re.compile(r"[\r\n]")),
)
_NO_VALUE = re.compile(r"\W*(?:null|none|nil|n/?a|nan|undefined|unknown|tbd|not applicable|true|false)?\W*", re.I)
_PAIRS = {")": "(", "]": "[", "}": "{"}


def malformed_question(question: str) -> str | None:
    """What is damaged, None where nothing is. A question has letters and one question mark, at its end."""
    if not any(unicodedata.category(char).startswith("L") for char in question):
        return "question: no letters"
    if question.count("?") != 1 or not question.endswith("?"):
        return f"question: {question.count('?')} question marks, one at the end expected"
    damage = _damage(question, _ANYWHERE + _QUESTION_ONLY) or _unbalanced(question, "()[]{}")
    return f"question: {damage}" if damage else None


def malformed_answer(answer: str) -> str | None:
    """What is damaged, None where nothing is. Label text may break lines, number its items and leave brackets open."""
    if _NO_VALUE.fullmatch(answer):
        return f"answer: no value, {answer.strip()!r}"
    damage = _damage(answer, _ANYWHERE) or _unbalanced(answer, "{}")
    return f"answer: {damage}" if damage else None


def _damage(text: str, signs: tuple[tuple[str, re.Pattern[str]], ...]) -> str | None:
    for name, sign in signs:
        if found := sign.search(text):
            return f"{name} {found[0]!r}"
    return None


def _unbalanced(text: str, brackets: str) -> str | None:
    opened: list[str] = []
    for char in text:
        if char not in brackets:
            continue
        if char not in _PAIRS:
            opened.append(char)
        elif not opened or opened.pop() != _PAIRS[char]:
            return f"unbalanced {char!r}"
    return f"unbalanced {opened[-1]!r}" if opened else None
