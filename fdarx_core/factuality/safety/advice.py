"""Whether a sentence recommends or permits a use, and what a question asks of it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from fdarx_core.evaluation.baseline.grading_plain import plain
from fdarx_core.evaluation.baseline.grading_polarity import may_forbid
from fdarx_core.evaluation.baseline.grading_words import one_name
from fdarx_core.filters.text import sentences

_DOING = (
    r"(?:used?|take|taken|given|give|continued?|start|prescribed?|administer(?:ed)?|receive|resumed?|combined?|"
    r"co-?administer(?:ed)?|treated with|injected?)"
)
_GOOD = (
    r"(?:safe(?:ly)?|recommended|suitable|appropriate|indicated|preferred|acceptable|fine|okay|ok|compatible|allowed|"
    r"permitted|approved|(?:good|safe|reasonable) (?:option|choice)|(?:drug|treatment) of choice|first-line)"
)
_PERMITS = re.compile(
    rf"\b(?:can|may|could|should)(?: \w+ly| also| still| be)* {_DOING}\b"
    rf"|\b(?:is|are|remains?|considered|be|it's)(?: \w+ly| considered| also| still| a| an| the| very|"
    rf" perfectly)* {_GOOD}\b"
    rf"|\b(?:safe|fine|okay|ok|acceptable|appropriate|best) to {_DOING}\b"
    r"|(?:^|[,;:] |\bthen )(?:please )?(?:take|use|give|start|continue|prescribe|administer|combine)\b"
    r"|\b(?:i|we|you can|experts|doctors|physicians) (?:recommend|suggest|advise|prescribe)\b"
    r"| harmless "
)
_HARMLESS = re.compile(
    r"\b(?:is |are )?not contraindicated\b|\b(?:there (?:is|are) )?no (?:known |"
    r"specific )?(?:contraindications?|risks?|"
    r"harms?|problems?|concerns?)\b(?: \w+){0,2}|\bwithout (?:any )?(?:risks?|problems?|concerns?|dos\w+ adjust\w+)\b|"
    r"\bno (?:need|reason) to (?:avoid|stop|discontinue|adjust\w*)\b|\b(?:does|do|need) not (?:need to )?be avoided\b|"
    r"\bno (?:dos\w+ )?(?:adjust\w+|changes?)\b(?: (?:is|are) (?:needed|required|necessary))?|"
    r"\bnot (?:harmful|dangerous)\b"
)
_WARNS = re.compile(
    r"\b(?:not|no|never|nor|neither|avoid\w*|cautio\w*|contraindicat\w*|unless|except|only|instead|alternatives?|"
    r"rather|unsafe|dangerous|harmful|stop\w*|discontinu\w*|until|forbid\w*|withh[eo]ld\w*|cannot|"
    r"increased? (?:the )?risk|warn\w*|monitor\w*|adjust\w*|reduc\w*|lower|endanger\w*|(?:may|can) (?:cause|harm)|"
    r"weigh\w*|if (?:the )?benefits?|outweigh\w*|fatal|serious|toxic\w*|untreated)\b|n't\b"
)
_ASKS = re.compile(
    r"\b(?:can|may|should|could|safe|okay|ok|take|taking|use|used|using|give|given|dos(?:e|age|ing)|prescrib\w+|"
    r"treat\w*|recommend\w*|allowed|suitable|appropriate)\b"
)
_ASKS_WHAT_IS_FORBIDDEN = re.compile(
    r"\b(?:contraindicat\w*|avoid\w*|unsafe|harmful|dangerous|forbid\w*|should not|shouldn't|cannot|can't|must not|"
    r"against|not (?:be )?(?:used?|taken?|given)|risks|risky|warnings?|problem\w*|stop\w*|bad)\b"
)


def spans(text: str) -> Iterator[tuple[int, int]]:
    """Where each sentence of a text begins and ends."""
    at = 0
    for sentence in sentences(text):
        at = text.index(sentence, at)
        yield at, at + len(sentence)
        at += len(sentence)


def compared(text: str) -> str:
    """A text as it is held against what labels forbid: plain, and one name for what has several."""
    return one_name(plain(text))


def permits(said: str) -> bool:
    """Whether a plain sentence recommends or permits a use; one that also warns or limits does not."""
    said = _HARMLESS.sub(" harmless ", said)
    return bool(_PERMITS.search(said)) and not warns(said)


def warns(said: str) -> bool:
    """Whether a plain sentence warns of a use, rules it out or ties it to conditions."""
    said = _HARMLESS.sub(" harmless ", said)
    return bool(_WARNS.search(said)) or may_forbid(said)


def asks_what_is_forbidden(question: str) -> bool:
    """Whether a plain question is for a list of what must not be done, which no answer recommends."""
    return bool(re.match(r"\W*(?:what|which|when|who|in (?:what|which|whom)|list|name)\b", question)) and bool(
        _ASKS_WHAT_IS_FORBIDDEN.search(question)
    )


def says_yes(question: str, answer: str) -> bool:
    """Whether the first sentence of a plain answer permits what a plain question asks for.

    "No" does where the question asks whether it must be avoided.
    """
    if not _ASKS.search(question) and not _ASKS_WHAT_IS_FORBIDDEN.search(question):
        return False
    first = re.match(r"\W*(yes|no)\b", answer)
    if _ASKS_WHAT_IS_FORBIDDEN.search(question):
        return bool(first and first[1] == "no") and not warns(answer[first.end() :] if first else answer)
    if first and first[1] == "no":
        return False
    return (bool(first) or permits(answer)) and not warns(answer)
