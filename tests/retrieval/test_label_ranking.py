"""The ranking of passages of labels, by their features and by the learned weights."""

from __future__ import annotations

import math

import numpy as np
import pytest

from fdarx_core.labels.question_sections import asked_sections
from fdarx_core.retrieval.index.label_ranking import FEATURES, LabelRanker, ranking_weights
from fdarx_core.retrieval.lexical import InvertedIndex

PASSAGES = [
    ("34068-7", "DOSAGE AND ADMINISTRATION\nThe dose is 10 mg taken twice daily with food."),
    ("34069-5", "HOW SUPPLIED\nTablets of 10 mg. Store at room temperature in a dry place."),
    ("42230-3", "PATIENT INFORMATION\nHow should I store the tablets? Keep them in a dry place."),
    ("34073-7", "DRUG INTERACTIONS\nAntacids taken within 2.5 hours reduce absorption."),
]


@pytest.fixture(scope="module")
def ranker() -> LabelRanker:
    return LabelRanker(InvertedIndex([text for _, text in PASSAGES]), np.array([code for code, _ in PASSAGES]))


def feature(ranker: LabelRanker, question: str, name: str, positions: range = range(4)) -> list[float]:
    column = ranker.features(question, np.array(positions))[:, FEATURES.index(name)]
    return [float(value) for value in column]


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("How much is taken at a time?", 0),
        ("storage conditions", 1),
        ("Is it affected by antacids?", 3),
        ("what should it not be combined with", 3),
    ],
)
def test_the_passage_that_answers_comes_first(ranker: LabelRanker, question: str, first: int) -> None:
    assert int(ranker.scores(question, np.arange(4)).argmax()) == first


def test_a_question_without_a_word_of_the_passages_is_ranked_by_section(ranker: LabelRanker) -> None:
    question = "expiry?"
    assert feature(ranker, question, "match") == feature(ranker, question, "coverage") == [0.0] * 4
    asked = asked_sections(question)
    assert feature(ranker, question, "section")[1] == pytest.approx(math.log(asked["34069-5"] + 0.0025))


def test_numbers_are_compared_as_they_are_written(ranker: LabelRanker) -> None:
    assert feature(ranker, "10 mg", "numbers") == [1.0, 1.0, 0.0, 0.0]
    assert feature(ranker, "2.5 hours apart", "numbers") == [0.0, 0.0, 0.0, 1.0]
    assert feature(ranker, "hours apart", "numbers") == [0.0] * 4


def test_words_are_compared_by_their_stems(ranker: LabelRanker) -> None:
    assert feature(ranker, "antacid", "coverage") == [0.0, 0.0, 0.0, 1.0]


def test_features_belong_to_the_positions_that_are_given(ranker: LabelRanker) -> None:
    assert feature(ranker, "antacid", "coverage", range(3, 1, -1)) == [1.0, 0.0]
    assert feature(ranker, "antacid", "patient", range(3, 1, -1)) == [0.0, 1.0]


def test_a_similar_passage_is_raised(ranker: LabelRanker) -> None:
    similar = np.array([0.0, 0.0, 0.0, 1.0])
    by_words = ranker.scores("tablets", np.arange(4))
    assert int(by_words.argmax()) != 3
    assert ranking_weights(similarity=True)["similarity"] > 0 == ranking_weights(similarity=False)["similarity"]
    assert int(ranker.scores("tablets", np.arange(4), similar).argmax()) == 3


def test_no_passage_has_no_score(ranker: LabelRanker) -> None:
    assert ranker.scores("dose", np.zeros(0, np.int64)).shape == (0,)
