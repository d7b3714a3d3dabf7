"""The models of the scope of questions, and of what they ask labels to say."""

from __future__ import annotations

import pytest

from fdarx_core.labels.abbreviations import long_forms
from fdarx_core.labels.question_scopes import (
    RoleTagger,
    ScopeClassifier,
    asked_group,
    asked_words,
    question_scope,
    questions_for_one_drug,
    scoped_questions,
)


@pytest.mark.parametrize("part", ["1", "2", "3", "4"])
def test_questions_of_a_part_are_told_apart_by_models_of_the_others(part: str) -> None:
    rows, others = scoped_questions(), questions_for_one_drug()[::4]
    learned = [one for one in rows if one.fold != part]
    model, tagger = ScopeClassifier([*others[::2], *learned]), RoleTagger(learned)
    asked = [one for one in rows if one.fold == part]
    right = sum((model.scope(one.words) != "one") == (one.scope != "one") for one in asked)
    assert right >= 0.75 * len(asked)
    assert sum(model.scope(one.words) != "one" for one in others[1::2]) <= 0.05 * len(others[1::2])
    roles = [
        (tagged == "frame") == (role == "frame")
        for one in asked
        if one.scope != "one"
        for tagged, role in zip(tagger.roles(one.words), one.roles, strict=True)
    ]
    assert sum(roles) >= 0.8 * len(roles)


@pytest.mark.parametrize(
    ("question", "said", "classes", "group"),
    [
        ("Which gliptins warn about pancreatitis?", ["pancreatitis"], ["gliptins"], "43685-7"),
        ("which drugs are contraindicated in porphyria", ["porphyria"], [], "34070-3"),
        ("Which labels have a boxed warning about hearing loss?", ["hearing", "loss"], [], "34066-1"),
        ("Which drugs interact with DRUG?", [], [], "34073-7"),
        ("what azoles do you have", [], ["azoles"], ""),
    ],
)
def test_what_a_question_asks_labels_to_say(question: str, said: list[str], classes: list[str], group: str) -> None:
    assert question_scope(question) != "one"
    words = asked_words(question)
    assert [word for word, role in words if role == "said" and word != "DRUG"] == said
    assert [word for word, role in words if role == "class"] == classes
    assert asked_group(words) == group


@pytest.mark.parametrize(
    "question",
    [
        "What is the dose of DRUG?",
        "Does DRUG interact with DRUG?",
        "DRUG in renal impairment",
        "",
        "Compare DRUG with DRUG",
    ],
)
def test_a_question_for_one_drug(question: str) -> None:
    assert question_scope(question) == "one"


@pytest.mark.parametrize(
    ("abbreviation", "text", "forms"),
    [
        ("NSAIDs", "Use of nonsteroidal anti-inflammatory drugs (NSAIDs) is", ["nonsteroidal anti-inflammatory drugs"]),
        ("ms", "forms of multiple sclerosis (MS), to include", ["multiple sclerosis"]),
        ("ACE", "with angiotensin converting enzyme (ACE) inhibitors", ["angiotensin converting enzyme"]),
        ("XYZ", "a drug (XYZ) of its own", []),
        ("ACE", "no introduction of ACE", []),
        ("a", "an a (a)", []),
    ],
)
def test_long_forms_of_abbreviations(abbreviation: str, text: str, forms: list[str]) -> None:
    assert long_forms(abbreviation, [text]) == forms


def test_rare_long_forms_are_left_out() -> None:
    texts = ["multiple sclerosis (MS)"] * 9 + ["morphine sulfate (MS)"]
    assert long_forms("MS", texts) == ["multiple sclerosis"]
    assert long_forms("MS", [*texts, *["morphine sulfate (MS)"] * 3]) == ["multiple sclerosis", "morphine sulfate"]
