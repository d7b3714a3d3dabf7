"""What a reader is shown of a label that its context does not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fdarx_core.filters.label_excerpt import PROMPT_TOKENS, LabelExcerpts
from fdarx_core.filters.round_trip import answer_slots
from fdarx_core.llm import ModelConfig
from fdarx_core.llm.model_config import tokens_left
from fdarx_core.records import Passage
from tests.filters.judged import FACTUAL, LABEL, PASSAGES, REFUSAL


def words(text: str) -> int:
    return len(text.split())


def passages(*texts: tuple[str, str]) -> list[Passage]:
    return [
        replace(PASSAGES[0], doc_chunk_index=at, section_path=section, table_header="", text=text)
        for at, (section, text) in enumerate(texts)
    ]


LONG = passages(
    ("USES", "Used for angina."),
    ("DOSAGE", "Take one tablet each morning."),
    ("DOSAGE", "Children take half of it."),
    ("STORAGE", "Store below 25 degrees in a dry place."),
    ("KINETICS", "The recommended starting dose reaches steady state in four days."),
)
EACH = 20
"""What the tags around a passage cost."""


def test_a_label_that_fits_is_shown_whole() -> None:
    for tokens in (1_000, None):
        label = LabelExcerpts(LONG, tokens, words)
        assert label.fits and label.for_question(FACTUAL) == [0, 1, 2, 3, 4]


def test_gold_passages_come_first_then_their_section_then_what_the_question_finds() -> None:
    question = replace(FACTUAL, question="What is the recommended starting dose?", gold_passages=[1])
    of_three = LabelExcerpts(LONG, 3 * EACH + 24, words)
    assert not of_three.fits
    assert of_three.for_question(question) == [1, 2, 4]
    assert LabelExcerpts(LONG, EACH + 8, words).for_question(question) == [1]


def test_of_a_refusal_question_what_the_question_finds_is_shown() -> None:
    question = replace(REFUSAL, question="How is it to be stored in a dry place?", gold_passages=[])
    assert LabelExcerpts(LONG, EACH + 10, words).for_question(question) == [3]


def test_the_passages_of_a_label_are_counted_once_for_all_questions() -> None:
    counted: list[str] = []

    def counter(text: str) -> int:
        counted.append(text)
        return words(text)

    label = LabelExcerpts(LONG, 3 * EACH + 24, counter)
    for number in range(20):
        label.for_question(replace(FACTUAL, question=f"What is the dose number {number}?", gold_passages=[1]))
    assert len(counted) == len(LONG)


@pytest.mark.parametrize(("context_length", "shown"), [(None, 5), (100_000, 5), (1_990, 2)])
def test_the_reader_s_prompt_fits_into_its_context(context_length: int | None, shown: int) -> None:
    model = ModelConfig(name="m", model="m", base_url="http://127.0.0.1:1/v1", context_length=context_length)
    excerpts = LabelExcerpts(LONG, *tokens_left(model, PROMPT_TOKENS))
    slots = answer_slots(replace(FACTUAL, gold_passages=[1]), "label", LABEL, LONG, excerpts)
    assert len(slots["passages"]) == shown
