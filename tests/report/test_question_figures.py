"""The counts and charts of questions by drug, section, wording and answer kind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fdarx_core.records import JudgeVerdict, Label, Passage, Product, QuestionAnswer, Reject, to_table
from fdarx_core.report.question_figures import BuildCounts, by_difficulty, by_drug, by_section, by_wording, wording_of
from fdarx_core.report.retention import build_sentence
from fdarx_core.report.samples import RunPart
from tests.report.synthetic_run import make_label

USE, DOSE, RISK = "34067-9", "34068-7", "43685-7"


def made_of(*moieties: str) -> list[Product]:
    names = [name.upper() for name in moieties]
    return [Product(names, names, names, names, names)]


def question(name: str, kind: str, set_id: str, gold: list[int], **fields: str) -> QuestionAnswer:
    one = QuestionAnswer(name, kind, kind, "section", "", set_id, "Abacorin", "What is it?", "Yes.", gold)
    return replace(one, judge="judging", endpoint="writing", **fields)  # type: ignore[arg-type]


@pytest.fixture
def part() -> RunPart:
    labels = [
        replace(make_label("a", "Abacorin"), products=made_of("naproxen")),
        replace(make_label("b", "Benzolex"), products=made_of("naproxen")),
        replace(make_label("c", "Cardivane"), products=made_of("misoprostol", "diclofenac")),
    ]
    passages = [
        Passage("a", 0, 0, USE, USE, "", "", "", "for pain"),
        Passage("a", 1, 0, DOSE, DOSE, "", "", "", "one tablet a day"),
        Passage("c", 0, 0, RISK, RISK, "", "", "", "it may bleed now and " * 6),
    ]
    questions = [
        question("q1", "factual", "a", [0], template="Is {drug} for {topic}?"),
        question("q2", "multihop", "a", [0, 1], question="Why is Abacorin given once a day?", difficulty="bridge"),
        question("q3", "refusal", "c", []),
    ]
    return {
        "labels": to_table(labels, Label),
        "passages": to_table(passages, Passage),
        "questions": to_table(questions, QuestionAnswer),
        "verdicts": to_table([], JudgeVerdict),
        "candidates": to_table([], QuestionAnswer),
        "rejects": to_table([], Reject),
    }


@pytest.fixture
def counts(part: RunPart) -> BuildCounts:
    made = BuildCounts()
    made.add(part)
    return made


def test_drugs_are_the_moieties_of_labels(counts: BuildCounts) -> None:
    assert counts.named == {"Naproxen", "Diclofenac + misoprostol"}
    rows = by_drug(counts).rows
    assert [list(row) for row in rows] == [
        ["Naproxen", 1, 1, 0, 2, "66.7%"],
        ["Diclofenac + misoprostol", 0, 0, 1, 1, "33.3%"],
    ]


def test_a_question_is_divided_among_its_gold_passages(counts: BuildCounts) -> None:
    assert counts.words == {USE: 2, DOSE: 4, RISK: 30}
    assert dict(counts.asked) == {USE: 1.5, DOSE: 0.5}
    panel = by_section(counts)
    assert panel.rows[0][:3] == ("Warnings and precautions", 30, "83.3%")
    assert "their share of the words would give them: Warnings and precautions." in panel.note


def test_a_wording_is_the_template_or_the_first_words(counts: BuildCounts) -> None:
    assert {row[0] for row in by_wording(counts).rows} == {
        "Is {drug} for {topic}?", "Why is {drug} given\N{NO-BREAK SPACE}…", "What is it?",
    }  # fmt: skip
    nameless = question("q4", "factual", "a", [0], drug_name="")
    assert wording_of(nameless) == "What is it?"
    assert wording_of(replace(nameless, question="For KELDRIVA, what?", drug_name="Keldriva")) == "For {drug}, what?"


def test_a_difficulty_is_named(counts: BuildCounts) -> None:
    rows = by_difficulty(counts).rows
    assert [(row[0], row[-2]) for row in rows] == [("Not stated", 2), ("Two passages: bridge", 1)]


def test_the_drugs_beyond_the_most_frequent_share_a_bar() -> None:
    counts = BuildCounts()
    counts.drugs.update({(f"drug {at:02d}", "factual"): 100 - at for at in range(30)})
    rows = by_drug(counts).rows
    assert len(rows) == 21
    assert rows[-1][0] == "10 other drugs" and rows[-1][1] == sum(100 - at for at in range(20, 30))


def test_the_result_of_a_build_names_questions_writers_and_judges() -> None:
    config = {"generator": "writing", "reader": "none", "judge": "judging"}
    assert build_sentence({"refusal": 2, "multihop": 0, "factual": 1}, 3, config) == (
        "This build has 1 factual and 2 refusal questions from 3 labels. The model “writing” wrote them, “judging” "
        "judged them, and no model answered them again."
    )
    assert build_sentence({"factual": 0}, 1, config) == "This build made no question from 1 label."
