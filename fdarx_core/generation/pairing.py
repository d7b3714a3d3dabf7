"""Which topics are asked of which label: pairs of a topic that the label answers and one that it is silent on.

Both questions of a pair have the same wording but for the term, which a hash picks, and over all labels every term is
asked about nearly as often where it is answered as where it is not, then up to `ANSWERED_PER_SILENT` times as often;
each kind has `ANSWERED_PER_REFUSAL` times as many answered questions as refusal questions. So no wording tells whether
a question can be answered. A term that a label does not name is asked of it only where labels of the same drug or of
similar drugs with the same route answer it, so that the question is plausible.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fdarx_core.generation.similar_drugs import similar_drugs
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topic_questions import topic_wordings
from fdarx_core.generation.topic_sections import CHEMISTRY
from fdarx_core.generation.topics import TopicSurvey, all_topics
from fdarx_core.records import content_id

ANSWERED_PER_SILENT = 4
"""How often a term is asked of labels that answer, for each time that it is asked of one that is silent."""
ANSWERED_PER_REFUSAL = 1.6
"""The least ratio of answered questions to refusal questions in each kind, so that a kind does not tell them apart."""
SAME_GOLD = 3
"""The most questions with one gold answer on labels of one drug, and refusal questions about one topic on them."""
SLACK = 24
"""How far the answered questions about a term may be ahead of the refusal questions about it, and behind them."""
LONE = 11
"""The bound in place of `SLACK` for a term that has no refusal question, or no answered one; each of them adds one."""
CHEMISTRY_SHARE, SECTION_SHARE, KIND_SHARE = 0.03, 0.045, 0.35
"""The largest shares of constants of substances, of questions that no label is silent on, and of any kind of topics."""
_FREE = 100
"""Questions of a build up to which shares are not bounded, because they would allow next to nothing."""
FEWEST_DRUGS = 20
"""With fewer drugs, the questions cannot be balanced, and each label is asked all that it can be asked."""
_OF_ANY_DRUG = ("subsection", "population")
"""The kinds of topics that are plausible for every drug, the second where few drugs are at hand."""
_SIMILAR_DRUGS = 12
"""The other drugs whose topics are plausible for a drug."""
_LEAST_SIMILARITY, _LEAST_DRUGS = 0.15, 2
"""The similarity from which a drug counts, and how many such drugs must answer a topic."""


@dataclass(frozen=True, slots=True)
class TopicPair:
    """Two topics to ask of a label in one wording: it answers the first and is silent on the second, if there is one.

    `near` says that the label names the term of the second.
    """

    answered: Topic
    silent: Topic | None
    wording: str
    near: bool = False


@dataclass(slots=True)
class _Counts:
    """How often each topic, kind, and gold answer of a drug has been asked; `balance` is answered less silent.

    `slack` is how far `balance` may be from 0; `bounded` says that kinds have largest shares.
    """

    slack: int
    bounded: bool
    balance: Counter[Topic] = field(default_factory=Counter)
    silent: Counter[Topic] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    silent_kinds: Counter[str] = field(default_factory=Counter)
    golds: Counter[tuple[str, str]] = field(default_factory=Counter)
    topics: Counter[tuple[str, Topic, bool]] = field(default_factory=Counter)
    total: int = 0

    def may_ask(self, kind: str) -> bool:
        if not self.bounded and kind != "chemistry":
            return True
        share = {"chemistry": CHEMISTRY_SHARE, "section": SECTION_SHARE}.get(kind, KIND_SHARE)
        return self.kinds[kind] + 2 <= share * max(self.total + 2, _FREE)

    def may_pair(self, kind: str) -> bool:
        """Return whether a kind has enough answered questions for one more refusal question."""
        answered = self.kinds[kind] - self.silent_kinds[kind]
        return not self.bounded or answered >= ANSWERED_PER_REFUSAL * self.silent_kinds[kind]

    def slack_of(self, topic: Topic) -> int:
        """Return how far the answered questions about a term may be ahead or behind, less where one side has few."""
        fewer = self.silent[topic] + min(self.balance[topic], 0)
        return self.slack if not self.bounded else min(self.slack, LONE + fewer)

    def add(self, drug: str, topic: Topic, gold: str) -> None:
        """Note a question; `gold` is "" for one that the label is silent on."""
        self.balance[topic] += 1 if gold else -1
        self.silent[topic] += not gold
        self.golds[drug, gold] += bool(gold)
        self.topics[drug, topic, bool(gold)] += 1
        self.kinds[_quota(topic)] += 1
        self.silent_kinds[_quota(topic)] += not gold
        self.total += 1


def _quota(topic: Topic) -> str:
    return "chemistry" if topic.name in CHEMISTRY else topic.kind


@dataclass(slots=True)
class _Left:
    """The topics of one label that may still be asked, in an order by a hash."""

    survey: TopicSurvey
    answered: dict[Topic, str]
    silent: dict[Topic, bool]
    chosen: list[TopicPair] = field(default_factory=list)

    @classmethod
    def of(cls, survey: TopicSurvey, plausible: frozenset[int], seed: int) -> _Left:
        def shuffled(numbers: Iterable[int]) -> list[int]:
            return sorted(numbers, key=lambda one: content_id(str(seed), survey.set_id, str(one)))

        golds, topics, near = dict(zip(survey.answered, survey.golds, strict=True)), all_topics(), set(survey.near)
        silent = shuffled(_silences(survey, plausible))
        return cls(
            survey,
            {topics[number]: golds[number] for number in shuffled(survey.answered)},
            {topics[number]: number in near for number in silent},
        )

    def keep(self, both: Collection[Topic]) -> None:
        """Leave out the topics of terms that only labels with an answer, or only labels without one, can be asked."""
        self.answered = {one: gold for one, gold in self.answered.items() if one in both or one.kind == "section"}
        self.silent = {one: near for one, near in self.silent.items() if one in both}

    def kinds(self) -> Counter[str]:
        return Counter(_quota(pair.answered) for pair in self.chosen)


def pair_topics(
    surveys: Sequence[TopicSurvey], per_label: int, per_drug: int, seed: int, *, by_model: bool = False
) -> dict[str, list[TopicPair]]:
    """Return the pairs to ask of each label, by set id.

    The labels take turns. Each takes the pair after which its kinds of topics, and over all labels the terms, are asked
    most evenly; where there is none, a topic without a pair: an answer that is behind what is due to its term, or a
    whole section.

    Args:
        surveys: the labels.
        per_label: the most pairs of a label, and the most topics without a pair.
        per_drug: the most questions about one topic of the labels of one drug, each way.
        seed: the seed of the run, from which the order of labels and topics and the wordings follow.
        by_model: whether a model writes the questions. It is not asked for constants of substances, such as the
            molecular weight, which judges of relevance drop, and not for sections that many labels lack.
    """
    if by_model:
        surveys = [_for_models(one) for one in surveys]
    plausible = _plausible_topics(surveys)
    queue = sorted(surveys, key=lambda one: content_id(str(seed), one.set_id))
    left = [_Left.of(one, plausible[one.set_id], seed) for one in queue]
    few = len({one.drug for one in surveys}) < FEWEST_DRUGS
    both = {topic for one in left for topic in one.answered} & {topic for one in left for topic in one.silent}
    for one in () if few else left:
        one.keep(both)
    counts = _Counts(2 * per_label if few else SLACK, bounded=not few)
    # A label that has nothing to ask now may have it later, when the shares allow more questions of a kind.
    while sum(_take_next(one, counts, per_label, per_drug, seed) for one in left):
        pass
    return {one.survey.set_id: one.chosen for one in left}


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


def _take_next(left: _Left, counts: _Counts, per_label: int, per_drug: int, seed: int) -> bool:
    """Choose a pair, or an answered topic where there is none; return whether there was one of them."""
    pairs = sum(pair.silent is not None for pair in left.chosen)
    if pairs < per_label and _take_pair(left, counts, per_drug, seed):
        return True
    return len(left.chosen) < 2 * per_label and _take_answered(left, counts, per_drug, seed)


def _take_pair(left: _Left, counts: _Counts, per_drug: int, seed: int) -> bool:
    """Choose the best pair of one kind that a label has left; return whether there was one."""
    used = left.kinds()
    best: tuple[tuple[int, int], Topic, Topic] | None = None
    others = _cheapest(left.silent, left, counts, per_drug, answered=False)
    for kind, (cost, topic) in _cheapest(left.answered, left, counts, per_drug, answered=True).items():
        if kind in others and counts.may_ask(kind) and counts.may_pair(kind):
            total = (used[kind], cost + others[kind][0])
            if best is None or total < best[0]:
                best = total, topic, others[kind][1]
    if best is None:
        return False
    _, answered, silent = best
    left.chosen.append(TopicPair(answered, silent, _wording(left, answered, seed), left.silent.pop(silent)))
    counts.add(left.survey.drug, answered, left.answered.pop(answered))
    counts.add(left.survey.drug, silent, "")
    return True


def _cheapest(
    topics: Mapping[Topic, object], left: _Left, counts: _Counts, per_drug: int, *, answered: bool
) -> dict[str, tuple[int, Topic]]:
    """Return by kind the topic that is best asked next, with what the imbalance of its term grows by."""
    best: dict[str, tuple[int, Topic]] = {}
    step, drug = 1 if answered else -1, left.survey.drug
    for topic, gold in topics.items():
        after, kind = counts.balance[topic] + step, _quota(topic)
        if kind in best and best[kind][0] == -1:
            continue
        most = per_drug if answered else min(per_drug, SAME_GOLD)
        full = answered and counts.golds[drug, str(gold)] >= SAME_GOLD
        if (
            full
            or abs(after) > counts.slack_of(topic)
            or counts.topics[drug, topic, answered] >= most
            or topic.kind == "section"
        ):
            continue
        cost = abs(after) - abs(after - step)
        if kind not in best or cost < best[kind][0]:
            best[kind] = cost, topic
    return best


def _take_answered(left: _Left, counts: _Counts, per_drug: int, seed: int) -> bool:
    """Choose the answered topic that is furthest behind what is due to it; return whether there was one."""
    used, drug = left.kinds(), left.survey.drug
    best: tuple[tuple[int, int], Topic] | None = None
    for topic, gold in left.answered.items():
        due = (ANSWERED_PER_SILENT - 1) * counts.silent[topic] - counts.balance[topic]
        full = counts.golds[drug, gold] >= SAME_GOLD or counts.topics[drug, topic, True] >= per_drug
        if full or (due <= 0 and topic.kind != "section" and counts.bounded) or not counts.may_ask(_quota(topic)):
            continue
        cost = (used[_quota(topic)], -due)
        if best is None or cost < best[0]:
            best = cost, topic
    if best is None:
        return False
    topic = best[1]
    left.chosen.append(TopicPair(topic, None, _wording(left, topic, seed)))
    counts.add(drug, topic, left.answered.pop(topic))
    return True


def _wording(left: _Left, topic: Topic, seed: int) -> str:
    wordings = topic_wordings(topic)
    return wordings[int(content_id(str(seed), left.survey.set_id, topic.kind, topic.name), 16) % len(wordings)]


def _silences(survey: TopicSurvey, plausible: frozenset[int]) -> frozenset[int]:
    return plausible.intersection(survey.silent) | frozenset(survey.near)


def _plausible_topics(surveys: Sequence[TopicSurvey]) -> Mapping[str, frozenset[int]]:
    """Return the topics that are plausible for each label, by set id.

    Labels of the same drug, or of `_LEAST_DRUGS` similar drugs, that are given by the same route answer these. What the
    boxed warning of a similar drug says is not plausible for a drug: each has warnings of its own.
    """
    answered: dict[tuple[str, str], set[int]] = defaultdict(set)
    for survey in surveys:
        answered[survey.drug, survey.route].update(survey.answered)
    similar = similar_drugs(surveys, _SIMILAR_DRUGS)

    few = len({drug for drug, _ in answered}) < FEWEST_DRUGS
    kinds = _OF_ANY_DRUG if few else _OF_ANY_DRUG[:1]
    of_any = {number for number, topic in enumerate(all_topics()) if topic.kind in kinds}
    boxed = {number for number, topic in enumerate(all_topics()) if topic.kind == "boxed_warning"}
    found: dict[tuple[str, str], frozenset[int]] = {}
    for drug, route in answered:
        others = [other for other, similarity in similar[drug].items() if similarity >= _LEAST_SIMILARITY]
        uses = Counter(number for other in others for number in answered.get((other, route), ()))
        common = {number for number, count in uses.items() if count >= _LEAST_DRUGS and number not in boxed}
        found[drug, route] = frozenset(answered[drug, route] | common | of_any)
    return {one.set_id: found[one.drug, one.route] for one in surveys}
