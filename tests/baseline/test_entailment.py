"""Entailment by rules: what it makes of pairs written for the purpose, and what holds of any pair."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.marked_claims import CLASSES, MARKED, confusion, figures, marked_claims, verdict
from fdarx_core.verify import THRESHOLD, open_engine
from fdarx_core.verify.engine import Inference, TextPair
from tests.conftest import REPOSITORY

DRUG = "Quorvelin"
PASSAGE = """\
Quorvelin is indicated in adults with partial-onset seizures. The recommended starting dosage is 500 mg orally twice
daily with meals. In patients with an eGFR below 45 mL/min, give 250 mg once daily. Quorvelin is metabolized by CYP3A4.
No dosage adjustment is necessary in mild hepatic impairment. Avoid Quorvelin in late pregnancy, because it may cause
premature closure of the fetal ductus arteriosus. Coadministration with rifampin decreased the AUC of quorvelin by 56%.
Store at 20°C to 25°C. Headache occurred in 11% of patients, dry mouth in 8%. Hemodialysis does not remove quorvelin.
""".replace("\n", " ")
LIST = """\
Quorvelin is contraindicated in patients with:
- anuria
- decompensated cirrhosis
- known hypersensitivity to sulfonamides [see Warnings and Precautions (5.2)]"""
TABLE = """\
Body Weight Range (kg): 22 to 31 | Dose (mg): 600
32 to 54 | Dose (mg): 900
Nausea | Placebo (N=100): 4% | QUORVELIN (N=200): 12%"""
STUDY = """\
The aim of this study was to determine whether quorvelin reduces the incidence of migraine.
Patients took quorvelin or placebo for 12 weeks. The frequency of vertigo was lower with quorvelin than with placebo."""

ENTAILED = [
    (PASSAGE, "In adults, 500 mg of Quorvelin is taken by mouth every 12 hours with food."),
    (PASSAGE, "The starting dose is 0.5 g two times a day."),
    (PASSAGE, "Patients with an eGFR of less than 45 mL/min get 250 mg once a day."),
    (PASSAGE, "Mild liver impairment does not require a change of the dose."),
    (PASSAGE, "Rifampin lowers the AUC of Quorvelin by 56 percent."),
    (PASSAGE, "Quorvelin should not be used late in pregnancy."),
    (PASSAGE, "Dry mouth was reported in 8% of patients."),
    (PASSAGE, "Quorvelin is not removed by hemodialysis."),
    (LIST, "Quorvelin is contraindicated in decompensated cirrhosis."),
    (LIST, "Patients who are allergic to sulfonamides must not take Quorvelin."),
    (TABLE, "A patient of 25 kg gets a dose of 600 mg."),
    (TABLE, "Nausea occurred in 12% of patients on Quorvelin."),
    (TABLE, "Nausea occurred in 4% of patients on placebo."),
    (STUDY, "Quorvelin lowered the frequency of vertigo."),
    ("In children of 6 to 17 years of age, give 5 mg.", "A child of 8 years gets 5 mg."),
    ("The daily dose is up to 100 mg.", "The daily dose must not go above 100 mg."),
    ("The maximum daily dose is 100 mg.", "A daily dose should never be raised above 100 mg."),
]
CONTRADICTED = [
    (PASSAGE, "The recommended starting dosage in adults is 750 mg twice daily.", "750 mg instead of 500 mg"),
    (PASSAGE, "The recommended starting dosage in adults is 500 mcg twice daily.", "500 mcg instead of 500 mg"),
    (PASSAGE, "The recommended starting dosage is 500 mg once daily.", "every 24 h"),
    (PASSAGE, "Patients with an eGFR above 45 mL/min get 250 mg once daily.", "bound"),
    (PASSAGE, "Quorvelin is indicated in children with partial-onset seizures.", "children against adults"),
    (PASSAGE, "A dosage adjustment is necessary in mild hepatic impairment.", "denies"),
    (PASSAGE, "Rifampin increases the AUC of Quorvelin.", "increas against decreas"),
    (PASSAGE, "Quorvelin can be used in late pregnancy.", "forbids"),
    (PASSAGE, "Hemodialysis removes Quorvelin.", "denies"),
    (PASSAGE, "Headache occurred in 8% of patients.", "8% instead of 11%"),
    (PASSAGE, "Store Quorvelin at 2°C to 8°C.", "°c instead of"),
    (LIST, "Quorvelin is indicated in patients with anuria.", "forbids"),
    (TABLE, "A patient of 25 kg gets a dose of 900 mg.", "900 mg instead of 600 mg"),
    (TABLE, "Nausea occurred in 4% of patients on Quorvelin.", "4% instead of 12%"),
    ("The daily dose is at least 100 mg.", "The daily dose must not go above 100 mg.", "bound"),
    ("Doses of 1200 mg-3200 mg were given.", "Doses of 1200 mg-1800 mg were given.", "1800 mg instead of 3200 mg"),
    (
        "It was given for 12 weeks in 12 cycles.",
        "It was given for 12 months in cycles.",
        "12 months instead of 12 weeks",
    ),
]
NEUTRAL = [
    (PASSAGE, "Quorvelin may cause drowsiness."),
    (PASSAGE, "Quorvelin is contraindicated in glaucoma."),
    (PASSAGE, "The half-life of Quorvelin is 12 hours."),
    (PASSAGE, "In children, the dose is based on body weight."),
    (PASSAGE, "Quorvelin is metabolized by CYP2D6."),
    (LIST, "Quorvelin should be taken with food."),
    (TABLE, "Vomiting occurred in 12% of patients on Quorvelin."),
    (STUDY, "Quorvelin reduces the incidence of migraine."),
    ("", "Quorvelin may cause drowsiness."),
    (PASSAGE, ""),
]
ENGINE = open_engine("rules")

WORDS = """patients dose tablets renal impairment hepatic increase decrease no not avoid contraindicated severe mild
children adults women should may with without food headache nausea daily twice CYP3A4 plasma placebo: | - . , ; (5.2)
10 mg 25 mL/min 3.5% 20°C 12 weeks less than above whether unknown"""
TEXT = st.lists(st.sampled_from(WORDS.split()), max_size=25).map(" ".join) | st.text(max_size=80)
LINES = st.lists(TEXT, max_size=5).map("\n".join)
SUBJECTS = st.lists(st.sampled_from(("emptying", "clearance", "bilirubin", "exposure")), min_size=2, max_size=4)
UNITS = st.sampled_from(("mg", "mcg", "mL", "weeks", "%", "mg/kg", "hours", "tablets", "mEq", "months"))


def judged(premise: str, hypothesis: str, drug: str = DRUG) -> Inference:
    [found] = ENGINE.judge([TextPair(premise, hypothesis, drug)])
    assert isinstance(found, Inference)
    return found


def likeliest(found: Inference) -> str:
    return max(("entailment", "neutral", "contradiction"), key=lambda name: float(getattr(found, name)))


def test_is_named_as_every_baseline() -> None:
    assert ENGINE.name == "baseline"


@pytest.mark.parametrize(("premise", "hypothesis"), ENTAILED)
def test_what_a_passage_says_is_entailed(premise: str, hypothesis: str) -> None:
    assert judged(premise, hypothesis).entailment >= THRESHOLD


@pytest.mark.parametrize(("premise", "hypothesis", "reason"), CONTRADICTED)
def test_one_thing_otherwise_is_a_contradiction_with_its_reason(premise: str, hypothesis: str, reason: str) -> None:
    found = judged(premise, hypothesis)
    assert found.contradiction >= THRESHOLD
    assert reason in found.reason


@pytest.mark.parametrize(("premise", "hypothesis"), NEUTRAL)
def test_what_a_passage_does_not_speak_of_is_neither(premise: str, hypothesis: str) -> None:
    found = judged(premise, hypothesis)
    assert max(found.entailment, found.contradiction) < THRESHOLD


@pytest.mark.parametrize(
    ("premise", "hypothesis"),
    [
        (
            "The recommended dose of metformin in adults is 500 mg.",
            "The recommended dose of melatonin in adults is 5 mg.",
        ),
        (
            "Dizziness, sleepiness and blurred vision were frequent.",
            "Lisinopril can cause sleepiness and blurred vision.",
        ),
    ],
)
def test_where_no_drug_is_in_question_a_claim_is_about_what_it_names(premise: str, hypothesis: str) -> None:
    """Its other words stand in many passages that speak of something else."""
    found = judged(premise, hypothesis, "")
    assert max(found.entailment, found.contradiction) < THRESHOLD
    assert judged(f"{premise} {hypothesis}", hypothesis.rstrip("."), "").entailment >= THRESHOLD


def test_a_claim_that_says_too_little_by_itself_is_held_by_nothing() -> None:
    premise = "Painful joints were treated in the first week."
    assert judged(premise, "They can be painful.", "").entailment < THRESHOLD
    assert judged(premise, "Painful joints were treated.", "").entailment >= THRESHOLD


def test_the_window_is_the_sentence_that_decides() -> None:
    found = judged(PASSAGE, "Rifampin lowers the AUC by 56 percent.")
    assert PASSAGE[found.start : found.end] == "Coadministration with rifampin decreased the AUC of quorvelin by 56%."


def test_two_sentences_may_hold_a_claim_together() -> None:
    premise = "Quorvelin was given to 120 women with asthma. Their bilirubin rose within 3 weeks. The trial was open."
    found = judged(premise, "Bilirubin rose within 3 weeks in 120 women with asthma.")
    assert found.entailment >= THRESHOLD
    assert premise[found.start : found.end].endswith("within 3 weeks.")
    assert found.start == 0


def test_more_of_a_claim_is_more_probable() -> None:
    premise = "Quorvelin may cause severe bronchospasm in patients with asthma after exercise."
    claims = ("asthma and hives of diabetic smokers", "asthma with bronchospasm in smokers", "bronchospasm with asthma")
    found = [judged(premise, claim).entailment for claim in claims]
    assert found == sorted(found)
    assert found[0] < THRESHOLD <= found[-1]


@given(LINES, TEXT, st.sampled_from(("", "Quorvelin", "(", "25 mg / 200 mg")))
def test_probabilities_sum_to_one_and_the_window_lies_in_the_premise(premise: str, claim: str, drug: str) -> None:
    found = judged(premise, claim, drug)
    shares = (found.entailment, found.neutral, found.contradiction)
    assert sum(shares) == pytest.approx(1)
    assert all(0 <= share <= 1 for share in shares)
    assert 0 <= found.start <= found.end <= len(premise)
    assert found.reason


@given(st.lists(TEXT.filter(str.strip), min_size=1, max_size=4), st.data())
def test_a_line_entails_itself(lines: list[str], data: st.DataObject) -> None:
    said = data.draw(st.sampled_from(lines))
    assert judged("\n".join(lines), said).entailment >= THRESHOLD


@given(SUBJECTS, UNITS, st.integers(2, 900), st.integers(2, 900), st.lists(TEXT, max_size=2))
def test_a_number_changed_in_a_copy_is_never_entailed(
    subjects: list[str], unit: str, number: int, other: int, around: list[str]
) -> None:
    template = f"In the study {' and '.join(subjects)} changed {{}} {unit} after treatment."
    premise = "\n".join((*around, template.format(number)))
    found = judged(premise, template.format(other if other != number else number + 901))
    assert str(other) in " ".join(around) or likeliest(found) != "entailment"


@given(st.lists(st.tuples(LINES, TEXT), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_a_pair_is_judged_alike_whatever_it_is_judged_with(texts: list[tuple[str, str]], rng: random.Random) -> None:
    pairs = [TextPair(premise, claim, DRUG) for premise, claim in texts]
    alone = {pair: ENGINE.judge([pair])[0] for pair in pairs}
    rng.shuffle(pairs)
    assert ENGINE.judge(pairs) == [alone[pair] for pair in pairs]


JUDGE = """
from fdarx_core.verify import TextPair, open_engine
from fdarx_core.baseline.sentences import split_sentences
from fdarx_core.labels import parse_document
from tests.conftest import EXAMPLES
_, passages = parse_document(sorted(EXAMPLES.glob("*.xml"))[0].read_bytes())
texts = [passage.text for passage in passages[:12]]
claims = [sentence for text in texts for sentence in split_sentences(text)]
print(open_engine("rules").judge([TextPair(premise, claim) for premise in texts for claim in claims]))
"""


def test_equal_under_any_hash_seed() -> None:
    told = {
        subprocess.run(
            [sys.executable, "-c", JUDGE],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1


LEAST_PRECISION, LEAST_RECALL = 0.75, 0.7


@pytest.fixture(scope="module")
def claims(real_labels: Path) -> list[tuple[TextPair, dict[str, str]]]:
    return marked_claims(real_labels)


def test_there_are_twenty_of_each_from_many_labels() -> None:
    rows = [json.loads(line) for line in MARKED.read_text(encoding="utf-8").splitlines()]
    assert Counter(row["mark"] for row in rows) == dict.fromkeys(CLASSES, 20)
    assert len({row["set_id"] for row in rows}) >= 40
    assert len({row["claim"] for row in rows}) == 60


def test_no_claim_is_copied_from_its_passage(claims: list[tuple[TextPair, dict[str, str]]]) -> None:
    assert not [pair.hypothesis for pair, _ in claims if pair.hypothesis.rstrip(".") in pair.premise]


def test_every_class_is_told_well_enough(claims: list[tuple[TextPair, dict[str, str]]]) -> None:
    judged = ENGINE.judge([pair for pair, _ in claims])
    counts = confusion([row["mark"] for _, row in claims], [verdict(one) for one in judged])
    found = {name: figures(counts, name) for name in CLASSES}
    assert all(precision >= LEAST_PRECISION and recall >= LEAST_RECALL for precision, recall, _ in found.values()), (
        found
    )
