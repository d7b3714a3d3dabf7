"""Answers to questions by exact reading: what the structure of a label gives for the term that a question names.

It is how the built-in rules answer a question that they did not see being made. A question in one of the wordings of
`topic_questions.yaml` is read as that topic; any other question by the one term that it names. Where a label does not
certainly answer and is not certainly silent, the rules cannot decide.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

from fdarx_core.generation.label_reader import LabelReader, TopicAnswer
from fdarx_core.generation.library import load_library
from fdarx_core.generation.terminology import Topic, fold, terms
from fdarx_core.generation.topics import all_topics, read_topics


class UndecidedQuestion(Exception):
    """The question is about no single term, or the label neither certainly answers it nor is certainly silent."""


def answer_question(reader: LabelReader, question: str, *, whole: bool) -> TopicAnswer | None:
    """Return the answer of a label, or of some of its passages, to a question; None where there is none.

    A whole label has none where it is silent on the topic; passages have none where they do not certainly answer it.
    Raises UndecidedQuestion.

    Args:
        reader: the label, or some of its passages.
        question: the question.
        whole: whether it is the whole label.
    """
    topics = read_question(question)
    if not topics:
        raise UndecidedQuestion("the question names no single term that is known")
    found = read_topics(reader, frozenset(topics))
    answers = list({answer.text: answer for answer in found.answers.values()}.values())
    if len(answers) == 1:
        return answers[0]
    if not answers and (not whole or len(found.silent) == len(topics)):
        return None
    why = "several readings have answers" if answers else "the label names the term, but gives no certain answer"
    raise UndecidedQuestion(f"{why}: {', '.join(sorted({topic.name for topic in topics}))}")


def read_question(question: str) -> tuple[Topic, ...]:
    """Return the topics that a question may be about; none where it names no term, or several."""
    for kind, name, pattern in _patterns():
        if found := pattern.fullmatch(question):
            compared = found.groupdict().get("anchor") or ""
            return tuple(Topic(kind, one) for one in (name or found["term"], compared) if one)
    asked = fold(re.sub(r"\([^()]*\)", " ", question))
    named = [name for name, term in terms().items() if any(probe in asked for probe in term.names)]
    longest = [one for one in named if not any(one != other and fold(one).strip() in fold(other) for other in named)]
    if len(longest) != 1:
        return ()
    return tuple(Topic(kind, longest[0]) for kind in sorted(terms()[longest[0]].kinds))


@cache
def _patterns() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    """Return the kind of topic, the topic if it is no term, and the pattern of each wording."""
    return tuple(_all_patterns())


def _all_patterns() -> Iterator[tuple[str, str, re.Pattern[str]]]:
    names: dict[str, list[str]] = defaultdict(list)
    for topic in all_topics():
        names[topic.kind].append(topic.name)
    for kind, wordings in load_library("topic_questions").items():
        terms_of_kind = "|".join(re.escape(name) for name in sorted(names[kind], key=len, reverse=True))
        for name, texts in wordings.items() if isinstance(wordings, dict) else [("", wordings)]:
            for text in texts:
                pattern = re.escape(text)
                slots = {
                    "drug": ".+",
                    "anchor": f"(?P<anchor>{terms_of_kind})",
                    "term": f"(?P<term>{terms_of_kind})",
                }
                for slot, expression in slots.items():
                    pattern = pattern.replace(re.escape(f"{{{slot}}}"), expression)
                yield kind, name, re.compile(pattern)
