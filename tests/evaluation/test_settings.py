"""What each setting shows a model: which passages, in what order, how much of them, and how the prompt is laid out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.evaluation.predictions import ANSWER_TASKS
from fdarx_core.evaluation.settings import (
    CLOSED_BOOK,
    FULL_LABEL,
    ORACLE,
    PROMPT_TOKENS,
    RETRIEVED,
    SETTINGS,
    TokenBudget,
    is_due,
    needs_whole_label,
    prompt_context,
)
from fdarx_core.llm import ModelConfig
from fdarx_core.llm.model_config import count_messages, estimate_tokens
from fdarx_core.records import Passage, QuestionAnswer

SET_ID = "label-a"


def passage(number: int, section: str, text: str, set_id: str = SET_ID) -> Passage:
    return Passage(set_id, number, 0, "", "", str(section.count(">") + 1), section, section, text)


LABEL = [
    passage(0, "DOSAGE", "Take 5 mg once daily."),
    passage(1, "DOSAGE", "In renal impairment take 2.5 mg."),
    passage(2, "WARNINGS > Liver", "Liver injury was reported."),
    passage(3, "STORAGE", "Keep it cool."),
]
QUESTION = QuestionAnswer(
    "q1",
    "multihop",
    "multihop",
    "section_pair",
    "",
    SET_ID,
    "Velorin",
    "How much?",
    "5 mg.",
    [2, 0],
    ["", ""],
    [True, True],
)


def test_unanswerable_questions_are_asked_only_where_something_is_shown() -> None:
    refusal = replace(QUESTION, type="refusal")
    assert [setting for setting in SETTINGS if is_due(setting, refusal)] == [FULL_LABEL, RETRIEVED]
    assert all(is_due(setting, QUESTION) for setting in SETTINGS)
    assert [setting for setting in SETTINGS if needs_whole_label(setting)] == [FULL_LABEL, RETRIEVED]


def test_closed_book_shows_nothing() -> None:
    seen = prompt_context(CLOSED_BOOK, QUESTION, LABEL)
    assert (seen.slots, seen.passages, seen.cuts) == ({"question": "How much?"}, [], 0)


def test_the_full_label_has_markers_and_titles_where_they_change() -> None:
    seen = prompt_context(FULL_LABEL, QUESTION, LABEL)
    assert seen.slots["label"] == (
        "||PASSAGE_0000|| 1 DOSAGE\nTake 5 mg once daily.\n\n"
        "||PASSAGE_0001||\nIn renal impairment take 2.5 mg.\n\n"
        "||PASSAGE_0002|| 2 WARNINGS > Liver\nLiver injury was reported.\n\n"
        "||PASSAGE_0003|| 1 STORAGE\nKeep it cool.\n"
    )
    assert (seen.passages, seen.cuts, dict(seen.numbered)) == (LABEL, 0, dict(enumerate(LABEL)))


def test_questions_on_a_label_share_all_but_the_last_message() -> None:
    other = replace(QUESTION, id="q2", question="When not?", drug_name="VELORIN")
    first, second = (prompt_context(FULL_LABEL, question, LABEL).slots for question in (QUESTION, other))
    assert first["label"] is second["label"]
    task = ANSWER_TASKS[FULL_LABEL]
    one, two = (task.request(slots, endpoint="m").messages for slots in (first, second))
    assert one[:-1] == two[:-1]
    assert one[0]["content"].endswith(first["label"].strip()) or first["label"] in one[0]["content"]
    assert "How much?" in one[-1]["content"]
    assert "Velorin" not in one[0]["content"]


def test_the_gold_passages_in_the_questions_order() -> None:
    seen = prompt_context(ORACLE, QUESTION, LABEL)
    assert [one["text"] for one in seen.slots["passages"]] == ["Liver injury was reported.", "Take 5 mg once daily."]
    assert (seen.passages, dict(seen.numbered)) == ([LABEL[2], LABEL[0]], {})
    partly = replace(QUESTION, gold_has_answer=[False, True])
    assert prompt_context(ORACLE, partly, LABEL).passages == [LABEL[0]]


def test_a_missing_gold_passage_is_named() -> None:
    with pytest.raises(ValueError, match=r"q1 has gold passages \[2\] of label label-a"):
        prompt_context(ORACLE, QUESTION, LABEL[:2])


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValueError, match="no setting is called 'open_book'"):
        prompt_context("open_book", QUESTION, LABEL)


def test_retrieved_passages_keep_their_rank_and_number() -> None:
    seen = prompt_context(RETRIEVED, QUESTION, LABEL, [LABEL[3], LABEL[0]])
    assert [one["marker"] for one in seen.slots["passages"]] == ["PASSAGE_0003", "PASSAGE_0000"]
    text = ANSWER_TASKS[RETRIEVED].request(seen.slots, endpoint="m").messages[-1]["content"]
    assert text.index("||PASSAGE_0003|| 1 STORAGE\nKeep") < text.index("||PASSAGE_0000||") < text.index("How much?")


def test_retrieved_over_the_corpus_are_numbered_by_place() -> None:
    ranked = [LABEL[3], passage(3, "STORAGE", "Keep it warm.", "label-b")]
    seen = prompt_context(RETRIEVED, QUESTION, LABEL, ranked)
    assert [one["marker"] for one in seen.slots["passages"]] == ["PASSAGE_0001", "PASSAGE_0002"]
    assert dict(seen.numbered) == {1: ranked[0], 2: ranked[1]}


def test_a_label_is_cut_after_so_many_characters() -> None:
    whole = prompt_context(FULL_LABEL, QUESTION, LABEL).slots["label"]
    middle = whole.index("impairment")
    seen = prompt_context(FULL_LABEL, QUESTION, LABEL, room=TokenBudget(label_chars=middle))
    assert seen.slots["label"] == whole[:middle]
    assert (seen.passages, seen.cuts) == (LABEL[:2], 3)
    in_marker = whole.index("|PASSAGE_0001")
    assert prompt_context(FULL_LABEL, QUESTION, LABEL, room=TokenBudget(label_chars=in_marker)).passages == LABEL[:1]


def test_every_cut_shows_a_beginning_and_counts_the_rest() -> None:
    whole = prompt_context(FULL_LABEL, QUESTION, LABEL).slots["label"]
    for limit in range(len(whole) + 2):
        seen = prompt_context(FULL_LABEL, QUESTION, LABEL, room=TokenBudget(label_chars=limit))
        assert seen.slots["label"] == whole[:limit]
        assert seen.passages == LABEL[: len(seen.passages)]
        complete = sum(one.text in seen.slots["label"] for one in LABEL)
        assert complete <= len(seen.passages) <= complete + 1
        assert seen.cuts == len(LABEL) - complete


@given(st.integers(0, 200))
def test_whole_passages_are_left_out_until_it_fits(tokens: int) -> None:
    room = TokenBudget(tokens=tokens)
    for setting in (FULL_LABEL, ORACLE, RETRIEVED):
        seen = prompt_context(setting, QUESTION, LABEL, LABEL, room)
        offered = 2 if setting == ORACLE else 4
        assert len(seen.passages) + seen.cuts == offered
        assert sum(estimate_tokens(one.text) for one in seen.passages) <= tokens
    label = prompt_context(FULL_LABEL, QUESTION, LABEL, room=room)
    assert estimate_tokens(label.slots["label"]) <= tokens
    assert all(one.text in label.slots["label"] for one in label.passages)


def test_tokens_are_counted_once_a_label() -> None:
    counted: list[str] = []

    def counter(text: str) -> int:
        counted.append(text)
        return len(text)

    room = TokenBudget(tokens=10_000, counter=counter)
    for number in range(40):
        prompt_context(FULL_LABEL, replace(QUESTION, id=str(number)), LABEL, room=room)
    assert len(counted) == len(LABEL)


def test_room_is_what_the_model_leaves() -> None:
    model = ModelConfig(name="m", model="m", base_url="http://h/v1", context_length=8192, max_tokens=1024)
    assert TokenBudget.of(model, 16_000) == TokenBudget(
        16_000, int((8192 - 1024 - PROMPT_TOKENS) / 1.1), estimate_tokens
    )
    assert TokenBudget.of(None) == TokenBudget()
    tight = model.model_copy(update={"context_length": 512})
    assert TokenBudget.of(tight).tokens == 0


def test_the_rest_of_each_prompt_fits_its_margin() -> None:
    for setting, task in ANSWER_TASKS.items():
        slots = prompt_context(
            setting, replace(QUESTION, question="x" * 600, gold_passages=[], gold_has_answer=[]), []
        ).slots
        assert count_messages(task.request(slots, endpoint="m").messages, estimate_tokens) < PROMPT_TOKENS
