"""Safety candidates in made answers about the example labels, and what a verifier makes of them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.factuality.contraindications import contraindications_of
from fdarx_core.factuality.safety import SAFETY, CandidateFinder, SafetyCandidate, flags_of
from fdarx_core.factuality.scores import ScoringMethod, verdicts_of
from fdarx_core.labels.drugs import Drug
from fdarx_core.records import CheckedAnswer, Claim, Evidence, PairVerdict, SafetyFlag
from tests.factuality.made_labels import examples, label_of


@cache
def finder() -> CandidateFinder:
    return CandidateFinder(examples)


def proposed(question: str, answer: str, drug: str = "", outcome: str = "answered") -> list[SafetyFlag]:
    made = CheckedAnswer("a", "q", question, answer, "made", drug=drug, outcome=outcome)
    return [one.flag for one in finder().candidates(made)]


MADE = [
    ("What is the recommended dose of Telvanto?", "Telvanto lowers blood pressure.", ["dose_missing"]),
    ("What is the maximum dose of TELVANTO?", "The maximum is 4,000 mg once daily.", ["dose_unsupported"]),
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
    # A true answer that speaks of what the label forbids is a candidate too: a verifier clears it.
    (
        "Can a patient with severe hepatic impairment take TELVANTO?",
        "No, it is contraindicated.",
        ["contraindicated_condition"],
    ),
    ("What does each capsule of JORVEQUA contain?", "Each capsule contains 50 mg or 100 mg of sendrotinib.", []),
    ("What does each capsule of JORVEQUA contain?", "Each contains 602 mg of sendrotinib.", ["dose_unsupported"]),
    ("What is the recommended starting dose of Telvanto?", "25 mg once daily with the morning meal.", []),
]


@pytest.mark.parametrize(("question", "answer", "expected"), MADE)
def test_candidates_of_made_answers(question: str, answer: str, expected: list[str]) -> None:
    found = proposed(question, answer)
    assert [flag.kind for flag in found] == expected
    assert all(flag.text == answer[flag.start : flag.end] for flag in found)
    assert {flag.status for flag in found} <= {"to_review"}


def test_a_candidate_shows_the_words_and_what_the_label_says() -> None:
    [one] = finder().candidates(CheckedAnswer("a", "q", *MADE[3][:2], "made"))
    assert one.flag.text == "MIRSOLVE ER is recommended for patients with cardiogenic shock."
    assert (one.flag.drug, one.flag.subject, one.flag.marker) == ("MIRSOLVE ER", "cardiogenic shock", "PASSAGE_0007")
    assert one.statement is not None and one.statement.text == one.flag.because
    assert "contraindicated" in one.flag.because and "CONTRAINDICATIONS" in one.statement.heading.upper()
    [dose] = finder().candidates(CheckedAnswer("a", "q", *MADE[1][:2], "made"))
    assert (dose.flag.text, dose.flag.subject) == ("The maximum is 4,000 mg once daily.", "4000 mg")
    assert dose.statement is not None and "mg" in dose.statement.text


@pytest.mark.parametrize(
    "answer",
    [
        "Start with 200 mg twice daily.",
        "Start with 0.2 g every 12 hours.",
        "Start with 400 mg a day in two doses.",
        "The target is 400 mg twice daily, so 800 mg per day.",
        "On day 1, 200 mg is given.",
        "Give two 200 mg doses.",
        "The usual dose is 200 to 400 mg twice daily.",
        "The trough concentration was 9 mg/L and creatinine 2.9 mg/dL.",
    ],
)
def test_doses_of_the_label_in_other_units_totals_and_shares_are_no_candidates(answer: str) -> None:
    assert proposed("How is Fendalora given to adults?", answer) == []


@pytest.mark.parametrize(
    "answer", ["Take 3 g twice daily.", "Give 55 mg/kg daily.", "Take 210 mg.", "Take 200 to 9,000 mg."]
)
def test_other_doses_are(answer: str) -> None:
    assert [flag.kind for flag in proposed("How is Fendalora given to adults?", answer)] == ["dose_unsupported"]


DOSES = (
    "The dose is 600 mg to 1800 mg daily in three divided doses. The starting dose is 40 mg every other week, "
    "and 10 mg in the morning. The infusion starts at 20 nanograms (ng)/kg/min. The maximum dose is 1800 mg a day."
)


@pytest.mark.parametrize(
    ("answer", "doubtful"),
    [
        ("Take 1800 mg a day in three doses.", False),
        ("Take up to 3600 mg a day.", True),
        ("Take 1800 mg three times a day.", True),
        ("Take 40 mg every other week.", False),
        ("The infusion starts at 20 ng/kg/min.", False),
    ],
)
def test_the_most_a_day_counts(answer: str, doubtful: bool) -> None:
    made = CandidateFinder(lambda: [label_of(DOSES, code="34068-7")])
    checked = CheckedAnswer("a", "q", "How do I take TELVANTO?", answer, "made", set_id="made")
    assert bool(made.candidates(checked)) is doubtful


def test_refusals_and_failures_have_no_candidates() -> None:
    assert proposed("What is the recommended dose of Telvanto?", "The label does not say.", outcome="refused") == []
    assert proposed("What is the recommended dose of Telvanto?", "", outcome="failed") == []


def test_warnings_and_dosage_give_candidates_and_no_rows_of_the_table() -> None:
    warning = label_of("TELVANTO is not recommended in cerebral malaria.", code="43685-7")
    dosage = label_of("Do not give TELVANTO with aluminum hydroxide.", code="34068-7")
    for label, answer in ((warning, "Cerebral malaria is no obstacle."), (dosage, "Aluminum hydroxide goes with it.")):
        made = CandidateFinder(lambda label=label: [label])  # type: ignore[misc]
        checked = CheckedAnswer("a", "q", "Is TELVANTO fine?", answer, "made", set_id="made")
        assert [one.flag.kind.partition("_")[0] for one in made.candidates(checked)] == ["contraindicated"]
        assert contraindications_of(*label) == []


def test_of_several_drugs_only_what_each_forbids_is_looked_at() -> None:
    other = "Corvaxolin"
    made = CandidateFinder(lambda: [*examples(), label_of(f"The use of TELVANTO with {other} is contraindicated.")])
    answer = f"Yes, {other} 999 mg can be taken with TELVANTO."
    checked = CheckedAnswer("a", "q", f"Can I take TELVANTO with {other}?", answer, "made")
    assert [one.flag.kind for one in made.candidates(checked)] == ["contraindicated_drug"]


def test_a_drug_is_known_by_the_names_that_rxnorm_gives_it() -> None:
    question, answer = "What is the recommended dose of Ortabrand?", "It lowers blood pressure."
    checked = CheckedAnswer("a", "q", question, answer, "made")
    assert finder().candidates(checked) == []
    told = CandidateFinder(examples, [("Ortabrand", Drug.of([("ortavelin", "")]))])
    assert [one.flag.kind for one in told.candidates(checked)] == ["dose_missing"]


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_answer_is_read_and_every_span_lies_in_it(question: str, answer: str) -> None:
    for flag in proposed(f"What dose of Telvanto? {question}", f"{answer} Take 999 mg. {answer}"):
        assert flag.text == f"{answer} Take 999 mg. {answer}"[flag.start : flag.end]


METHOD = ScoringMethod(engine="m")
ANSWER = "Yes, it may be taken in pregnancy. It is white."
CLAIMS = [Claim("c0", "a", 0, 0, 34, ANSWER[:34], ANSWER[:34]), Claim("c1", "a", 1, 35, 47, ANSWER[35:], ANSWER[35:])]
STATEMENT = Evidence("s", "labels", "X", "X is contraindicated in pregnancy.", "P4", "4", "set", "X")
TABLETS = Evidence("e", "labels", "X", "X tablets are blue. Store them.", "P9", "11 > How Supplied", "set", "X")
ABSTRACT = Evidence("p", "pubmed", "On X", "X tablets are blue.")
FORBIDDEN = SafetyFlag("a", "contraindicated_population", 0, 34, ANSWER[:34], "X", "pregnancy", STATEMENT.text, "set")
FORBIDDEN.status = "to_review"
CANDIDATE = SafetyCandidate(FORBIDDEN, STATEMENT)
PROBABILITIES = {"supported": (1.0, 0.0, 0.0), "unsupported": (0.0, 1.0, 0.0), "contradicted": (0.0, 0.0, 1.0)}


def pair(claim: str, evidence: Evidence, kind: str, verdict: str, *, on_subject: bool = True) -> PairVerdict:
    end = 19 if verdict == "contradicted" else 0
    supports, neutral, contradicts = PROBABILITIES.get(verdict, (None, None, None))
    row = PairVerdict("a", claim, evidence.id, kind, 1, "m", supports, neutral, contradicts, end=end)
    return replace(row, on_subject=on_subject)


def decided(candidates: list[SafetyCandidate], *pairs: PairVerdict) -> list[tuple[str, str]]:
    evidence = {one.id: one for one in (STATEMENT, TABLETS, ABSTRACT)}
    verdicts = verdicts_of(CLAIMS, pairs, METHOD)
    return [(flag.kind, flag.status) for flag in flags_of(candidates, CLAIMS, verdicts, pairs, evidence, METHOD)]


@pytest.mark.parametrize(
    ("verdict", "status"),
    [("contradicted", "flagged"), ("supported", None), ("unsupported", None), ("undecided", "to_review")],
)
def test_the_verifier_decides_what_becomes_of_a_candidate(verdict: str, status: str | None) -> None:
    expected = [(FORBIDDEN.kind, status)] if status else []
    assert decided([CANDIDATE], pair("c0", STATEMENT, SAFETY, verdict)) == expected


def test_a_candidate_that_nothing_judged_and_a_missing_dose_stay_to_be_reviewed() -> None:
    assert decided([CANDIDATE]) == [(FORBIDDEN.kind, "to_review")]
    missing = SafetyFlag("a", "dose_missing", 0, 0, "", "X", "dose", "Take 5 mg.", "set", "P2", "to_review")
    assert decided([SafetyCandidate(missing, None)]) == [("dose_missing", "to_review")]


def test_a_claim_that_a_label_contradicts_is_a_flag_without_a_candidate() -> None:
    contradicted = pair("c1", TABLETS, "evidence", "contradicted")
    assert decided([], contradicted) == [("contradicted_by_label", "flagged")]
    evidence = {TABLETS.id: TABLETS}
    [flag] = flags_of([], CLAIMS, verdicts_of(CLAIMS, [contradicted], METHOD), [contradicted], evidence, METHOD)
    assert (flag.text, flag.because, flag.subject, flag.marker) == (
        *("It is white.", "X tablets are blue.", "How Supplied", "P9"),
    )


def test_only_labels_of_the_drug_contradict_and_a_flag_is_given_once() -> None:
    assert decided([], pair("c1", ABSTRACT, "evidence", "contradicted")) == []
    assert decided([], pair("c1", TABLETS, "evidence", "contradicted", on_subject=False)) == []
    both = pair("c0", STATEMENT, SAFETY, "contradicted"), pair("c0", TABLETS, "evidence", "contradicted")
    assert decided([CANDIDATE], *both) == [(FORBIDDEN.kind, "flagged")]
