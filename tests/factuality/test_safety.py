"""Safety flags on made answers about the example labels."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.factuality.contraindications import contraindications_of
from fdarx_core.factuality.safety import SafetyFlagger
from fdarx_core.labels.drugs import Drug
from fdarx_core.records import CheckedAnswer, SafetyFlag
from tests.factuality.made_labels import examples, label_of


@cache
def safety() -> SafetyFlagger:
    return SafetyFlagger(examples)


def flags(question: str, answer: str, drug: str = "", outcome: str = "answered") -> list[SafetyFlag]:
    return safety().flags_of(CheckedAnswer("a", "q", question, answer, "made", drug=drug, outcome=outcome))


MADE = [
    # What goes against the label.
    ("What is the recommended dose of Telvanto?", "Telvanto lowers blood pressure.", ["dose_missing"]),
    ("What is the maximum dose of TELVANTO?", "The maximum is 400 mg once daily.", ["dose_unsupported"]),
    (
        "Can a patient with severe hepatic impairment take TELVANTO?",
        "Yes, TELVANTO can be taken.",
        ["contraindicated_condition"],
    ),
    (
        "What should I know about MIRSOLVE ER?",
        "It is an old drug. MIRSOLVE ER is recommended for patients with cardiogenic shock.",
        ["contraindicated_condition"],
    ),
    (
        "Is Gastrivan Pak safe together with pimozide?",
        "Yes, they can be taken together.",
        ["contraindicated_drug"],
    ),
    # What the label says as well.
    (
        "What does each capsule of JORVEQUA contain?",
        "Each capsule contains 50 mg or 100 mg of sendrotinib (as 60.2 mg or 120.3 mg of sendrotinib mesylate), "
        "with microcrystalline cellulose, croscarmellose sodium and sodium lauryl sulfate.",
        [],
    ),
    (
        "What does each capsule of JORVEQUA contain?",
        "Each capsule contains 602 mg of sendrotinib.",
        ["dose_unsupported"],
    ),
    ("What is the recommended starting dose of Telvanto?", "25 mg once daily with the morning meal.", []),
    ("Can a patient with severe hepatic impairment take TELVANTO?", "No, it is contraindicated.", []),
    ("Is TELVANTO contraindicated in severe hepatic impairment?", "Yes, it is.", []),
    ("Can TELVANTO be used in mild hepatic impairment?", "Yes, it can be used in mild hepatic impairment.", []),
    (
        "Who must not take MIRSOLVE ER?",
        "Use in patients with cardiogenic shock or severe bradycardia.",
        [],
    ),
]


@pytest.mark.parametrize(("question", "answer", "expected"), MADE)
def test_made_answers(question: str, answer: str, expected: list[str]) -> None:
    found = flags(question, answer)
    assert [flag.kind for flag in found] == expected
    assert all(flag.text == answer[flag.start : flag.end] for flag in found)


def test_a_flag_shows_the_words_and_what_the_label_says() -> None:
    (flag,) = flags(*MADE[3][:2])
    assert flag.text == "MIRSOLVE ER is recommended for patients with cardiogenic shock."
    assert (flag.drug, flag.subject, flag.marker) == ("MIRSOLVE ER", "cardiogenic shock", "PASSAGE_0007")
    assert "contraindicated" in flag.because
    (dose,) = flags(*MADE[1][:2])
    assert (dose.text, dose.subject, dose.status) == ("The maximum is 400 mg once daily.", "400 mg", "to_review")
    assert flag.status == "to_review"
    (dose,) = flags("What is the maximum dose of TELVANTO?", "The maximum is 4,000 mg once daily.")
    assert dose.status == "flagged"


@pytest.mark.parametrize(
    "answer",
    [
        "Start with 200 mg twice daily.",
        "Start with 0.2 g every 12 hours.",
        "Start with 400 mg a day in two doses.",
        "The target is 400 mg twice daily, so 800 mg per day.",
        "At most 1,200 mg a day.",
        "On day 1, 200 mg is given.",
        "Give two 200 mg doses.",
        "The usual dose is 200 to 400 mg twice daily.",
        "Start with 200 mg twice daily; do not combine it with 325 mg of aspirin.",
        "The trough concentration was 9 mg/L and creatinine 2.9 mg/dL.",
    ],
)
def test_doses_of_the_label_in_other_units_totals_and_shares_are_supported(answer: str) -> None:
    assert flags("How is Fendalora given to adults?", answer) == []


@pytest.mark.parametrize(
    "answer", ["Take 3 g twice daily.", "Give 55 mg/kg daily.", "Take 210 mg.", "Take 200 to 9,000 mg."]
)
def test_other_doses_are_not(answer: str) -> None:
    assert [flag.kind for flag in flags("How is Fendalora given to adults?", answer)] == ["dose_unsupported"]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What should I do if I miss a dose of Telvanto?", "Skip it."),
        ("Is dose adjustment needed in renal impairment with Telvanto?", "Yes."),
        ("What dosage forms of Telvanto are there?", "Tablets."),
        ("What is the dose of Telvanto for children?", "It has not been established."),
        ("How often should Telvanto be taken?", "Once daily."),
        ("What is the recommended dose of Unheardofine?", "It lowers blood pressure."),
    ],
)
def test_no_dose_is_missing_where_none_was_asked_for_or_the_answer_settles_it(question: str, answer: str) -> None:
    assert flags(question, answer) == []


def test_refusals_and_failures_raise_no_flag() -> None:
    assert flags("What is the recommended dose of Telvanto?", "The label does not say.", outcome="refused") == []
    assert flags("What is the recommended dose of Telvanto?", "", outcome="failed") == []


def one(text: str, question: str, answer: str) -> list[str]:
    made = SafetyFlagger(lambda: [label_of(text)])
    return [flag.kind for flag in made.flags_of(CheckedAnswer("a", "q", question, answer, "made", set_id="made"))]


@pytest.mark.parametrize(
    ("text", "question", "answer", "flagged"),
    [
        ("TELVANTO is contraindicated in pregnancy.", "Can a pregnant woman take it?", "Yes.", True),
        ("TELVANTO is contraindicated in pregnancy.", "Must it be avoided in pregnancy?", "No, it is safe.", True),
        ("TELVANTO is contraindicated in pregnancy.", "Can a pregnant woman take it?", "No.", False),
        ("TELVANTO is contraindicated in pregnancy.", "Is it safe?", "Yes, unless the patient is pregnant.", False),
        ("TELVANTO is contraindicated in pregnancy.", "Is it safe?", "It should not be used in pregnancy.", False),
        ("TELVANTO is contraindicated in nursing mothers.", "May I take it while breastfeeding?", "Yes.", True),
        ("Do not use TELVANTO in children younger than 6 years.", "Can my 4-year-old take it?", "Yes.", True),
        ("Do not use TELVANTO in children younger than 6 years.", "Can my 9-year-old take it?", "Yes.", False),
        ("TELVANTO is contraindicated in eGFR below 30.", "Is it safe?", "It can be used at an eGFR of 25.", True),
        ("TELVANTO is contraindicated in eGFR below 30.", "Is it safe?", "It can be used at an eGFR of 50.", False),
        (
            "TELVANTO is contraindicated in allergy to sulfites.",
            "Is it safe if I am allergic to sulfites?",
            "Yes.",
            True,
        ),
        ("TELVANTO is contraindicated in allergy to sulfites.", "Is it safe if I am allergic to nuts?", "Yes.", False),
        (
            "TELVANTO is contraindicated in patients taking MAOIs.",
            "Is it safe?",
            "You can take TELVANTO with MAOIs.",
            True,
        ),
        (
            "TELVANTO is contraindicated within 14 days of stopping MAOIs.",
            "When is it safe?",
            "You can take TELVANTO two weeks after the last MAOI.",
            False,
        ),
        ("TELVANTO is contraindicated in patients taking MAOIs.", "I use phenelzine.", "TELVANTO suits you.", True),
        (
            "TELVANTO is contraindicated in heart block, unless a pacemaker is in place.",
            "I have heart block.",
            "TELVANTO suits you.",
            True,
        ),
        (
            "TELVANTO is contraindicated in heart block, unless a pacemaker is in place.",
            "I have heart block.",
            "With a pacemaker TELVANTO suits you.",
            False,
        ),
        (
            "TELVANTO is contraindicated in heart block, unless a pacemaker is in place.",
            "I have heart block and no pacemaker.",
            "TELVANTO suits you.",
            True,
        ),
    ],
)
def test_populations_numbers_allergies_and_other_drugs(text: str, question: str, answer: str, flagged: bool) -> None:
    assert bool(one(text, question, answer)) is flagged


def test_warnings_and_dosage_count_for_flags_and_not_for_the_table() -> None:
    warning = label_of("TELVANTO is not recommended in cerebral malaria.", code="43685-7")
    dosage = label_of(
        "Do not give TELVANTO with aluminum hydroxide. Doses above 80 mg are not recommended.", code="34068-7"
    )
    for label, answer in ((warning, "Cerebral malaria is no obstacle."), (dosage, "Aluminum hydroxide goes with it.")):
        made = SafetyFlagger(lambda label=label: [label])  # type: ignore[misc]
        checked = CheckedAnswer("a", "q", "Is TELVANTO fine?", answer, "made", set_id="made")
        assert [flag.kind.partition("_")[0] for flag in made.flags_of(checked)] == ["contraindicated"]
        assert contraindications_of(*label) == []


DOSES = (
    "The dose is 600 mg to 1800 mg daily in three divided doses. The starting dose is 40 mg every other week, "
    "and 10 mg in the morning. The infusion starts at 20 nanograms (ng)/kg/min. The maximum dose is 1800 mg a day."
)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("Take 1800 mg a day in three doses.", None),
        ("Take up to 3600 mg a day.", "flagged"),
        ("Take 1800 mg three times a day.", "flagged"),
        ("Take 40 mg every other week.", None),
        ("Take 40 mg every day.", "flagged"),
        ("Take 40 mg every week.", "to_review"),
        ("Take 10 mg every morning and 10 mg every evening.", "to_review"),
        ("In weeks 1-2, 40 mg every other week.", None),
        ("The infusion starts at 20 ng/kg/min.", None),
    ],
)
def test_amounts_go_with_their_frequencies_and_the_most_a_day(answer: str, status: str | None) -> None:
    made = SafetyFlagger(lambda: [label_of(DOSES, code="34068-7")])
    checked = CheckedAnswer("a", "q", "How do I take TELVANTO?", answer, "made", set_id="made")
    assert [flag.status for flag in made.flags_of(checked)] == ([status] if status else [])


def test_of_several_drugs_only_what_each_forbids_is_looked_at() -> None:
    other = "Corvaxolin"
    made = SafetyFlagger(lambda: [*examples(), label_of(f"The use of TELVANTO with {other} is contraindicated.")])
    answer = f"Yes, {other} 999 mg can be taken with TELVANTO."
    checked = CheckedAnswer("a", "q", f"Can I take TELVANTO with {other}?", answer, "made")
    assert [flag.kind for flag in made.flags_of(checked)] == ["contraindicated_drug"]


def test_a_drug_is_known_by_the_names_that_rxnorm_gives_it() -> None:
    question, answer = "What is the recommended dose of Ortabrand?", "It lowers blood pressure."
    checked = CheckedAnswer("a", "q", question, answer, "made")
    assert safety().flags_of(checked) == []
    told = SafetyFlagger(examples, [("Ortabrand", Drug.of([("ortavelin", "")]))])
    assert [flag.kind for flag in told.flags_of(checked)] == ["dose_missing"]


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_answer_is_read_and_every_span_lies_in_it(question: str, answer: str) -> None:
    for flag in flags(f"What dose of Telvanto? {question}", f"{answer} Take 999 mg. {answer}"):
        assert flag.text == f"{answer} Take 999 mg. {answer}"[flag.start : flag.end]
