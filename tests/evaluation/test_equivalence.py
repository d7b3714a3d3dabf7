"""Passages that may replace a gold passage: equal text, or the same sentences of the label."""

from __future__ import annotations

import pytest

from fdarx_core.evaluation.gold import equivalences
from fdarx_core.records import Equivalence, Passage, QuestionAnswer

DOSE = "The recommended starting dose of Quorvelin is 5 mg once daily."
OTHER = "Store the tablets in a dry place."


def passage(index: int, text: str) -> Passage:
    return Passage("set", index, 0, "", "", "", "", "2 DOSAGE", text)


def question(answer: str, gold: list[int], kind: str = "factual") -> QuestionAnswer:
    marks = [True] * len(gold)
    asked = "What is the dose?"
    return QuestionAnswer(
        "q", kind, kind, "section", "", "set", "Quorvelin", asked, answer, gold, gold_has_answer=marks
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{DOSE}  {OTHER}", ["near_duplicate"]),
        (f"{DOSE} Take it with food.", ["same_statement"]),
        (DOSE.replace("5 mg", "10 mg"), []),
        (DOSE.replace("is", "is not"), []),
        (f"In severe renal impairment, {DOSE}", []),
        ("Begin with one tablet of 5 mg a day.", []),
        (OTHER, []),
    ],
)
def test_a_passage_replaces_another_with_the_same_sentences_alone(text: str, why: list[str]) -> None:
    asked = question("5 mg once daily, the recommended starting dose.", [0]), question(DOSE, [0])
    undecided, row = equivalences(asked, [passage(0, f"{DOSE} {OTHER}"), passage(1, text)])
    assert row.why == why and row.members == [1] * len(why) and row.gold == [0] * len(why)
    assert undecided.why == [one for one in why if one == "near_duplicate"]


def test_refusals_have_no_row_and_unknown_gold_passages_no_members() -> None:
    asked = [question("", [], "refusal"), question(DOSE, [9])]
    assert equivalences(asked, [passage(0, DOSE), passage(1, DOSE)]) == [Equivalence("q", "set")]
