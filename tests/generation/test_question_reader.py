"""How the built-in rules read a question, and what they answer from a label or some passages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.generation.label_reader import LabelReader, text_beside_passages
from fdarx_core.generation.multihop import COMPARISON, DOSES
from fdarx_core.generation.pairing import WORDINGS
from fdarx_core.generation.question_reader import UndecidedQuestion, answer_question, read_question
from fdarx_core.generation.terminology import Topic
from fdarx_core.generation.topic_questions import (
    is_brand,
    product_name,
    short_labeler,
    topic_question,
    topic_wording,
)
from fdarx_core.generation.topics import all_topics
from tests.generation.made_labels import INTERACTIONS, REACTIONS, WARNINGS, Piece, made_label, made_passages

DIGOXIN = "Velorin raised the AUC of digoxin by 22%. Monitor digoxin concentrations in all patients."


COMPARED_WITH = {COMPARISON: "nausea", DOSES: "hypertension"}


@given(
    st.sampled_from(all_topics()),
    st.integers(0, WORDINGS - 1),
    st.sampled_from(["Velorin", "Aspirin (Acme Co)"]),
    st.booleans(),
)
def test_a_question_in_a_wording_is_read_as_its_topic(topic: Topic, wording: int, drug: str, swapped: bool) -> None:
    anchor = COMPARED_WITH.get(topic.kind, "")
    question = topic_question(topic, drug, wording, anchor, swapped=swapped)
    assert "{" not in question and drug in question and question.endswith("?")
    compared = {Topic(topic.kind, anchor)} if anchor else set()
    assert set(read_question(question)) == {topic} | compared


def test_a_comparison_is_read_in_either_order() -> None:
    rash = Topic(COMPARISON, "rash")
    one, other = (topic_question(rash, "Velorin", 0, "nausea", swapped=swapped) for swapped in (False, True))
    assert one != other and set(read_question(one)) == set(read_question(other)) == {rash, Topic(COMPARISON, "nausea")}


def test_wordings_name_drug_and_term_and_differ() -> None:
    for topic in {topic.kind: topic for topic in all_topics()}.values():
        wordings = [topic_wording(topic, number) for number in range(WORDINGS)]
        assert len(set(wordings)) == WORDINGS
        assert all(text.count("{drug}") == 1 and text.count("{term}") == 1 for text in wordings)
        with pytest.raises(IndexError):
            topic_wording(topic, WORDINGS)


@pytest.mark.parametrize(
    ("question", "topics"),
    [
        ("Can Velorin be taken by a patient on digoxin?", {Topic("partner", "digoxin")}),
        ("May LANOXIN be taken with Velorin?", {Topic("partner", "digoxin")}),
        ("Does Velorin cause acute pancreatitis?", {Topic("risk", "pancreatitis"), Topic("reaction", "pancreatitis")}),
        ("How do strong CYP3A4 inhibitors affect Velorin?", {Topic("partner", "strong CYP3A4 inhibitors")}),
        ("How does Velorin (Digoxin Pharma) taste?", set()),
        ("How does Velorin taste?", set()),
        ("May Velorin be taken with digoxin and warfarin?", set()),
    ],
)
def test_any_other_question_is_read_by_its_single_term(question: str, topics: set[Topic]) -> None:
    assert set(read_question(question)) == topics


@given(st.text())
def test_any_text_is_read(question: str) -> None:
    assert set(read_question(question)) <= set(all_topics())


def ask(question: str, *pieces: Piece, whole: bool = True) -> str | None:
    passages = made_passages(*pieces)
    label = made_label(passages)
    reader = LabelReader.of_label(label, passages) if whole else LabelReader(label.aliases, 1, "", passages)
    assert text_beside_passages(label) or not passages
    found = answer_question(reader, question, whole=whole)
    return None if found is None else found.text


ON_DIGOXIN = "What does the label of Velorin say about using it together with digoxin?"


def test_a_label_answers_in_its_words_or_is_silent() -> None:
    assert ask(ON_DIGOXIN, (INTERACTIONS, "Digoxin", DIGOXIN)) == DIGOXIN
    assert ask("May digoxin be taken with Velorin?", (INTERACTIONS, "Digoxin", DIGOXIN)) == DIGOXIN
    assert ask(ON_DIGOXIN, (INTERACTIONS, "Velorin was studied with food alone.")) is None


def test_a_label_that_names_the_term_without_a_certain_answer_is_undecided() -> None:
    with pytest.raises(UndecidedQuestion, match="digoxin"):
        ask(ON_DIGOXIN, (REACTIONS, "Digoxin was given to some."))
    # passages that do not answer are no silence of a label, but they give no answer
    assert ask(ON_DIGOXIN, (REACTIONS, "Digoxin was given to some."), whole=False) is None


def test_a_question_of_no_term_is_undecided() -> None:
    with pytest.raises(UndecidedQuestion, match="no single term"):
        ask("How does Velorin taste?", (INTERACTIONS, "Digoxin", DIGOXIN))


def test_a_question_that_has_two_answers_is_undecided() -> None:
    """It may ask for the warning or for the frequency."""
    warning = (WARNINGS, "Pancreatitis", "Stop Velorin in patients with acute pancreatitis.")
    row = (REACTIONS, "Pancreatitis | VELORIN (N = 200) %: 0.5 | Placebo (N = 199) %: 0")
    assert ask("Does Velorin cause pancreatitis?", warning) == warning[2]
    with pytest.raises(UndecidedQuestion, match="several readings"):
        ask("Does Velorin cause pancreatitis?", warning, row)
    assert ask("How often was pancreatitis reported in clinical trials of Velorin?", warning, row) is not None


@pytest.mark.parametrize(
    ("name", "substances", "labeler", "expected"),
    [
        ("Velorin", ["velorinib mesylate"], "Northfield Inc.", "Velorin"),
        ("VELORIN", ["velorinib mesylate"], "Northfield Inc.", "Velorin"),
        ("Velorinib", ["velorinib mesylate"], "NORTHFIELD PHARMA US, LLC", "Velorinib tablets (Northfield Pharma)"),
        ("Velorinib Mesylate Tablets", ["VELORINIB MESYLATE"], "Acme Co., Ltd.", "Velorinib Mesylate Tablets (Acme)"),
        ("Velorinib", ["velorinib mesylate"], "", "Velorinib"),
    ],
)
def test_a_product_that_is_sold_under_its_substance_is_named_with_its_labeler(
    name: str, substances: list[str], labeler: str, expected: str
) -> None:
    label = made_label(drug_name=name, substances=substances, labeler=labeler)
    assert product_name(label) == expected
    assert is_brand(label) == ("(" not in expected and bool(labeler))


def test_the_name_of_a_labeler_is_short() -> None:
    assert short_labeler("SOLCO HEALTHCARE US, LLC") == "Solco Healthcare"
    assert short_labeler("Teva Pharmaceuticals USA, Inc.") == "Teva Pharmaceuticals"
    long = short_labeler("The International Consolidated Company of Makers of Remedies and Tablets")
    assert len(long) <= 40 and not long.endswith(" ")
