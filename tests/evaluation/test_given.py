"""Answers made elsewhere: read as replies are, with their citations where they name them."""

from __future__ import annotations

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


def test_settings_in_which_anybody_cites() -> None:
    answers = [given("5 mg", [1], "a"), given("5 mg", None, "b"), given("5 mg [PASSAGE_0001]", None, "c")]
    assert citing_settings(answers) == {"a", "c"}
