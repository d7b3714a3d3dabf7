"""Topics, the terms of the terminology as they are asked about, and those that a label answers or is silent on.

A label answers a topic where a heading names it, or where sentences state it, and where what stands elsewhere in the
label adds nothing, or can be joined. A label is silent on a topic where no name of the term stands anywhere in it, and
no name of its classes, members and mechanisms where they would answer it; and where it names the term, but provably not
what is asked of it. All other topics are undecided, and are not asked.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from fdarx_core.generation.label_reader import LabelReader, TopicAnswer
from fdarx_core.generation.terminology import Topic, TopicTerm, fold, terms, terms_of
from fdarx_core.generation.topic_questions import product_name
from fdarx_core.generation.topic_sections import NEVER_REFUSED, SECTION_TOPICS, TOPIC_KINDS, is_asked
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
        if (only is not None and topic not in only) or (term is not None and reader.is_drug_or_its_class(term)):
            continue
        asked = term is not None and topic.kind not in NEVER_REFUSED
        if term is not None and not reader.names_any(term.names):
            if asked and reader.is_silent(topic, term) and (only is None or not reader.names_without_spaces(term)):
                found.silent.append(topic)
        elif answer := reader.answer(topic, term):
            found.answers[topic] = answer
        elif (
            asked
            and term is not None
            and reader.names_without_answer(topic, term)
            and (only is None or not reader.names_without_spaces(term, TOPIC_KINDS[topic.kind].scope))
        ):
            found.near.append(topic)
    return found


@cache
def _all_topics() -> tuple[tuple[Topic, TopicTerm | None], ...]:
    found: list[tuple[Topic, TopicTerm | None]] = [(Topic("section", name), None) for name in SECTION_TOPICS]
    for name, kind in TOPIC_KINDS.items():
        names = sorted({term.name for one in kind.terms for term in terms_of(one)})
        found += ((Topic(name, term), terms()[term]) for term in names if is_asked(name, term))
    return tuple(found)


@cache
def all_topics() -> tuple[Topic, ...]:
    """Return all topics, in an order that depends on the terminology alone."""
    return tuple(topic for topic, _ in _all_topics())


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
    found, numbers = find_topics(label, passages), {topic: number for number, topic in enumerate(all_topics())}
    every = (found.answers, found.silent, found.near)
    answered, silent, near = ([numbers[topic] for topic in topics] for topics in every)
    # Equal golds are answers that differ in case, punctuation and spaces alone.
    golds = [content_id(fold(answer.text))[:8] for answer in found.answers.values()]
    return TopicSurvey(label.set_id, label.drug, product_name(label), answered, silent, near, golds, route_of(label))


_ROUTES = {
    "ORAL": "by mouth", "SUBLINGUAL": "by mouth", "BUCCAL": "by mouth", "OPHTHALMIC": "eye", "OTIC": "ear",
    "NASAL": "nose", "RECTAL": "rectum", "VAGINAL": "vagina", "TOPICAL": "skin", "TRANSDERMAL": "skin",
    "RESPIRATORY (INHALATION)": "lung",
}  # fmt: skip

_DRUNK = re.compile(r"(?:solution|suspension|syrup|liquid|elixir|powder|granule)", re.I)


def route_of(label: Label) -> str:
    """Return how a product is given: by mouth, by injection, or where; of several routes the first in the alphabet.

    Products that are drunk are apart from tablets: labels of one drug speak of other excipients, meals and uses there.
    """
    route = min((_ROUTES.get(route.upper(), "injection") for route in label.routes), default="")
    drunk = route == "by mouth" and any(_DRUNK.match(form) for form in label.dosage_forms)
    return f"{route}, liquid" if drunk else route


_places = cache(lambda: tuple(range(len(all_topics()))))


def shared_places(survey: TopicSurvey) -> TopicSurvey:
    """Return a survey whose integers are the same objects as in all others, which saves three quarters of the memory.

    Without this, a survey from another process or a file has its own integers, some 600 for each label.
    """
    places = _places()
    every = (survey.answered, survey.silent, survey.near)
    answered, silent, near = ([places[one] for one in listed] for listed in every)
    return replace(survey, answered=answered, silent=silent, near=near)


_TELLING = ("partner", "risk", "reaction", "indication")
"""The kinds of topics that drugs of one class have in common."""


def similar_drugs(surveys: Sequence[TopicSurvey], most: int) -> Mapping[str, Mapping[str, float]]:
    """Return for each drug the other drugs that are most similar to it, the most similar first, with the similarity.

    It is the cosine of the topics of `_TELLING` kinds that the labels of two drugs answer, weighted by how few drugs
    answer them: 0 where they have none in common, 1 where they have the same.

    Args:
        surveys: the labels.
        most: the most drugs to return for each drug.
    """
    answered: dict[str, set[int]] = defaultdict(set)
    for survey in surveys:
        answered[survey.drug].update(survey.answered)
    telling = {
        drug: {number for number in numbers if all_topics()[number].kind in _TELLING}
        for drug, numbers in answered.items()
    }
    drugs_of: dict[int, list[str]] = defaultdict(list)
    for drug in sorted(telling):
        for number in telling[drug]:
            drugs_of[number].append(drug)
    weights = {number: math.log(1 + len(telling) / len(drugs)) ** 2 for number, drugs in drugs_of.items()}
    norms = {drug: math.sqrt(sum(weights[number] for number in one)) or 1.0 for drug, one in telling.items()}
    found: dict[str, Mapping[str, float]] = {}
    for drug, numbers in telling.items():
        scores: dict[str, float] = defaultdict(float)
        for number in numbers:
            for other in drugs_of[number]:
                if other != drug:
                    scores[other] += weights[number] / norms[other] / norms[drug]
        nearest = sorted(telling.keys() - {drug}, key=lambda other: (-scores[other], other))[:most]
        found[drug] = {other: scores[other] for other in nearest}
    return found
