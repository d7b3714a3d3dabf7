"""Answers made elsewhere: read as replies are, with their citations where they name them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fdarx_core.evaluation.predictions import citing_settings, prediction_from_given
from fdarx_core.records import Passage, QuestionAnswer
from fdarx_core.storage.imported_predictions import ImportedPrediction

QUESTION = QuestionAnswer("q1", "factual", "factual", "section", "", "set-1", "Zalvo", "What dose?", "5 mg")
PASSAGES = [Passage("set-1", index, 0, "", "", "", "Dose", "Dose", f"text {index}") for index in range(4)]


def given(text: str, cited: list[int] | None = None, setting: str = "theirs") -> ImportedPrediction:
    return ImportedPrediction("q1", "theirs", setting, "", text, cited)


def test_citations_in_the_text() -> None:
    row = prediction_from_given(QUESTION, PASSAGES, given("5 mg.\nCITED_PASSAGES: [PASSAGE_0002, PASSAGE_0009]"))
    assert (row.outcome, row.answer, row.cited, row.cited_unknown) == ("answered", "5 mg.", [2], 1)


def test_citations_apart_from_the_text_stand_in_for_those_in_it() -> None:
    row = prediction_from_given(QUESTION, PASSAGES, given("5 mg.\nCITED_PASSAGES: [PASSAGE_0002]", [3, 3, 7]))
    assert (row.answer, row.cited, row.cited_unknown) == ("5 mg.", [3], 1)


def test_a_refusal() -> None:
    assert prediction_from_given(QUESTION, PASSAGES, given("NOT_ANSWERABLE")).outcome == "refused"


def test_only_passages_that_the_prompt_marks_can_be_cited() -> None:
    text = "5 mg.\nCITED_PASSAGES: [PASSAGE_0002, PASSAGE_0003]"
    row = prediction_from_given(QUESTION, PASSAGES, replace(given(text), citable=[3]))
    assert (row.cited, row.cited_unknown) == ([3], 1)


@pytest.mark.parametrize(
    ("finish_reason", "reason"), [("length", "truncated_reply"), ("content_filter", "filtered_reply")]
)
def test_an_answer_that_was_cut_short_is_unparsed(finish_reason: str, reason: str) -> None:
    row = prediction_from_given(QUESTION, PASSAGES, replace(given("Take 5"), finish_reason=finish_reason))
    assert (row.outcome, row.reason) == ("unparsed", reason)


def test_citations_in_exported_prompts_do_not_make_a_setting_cite() -> None:
    assert citing_settings([replace(given("5 mg", [1], "oracle"), citable=[])]) == frozenset()


def test_settings_in_which_anybody_cites() -> None:
    answers = [given("5 mg", [1], "a"), given("5 mg", None, "b"), given("5 mg [PASSAGE_0001]", None, "c")]
    assert citing_settings(answers) == {"a", "c"}
