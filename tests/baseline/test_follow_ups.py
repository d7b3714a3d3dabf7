"""Questions of a conversation, rewritten by rules."""

from __future__ import annotations

from typing import Any

import pytest

from fdarx_core.labels.drugs import DrugNames
from fdarx_core.rag.tasks import STANDALONE_QUESTION
from fdarx_core.records import Product


def product(brand: str, substance: str) -> Product:
    return Product([brand], [substance], [substance], [""], [""])


NAMES = DrugNames(
    [
        ([product("Velora", "velocimab")], ()),
        ([product("Mirapan", "ostrelin")], ()),
        ([product("Advil", "ibuprofen")], ()),
    ]
)
DOSE = "What is the starting dose of Velora?"


def names(text: str) -> list[dict[str, Any]]:
    return [{"text": one.text, "start": one.start, "end": one.end, "drug": one.moieties[0]} for one in NAMES.find(text)]


def rewritten(*questions: str, answer: str = "") -> str:
    *earlier, question = questions
    history = [
        {"question": one, "answer": answer, "names": names(one), "answer_names": names(answer)} for one in earlier
    ]
    slots = {"history": history, "question": question, "names": names(question)}
    request = STANDALONE_QUESTION.request(slots, endpoint="any")
    assert all(one in request.messages[-1]["content"] for one in questions)
    return STANDALONE_QUESTION.baseline(slots).question


@pytest.mark.parametrize(
    ("questions", "expected"),
    [
        ([DOSE, "and in renal impairment?"], "What is the starting dose of Velora, and in renal impairment?"),
        ([DOSE, "What about children?"], "What is the starting dose of Velora, what about children?"),
        ([DOSE, "The maximum?"], "What is the starting dose of Velora, the maximum?"),
        ([DOSE, "How much then?"], "What is the starting dose of Velora, how much then?"),
        ([DOSE, "on dialysis?"], "What is the starting dose of Velora, on dialysis?"),
        (["Does Velora cause cough?", "why is that?"], "Does Velora cause cough?"),
        ([DOSE, "How often?"], "What is the starting dose of Velora, how often?"),
        ([DOSE, "and in children?", "and in the elderly?"], "What is the starting dose of Velora, and in the elderly?"),
    ],
)
def test_a_fragment_keeps_topic_and_drug(questions: list[str], expected: str) -> None:
    assert rewritten(*questions) == expected


@pytest.mark.parametrize(
    ("questions", "expected"),
    [
        ([DOSE, "and for Mirapan?"], "What is the starting dose of Mirapan?"),
        ([DOSE, "What about ostrelin?"], "What is the starting dose of ostrelin?"),
        ([DOSE, "and in children?", "and Mirapan?"], "What is the starting dose of Mirapan, and in children?"),
        ([DOSE, "How is it stored?", "and Mirapan?"], "How is it stored (Mirapan)?"),
        (["What is the dose of Velora (velocimab)?", "and Mirapan?"], "What is the dose of Mirapan (Mirapan)?"),
        (["Can Velora be taken with ibuprofen?", "and with Mirapan?"], "Can Velora be taken with Mirapan?"),
        (["Can Velora and aspirin be combined?", "and Mirapan?"], "Can Mirapan and aspirin be combined?"),
    ],
)
def test_another_drug_keeps_the_topic(questions: list[str], expected: str) -> None:
    assert rewritten(*questions) == expected


@pytest.mark.parametrize(
    ("questions", "expected"),
    [
        ([DOSE, "How should it be stored?"], "How should it be stored (Velora)?"),
        ([DOSE, "when do I stop it before surgery?"], "when do I stop it before surgery (Velora)?"),
        ([DOSE, "Does this drug pass into milk?"], "Does this drug pass into milk (Velora)?"),
        ([DOSE, "Is there an antidote for overdoses?"], "Is there an antidote for overdoses (Velora)?"),
        ([DOSE, "and the mechanism of action?"], "and the mechanism of action (Velora)?"),
        (["How do you store Velora?", "and in children?"], "and in children (Velora)?"),
        ([DOSE, "side effects?"], "side effects (Velora)?"),
        ([DOSE, "and for Mirapan?", "Is it safe in pregnancy?"], "Is it safe in pregnancy (Mirapan)?"),
        (["Is Velora or Mirapan safer?", "Who must not take it?"], "Who must not take it (Velora and Mirapan)?"),
    ],
)
def test_another_topic_keeps_the_drug(questions: list[str], expected: str) -> None:
    assert rewritten(*questions) == expected


@pytest.mark.parametrize(
    "question", ["How is Mirapan stored?", "Mirapan half-life", "Is Velora contraindicated in anuria?"]
)
def test_a_question_that_stands_alone_stays(question: str) -> None:
    assert rewritten(DOSE, question) == question


@pytest.mark.parametrize(
    "question",
    [
        "ok with ibuprofen?",
        "Does it interact with ibuprofen?",
        "Is ibuprofen a problem together with it?",
        "She takes ibuprofen now, what should we do?",
    ],
)
def test_a_second_drug_comes_beside_the_drug_in_hand(question: str) -> None:
    assert rewritten(DOSE, question) == f"{question.rstrip('?')} (Velora)?"
    assert rewritten(DOSE, question, "How is it stored?") == "How is it stored (Velora)?"


def test_of_drugs_that_may_interact_the_first_is_in_hand() -> None:
    pair = "Does Velora interact with Mirapan?"
    assert rewritten(pair, "How is it stored?") == "How is it stored (Velora)?"
    assert rewritten(pair, "and ibuprofen?") == "Does Velora interact with ibuprofen?"
    assert rewritten(pair, "and ibuprofen?", "How is it stored?") == "How is it stored (Velora)?"


def test_a_drug_is_taken_from_an_answer_only_if_no_question_names_one() -> None:
    answer = "Ostrelin lowers blood pressure [1]."
    assert rewritten("What lowers blood pressure?", "Is it safe in pregnancy?", answer=answer).endswith("(Ostrelin)?")
    assert rewritten(DOSE, "Is it safe in pregnancy?", answer=answer) == "Is it safe in pregnancy (Velora)?"


def test_texts_without_drugs_keep_the_topic_alone() -> None:
    earlier = "Which records of a lot must be kept?"
    assert rewritten(earlier, "For how long?") == "Which records of a lot must be kept, for how long?"
    assert rewritten(earlier, "How are samples labelled?") == "How are samples labelled?"
    assert rewritten(earlier, "why?") == earlier
