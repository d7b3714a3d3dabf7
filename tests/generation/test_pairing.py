"""Which topics are asked of which label: balance, bounds, quotas, plausibility and repeatability."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.generation.pairing import (
    ANSWERED_ONLY_SHARE,
    ANSWERED_PER_REFUSAL,
    FEWEST_DRUGS,
    SAME_GOLD,
    TopicPair,
    pair_topics,
)
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topic_questions import topic_wordings
from fdarx_core.generation.topic_sections import ANSWERED_ONLY, CHEMISTRY
from fdarx_core.generation.topics import TopicSurvey, all_topics

NUMBERS = {topic: number for number, topic in enumerate(all_topics())}
PARTNERS, RISKS, REACTIONS, OVERDOSES, SECTIONS, QUANTITIES = (
    [number for topic, number in NUMBERS.items() if topic.kind == kind]
    for kind in ("partner", "risk", "reaction", "overdose", "section", "quantity")
)
USED = [*PARTNERS[:5], *RISKS[:4], *REACTIONS[:3], *OVERDOSES[:3], *SECTIONS[:1]]

Pairs = Mapping[str, Sequence[TopicPair]]


def survey(
    set_id: str,
    drug: str,
    answered: Iterable[int],
    silent: Iterable[int] | None = None,
    near: Iterable[int] = (),
    gold: str = "",
    route: str = "by mouth",
) -> TopicSurvey:
    """By default a label is silent on all that it does not answer, and gives answers that no other label gives."""
    answers = sorted(set(answered))
    others = set(USED) - set(answers) - set(SECTIONS) if silent is None else set(silent)
    golds = [gold or f"{set_id} {number}" for number in answers]
    return TopicSurvey(set_id, drug, set_id, answers, sorted(others), sorted(near), golds, route)


@st.composite
def made_surveys(draw: st.DrawFn) -> list[TopicSurvey]:
    made = []
    for number in range(draw(st.integers(0, 40))):
        states = draw(st.lists(st.sampled_from("asnu"), min_size=len(USED), max_size=len(USED)))
        answered, silent, near = (
            [
                one
                for one, state in zip(USED, states, strict=True)
                if state == kind and (kind == "a" or one not in SECTIONS)
            ]
            for kind in "asn"
        )
        drug, gold = f"drug-{draw(st.integers(0, 29))}", draw(st.sampled_from(["", "the same"]))
        made.append(survey(f"label-{number}", drug, answered, silent, near, gold))
    return made


@given(made_surveys(), st.integers(1, 4), st.integers(1, 5), st.integers(0, 3))
def test_each_label_is_asked_what_it_answers_and_what_it_is_silent_on_within_the_bounds(
    surveys: list[TopicSurvey], per_label: int, per_drug: int, seed: int
) -> None:
    pairs = pair_topics(surveys, per_label, per_drug, seed)
    assert pairs.keys() == {one.set_id for one in surveys}
    golds: Counter[tuple[str, str]] = Counter()
    silences: Counter[tuple[str, Topic]] = Counter()
    for one in surveys:
        chosen = pairs[one.set_id]
        assert sum(pair.silent is not None for pair in chosen) <= per_label
        assert sum(pair.answered is not None for pair in chosen) <= 2 * per_label
        topics = [topic for pair in chosen for topic in (pair.answered, pair.silent) if topic is not None]
        assert len(topics) == len(set(topics))
        gold_of = dict(zip(one.answered, one.golds, strict=True))
        golds.update((one.drug, gold_of[NUMBERS[pair.answered]]) for pair in chosen if pair.answered)
        for pair in chosen:
            for topic in filter(None, (pair.answered, pair.silent)):
                assert pair.wording in topic_wordings(topic)  # so the wording is of both
            if pair.silent is not None:
                assert NUMBERS[pair.silent] in (one.near if pair.near else one.silent)
                silences[one.drug, pair.silent] += 1
    assert all(count <= SAME_GOLD for count in golds.values())
    assert all(count <= min(per_drug, SAME_GOLD) for count in silences.values())


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


def test_chemistry_and_whole_sections_are_a_small_share() -> None:
    chemistry = [number for number in QUANTITIES if all_topics()[number].name in CHEMISTRY]
    used = [*chemistry, *RISKS[:60], *OVERDOSES[:60], *PARTNERS[:60], *REACTIONS[:60], *QUANTITIES]
    surveys = [
        survey(f"label-{at}", f"drug-{at // 2}", [*SECTIONS, *used[at % 2 :: 2]], used[(at + 1) % 2 :: 2])
        for at in range(40)
    ]
    for one in surveys[1:]:
        one.near.extend(set(one.silent))
    pairs = [pair for chosen in pair_topics(surveys, 20, 60, 0).values() for pair in chosen]
    asked = [topic for pair in pairs for topic in (pair.answered, pair.silent) if topic is not None]
    assert len(asked) > 600
    assert sum(topic.name in CHEMISTRY for topic in asked) <= 0.03 * len(asked)
    assert 0 < sum(topic.kind in ANSWERED_ONLY for topic in asked) <= ANSWERED_ONLY_SHARE * len(asked)


def test_models_are_not_asked_for_constants_of_substances_and_rare_sections() -> None:
    rare = [number for number, topic in enumerate(all_topics()) if topic.kind == "subsection"]
    left_out = [*[number for number in QUANTITIES if all_topics()[number].name in CHEMISTRY], *rare]
    surveys = [survey("one", "A", [*left_out, *RISKS[:3]], PARTNERS[:3]), survey("other", "B", PARTNERS[:3], left_out)]
    names = {all_topics()[number].name for number in left_out}
    for by_model in (True, False):
        pairs = [pair for chosen in pair_topics(surveys, 20, 60, 0, by_model=by_model).values() for pair in chosen]
        asked = {topic.name for pair in pairs for topic in (pair.answered, pair.silent) if topic is not None}
        assert bool(asked & names) != by_model and asked - names


def test_what_no_label_answers_is_asked_of_none() -> None:
    one, other = survey("one", "A", PARTNERS[:2], USED[2:-1]), survey("other", "B", PARTNERS[2:4], USED[4:-1])
    pairs = pair_topics([one, other], 8, 8, 0)
    answered = {all_topics()[number] for number in PARTNERS[:4]}
    assert silent_of(pairs, "one") | silent_of(pairs, "other") <= answered


def test_a_single_label_is_asked_about_terms_that_it_names_elsewhere_alone() -> None:
    alone = pair_topics([survey("one", "A", PARTNERS[:4])], 4, 4, 0)
    assert len(alone["one"]) == 4 and silent_of(alone, "one") == set()
    assert pair_topics([], 4, 4, 0) == {}
    pairs = pair_topics([survey("one", "A", OVERDOSES[:1], near=OVERDOSES[1:3])], 4, 4, 0)
    assert all(pair.near for pair in pairs["one"])
    assert silent_of(pairs, "one") == {all_topics()[number] for number in OVERDOSES[1:3]}


def test_labels_of_one_drug_and_route_make_each_others_topics_plausible() -> None:
    one, other = survey("one", "A", PARTNERS[:2]), survey("other", "A", PARTNERS[2:4])
    pairs = pair_topics([one, other], 2, 2, 0)
    assert silent_of(pairs, "one") == {all_topics()[number] for number in PARTNERS[2:4]}
    drops = survey("other", "A", PARTNERS[2:4], route="eye")
    assert silent_of(pair_topics([one, drops], 2, 2, 0), "one") == set()


def test_what_is_plausible_of_a_drug_is_what_several_similar_drugs_have() -> None:
    shared = PARTNERS[:4]
    surveys = [
        survey("one", "A", [*shared, REACTIONS[0]]),
        survey("again", "E", [*shared, REACTIONS[0]]),
        survey("alike", "B", [*shared, REACTIONS[1], REACTIONS[2]]),
        survey("too", "C", [*shared, REACTIONS[1], REACTIONS[3]]),
        survey("strange", "D", [PARTNERS[5], *REACTIONS[2:4]]),
    ]
    made = [pair_topics(surveys, 9, 9, seed) for seed in range(9)]
    one, strange = (
        {NUMBERS[topic] for pairs in made for topic in silent_of(pairs, set_id)} for set_id in ("one", "strange")
    )
    assert one == {REACTIONS[1]}
    assert strange <= {*shared, *REACTIONS[:2]}  # no topic that one drug alone has


def test_each_kind_has_more_answered_questions_than_refusals() -> None:
    surveys = [survey(f"label-{at}", f"drug-{at % FEWEST_DRUGS}", PARTNERS[:4], PARTNERS[4:8]) for at in range(60)]
    surveys += [survey(f"other-{at}", f"drug-{at % FEWEST_DRUGS}", PARTNERS[4:8], PARTNERS[:4]) for at in range(60)]
    pairs = [pair for chosen in pair_topics(surveys, 4, 60, 0).values() for pair in chosen]
    silent = sum(pair.silent is not None for pair in pairs)
    answered = sum(pair.answered is not None for pair in pairs)
    assert silent and ANSWERED_PER_REFUSAL * (silent - 1) <= 480 and answered <= ANSWERED_PER_REFUSAL * silent


def test_a_label_that_answers_little_has_few_refusal_questions() -> None:
    surveys = [survey(f"label-{at}", f"drug-{at}", PARTNERS[:40], PARTNERS[40:50]) for at in range(FEWEST_DRUGS)]
    surveys += [survey(f"other-{at}", f"drug-{at}", PARTNERS[40:42], PARTNERS[:40]) for at in range(FEWEST_DRUGS)]
    pairs = pair_topics(surveys, 20, 60, 0)
    assert 0 < max(len(silent_of(pairs, f"other-{at}")) for at in range(FEWEST_DRUGS)) <= 1
