"""Which passages may stand for a gold passage: invented labels that repeat themselves, and properties on any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.evaluation.equivalence import equivalences
from fdarx_core.records import Equivalence, Passage, QuestionAnswer

FILLER = (
    "Quorvelin is a white crystalline powder that dissolves slowly in water and is supplied in bottles of any size. "
    "Pharmacists keep the bottles away from light, as the powder turns yellow within some days. Its taste is bitter; "
    "patients who chew it often complain about that, so that most of them prefer to swallow it with plenty of liquid."
)
TAIL = (
    "Others may receive it under close supervision of their fluids, and of the electrolytes that they lose by sweating."
)
DOSE = "In adults, the recommended starting dose of QUORVELIN is 1,500 mg once daily with the evening meal."
DOSE_Q = "What starting dose of Quorvelin is recommended in adults?"


def passage(index: int, text: str, path: str = "DOSAGE AND ADMINISTRATION") -> Passage:
    return Passage("set", index, 0, "", "", "", "", path, text)


def question(text: str, answer: str, gold: list[int], kind: str = "factual") -> QuestionAnswer:
    marks = [True] * len(gold)
    return QuestionAnswer("q", kind, kind, "section", "", "set", "Quorvelin", text, answer, gold, gold_has_answer=marks)


def found(asked: QuestionAnswer, *texts: str | tuple[str, str]) -> list[tuple[int, int, str]]:
    """(gold, member, why) where the passages have these texts, each with its heading if it is a pair."""
    passages = [passage(place, *((text,) if isinstance(text, str) else text)) for place, text in enumerate(texts)]
    [row] = equivalences([asked], passages)
    return list(zip(row.gold, row.members, row.why, strict=True))


def test_a_copy_and_a_near_copy_stand_for_their_gold_passage() -> None:
    asked = question(DOSE_Q, DOSE, [0])
    near = f"{FILLER.replace('white', 'whitish')} {DOSE}"
    assert found(asked, f"{FILLER} {DOSE}", FILLER, f"{FILLER} {DOSE}", near) == [
        (0, 2, "near_duplicate"),
        (0, 3, "near_duplicate"),
    ]


def test_a_near_copy_with_another_number_does_not() -> None:
    assert found(question(DOSE_Q, DOSE, [0]), f"{FILLER} {DOSE}", f"{FILLER} {DOSE.replace('1,500', '500')}") == []


def test_a_restatement_stands_whatever_surrounds_it_and_however_its_numbers_are_printed() -> None:
    restated = "For adults a starting dose of 1500 mg QUORVELIN once daily, with the evening meal, is recommended."
    assert found(question(DOSE_Q, DOSE, [0]), DOSE, f"{FILLER} {restated} {FILLER}") == [(0, 1, "same_statement")]


@pytest.mark.parametrize(
    "other",
    [
        DOSE.replace("1,500", "15"),
        DOSE.replace("1,500", "1,500.5"),
        DOSE.replace("is 1,500", "is 500 mg, and later 1,500"),
        DOSE.replace("In adults", "In adults and pediatric patients"),
        DOSE.replace("QUORVELIN", "QUORVELIN oral suspension"),
        DOSE.replace("is 1,500 mg", "is not 1,500 mg"),
        f"The recommended starting dose of QUORVELIN in adults differs. {FILLER} Take 1,500 mg once daily. {FILLER} "
        "Swallow it with the evening meal.",
    ],
)
def test_what_says_something_else_does_not_stand(other: str) -> None:
    assert found(question(DOSE_Q, DOSE, [0]), DOSE, f"{FILLER} {other} {FILLER}") == []


def test_the_heading_narrows_what_a_passage_says() -> None:
    said = f"{FILLER} {DOSE}"
    other = f"{DOSE} {FILLER.replace('bottles', 'boxes').replace('powder', 'substance')}"
    assert found(question(DOSE_Q, DOSE, [0]), said, (other, "USE IN SPECIFIC POPULATIONS > Renal Impairment")) == []


def test_a_short_answer_needs_the_question_beside_it() -> None:
    asked = question("By which route is Quorvelin given?", "Oral.", [0])
    gold = "The route by which Quorvelin is given is oral."
    assert found(
        asked, gold, f"{FILLER} The only route is oral. {FILLER}", f"{FILLER} Report oral ulcers. {FILLER}"
    ) == [(0, 1, "same_statement")]


def test_an_answer_that_says_no_more_than_its_question_has_near_copies_only() -> None:
    asked = question("Is Quorvelin used in hepatic impairment?", "Hepatic impairment: avoid.", [0])
    other = f"No studies of hepatic impairment with Quorvelin were used. {FILLER}"
    assert found(asked, "Avoid Quorvelin in hepatic impairment.", other) == []


def test_each_hop_is_stood_for_by_its_own_part() -> None:
    hop_a = "Quorvelin is eliminated mainly by renal tubular secretion as unchanged substance."
    hop_b = "Halve the maintenance dose in patients whose creatinine clearance is below 30 mL/min."
    asked = question("How does elimination of Quorvelin bear on its dose?", f"{hop_a} {hop_b}", [0, 1], "multihop")
    again_a = f"{FILLER} {hop_a} {FILLER}"
    again_b = (
        f"{FILLER} In a patient whose creatinine clearance is below 30 mL/min, halve the maintenance dose. {FILLER}"
    )
    texts = ((hop_a, "PHARMACOKINETICS > Elimination"), (hop_b, "DOSE"), (again_a, "Elimination"), (again_b, "DOSE"))
    assert found(asked, *texts) == [(0, 2, "same_statement"), (1, 3, "same_statement")]


def test_lists_and_table_rows_are_windows() -> None:
    listed = "Quorvelin is contraindicated in patients with:\n- anuria\n- decompensated cirrhosis\n- sulfite allergy"
    asked = question(
        "When is Quorvelin contraindicated?", "In anuria, decompensated cirrhosis, or sulfite allergy.", [0]
    )
    assert found(asked, f"{listed}\n{TAIL}", f"{FILLER}\n{listed}\n{FILLER}") == [(0, 1, "same_statement")]
    asked = question(
        "How common was headache with Quorvelin?", "Headache occurred in 11% of patients on Quorvelin.", [0]
    )
    row = "Headache occurred | QUORVELIN: 11% | Placebo: 11%"
    assert found(asked, f"Headache occurred in 11% of patients. {FILLER}", f"{FILLER}\n{row}\n{FILLER}")


def test_a_long_list_is_read_item_by_item() -> None:
    asked = question(
        "What should patients on Quorvelin report?", "Patients report black stools, chest pain or slurred speech.", [0]
    )
    items = ("black stools", "chest pain", "slurred speech")
    gold = f"Patients report black stools, chest pain or slurred speech. {TAIL}"
    scattered = "\n".join(["Patients report:", *(f"- {item}, as told in the guide for {FILLER}" for item in items)])
    assert found(asked, gold, f"{FILLER}\n{scattered}") == []


def test_a_short_answer_that_names_the_drug_is_about_the_drug() -> None:
    asked = question("What kind of drug is Quorvelin?", "Quorvelin is a loop diuretic drug.", [0])
    gold = "Quorvelin is a loop diuretic drug."
    assert found(asked, gold, f"{FILLER} Any other loop diuretic is a kind of drug to avoid. {FILLER}") == []
    assert found(asked, gold, f"{FILLER} The drug Quorvelin is a kind of loop diuretic. {FILLER}")


def test_one_row_a_question_that_has_an_answer() -> None:
    refusal = question("Which dose is for cats?", "Information not found!", [], "refusal")
    unknown = question(DOSE_Q, DOSE, [7])
    rows = equivalences([question(DOSE_Q, DOSE, [0]), refusal, unknown], [passage(0, DOSE), passage(1, DOSE)])
    assert rows == [Equivalence("q", "set", [0], [1], ["near_duplicate"]), Equivalence("q", "set")]


PIECES = "dose adults renal 500 1,500 mg daily not avoid pediatric headache risk of the bleeding . ; - | 2.5"
WORDS = [*PIECES.split(), "\n"]
TEXT = st.lists(st.sampled_from(WORDS), min_size=1, max_size=40).map(" ".join)
LABEL = st.lists(TEXT, min_size=2, max_size=6)


@given(LABEL, TEXT, TEXT, st.data())
def test_members_are_never_gold_and_copies_always_members(
    texts: list[str], asked: str, answer: str, data: st.DataObject
) -> None:
    gold = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=2, unique=True))
    copies = [len(texts) + place for place in range(len(gold))]
    passages = [passage(place, text) for place, text in enumerate([*texts, *(texts[place] for place in gold)])]
    one = question(asked, answer, gold)
    [row] = equivalences([one], passages)
    assert not set(row.members) & set(gold) and set(row.gold) <= set(gold)
    pairs = list(zip(row.gold, row.members, strict=True))
    assert len(pairs) == len(set(pairs)) == len(row.why)
    assert set(zip(gold, copies, strict=True)) <= set(pairs)
    shuffled = data.draw(st.permutations(passages))
    assert equivalences([one], shuffled) == [row]


@given(TEXT, TEXT, TEXT)
def test_copies_stand_for_each_other(text: str, asked: str, answer: str) -> None:
    assert found(question(asked, answer, [0]), text, text) == [(0, 1, "near_duplicate")]
    assert found(question(asked, answer, [1]), text, text) == [(1, 0, "near_duplicate")]
