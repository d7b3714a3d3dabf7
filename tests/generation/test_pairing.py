"""Which topics are asked of which label: balance, bounds, plausibility and repeatability."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.generation.multihop import COMPARISON, MULTIHOP_KINDS
from fdarx_core.generation.pairing import ANSWERED_PER_SILENT, WORDINGS, TopicPair, pair_topics
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topics import TopicSurvey, all_topics

NUMBERS = {topic: number for number, topic in enumerate(all_topics())}
PARTNERS, RISKS, REACTIONS, COMPARED = (
    [number for topic, number in NUMBERS.items() if topic.kind == kind]
    for kind in ("partner", "risk", "reaction", COMPARISON)
)
USED = [*PARTNERS[:6], *RISKS[:4], *REACTIONS[:4], *COMPARED[:2]]

HOP_LABELS = 4
"""The most labels of a drug that are asked the same multi-hop question."""

Pairs = Mapping[str, Sequence[TopicPair]]


def survey(set_id: str, drug: str, answered: Iterable[int], silent: Iterable[int] | None = None) -> TopicSurvey:
    """By default a label is silent on all that it does not answer, but for comparisons: no label is silent on these."""
    answers = sorted(set(answered))
    others = set(USED) - set(answers) if silent is None else set(silent)
    return TopicSurvey(set_id, drug, set_id, answers, sorted(others - set(COMPARED)))


@st.composite
def made_surveys(draw: st.DrawFn) -> list[TopicSurvey]:
    made = []
    for number in range(draw(st.integers(0, 16))):
        states = draw(st.lists(st.sampled_from("asu"), min_size=len(USED), max_size=len(USED)))
        answered, silent = ([one for one, state in zip(USED, states, strict=True) if state == kind] for kind in "as")
        made.append(survey(f"label-{number}", f"drug-{draw(st.integers(0, 5))}", answered, silent))
    return made


def asked(pairs: Pairs) -> tuple[Counter[tuple[Topic, int]], Counter[tuple[Topic, int]]]:
    """How often each topic is asked in each wording where it is answered, and where it is not."""
    answered, silent = Counter[tuple[Topic, int]](), Counter[tuple[Topic, int]]()
    for chosen in pairs.values():
        for pair in chosen:
            answered[pair.answered, pair.wording] += 1
            if pair.silent is not None:
                silent[pair.silent, pair.wording] += 1
    return answered, silent


@given(made_surveys(), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3))
def test_a_wording_of_a_topic_is_asked_as_often_with_an_answer_as_without_and_then_more_with_one(
    surveys: list[TopicSurvey], per_label: int, per_drug: int, seed: int
) -> None:
    pairs = pair_topics(surveys, per_label, per_drug, seed)
    paired = {set_id: [pair for pair in chosen if pair.silent is not None] for set_id, chosen in pairs.items()}
    answered, silent = asked(paired)
    slack = 1 if len({one.drug for one in surveys}) >= 4 else per_label
    assert all(abs(answered[one] - silent[one]) <= slack for one in answered | silent)
    more, _ = asked(pairs)
    for (topic, wording), count in more.items():
        due = max(answered[topic, wording], ANSWERED_PER_SILENT * silent[topic, wording])
        assert answered[topic, wording] <= count and (count <= due or topic.kind == COMPARISON)


@given(made_surveys(), st.integers(1, 4), st.integers(1, 3), st.integers(0, 3))
def test_each_label_is_asked_what_it_answers_and_what_it_is_silent_on_within_the_bounds(
    surveys: list[TopicSurvey], per_label: int, per_drug: int, seed: int
) -> None:
    pairs = pair_topics(surveys, per_label, per_drug, seed)
    assert pairs.keys() == {one.set_id for one in surveys}
    of_drug: Counter[tuple[str, Topic]] = Counter()
    silent_of_drug: Counter[tuple[str, Topic]] = Counter()
    for one in surveys:
        chosen = pairs[one.set_id]
        assert sum(pair.silent is not None for pair in chosen) <= per_label and len(chosen) <= 2 * per_label
        topics = [topic for pair in chosen for topic in (pair.answered, pair.silent) if topic is not None]
        assert len(topics) == len(set(topics))
        assert {NUMBERS[pair.answered] for pair in chosen} <= set(one.answered)
        silent = [pair.silent for pair in chosen if pair.silent is not None]
        assert {NUMBERS[topic] for topic in silent} <= set(one.silent)
        assert all(pair.wording in range(WORDINGS) for pair in chosen)
        of_drug.update((one.drug, topic) for topic in topics)
        silent_of_drug.update((one.drug, topic) for topic in silent)
    for (_, topic), count in of_drug.items():
        most = ANSWERED_PER_SILENT * per_drug
        assert count <= (min(HOP_LABELS, most) if topic.kind in MULTIHOP_KINDS else most)
    assert all(count <= per_drug for count in silent_of_drug.values())


@given(made_surveys(), st.integers(0, 3), st.randoms(use_true_random=False))
def test_the_choice_depends_on_labels_and_seed_alone(
    surveys: list[TopicSurvey], seed: int, order: random.Random
) -> None:
    shuffled = list(surveys)
    order.shuffle(shuffled)
    assert pair_topics(shuffled, 3, 2, seed) == pair_topics(surveys, 3, 2, seed)


def test_another_seed_makes_another_choice() -> None:
    surveys = [survey(f"label-{at}", f"drug-{at}", USED[at : at + 6]) for at in range(8)]
    assert len({str(sorted(pair_topics(surveys, 2, 1, seed).items())) for seed in range(5)}) > 1


def silent_of(pairs: Pairs, set_id: str) -> set[Topic]:
    return {pair.silent for pair in pairs[set_id] if pair.silent is not None}


def test_comparisons_are_asked_without_a_twin_of_few_labels_of_a_drug() -> None:
    surveys = [survey(f"label-{at}-{drug}", drug, COMPARED[:2]) for drug in "ABCDE" for at in range(HOP_LABELS + 3)]
    pairs = [(one.drug, pair) for one in surveys for pair in pair_topics(surveys, 2, 9, 0)[one.set_id]]
    assert all(pair.silent is None for _, pair in pairs)
    counts = Counter((drug, NUMBERS[pair.answered]) for drug, pair in pairs)
    assert counts == {(drug, number): HOP_LABELS for drug in "ABCDE" for number in COMPARED[:2]}


def test_both_questions_of_a_pair_are_of_one_kind_where_there_is_one() -> None:
    alike = RISKS[:4]
    one = survey("one", "A", [*alike, PARTNERS[0], REACTIONS[0]], [PARTNERS[1], REACTIONS[1]])
    other = survey("other", "B", [*alike, PARTNERS[1], REACTIONS[1]], [PARTNERS[0], REACTIONS[0]])
    pairs = pair_topics([one, other], 4, 4, 0)
    both = [pair for chosen in pairs.values() for pair in chosen if pair.silent is not None]
    assert len(both) == 4
    assert all(pair.silent is not None and pair.answered.kind == pair.silent.kind for pair in both)


def test_what_no_label_answers_is_asked_of_none() -> None:
    one, other = survey("one", "A", PARTNERS[:2], USED[2:]), survey("other", "B", PARTNERS[2:4], USED[4:])
    pairs = pair_topics([one, other], 8, 8, 0)
    answered = {all_topics()[number] for number in PARTNERS[:4]}
    assert silent_of(pairs, "one") | silent_of(pairs, "other") <= answered


def test_a_single_label_has_nothing_that_is_plausible_and_not_answered() -> None:
    assert pair_topics([survey("one", "A", USED[:4])], 4, 4, 0) == {"one": []}
    assert pair_topics([], 4, 4, 0) == {}


def test_labels_of_one_drug_make_each_others_topics_plausible() -> None:
    one, other = survey("one", "A", PARTNERS[:2]), survey("other", "A", PARTNERS[2:4])
    pairs = pair_topics([one, other], 2, 2, 0)
    assert silent_of(pairs, "one") == {all_topics()[number] for number in PARTNERS[2:4]}


def test_what_is_plausible_of_a_drug_depends_on_the_kind_and_on_how_similar_the_drug_is_that_has_it() -> None:
    shared = PARTNERS[:4]
    surveys = [
        survey("one", "A", [*shared, RISKS[0]]),
        survey("alike", "B", [*shared, RISKS[1], REACTIONS[1]]),
        survey("less alike", "C", [*shared[:2], PARTNERS[4], RISKS[2], REACTIONS[2]]),
        survey("strange", "D", [PARTNERS[5], RISKS[3], REACTIONS[3]]),
    ]
    pairs = [pair_topics(surveys, 9, 9, seed) for seed in range(9)]
    one, strange = (
        {NUMBERS[topic] for made in pairs for topic in silent_of(made, set_id)} for set_id in ("one", "strange")
    )
    # risks of drugs of the same class alone, partners of similar ones too, reactions of any drug
    assert one and one <= {RISKS[1], PARTNERS[4], *REACTIONS[1:4]}
    assert strange and strange <= {*REACTIONS[1:3]}


def test_labels_whose_products_have_one_name_are_asked_the_same_twice_at_most() -> None:
    halves = USED[:3], USED[3:6]
    surveys = [
        TopicSurvey(f"label-{at}", f"drug-{at % 5}", "Velorin tablets (Northfield)", halves[at % 2], halves[1 - at % 2])
        for at in range(12)
    ]
    answered, silent = asked(pair_topics(surveys, 4, 8, 0))
    of_topic: Counter[Topic] = Counter()
    for (topic, _), count in [*answered.items(), *silent.items()]:
        of_topic[topic] += count
    assert of_topic and max(of_topic.values()) == 2
