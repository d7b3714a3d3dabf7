"""Which topics are asked of which label: pairs of a topic that the label answers and one that it is silent on.

Both questions of a pair have the same wording but for the term, and over all labels every term is asked about as often
where it is answered as where it is not; then every term that was asked where it is not answered is asked up to four
times more where it is. So no wording tells whether a question can be answered. A term is asked of a label that is
silent on it only where labels of similar drugs answer it, so that the question is plausible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fdarx_core.generation.multihop import COMPARISON, DOSES, MULTIHOP_KINDS
from fdarx_core.generation.similar_drugs import similar_drugs
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topics import TopicSurvey, all_topics
from fdarx_core.records import content_id

WORDINGS = 2
"""Wordings of a question of each kind."""
ANSWERED_PER_SILENT = 5
"""How often a term is asked of labels that answer, for each time that it is asked of one that is silent."""
_HOP_LABELS, _COMPARISONS = 4, 4
"""The most labels of one drug that are asked the same multi-hop question, and comparisons of a label."""
_SAME_NAME = 2
"""The most labels whose products have the same name that are asked the same; such questions recur word for word."""
_SIMILAR_DRUGS = 30
"""The other drugs whose topics are plausible for a drug."""
_LEAST_SIMILARITY = {"risk": 0.3, "indication": 0.3, DOSES: 0.3, "partner": 0.1}
"""The similarity of drugs from which topics of a kind are plausible; 0 for other kinds."""
_FEWEST_DRUGS = 4
"""With fewer drugs, questions cannot be balanced; what every label can be asked about is then plausible."""
_OF_ANY_DRUG = ("quantity", "population")
"""The kinds of topics that are plausible for every drug."""


@dataclass(frozen=True, slots=True)
class TopicPair:
    """Two topics to ask of a label in one wording: it answers the first and is silent on the second, if there is one.

    Where the labels allow it, both are of one kind.
    """

    answered: Topic
    silent: Topic | None
    wording: int


@dataclass(slots=True)
class _Counts:
    """How often each topic has been asked in each wording: answered less silent, silent, and of each drug and product.

    `slack` is how far `balance` may be from 0.
    """

    slack: int
    balance: Counter[tuple[Topic, int]] = field(default_factory=Counter)
    silent: Counter[tuple[Topic, int]] = field(default_factory=Counter)
    of_drug: Counter[tuple[str, Topic]] = field(default_factory=Counter)
    of_product: Counter[tuple[str, Topic]] = field(default_factory=Counter)

    def may_ask(self, survey: TopicSurvey, topic: Topic, per_drug: int) -> bool:
        """Return whether a topic may be asked of a label, whose drug and whose product's name may have others."""
        most = min(per_drug, _HOP_LABELS) if topic.kind in MULTIHOP_KINDS else per_drug
        return self.of_drug[survey.drug, topic] < most and self.of_product[survey.product, topic] < _SAME_NAME

    def add(self, survey: TopicSurvey, topic: Topic, wording: int, step: int) -> None:
        """Note a question: `step` is 1 where the label answers it, -1 where it is silent on it."""
        self.balance[topic, wording] += step
        self.of_drug[survey.drug, topic] += 1
        self.of_product[survey.product, topic] += 1


def pair_topics(surveys: Sequence[TopicSurvey], per_label: int, per_drug: int, seed: int) -> dict[str, list[TopicPair]]:
    """Return the pairs to ask of each label, by set id.

    The labels take turns. Each takes the pair after which the terms are asked most evenly; a pair that would leave a
    wording of a term more than one question ahead on either side is not taken.

    Args:
        surveys: the labels.
        per_label: the most pairs of a label.
        per_drug: the most questions about one topic of the labels of one drug, each way.
        seed: the seed of the run, from which the order of labels and topics follows.
    """
    plausible = _plausible_topics(surveys)
    queue = sorted(surveys, key=lambda one: content_id(str(seed), one.set_id))
    left = {one.set_id: _Left.of(one, plausible[one.drug], seed) for one in queue}
    chosen: dict[str, list[TopicPair]] = {one.set_id: [] for one in surveys}
    counts = _Counts(1 if len({one.drug for one in surveys}) >= _FEWEST_DRUGS else per_label)
    for same_kind in (True, False):
        waiting = queue
        for _ in range(per_label):
            waiting = [
                one
                for one in waiting
                if len(chosen[one.set_id]) < per_label
                and _take(one, left[one.set_id], chosen[one.set_id], counts, per_drug, same_kind=same_kind)
            ]
    waiting = queue
    for _ in range(per_label):
        waiting = [
            one
            for one in waiting
            if len(chosen[one.set_id]) < 2 * per_label
            and _take_answered(one, left[one.set_id], chosen[one.set_id], counts, ANSWERED_PER_SILENT * per_drug)
        ]
    return chosen


