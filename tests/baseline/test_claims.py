"""What counts as a claim of an answer, where a sentence is taken apart, and what a pronoun is joined to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fdarx_core.baseline.claims import claims_of
from fdarx_core.records import CheckedAnswer


def answered(
    text: str, drug: str = "", question: str = "What is known of it?", outcome: str = "answered"
) -> CheckedAnswer:
    return CheckedAnswer("a", "q", question, text, "model", drug=drug, outcome=outcome)


def texts(text: str, drug: str = "", question: str = "What is known of it?") -> list[str]:
    return [claim.text for claim in claims_of(answered(text, drug, question))]


def readings(text: str, drug: str = "", question: str = "What is known of it?") -> list[str]:
    return [claim.resolved for claim in claims_of(answered(text, drug, question))]


@pytest.mark.parametrize(
    "text",
    [
        "The usual dose is approx. 5 mg daily.",
        "Give max. 40 mg in 24 hours.",
        "Zalvorin Inj. Solution is clear.",
        "Zalvorin was not mutagenic in S. typhimurium.",
        "The peak was 2.5 mcg/mL (range, 1.1 to 4.2. Fasted) at 3 h.",
        "Strong inhibitors, e.g. Ketoconazole, raise its level.",
        "It was given b.i.d. to 20 adults.",
        "Zalvorin is removed\nby dialysis.",
    ],
)
def test_one_sentence_is_one_claim(text: str) -> None:
    assert texts(text) == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The dose is 5 mg. Zalvorin is a tablet.", ["The dose is 5 mg.", "Zalvorin is a tablet."]),
        ("Zalvorin is a pill (a tablet.) The dose is 5 mg.", ["Zalvorin is a pill (a tablet.)", "The dose is 5 mg."]),
        ("Zalvorin is weak [1.] The dose is 5 mg.", ["Zalvorin is weak [1.]", "The dose is 5 mg."]),
        ("It is a rate (bpm).Variability is an interval.", ["It is a rate (bpm).", "Variability is an interval."]),
        ("It helps.2,9 The dose is 5 mg.", ["It helps.2,9", "The dose is 5 mg."]),
        ("It works well . Zalvorin is cheap .", ["It works well .", "Zalvorin is cheap ."]),
        ("zalvorin is cheap. it is a tablet.", ["zalvorin is cheap.", "it is a tablet."]),
    ],
)  # fmt: skip
def test_sentences_end_where_readers_see_it(text: str, expected: list[str]) -> None:
    assert texts(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Zalvorin is contraindicated in pregnancy and should be taken with food.",
            ["Zalvorin is contraindicated in pregnancy", "Zalvorin should be taken with food."],
        ),
        (
            "Amoxicillin is a penicillin, and clavulanic acid is an inhibitor.",
            ["Amoxicillin is a penicillin", "Clavulanic acid is an inhibitor."],
        ),
        ("Zalvorin is a tablet; the dose is 5 mg.", ["Zalvorin is a tablet", "The dose is 5 mg."]),
        ("For gout one tablet is enough, whereas pain is treated with 2.",
         ["For gout one tablet is enough", "Pain is treated with 2."]),
        ("Zalvorin must not be crushed; do not chew the tablet.",
         ["Zalvorin must not be crushed", "Do not chew the tablet."]),
        (
            "Zalvorin (Zalva) also is red and should be swallowed whole.",
            ["Zalvorin (Zalva) also is red", "Zalvorin (Zalva) also should be swallowed whole."],
        ),
        (
            "Zalvorin is red and has a line and is sold in bottles.",
            ["Zalvorin is red", "Zalvorin has a line", "Zalvorin is sold in bottles."],
        ),
        ("Zalvorin is safe; in adults it can be doubled.", ["Zalvorin is safe", "In adults it can be doubled."]),
        ("You must avoid alcohol and are not to drive.", ["You must avoid alcohol", "You are not to drive."]),
        ("There is no cure, but there are many treatments.", ["There is no cure", "There are many treatments."]),
        ("Swallow it whole; do not chew or crush it.", ["Swallow it whole", "Do not chew or crush it."]),
    ],
)  # fmt: skip
def test_a_coordination_with_a_fact_of_its_own_is_taken_apart(text: str, expected: list[str]) -> None:
    assert readings(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Zalvorin may cause nausea and vomiting.",
        "The effects of alcohol and nicotine are not known.",
        "Zalvorin should not be given to patients who are pregnant and are over 40.",
        "Zalvorin can cause nausea, vomiting, and diarrhea in children.",
        "Aspirin, ibuprofen, and warfarin may cause bleeding.",
        "If you take Zalvorin, the dose is halved, and alcohol must be avoided.",
        "Zalvorin raises digoxin levels, so the dose of digoxin should be halved.",
        "Kidney impairment needs no change, but caution is advised when it is severe.",
        "In children, Zalvorin is not approved, and seizures may occur.",
        "Statins reduce cholesterol and lower the risk.",
        "The dose is 5 mg; it can be raised to 9 mg.",
        "The tablets are red and they can be halved.",
        "In children, Zalvorin is not approved and may cause seizures.",
        "If you miss a dose, skip it and never take two at once.",
        "The pill is taken where help is near, and you will be observed.",
        "Zalvorin is a tablet, as it can be swallowed.",
        "Some drugs can be taken with wine, but it is important to drink little.",
        "Zalvorin prevents colds and may, but not always, be strong.",
        "The dose is 5 mg a day, and in gout three times a day.",
        "Take it with water in the morning and evening.",
        "Zalvorin treats gout, but not cancer.",
        "Studies show that Zalvorin is safe and is well tolerated.",
        "Zalvorin not only reduces pain, but is also cheap.",
        "Zalvorin is a frame in which appropriate and even tailored training could be planned.",
        "Zalvorin is given between breakfast and lunch.",
        "Stop Zalvorin and give epinephrine if anaphylaxis occurs.",
        "If the rash is red and is painful, stop Zalvorin.",
        "Zalvorin treats gout in adults at 5 mg, but not cancer.",
        "Wash and dry your hands.",
        "Zalvorin is red or is blue.",
        'Zalvorin is sold as "Hot and is cold" tablets.',
    ],
)
def test_what_belongs_together_stays_together(text: str) -> None:
    assert texts(text) == [text]


def test_this_medication_is_the_drug_in_front() -> None:
    said = "Zalvorin is a tablet. This medication is not for children."
    assert readings(said, drug="Zalvorin")[-1] == "Zalvorin: This medication is not for children."


def test_a_sentence_that_only_mentions_the_drug_by_a_pronoun_begins_with_its_name() -> None:
    assert readings("Swallow it whole.", drug="Zalvorin") == ["Zalvorin: Swallow it whole."]
    assert readings("Do not stop this medicine.", drug="ZALVORIN XR") == ["ZALVORIN XR: Do not stop this medicine."]
    assert readings("The vein is preferred. The zalvorin in it is clear.", drug="Zalvorin Sodium")[1:] == [
        "The zalvorin in it is clear."
    ]


@pytest.mark.parametrize(
    "text",
    [
        "Zalvorin is a tablet. It is red.",
        "Zalvorin is an antibiotic. Its side effects are mild.",
        "Zalvorin is a tablet. It is used to treat gout.",
        "Kidney function is tested. If it is normal, Zalvorin can be started.",
        "The dose of Zalvorin for adults is 5 mg. It should be taken with food.",
        "Zalvorin is a tablet. They are red.",
        "Your doctor will decide on the dose. It is then raised.",
        "Gout is a disease. This condition is painful.",
        "Injections are halved. For that reason Zalvorin is given twice.",
        "Zalvorin and quinine raise digoxin. Both must be avoided.",
    ],
)
def test_a_sentence_with_a_pronoun_reads_with_the_one_before(text: str) -> None:
    before, last = claims_of(answered(text))
    assert before.resolved == before.text
    assert last.resolved == text and last.text == text[before.end :].strip()


@pytest.mark.parametrize(
    "text",
    [
        "Zalvorin is a tablet. It is important to drink water.",
        "Zalvorin is a tablet. Both water and juice are suitable.",
        "Zalvorin is a tablet. Those who are allergic must avoid Zalvorin.",
    ],
)
def test_a_word_that_refers_to_nothing_before_stays(text: str) -> None:
    last = claims_of(answered(text))[-1]
    assert last.resolved == last.text


def test_the_first_sentence_reads_with_the_question_or_the_heading() -> None:
    question = "Can children take Zalvorin?"
    assert readings("That depends on their age.", question=question) == [f"{question} That depends on their age."]
    assert readings("It depends on their age.", drug="Zalvorin", question=question)[0].startswith(question)
    assert readings("Zalvorin is safe.\n\n## What is gout?\n\nIt is painful.")[-1] == "What is gout? It is painful."


@pytest.mark.parametrize(
    "text",
    [
        "Information not found!",
        "I cannot answer this question.",
        "The label does not specify a dose for children.",
        "Is Zalvorin safe?",
        "## Side effects of Zalvorin",
        "Hello Hazel:",
        "https://example.org/zalvorin.html",
        "Sources: [1], [2]",
        "CITED_PASSAGES: PASSAGE_0012, PASSAGE_0014",
        "Sources:\n1. Handbook of Zalvorin\n2. https://example.org",
        "***",
        "",
        " \n ",
    ],
)
def test_no_claims(text: str) -> None:
    assert texts(text) == []


def test_what_is_no_claim_takes_nothing_from_what_is_one() -> None:
    said = "Hello! Zalvorin is a tablet. Is it red?\n\n## Dose\n\nThe dose is 5 mg."
    assert texts(said) == ["Zalvorin is a tablet.", "The dose is 5 mg."]


def test_urgent_and_conditional_advice_is_a_claim() -> None:
    said = ["Call your doctor immediately.", "Ask your doctor before use if you have asthma."]
    assert texts(" ".join(said)) == said


@pytest.mark.parametrize("outcome", ["refused", "failed"])
def test_refused_and_failed_answers_claim_nothing(outcome: str) -> None:
    assert claims_of(answered("Zalvorin is a tablet.", outcome=outcome)) == []


@pytest.mark.parametrize(
    "mark",
    [
        "[PASSAGE_0012]", "(PASSAGE_0012, PASSAGE_0014)", "[1]", "[1, 2-4]",
        "(see section 5.1)", "[see Warnings (5.1)]", "(https://example.org/a)",
    ],
)  # fmt: skip
def test_citations_are_in_no_claim(mark: str) -> None:
    said = f"Zalvorin is red {mark}. Zalvorin is a tablet. {mark} The dose {mark} is 5 mg."
    assert readings(said) == ["Zalvorin is red.", "Zalvorin is a tablet.", "The dose is 5 mg."]
    assert texts(said)[:2] == ["Zalvorin is red", "Zalvorin is a tablet."]


def test_items_read_with_what_announces_them() -> None:
    said = "Zalvorin may cause:\n\n- nausea\n- Headache.\n1. Zalvorin is a tablet."
    assert readings(said) == ["Zalvorin may cause: Nausea", "Zalvorin may cause: Headache.", "Zalvorin is a tablet."]
    assert texts(said) == ["nausea", "Headache.", "Zalvorin is a tablet."]


def test_few_words_read_with_heading_or_question() -> None:
    assert readings("5 mg twice daily", question="What is the dose?") == ["What is the dose? 5 mg twice daily"]
    assert readings("No.", question="Is it safe?") == ["Is it safe? No."]
    assert readings("Zalvorin is safe.\n\n## Forms\n\n- tablet")[-1] == "Forms: Tablet"


def test_a_fragment_without_the_drugs_name_has_it_in_front() -> None:
    table = "| Form | Strength |\n|---|---|\n| Tablet | 5 mg |"
    said = f"## Dose\n\n- **Adults:** 5 mg\n\n{table}\n\n**Warnings**\nIt may harm."
    assert readings(said, drug="Zalvorin") == [
        "Zalvorin: Dose: Adults: 5 mg",
        "Zalvorin: Form: Tablet; Strength: 5 mg",
        "Zalvorin: Warnings: It may harm.",
    ]


def test_a_question_in_the_first_person_takes_no_answer_away() -> None:
    assert readings("5 mg twice daily", question="I have gout. Which dose do I take?")[0].endswith("? 5 mg twice daily")


def test_a_yes_reads_with_the_question() -> None:
    assert readings("Yes. Zalvorin is red.", question="Is it red?") == ["Is it red? Yes.", "Zalvorin is red."]


def test_an_items_name_is_no_claim() -> None:
    assert texts("1. Garlic. Garlic is a bulb.\n2. **Onion** - it has a smell.") == [
        "Garlic is a bulb.",
        "Onion** - it has a smell.",
    ]


def test_rows_of_a_table_read_with_their_headers() -> None:
    said = "| Form | Strength |\n|---|---|\n| Tablet | 5 mg |\n| Syrup | 1 mg/mL |\n\nBoth are red."
    assert readings(said)[:2] == ["Form: Tablet; Strength: 5 mg", "Form: Syrup; Strength: 1 mg/mL"]
    assert texts(said)[0] == "Tablet | 5 mg"


def test_what_is_repeated_counts_once() -> None:
    assert texts("Zalvorin is a tablet. Zalvorin is a tablet.\nZALVORIN is a tablet.") == ["Zalvorin is a tablet."]


def test_an_end_that_breaks_off_is_no_claim() -> None:
    assert texts("Zalvorin is a tablet. It is used for the") == ["Zalvorin is a tablet."]
    long = " ".join(f"Zalvorin tablet {number} is red." for number in range(60))
    assert texts(f"{long} Zalvorin raises the risk of certain re")[-1] == "Zalvorin tablet 59 is red."
    assert texts("Zalvorin is a tablet. Take it with food")[-1] == "Take it with food"


def test_ids_differ_and_numbers_count() -> None:
    claims = claims_of(answered("Zalvorin is a tablet. It is red."))
    assert [claim.number for claim in claims] == [0, 1]
    assert len({claim.id for claim in claims}) == 2
    assert {claim.answer_id for claim in claims} == {"a"}


SENTENCES = (
    "Zalvorin is contraindicated in pregnancy and should be taken with food (see section 5.1).",
    "It may cause nausea and vomiting [PASSAGE_0012].",
    "In children, the dose is approx. 5 mg; it is given b.i.d.",
    "Zalvorin, which is an NSAID, treats gout, but not cancer.",
    "This medication is metabolised by CYP3A4, which is found in the liver [1].",
    "Is it safe?", "Ask your doctor.", "Information not found!", "Avoid alcohol and take it with food.",
    "They include:", "5 mg", "- nausea", "1. **Onion**: it smells.", "| a | b |", "|---|---|", "## Dose", "Yes.",
    "“Rest” is best…", "https://example.org/a.b?c", "I think so!", "*", "(", "]", "Dr. No is a film.", "Sources:",
)  # fmt: skip
GLUE = st.sampled_from([" ", "\n", "\n\n", "\r\n", "", "\u2028", " \t ", ".", "; ", ", and "])
composed = st.lists(st.tuples(st.sampled_from(SENTENCES), GLUE), max_size=12).map(
    lambda parts: "".join(sentence + glue for sentence, glue in parts)
)


def checked(text: str, drug: str = "Zalvorin") -> CheckedAnswer:
    return CheckedAnswer("a", "q", "What is known?", text, "model", drug=drug)


def holds(text: str, drug: str = "Zalvorin") -> None:
    answer = checked(text, drug)
    claims, past = claims_of(answer), 0
    for number, claim in enumerate(claims):
        assert (claim.number, claim.answer_id) == (number, "a")
        assert past <= claim.start < claim.end <= len(text)
        assert claim.text == text[claim.start : claim.end]
        assert claim.text.strip() and claim.resolved.strip() and "\n" not in claim.resolved
        past = claim.end
    assert claims == claims_of(answer)


@given(st.text(max_size=400), st.text(max_size=10))
@example("u(s u.s. e.g. U.S. \u2028 ∯ ȸ a.m. ♨ 1. 2. ☝", "")
@example("²) ① 1. ٣. a", "∯")
def test_of_arbitrary_text(text: str, drug: str) -> None:
    holds(text, drug)


@given(composed, st.sampled_from(["", "Zalvorin", "(", "\\1"]))
def test_of_composed_answers(text: str, drug: str) -> None:
    holds(text, drug)


@given(st.text(alphabet="ab.A,;:!?()[]*_|-#> \n\r\t1“”’'\"&", max_size=120))
def test_of_marks(text: str) -> None:
    holds(text)


@given(
    st.lists(st.sampled_from(["Zalvorin is a tablet.", "The dose is 5 mg.", "Gout is a disease."]), unique=True), GLUE
)
def test_no_plain_statement_is_lost(sentences: list[str], glue: str) -> None:
    between = glue if glue.isspace() else " "
    assert [claim.text for claim in claims_of(checked(between.join(sentences)))] == sentences


@pytest.mark.parametrize(
    "brackets", ["(" * 3000 + ")" * 3000, "[" * 5000, "a. " * 3000, "and is " * 2000, "_" * 9000, "**a " * 2000]
)
def test_of_long_and_odd_text(brackets: str) -> None:
    holds(f"Zalvorin {brackets} is a tablet.")


@pytest.mark.parametrize("name", ["kqa_golden_test.mistral-7b", "live_qa_test.biomistral-7b"])
def test_of_published_answers(name: str, toy: Path) -> None:
    path = toy.parent.parent / "medlfqa" / f"{name}.jsonl"
    if not path.exists():
        pytest.skip(f"no real data: {path} is absent; set FDARX_DATA to the folder that holds medlfqa/")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        holds(row["answer"], "")
    with_claims = sum(bool(claims_of(checked(row["answer"]))) for row in rows)
    assert with_claims > 0.85 * len(rows)
