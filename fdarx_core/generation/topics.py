"""Topics: the things of the terminology as they are asked about, and what a label says of them.

A label answers a topic where a heading names it, or where sentences state it, and where what stands elsewhere in the
label adds nothing, or can be joined. A label is silent on a topic where no name of the term stands anywhere in it, and
no name of its classes, members and mechanisms where they would answer it; and where it names the term, but provably not
what is asked of it. All other topics are undecided, and are not asked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from fdarx_core.generation.label_reader import LabelReader, TopicAnswer
from fdarx_core.generation.terminology import Topic, TopicTerm, fold, terms, terms_of
from fdarx_core.generation.topic_questions import product_name
from fdarx_core.generation.topic_sections import KINDS, SECTION_TOPICS, is_asked
from fdarx_core.records import Label, Passage, content_id


@dataclass(slots=True)
class LabelTopics:
    """The topics that a label answers, those whose term it does not name, and those whose term it names elsewhere."""

    answers: dict[Topic, TopicAnswer] = field(default_factory=dict)
    silent: list[Topic] = field(default_factory=list)
    near: list[Topic] = field(default_factory=list)


def find_topics(label: Label, passages: Sequence[Passage], only: Collection[Topic] | None = None) -> LabelTopics:
    """Return the topics that a label answers and those that it is silent on.

    Args:
        label: the label.
        passages: its passages, in document order.
        only: the topics to look for, by default all.
    """
    reader, found = LabelReader(label, passages), LabelTopics()
    for topic, term in _all_topics():
        if (only is not None and topic not in only) or (term is not None and reader.is_own(term)):
            continue
        if term is not None and not reader.names_any(term.names):
            if reader.is_silent(topic, term) and (only is None or not reader.names_without_spaces(term)):
                found.silent.append(topic)
        elif answer := reader.answer(topic, term):
            found.answers[topic] = answer
        elif (
            term is not None
            and reader.is_near_miss(topic, term)
            and (only is None or not reader.names_without_spaces(term, KINDS[topic.kind].scope))
        ):
            found.near.append(topic)
    return found


@cache
def _all_topics() -> tuple[tuple[Topic, TopicTerm | None], ...]:
    return tuple(_topics_with_terms())


def _topics_with_terms() -> Iterator[tuple[Topic, TopicTerm | None]]:
    for name in SECTION_TOPICS:
        yield Topic("section", name), None
    for name, kind in KINDS.items():
        for term in sorted({term.name for one in kind.terms for term in terms_of(one)}):
            if is_asked(name, term):
                yield Topic(name, term), terms()[term]


@cache
def all_topics() -> tuple[Topic, ...]:
    """Return all topics, in an order that depends on the terminology alone."""
    return tuple(topic for topic, _ in _all_topics())


@cache
def _topic_numbers() -> dict[Topic, int]:
    return {topic: number for number, topic in enumerate(all_topics())}


@dataclass(frozen=True, slots=True)
class TopicSurvey:
    """What one label answers and is silent on, as places in `all_topics()`.

    `drug` is as `Label.drug`; `product` is the name of the label's product in questions; `route` is how it is given,
    see `route_of`. `golds` has a digest of each answer, aligned with `answered`. `silent` are topics whose term the
    label does not name, `near` those whose term it names.
    """

    set_id: str
    drug: str
    product: str
    answered: list[int]
    silent: list[int]
    near: list[int] = field(default_factory=list)
    golds: list[str] = field(default_factory=list)
    route: str = ""


def survey_label(label: Label, passages: Sequence[Passage]) -> TopicSurvey:
    """Return what a label answers and is silent on."""
    found, numbers = find_topics(label, passages), _topic_numbers()
    every = (found.answers, found.silent, found.near)
    answered, silent, near = ([numbers[topic] for topic in topics] for topics in every)
    golds = [gold_digest(answer.text) for answer in found.answers.values()]
    return TopicSurvey(label.set_id, label.drug, product_name(label), answered, silent, near, golds, route_of(label))


def gold_digest(answer: str) -> str:
    """Return a digest of an answer, the same for answers that differ in case, punctuation and spaces alone."""
    return content_id(fold(answer))[:8]


_ROUTES = {
    "ORAL": "by mouth", "SUBLINGUAL": "by mouth", "BUCCAL": "by mouth", "OPHTHALMIC": "eye", "OTIC": "ear",
    "NASAL": "nose", "RECTAL": "rectum", "VAGINAL": "vagina", "TOPICAL": "skin", "TRANSDERMAL": "skin",
    "RESPIRATORY (INHALATION)": "lung",
}  # fmt: skip


def route_of(label: Label) -> str:
    """Return how a product is given: by mouth, by injection, or where; of several routes the first in the alphabet."""
    return min((_ROUTES.get(route.upper(), "injection") for route in label.routes), default="")


def shared_places(survey: TopicSurvey) -> TopicSurvey:
    """Return a survey in which equal places are the same objects as in all others: a quarter of the memory.

    A survey that comes from another process or from a file has integers of its own, some 600 a label.
    """
    places = _places()
    every = (survey.answered, survey.silent, survey.near)
    answered, silent, near = ([places[one] for one in listed] for listed in every)
    return replace(survey, answered=answered, silent=silent, near=near)


@cache
def _places() -> tuple[int, ...]:
    return tuple(range(len(all_topics())))