@dataclass(slots=True)
class _Left:
    """The topics of one label that may still be asked, by kind."""

    answered: dict[str, list[Topic]]
    silent: dict[str, list[Topic]]

    @classmethod
    def of(cls, survey: TopicSurvey, plausible: frozenset[int], seed: int) -> _Left:
        def by_kind(numbers: Iterable[int]) -> dict[str, list[Topic]]:
            groups: dict[str, list[Topic]] = defaultdict(list)
            for number in sorted(numbers, key=lambda one: content_id(str(seed), survey.set_id, str(one))):
                topic = all_topics()[number]
                groups[topic.kind].append(topic)
            return groups

        return cls(by_kind(survey.answered), by_kind(plausible.intersection(survey.silent)))


def _take(
    survey: TopicSurvey, left: _Left, chosen: list[TopicPair], counts: _Counts, per_drug: int, *, same_kind: bool
) -> bool:
    """Choose the best pair that a label has left; return whether there was one."""
    best: tuple[tuple[int, int, int], Topic, Topic, int] | None = None
    kinds = Counter(pair.answered.kind for pair in chosen)
    for wording in range(WORDINGS):
        ones = {kind: _best(topics, wording, 1, survey, counts, per_drug) for kind, topics in left.answered.items()}
        others = {kind: _best(topics, wording, -1, survey, counts, per_drug) for kind, topics in left.silent.items()}
        for kind, one in ones.items():
            for other_kind, other in others.items():
                if one is not None and other is not None and (kind == other_kind) == same_kind:
                    cost = (one[0] + other[0], kinds[kind], one[1] + other[1])
                    if best is None or cost < best[0]:
                        best = cost, one[2], other[2], wording
    if best is None:
        return False
    _, answered, silent, wording = best
    chosen.append(TopicPair(answered, silent, wording))
    counts.add(survey, answered, wording, 1)
    counts.add(survey, silent, wording, -1)
    counts.silent[silent, wording] += 1
    left.answered[answered.kind].remove(answered)
    left.silent[silent.kind].remove(silent)
    return True


def _take_answered(survey: TopicSurvey, left: _Left, chosen: list[TopicPair], counts: _Counts, per_drug: int) -> bool:
    """Choose the answered topic that is furthest behind what is due to it; return whether there was one."""
    kinds = Counter(pair.answered.kind for pair in chosen)
    best: tuple[tuple[int, int, int], Topic, int] | None = None
    for kind, topics in left.answered.items():
        if kind == COMPARISON and kinds[kind] >= _COMPARISONS:
            continue
        for topic in (one for one in topics if counts.may_ask(survey, one, per_drug)):
            for wording in range(WORDINGS):
                due = (ANSWERED_PER_SILENT - 1) * counts.silent[topic, wording] - counts.balance[topic, wording]
                if kind == COMPARISON:  # no label is silent on which of two reactions is the more frequent one
                    due = 1
                cost = (kinds[kind], counts.of_drug[survey.drug, topic], -due)
                if due > 0 and (best is None or cost < best[0]):
                    best = cost, topic, wording
    if best is None:
        return False
    _, topic, wording = best
    chosen.append(TopicPair(topic, None, wording))
    counts.add(survey, topic, wording, 1)
    left.answered[topic.kind].remove(topic)
    return True


def _best(
    topics: Sequence[Topic], wording: int, step: int, survey: TopicSurvey, counts: _Counts, per_drug: int
) -> tuple[int, int, Topic] | None:
    """Return the topic that is best asked next: (the imbalance that it leaves less the one before, uses, topic)."""
    best: tuple[int, int, Topic] | None = None
    for topic in topics:
        balance, uses = counts.balance[topic, wording], counts.of_drug[survey.drug, topic]
        if abs(balance + step) > counts.slack or not counts.may_ask(survey, topic, per_drug):
            continue
        cost = (abs(balance + step) - abs(balance), uses)
        if best is None or cost < best[:2]:
            best = (*cost, topic)
            if cost == (-1, 0):
                break
    return best


def _plausible_topics(surveys: Sequence[TopicSurvey]) -> Mapping[str, frozenset[int]]:
    """Return the topics that are answered by labels of each drug, or of the drugs most similar to it, by drug."""
    answered: dict[str, set[int]] = defaultdict(set)
    for survey in surveys:
        answered[survey.drug].update(survey.answered)
    found: dict[str, frozenset[int]] = {}
    for drug, similar in similar_drugs(surveys, _SIMILAR_DRUGS).items():
        plausible = set(answered[drug])
        if len(answered) < _FEWEST_DRUGS:
            plausible |= {number for number, topic in enumerate(all_topics()) if topic.kind in _OF_ANY_DRUG}
        for other, similarity in similar.items():
            plausible |= {
                number
                for number in answered[other]
                if similarity >= _LEAST_SIMILARITY.get(all_topics()[number].kind, 0)
            }
        found[drug] = frozenset(plausible)
    return found
