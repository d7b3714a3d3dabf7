"""Topics: the things of the terminology as they are asked about, and what a label says of them.

A label answers a topic where a heading names it, or where sentences state it, and where what stands elsewhere in the
label adds nothing, or can be joined. A label is silent on a topic where no name of the term stands anywhere in it, and
no name of its classes, members and mechanisms where they would answer it. All other topics are undecided, and are not
asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from fdarx_core.generation.label_reader import LabelReader, TopicAnswer
from fdarx_core.generation.multihop import BRIDGE, COMPARISON, COMPUTATION, DOSES, NAMED_TOPICS, computed_answers
from fdarx_core.generation.terminology import KINDS, Topic, terms, terms_of
from fdarx_core.generation.topic_questions import product_name
from fdarx_core.records import Label, Passage


@dataclass(slots=True)
class LabelTopics:
    """The topics that a label answers, and those that it is silent on.

    `anchors` are the names of what comparisons of each kind compare with.
    """

    answers: dict[Topic, TopicAnswer] = field(default_factory=dict)
    silent: list[Topic] = field(default_factory=list)
    anchors: dict[str, str] = field(default_factory=dict)


def find_topics(label: Label, passages: Sequence[Passage], only: Collection[Topic] | None = None) -> LabelTopics:
    """Return the topics that a label answers and those that it is silent on.

    Args:
        label: the label.
        passages: its passages, in document order.
        only: the topics to look for, by default all.
    """
    return read_topics(LabelReader.of_label(label, passages), only)


def read_topics(reader: LabelReader, only: Collection[Topic] | None = None) -> LabelTopics:
    """Return the topics that a label answers and those that it is silent on, see `find_topics`."""
    found = LabelTopics()
    for topic in _topics(only):
        term = terms()[topic.name]
        if reader.is_own(term):
            continue
        if reader.is_silent(topic, term):
            found.silent.append(topic)
        elif reader.whole.names_any(term.names) and (answer := reader.answer(topic, term)):
            found.answers[topic] = answer
    if only is None or any(topic.kind in _PARTS for topic in only):
        computed = computed_answers(reader, found.answers, found.silent)
        found.answers |= computed.answers
        found.silent += computed.silent
        found.anchors = computed.anchors
    if only is not None:
        found.answers = {topic: answer for topic, answer in found.answers.items() if topic in only}
        found.silent = [topic for topic in found.silent if topic in only]
    return found


_PARTS = {COMPUTATION: "quantity", COMPARISON: "reaction", DOSES: "indication", BRIDGE: "partner"}
"""The kind of topics from which the answers of each kind of multi-hop questions are made."""


def _topics(only: Collection[Topic] | None) -> Iterator[Topic]:
    parts = set() if only is None else {_PARTS[topic.kind] for topic in only if topic.kind in _PARTS}
    for kind in KINDS:
        for term in terms_of(kind):
            if only is None or kind in parts or Topic(kind, term.name) in only:
                yield Topic(kind, term.name)


@cache
def all_topics() -> tuple[Topic, ...]:
    """Return all topics, in an order that depends on the terminology alone."""
    single = [Topic(kind, term.name) for kind in KINDS for term in terms_of(kind)]
    compared = [Topic(kind, term.name) for kind in (COMPARISON, DOSES) for term in terms_of(_PARTS[kind])]
    named = [Topic(kind, name) for kind in (COMPUTATION, BRIDGE) for name in NAMED_TOPICS[kind]]
    return tuple(single + compared + named)


@cache
def _topic_numbers() -> dict[Topic, int]:
    return {topic: number for number, topic in enumerate(all_topics())}


@dataclass(frozen=True, slots=True)
class TopicSurvey:
    """What one label answers and is silent on, as places in `all_topics()`.

    `drug` is as `Label.drug`; `product` is the name of the label's product in questions.
    """

    set_id: str
    drug: str
    product: str
    answered: list[int]
    silent: list[int]


def survey_label(label: Label, passages: Sequence[Passage]) -> TopicSurvey:
    """Return what a label answers and is silent on."""
    found, numbers = find_topics(label, passages), _topic_numbers()
    answered, silent = ([numbers[topic] for topic in topics] for topics in (found.answers, found.silent))
    return TopicSurvey(label.set_id, label.drug, product_name(label), answered, silent)


def shared_places(survey: TopicSurvey) -> TopicSurvey:
    """Return a survey in which equal places are the same objects as in all others: a quarter of the memory.

    A survey that comes from another process or from a file has integers of its own, some 600 a label.
    """
    places = _places()
    answered, silent = ([places[one] for one in listed] for listed in (survey.answered, survey.silent))
    return replace(survey, answered=answered, silent=silent)


@cache
def _places() -> tuple[int, ...]:
    return tuple(range(len(all_topics())))
