"""Chooses the topics that each label is asked about: topics that it answers, and topics that it is silent on.

Over all labels, each kind of topic and each term has about `ANSWERED_PER_REFUSAL` times as many answered questions as
refusal questions, and both have the same wordings, of which a hash picks one: neither the wording nor the term shows
whether a question can be answered. A label is asked about a term that it is silent on only where labels of the same
drug, or of similar drugs with the same route, answer it, so that the question is plausible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topic_questions import topic_wordings
from fdarx_core.generation.topic_sections import ANSWERED_ONLY, CHEMISTRY, NEVER_REFUSED
from fdarx_core.generation.topics import TopicSurvey, all_topics, similar_drugs
from fdarx_core.records import content_id

ANSWERED_PER_REFUSAL = 5.5
"""Answered questions for each refusal question, of a kind and of a term."""
_MOST_ABOVE = 1.5
"""A term may have up to this many times the answered questions due, to make up for terms of its kind that have few."""
SAME_GOLD = 3
"""The most questions with one gold answer on labels of one drug, and refusal questions about one topic on them."""
LONE = 6
"""The most answered questions about a term without a refusal question."""
CHEMISTRY_SHARE, ANSWERED_ONLY_SHARE, KIND_SHARE = 0.03, 0.08, 0.5
"""The largest shares of constants of substances, of kinds without refusal questions, and of any kind of topics."""
_UNBOUNDED_UP_TO = 100
"""Questions of a build up to which shares are not bounded, because they would allow next to nothing."""
_UNBOUNDED_OF_KIND = 25
"""Answered questions of a kind that are allowed without refusal questions, since small builds have few of these."""
FEWEST_DRUGS = 20
"""With fewer drugs, the questions cannot be balanced, and each label is asked all that it can be asked."""
_SIMILAR_DRUGS = 12
"""The other drugs whose topics are plausible for a drug."""
_LEAST_SIMILARITY, _LEAST_DRUGS = 0.2, 2
"""The similarity from which a drug counts, and how many such drugs must answer a topic."""


@dataclass(frozen=True, slots=True)
class TopicPair:
    """Topics to ask of a label in one wording: one that it answers, one that it is silent on, or both.

    `near` says that the label names the term of the silent one.
    """

    answered: Topic | None
    silent: Topic | None
    wording: str
    near: bool = False


@dataclass(slots=True)
class _Counts:
    """How often each topic, kind, and gold answer of a drug has been asked; `supply` is how often it can be answered.

    `bounded` says that questions are balanced and kinds have largest shares.
    """

    supply: Counter[Topic | str]
    per_drug: int
    bounded: bool
    answered: Counter[Topic | str] = field(default_factory=Counter)
    refused: Counter[Topic | str] = field(default_factory=Counter)
    golds: Counter[tuple[str, str]] = field(default_factory=Counter)
    topics: Counter[tuple[str, Topic, bool]] = field(default_factory=Counter)

    def may_refuse(self, drug: str, topic: Topic) -> bool:
        """Return whether one more refusal question about a topic may be asked of the labels of a drug."""
        if self.topics[drug, topic, False] >= min(self.per_drug, SAME_GOLD):
            return False
        kind, total = _quota(topic), max(self.refused.total() // 2, _UNBOUNDED_UP_TO)
        return not self.bounded or (
            self.refused[topic] < self.supply[topic] / 2
            and self.refused[kind] < min(self.supply[kind] / ANSWERED_PER_REFUSAL, KIND_SHARE * total)
        )

    def may_answer(self, drug: str, topic: Topic, gold: str) -> bool:
        """Return whether one more answered question with a gold answer may be asked of the labels of a drug."""
        if self.golds[drug, gold] >= SAME_GOLD or self.topics[drug, topic, True] >= self.per_drug:
            return False
        kind, total = _quota(topic), max(self.answered.total() // 2 + 1, _UNBOUNDED_UP_TO)
        if kind == "chemistry" and self.answered[kind] + self.refused[kind] >= CHEMISTRY_SHARE * total:
            return False
        if not self.bounded:
            return True
        if kind in ANSWERED_ONLY:
            return sum(self.answered[one] for one in ANSWERED_ONLY) < ANSWERED_ONLY_SHARE * total
        most = max(ANSWERED_PER_REFUSAL * self.refused[kind], _UNBOUNDED_OF_KIND)
        return self.answered[kind] < min(KIND_SHARE * total, most) and self.due(topic) > 0

    def due(self, topic: Topic) -> float:
        """Return how many more answered questions about a term may be asked."""
        return max(_MOST_ABOVE * ANSWERED_PER_REFUSAL * self.refused[topic], LONE) - self.answered[topic]

    def add(self, drug: str, topic: Topic, gold: str) -> None:
        """Note a question; `gold` is "" for one that the label is silent on."""
        asked = self.answered if gold else self.refused
        asked[topic] += 1
        asked[_quota(topic)] += 1
        self.golds[drug, gold] += bool(gold)
        self.topics[drug, topic, bool(gold)] += 1


def _quota(topic: Topic) -> str:
    """Return the kind of a topic, with risks among the effects, whose wordings they have, and constants apart."""
    return "chemistry" if topic.name in CHEMISTRY else "effect" if topic.kind == "risk" else topic.kind


def _supply(surveys: Sequence[TopicSurvey]) -> Counter[Topic | str]:
    """Return how many answered questions can be asked about each topic and of each kind, by their gold answers."""
    found: dict[Topic | str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for survey in surveys:
        for number, gold in zip(survey.answered, survey.golds, strict=True):
            topic = all_topics()[number]
            found[topic][survey.drug, gold] += 1
            found[_quota(topic)][survey.drug, gold] += 1
    return Counter({topic: sum(min(SAME_GOLD, n) for n in golds.values()) for topic, golds in found.items()})


@dataclass(slots=True)
class _OpenTopics:
    """The topics of one label that may still be asked, in an order by a hash, and those that are asked."""

    survey: TopicSurvey
    answered: dict[Topic, str]
    silent: dict[Topic, bool]
    asked: dict[Topic, str] = field(default_factory=dict)
    refused: dict[Topic, bool] = field(default_factory=dict)

    @classmethod
    def of(cls, survey: TopicSurvey, plausible: frozenset[int], seed: int) -> _OpenTopics:
        def shuffled(numbers: Iterable[int]) -> list[int]:
            return sorted(numbers, key=lambda one: content_id(str(seed), survey.set_id, str(one)))

        golds, topics, near = dict(zip(survey.answered, survey.golds, strict=True)), all_topics(), set(survey.near)
        silent = shuffled(plausible.intersection((*survey.silent, *survey.near)))
        return cls(
            survey,
            {topics[number]: golds[number] for number in shuffled(survey.answered)},
            {topics[number]: number in near for number in silent if topics[number].kind not in NEVER_REFUSED},
        )

    def pairs(self, seed: int) -> list[TopicPair]:
        """Return what is asked: each silent topic with an answered one of the same kind, as far as there is one."""
        silent: dict[str, list[Topic]] = defaultdict(list)
        for topic in self.refused:
            silent[_quota(topic)].append(topic)
        found = []
        for topic in self.asked:
            others = silent[_quota(topic)]
            other = others.pop(0) if others else None
            near = other is not None and self.refused[other]
            found.append(TopicPair(topic, other, _wording(self.survey, topic, seed), near))
        left = (topic for others in silent.values() for topic in others)
        return found + [TopicPair(None, one, _wording(self.survey, one, seed), self.refused[one]) for one in left]


def pair_topics(
    surveys: Sequence[TopicSurvey], per_label: int, per_drug: int, seed: int, *, by_model: bool = False
) -> dict[str, list[TopicPair]]:
    """Return what to ask of each label, by set id.

    The labels take turns, first with the topics that they are silent on, then with those that they answer. Each takes
    the topic after which its own kinds of topics and, over all labels, the terms are asked most evenly.

    Args:
        surveys: the labels.
        per_label: the most topics of a label that it is silent on, and half the most topics that it answers.
        per_drug: the most questions about one topic of the labels of one drug, each way.
        seed: the seed of the run, from which the order of labels and topics and the wordings follow.
        by_model: whether a model writes the questions. It is not asked for constants of substances, such as the
            molecular weight, which judges of relevance drop, and not for sections that many labels lack.
    """
    if by_model:
        surveys = [_for_models(one) for one in surveys]
    plausible = _plausible_topics(surveys)
    queue = sorted(surveys, key=lambda one: content_id(str(seed), one.set_id))
    bounded = len({one.drug for one in surveys}) >= FEWEST_DRUGS
    # Where few drugs are at hand, a reaction of the drug itself is plausible of an overdose too.
    left = [_OpenTopics.of(one, plausible[one.set_id].union(() if bounded else one.near), seed) for one in queue]
    counts = _Counts(_supply(surveys), per_drug, bounded)
    # A label whose text is cut answers little, and would get the most refusal questions.
    most = {one.survey.set_id: min(per_label, len(one.survey.answered) // 2) if bounded else per_label for one in left}
    while sum(len(one.refused) < most[one.survey.set_id] and _take_silent(one, counts) for one in left):
        pass
    # A label that has nothing to ask now may have it later, when the shares allow more questions of a kind.
    while sum(len(one.asked) < 2 * per_label and _take_answered(one, counts) for one in left):
        pass
    # Refusal questions of kinds with fewer answered ones than are due are dropped, from labels that have the most.
    for kind in sorted({_quota(topic) for one in left for topic in one.refused}) if bounded else ():
        excess = counts.refused[kind] - ceil(counts.answered[kind] / ANSWERED_PER_REFUSAL)
        for one in sorted(left, key=lambda label: -len(label.refused)):
            topics = [topic for topic in one.refused if _quota(topic) == kind]
            if excess > 0 and topics:
                del one.refused[topics[-1]]
                excess -= 1
    return {one.survey.set_id: one.pairs(seed) for one in left}


def _take_silent(left: _OpenTopics, counts: _Counts) -> bool:
    """Choose the silent topic whose kind this label, and whose term all labels, were asked about least."""
    used, drug = Counter(map(_quota, left.refused)), left.survey.drug
    open_ = [topic for topic in left.silent if counts.may_refuse(drug, topic)]
    if not open_:
        return False
    topic = min(open_, key=lambda one: (used[_quota(one)], counts.refused[one] - counts.supply[one]))
    left.refused[topic] = left.silent.pop(topic)
    counts.add(drug, topic, "")
    return True


def _take_answered(left: _OpenTopics, counts: _Counts) -> bool:
    """Choose the answered topic whose kind this label has least, and whose term is furthest behind what is due."""
    used, drug = Counter(map(_quota, left.asked)), left.survey.drug
    open_ = [topic for topic, gold in left.answered.items() if counts.may_answer(drug, topic, gold)]
    if not open_:
        return False
    topic = min(open_, key=lambda one: (used[_quota(one)], -counts.due(one)))
    left.asked[topic] = left.answered.pop(topic)
    counts.add(drug, topic, left.asked[topic])
    return True


def _wording(survey: TopicSurvey, topic: Topic, seed: int) -> str:
    wordings = topic_wordings(topic)
    return wordings[int(content_id(str(seed), survey.set_id, topic.kind, topic.name), 16) % len(wordings)]


def _for_models(survey: TopicSurvey) -> TopicSurvey:
    asked = [topic.name not in CHEMISTRY and topic.kind != "subsection" for topic in all_topics()]
    answered = [pair for pair in zip(survey.answered, survey.golds, strict=True) if asked[pair[0]]]
    return replace(
        survey,
        answered=[topic for topic, _ in answered],
        golds=[gold for _, gold in answered],
        silent=[topic for topic in survey.silent if asked[topic]],
        near=[topic for topic in survey.near if asked[topic]],
    )


def _plausible_topics(surveys: Sequence[TopicSurvey]) -> Mapping[str, frozenset[int]]:
    """Return the topics that are plausible for each label, by set id.

    Labels of the same drug, or of `_LEAST_DRUGS` similar drugs, that are given by the same route answer these.
    """
    answered: dict[tuple[str, str], set[int]] = defaultdict(set)
    for survey in surveys:
        answered[survey.drug, survey.route].update(survey.answered)
    similar = similar_drugs(surveys, _SIMILAR_DRUGS)
    found: dict[tuple[str, str], frozenset[int]] = {}
    for drug, route in answered:
        others = [other for other, similarity in similar[drug].items() if similarity >= _LEAST_SIMILARITY]
        uses = Counter(number for other in others for number in answered.get((other, route), ()))
        common = {number for number, count in uses.items() if count >= _LEAST_DRUGS}
        found[drug, route] = frozenset(answered[drug, route] | common)
    return {one.set_id: found[one.drug, one.route] for one in surveys}
