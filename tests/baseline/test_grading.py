"""The baseline grader on cases written by hand, on any text, and on real questions where they are at hand."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.baseline.grading import grade
from fdarx_core.evaluation.grading import FAULTS, baseline_grade

DOSE_Q = "What starting dose of Quorvelin is recommended in adults?"
DOSE = "The recommended starting dosage of QUORVELIN in adults is 500 mg orally twice daily with meals."
RENAL_Q = "What dose of Quorvelin is recommended in patients with an eGFR below 45 mL/min/1.73 m2?"
RENAL = (
    "The recommended dosage of QUORVELIN is 2.5 mg orally once daily for patients with eGFR below 45 mL/min/1.73 m2, "
    "including those with moderate or severe renal impairment or ESRD."
)
CONTRA_Q = "In whom is Quorvelin contraindicated?"
CONTRA = (
    "QUORVELIN is contraindicated in patients with anuria, decompensated cirrhosis, active peptic ulcer disease, and "
    "known hypersensitivity to sulfonamides."
)
FOOD_Q = "How does food affect the absorption of Quorvelin?"
FOOD = "Food has no significant effect on the extent of absorption, but a high-fat meal delays the peak by 2 hours."
MAX_Q = "What is the maximum daily dose of Quorvelin?"
MAX = "The maximum recommended daily dose is 1,500 mg, given in 3 divided doses."
CHILD_Q = "For whom is Quorvelin indicated?"
CHILD = "QUORVELIN is indicated for the treatment of partial-onset seizures in pediatric patients 6 to 17 years of age."
HEPATIC_Q = "Is a dose adjustment of Quorvelin needed in mild hepatic impairment?"
HEPATIC = "No dose adjustment is necessary in patients with mild hepatic impairment."
CYP_Q = "Which enzyme metabolizes Quorvelin?"
CYP = "Quorvelin is metabolized primarily by CYP3A4 and excreted in the urine."
REACT_Q = "Which adverse reactions of Quorvelin occurred in at least 5% of patients?"
REACT = "Headache (11%), dry mouth (8%), dizziness (6%), and constipation (5%)."
PREG_Q = "Why should Quorvelin be avoided late in pregnancy?"
PREG = (
    "Avoid QUORVELIN from 30 weeks of gestation because it may cause premature closure of the fetal ductus arteriosus."
)
STORE_Q = "How should Quorvelin be stored?"
STORE = "Store at 20°C to 25°C (68°F to 77°F) in the original bottle, protected from moisture."
EFFECT_Q = "What does rifampin do to the exposure of Quorvelin?"
EFFECT = "Coadministration with rifampin decreased the AUC of quorvelin by 56%."
MCG_Q = "What is the usual maintenance dose of Quorvelin?"
MCG = "The usual maintenance dose is 250 mcg every 12 hours."

CASES = [
    # paraphrases and other ways to write the same
    (DOSE_Q, DOSE, "In adults, start with 500 mg by mouth two times a day, taken with meals.", "CORRECT"),
    (DOSE_Q, DOSE, "500 mg orally every 12 hours with meals in adults", "CORRECT"),
    (DOSE_Q, DOSE, "Adults: 0.5 g orally BID with meals.", "CORRECT"),
    (DOSE_Q, DOSE, "500 milligrams orally twice a day with a meal", "CORRECT"),
    (
        RENAL_Q,
        RENAL,
        "Give 2.5 mg orally every 24 hours; this includes moderate or severe renal impairment and ESRD.",
        "CORRECT",
    ),
    (
        RENAL_Q,
        RENAL,
        "2.5 mg once a day by mouth, also in moderate or severe kidney impairment or ESRD (eGFR < 45).",
        "CORRECT",
    ),
    (
        CONTRA_Q,
        CONTRA,
        "Anuria, decompensated cirrhosis, active peptic ulcer disease, sulfonamide hypersensitivity.",
        "CORRECT",
    ),
    (
        CONTRA_Q,
        CONTRA,
        "Do not use it in patients with anuria, decompensated cirrhosis, active peptic ulcer, or sulfonamide allergy.",
        "CORRECT",
    ),
    (
        FOOD_Q,
        FOOD,
        "There is no significant effect on extent, though a high-fat meal delays the peak by two hours.",
        "CORRECT",
    ),
    (MAX_Q, MAX, "1500 mg a day in three divided doses", "CORRECT"),
    (MAX_Q, MAX, "The maximum is 1.5 g daily in 3 divided doses.", "CORRECT"),
    (MAX_Q, MAX, "In 3 divided doses, the daily dose must not go above 1,500 mg.", "CORRECT"),
    (CHILD_Q, CHILD, "Treatment of partial-onset seizures in children from 6 to 17 years of age.", "CORRECT"),
    (HEPATIC_Q, HEPATIC, "No adjustment is necessary.", "CORRECT"),
    (
        HEPATIC_Q,
        HEPATIC,
        "Patients with mild hepatic impairment do not need dose adjustment; it is not necessary.",
        "CORRECT",
    ),
    (CYP_Q, CYP, "Primarily CYP3A4; it is excreted in urine.", "CORRECT"),
    (REACT_Q, REACT, "Constipation 5%, dizziness 6%, dry mouth 8% and headache 11%.", "CORRECT"),
    (
        PREG_Q,
        PREG,
        "From 30 weeks gestation it may cause premature closure of the ductus arteriosus in the fetus.",
        "CORRECT",
    ),
    (
        STORE_Q,
        STORE,
        "At 20 to 25 °C (68 to 77 degrees F), in the original bottle, protected from moisture.",
        "CORRECT",
    ),
    (EFFECT_Q, EFFECT, "Rifampin reduced the AUC by 56 percent.", "CORRECT"),
    (MCG_Q, MCG, "0.25 mg twice daily", "CORRECT"),
    (MCG_Q, MCG, "250 µg every twelve hours", "CORRECT"),
    (
        MAX_Q,
        MAX,
        "I am not certain, but the label's maximum daily dose seems to be 1,500 mg in 3 divided doses.",
        "CORRECT",
    ),
    # a number changed or left out
    (DOSE_Q, DOSE, "In adults, start with 250 mg orally twice daily with meals.", "number_contradicted"),
    (DOSE_Q, DOSE, "In adults, start with 500 mg orally once daily with meals.", "number_contradicted"),
    (DOSE_Q, DOSE, "In adults, start with 500 mg orally with meals.", "number_missing"),
    (DOSE_Q, DOSE, "In adults, start orally twice daily with meals.", "number_missing"),
    (RENAL_Q, RENAL, "Use the standard 5 mg once daily dose regardless of renal function.", "number_contradicted"),
    (REACT_Q, REACT, "Headache (11%), dry mouth (9%), dizziness (6%), and constipation (5%).", "number_contradicted"),
    (STORE_Q, STORE, "Store at 2°C to 8°C in the original bottle, protected from moisture.", "number_contradicted"),
    (MAX_Q, MAX, "The maximum daily dose is 15,00 mg in 3 divided doses.", "number_contradicted"),
    (
        RENAL_Q,
        RENAL,
        "2.5 mg once daily with eGFR above 45 mL/min, moderate or severe renal impairment, ESRD.",
        "number_contradicted",
    ),
    (REACT_Q, REACT, "Headache (8%), dry mouth (11%), dizziness (6%), and constipation (5%).", "number_contradicted"),
    # a unit changed
    (DOSE_Q, DOSE, "In adults, start with 500 mcg orally twice daily with meals.", "number_contradicted"),
    (MCG_Q, MCG, "250 mg every 12 hours", "number_contradicted"),
    (MCG_Q, MCG, "250 mcg every 12 days", "number_contradicted"),
    (
        FOOD_Q,
        FOOD,
        "No significant effect on extent, but a high-fat meal delays the peak by 2 days.",
        "number_contradicted",
    ),
    # a population lost
    (CHILD_Q, CHILD, "Quorvelin is indicated for the treatment of partial-onset seizures.", "number_missing"),
    (
        "What dose of Quorvelin is recommended?",
        "In patients with hepatic impairment the recommended dose is 10 mg.",
        "The recommended dose is 10 mg.",
        "population_missing",
    ),
    (
        "What monitoring does Quorvelin require?",
        "Monitor renal function every 3 months in elderly patients.",
        "Monitor renal function every 3 months.",
        "population_missing",
    ),
    # lists left incomplete, contraindications added
    (CONTRA_Q, CONTRA, "Quorvelin is contraindicated in patients with anuria and cirrhosis.", "warning_missing"),
    (
        CONTRA_Q,
        CONTRA,
        "Anuria, decompensated cirrhosis, and known hypersensitivity to sulfonamides.",
        "warning_missing",
    ),
    (CONTRA_Q, CONTRA, f"{CONTRA[:-1]}, and in glaucoma.", "unsupported_warning"),
    (CONTRA_Q, CONTRA, f"{CONTRA} It is also contraindicated during pregnancy.", "unsupported_population"),
    (CONTRA_Q, CONTRA, "It is contraindicated only in patients with an allergy to potassium.", "warning_missing"),
    (CYP_Q, CYP, "Primarily CYP2D6; it is excreted in urine.", "key_content_missing"),
    # doses nobody asked for
    (HEPATIC_Q, HEPATIC, "No dose adjustment is necessary; start at 40 mg once daily.", "unsupported_number"),
    (CYP_Q, CYP, "Primarily CYP3A4 and excreted in urine. Take 20 mg twice daily.", "unsupported_number"),
    (PREG_Q, PREG, f"{PREG} Use 10 mg instead.", "unsupported_number"),
    (MAX_Q, MAX, f"{MAX} In older patients it is 750 mg.", "unsupported_number"),
    # affirmed for denied
    (HEPATIC_Q, HEPATIC, "A dose adjustment is necessary in patients with mild hepatic impairment.", "polarity"),
    (HEPATIC_Q, "No.", "Yes.", "polarity"),
    (EFFECT_Q, EFFECT, "Coadministration with rifampin increased the AUC by 56%.", "polarity"),
    (CONTRA_Q, CONTRA, CONTRA.replace("is contraindicated", "is not contraindicated"), "polarity"),
    # beside the question
    (FOOD_Q, FOOD, "Quorvelin is a white tablet.", "key_content_missing"),
    (CYP_Q, CYP, "It is a potent medicine with many uses.", "key_content_missing"),
    # no attempt
    (DOSE_Q, DOSE, "I don't know.", "abstained"),
    (RENAL_Q, RENAL, "I'm not sure what dose to use in patients with reduced kidney function.", "abstained"),
    (CONTRA_Q, CONTRA, "The label does not clearly specify in which patients it is contraindicated.", "abstained"),
    (DOSE_Q, DOSE, "Take as directed on the label.", "vague"),
    (MAX_Q, MAX, "Please consult your physician about the maximum daily dose.", "vague"),
    (DOSE_Q, DOSE, "", "abstained"),
    # no abstention: it claims something
    (DOSE_Q, DOSE, "I don't know exactly; perhaps 50 mg.", "number_contradicted"),
]


def graded(question: str, gold: str, predicted: str, drug: str = "Quorvelin") -> tuple[str, str, str]:
    return grade(drug, question, gold, predicted)


@pytest.mark.parametrize(("question", "gold", "predicted", "expected"), CASES)
def test_case(question: str, gold: str, predicted: str, expected: str) -> None:
    outcome, name, detail = graded(question, gold, predicted)
    assert (name or outcome) == expected, detail
    assert outcome == {"CORRECT": "CORRECT", "abstained": "NOT_ATTEMPTED", "vague": "NOT_ATTEMPTED"}.get(
        expected, "INCORRECT"
    )


def test_the_detail_names_what_is_wrong() -> None:
    assert graded(DOSE_Q, DOSE, "250 mg orally twice daily with meals, adults")[2] == "250 mg instead of 500 mg"
    assert graded(CYP_Q, CYP, "CYP2D6; excreted in urine")[2] == "CYP3A4"
    assert graded(MCG_Q, MCG, "250 mcg once daily")[2] == (
        "every 24 hours (once daily) instead of every 12 hours (twice daily)"
    )


def test_a_flood_of_text_around_the_answer_earns_nothing() -> None:
    flood = " ".join(f"Chapter{place}x explains matter{place}y." for place in range(40))
    assert graded(HEPATIC_Q, HEPATIC, f"{HEPATIC} {flood}")[:2] == ("INCORRECT", "unsupported_content")


def test_a_vague_reference_is_met_by_a_vague_answer() -> None:
    assert (
        graded("How is Quorvelin taken?", "Take as directed by a physician.", "As directed by a doctor.")[0]
        == "CORRECT"
    )


def test_the_reply_leads_with_a_known_fault() -> None:
    for question, gold, predicted, _ in CASES:
        reply = baseline_grade({"question": question, "gold": gold, "predicted": predicted, "drug": "Quorvelin"})
        assert (reply.reason.partition(":")[0] in FAULTS) == (reply.grade != "CORRECT")


def test_each_sentence_of_the_reference_counts() -> None:
    question = "What does the Quorvelin label advise on diuretics?"
    first = "Quorvelin can blunt the natriuretic effect of furosemide and thiazides by inhibiting renal prostaglandins."
    second = "Monitor blood pressure and fluid balance."
    both = "It inhibits renal prostaglandins and may blunt furosemide and thiazides, so monitor fluid balance."
    assert graded(question, f"{first} {second}", both)[0] == "CORRECT"
    assert graded(question, f"{first} {second}", first)[1:] == ("key_content_missing", f"“{second}”")


def test_what_is_missing_is_named_in_the_words_of_the_reference() -> None:
    said = "Quorvelin is contraindicated in patients with anuria."
    assert graded(CONTRA_Q, CONTRA, said)[2] == (
        "decompensated cirrhosis, active peptic ulcer disease, known hypersensitivity to sulfonamides"
    )
    surgery = "Quorvelin is contraindicated in the setting of Coronary Artery By-pass Grafting (CABG) surgery."
    assert graded("When is Quorvelin contraindicated?", surgery, "In asthma.")[2] == (
        "setting of Coronary Artery By-pass Grafting, CABG, surgery"
    )
    assert graded("How fast is it infused?", "Infuse at 5 to 10 mL/min.", "Infuse slowly.")[2] == "5 ml/min, 10 mL/min"


def test_the_drug_may_stand_within_what_is_missing() -> None:
    gold = "Bring coarse Quorvelin granules to room temperature before mixing them with applesauce."
    assert graded("What does the label advise?", gold, "Take it early.", "Quorvelin")[2] == (
        "Bring coarse Quorvelin granules to room temperature before mixing them with applesauce"
    )


def test_how_often_is_told_in_days_and_weeks() -> None:
    question, gold = "How often is Quorvelin injected?", "Inject 40 mg every 2 weeks."
    assert graded(question, gold, "40 mg every other day")[2] == "every 2 days instead of every 2 weeks"


def test_an_answer_beside_the_question_misses_its_content_not_its_numbers() -> None:
    gold = "In rats, 4 mg/kg/day in late gestation reduced maternal weight gain and caused fetal deaths."
    outcome, name, detail = graded("What did animal studies of Quorvelin show?", gold, "Avoid its use in asthma.")
    assert (outcome, name) == ("INCORRECT", "key_content_missing")
    assert "maternal weight gain" in detail and detail.endswith("4 mg/kg/day")


@pytest.mark.parametrize(
    ("gold", "said"),
    [
        ("It is used for type 2 diabetes mellitus.", "Type II diabetes mellitus."),
        ("It raises urinary 17-ketogenic steroids.", "It raises ketogenic steroids in the urine; urinary values rise."),
        ("NSAIDs cause ulcers.", "Non-steroidal anti-inflammatory drugs cause ulcers."),
        ("Hypersensitivity to any product ingredient.", "Allergy to any component of the product."),
    ],
)
def test_names_are_compared_as_names(gold: str, said: str) -> None:
    assert graded("What does the label say?", gold, said)[0] == "CORRECT"


def test_words_that_all_labels_use_may_differ() -> None:
    question = "What must not be done in patients with the aspirin triad?"
    gold = "Do not use Quorvelin in patients with the aspirin triad."
    assert graded(question, gold, "Quorvelin should not be given to patients with the aspirin triad.")[0] == "CORRECT"
    assert graded(question, gold, "Nothing mitigates the risk of aspirin use.")[0] == "INCORRECT"


def test_a_prohibition_is_not_met_by_a_lack_of_studies() -> None:
    question = "What does the label say about use in severe hepatic impairment?"
    gold = "Use in patients with severe hepatic impairment is not recommended."
    assert graded(question, gold, "Patients with severe hepatic impairment have not been studied.")[1] == (
        "warning_missing"
    )
    assert graded(question, gold, "Avoid it in patients with severe hepatic impairment.")[0] == "CORRECT"


def test_denial_of_what_is_hardly_spoken_of_is_no_contradiction() -> None:
    gold = "Pediatric patients should be monitored for renal function."
    said = "If a patient does not improve within days, treatment may be extended."
    assert graded("What does the label advise for children?", gold, said)[1] != "polarity"


def test_lack_of_data_with_a_conclusion_is_an_attempt() -> None:
    said = "No data are available on dialysis, but its high plasma protein binding makes removal by it unlikely."
    gold = "Forced diuresis and alkalinization of urine may not be useful because of extensive binding to albumin."
    assert graded("What is done after an overdose?", gold, said)[0] == "INCORRECT"
    assert graded("What is done after an overdose?", gold, "No data are available.")[0] == "NOT_ATTEMPTED"


def test_every_inactive_ingredient_counts() -> None:
    gold = "The inactive ingredients are croscarmellose sodium, povidone, magnesium stearate, lactose and talc."
    said = "Croscarmellose sodium, povidone, magnesium stearate, lactose."
    assert graded("What are the inactive ingredients?", gold, said)[1:] == ("key_content_missing", "talc")


PIECES = """5 10 1,500 0.5 .25 mg mcg g mL % mg/kg mL/min/1.73m² °C no not avoid is contraindicated in patients with
renal hepatic pregnant women children once twice daily every 8 hours ≥ < to and or , . ; : ( ) - half-life CYP3A4 Yes No
2. a day per week increase decreased before after seizures one tablet don't know 1/2 12-hour"""
LABEL_TEXT = st.lists(st.sampled_from(PIECES.split()), max_size=30).map(" ".join)


@given(st.one_of(LABEL_TEXT, st.text(max_size=80)), st.one_of(LABEL_TEXT, st.text(max_size=80)))
def test_an_answer_equal_to_the_reference_is_correct(question: str, gold: str) -> None:
    if re.search(r"\w", gold):
        assert graded(question, gold, gold)[0] == "CORRECT"


@given(*[st.one_of(LABEL_TEXT, st.text(max_size=80))] * 4)
def test_any_text_gets_a_grade(question: str, gold: str, predicted: str, drug: str) -> None:
    assert graded(question, gold, predicted, drug)[0] in ("CORRECT", "INCORRECT", "NOT_ATTEMPTED")
