"""The artifact audit: what it finds in builds that give something away, and nothing in a build that does not."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.naive_bayes import MultinomialNB

from fdarx_core.evaluation import artifact_audit
from fdarx_core.evaluation.artifact_audit import audit_artifacts, fails
from fdarx_core.evaluation.artifact_classifiers import area_under_curve, drawn_questions, drug_halves, refusal_f1
from fdarx_core.evaluation.artifact_reading import ReadingScores, reading_scores
from fdarx_core.evaluation.audit_figures import ArtifactAudit, AuditFigure
from fdarx_core.evaluation.audit_questions import AuditedLabel, audited_questions
from fdarx_core.evaluation.naive_bayes import character_features, cross_fitted_scores, word_features
from fdarx_core.labels.drugs import words_of
from fdarx_core.pipeline.build_audit import audit_build
from fdarx_core.records import NO_ANSWER, Figure, Label, QuestionAnswer, content_id
from fdarx_core.storage import Location, RunDirectory, read_records
from fdarx_core.storage.dataset_card import BenchmarkCounts, dataset_card
from fdarx_core.storage.splits import Splits
from tests.conftest import EXAMPLES
from tests.jobs.in_process import run_job

SUBJECTS = "dose food kidney liver storage fever rash sleep pain age weight driving surgery blood urine heart".split()  # noqa: SIM905
FRAMES = (
    "What does the label of {drug} say on {subject}?",
    "How does {subject} bear on {drug}?",
    "Is {drug} affected by {subject}?",
    "Which {subject} advice comes with {drug}?",
)


def asked(kind: str, drug: str, question: str, answer: str = "", label: str = "") -> QuestionAnswer:
    """A question on the label of a drug; its answer, unless given, is in no other question."""
    set_id = label or f"label of {drug}"
    name = content_id(kind, set_id, question)
    answer = NO_ANSWER if kind == "refusal" else answer or f"{name} is stated."
    return QuestionAnswer(name, kind, kind, "", "", set_id, drug, question, answer)


def made_build(telltale: str = "", drugs: int = 12, each: int = 10, seed: int = 0) -> list[QuestionAnswer]:
    """A build whose questions of all types have the same wordings, but for a word that refusals alone may have."""
    random = Random(seed)
    rows = []
    for number in range(drugs):
        drug = f"Drug{number:02d}ol"
        for kind in ("factual", "multihop", "refusal"):
            for _ in range(each):
                question = random.choice(FRAMES).format(drug=drug, subject=" ".join(random.sample(SUBJECTS, 2)))
                told = question.replace("?", f" {telltale}?") if telltale and kind == "refusal" else question
                rows.append(asked(kind, drug, told))
    return rows


def figure(audit: ArtifactAudit, metric: str, **keys: str) -> AuditFigure:
    [found] = [one for one in audit.figures if one.metric == metric and keys.items() <= one.keys.items()]
    return found


def value(audit: ArtifactAudit, metric: str, **keys: str) -> float:
    found = figure(audit, metric, **keys).value
    assert found is not None
    return found


BY_WORDS = {"masked": "drug", "features": "words"}


@pytest.mark.parametrize("features", ["words", "characters"])
@pytest.mark.parametrize("masked", ["drug", "drug_entity"])
def test_a_word_that_only_refusals_have_is_found(features: str, masked: str) -> None:
    audit = audit_artifacts(made_build("reportedly", drugs=20, each=20), resamples=200)
    keys = {"features": features, "masked": masked}
    assert value(audit, "refusal_f1", **keys) > 0.9
    assert value(audit, "refusal_auc", **keys) > 0.95
    assert figure(audit, "refusal_auc", **keys).failed
    assert any(
        message.startswith("AUC of telling refusals by") and "0.40 and 0.60" in message for message in audit.failed
    )


def test_equal_wordings_pass() -> None:
    audit = audit_artifacts(made_build(drugs=20, each=20), resamples=200)
    assert audit.failed == []
    for one in audit.figures:
        if one.metric in ("refusal_f1", "refusal_auc", "refusal_accuracy"):
            assert one.value == pytest.approx(0.5, abs=0.08), one
            assert one.low is not None and one.high is not None and one.low < 0.5 < one.high
        if one.metric == "type_macro_f1":
            assert one.value == pytest.approx(1 / 3, abs=0.06), one


def test_the_order_of_the_rows_changes_nothing() -> None:
    rows = made_build("reportedly")
    labels = [AuditedLabel(one.set_id, f"moiety of {one.drug_name}", [one.drug_name], "Acme") for one in rows[::30]]
    first = audit_artifacts(rows, labels, resamples=100)
    Random(1).shuffle(rows)
    assert audit_artifacts(rows, labels[::-1], resamples=100) == first


def test_names_and_entities_are_masked() -> None:
    rows = [
        asked("factual", "Abacor", "Does ABACOR sodium's maker Acme, Inc. warn of gout on Abacor (abacor sodium)?"),
        replace(asked("refusal", "Abacor", "Is Abacor XR given in gout?"), entity="gout"),
    ]
    names = AuditedLabel(rows[0].set_id, "A1", ["Abacor", "Abacor sodium", "Abacor XR"], "Acme, Inc.")
    made = {one.type: one for one in audited_questions(rows, [names])}
    assert made["factual"].masked == words_of("does thedrug's maker thelabeler warn of gout on thedrug")
    assert made["factual"].bare == words_of("does thedrug's maker thelabeler warn of on thedrug")
    assert made["refusal"].masked == ("is", "thedrug", "given", "in", "gout")
    assert made["refusal"].bare == ("is", "thedrug", "given", "in")
    assert {one.drug for one in made.values()} == {"A1"}


def test_the_name_of_a_drug_tells_nothing() -> None:
    """Refusals are asked of one name of the drug, other questions of another."""
    rows = []
    for one in made_build():
        name = f"{one.drug_name} forte" if one.type == "refusal" else one.drug_name
        rows.append(replace(one, question=one.question.replace(one.drug_name, name)))
    labels = [
        AuditedLabel(one.set_id, one.drug_name, [one.drug_name, f"{one.drug_name} forte"])
        for one in {one.set_id: one for one in rows}.values()
    ]
    assert value(audit_artifacts(rows, resamples=50), "refusal_f1", **BY_WORDS) > 0.9
    assert value(audit_artifacts(rows, labels, resamples=50), "refusal_f1", **BY_WORDS) < 0.65


@pytest.mark.parametrize("kind", ["words", "characters"])
@pytest.mark.parametrize("types", [("factual", "refusal"), ("factual", "multihop", "refusal")])
def test_scores_equal_those_of_scikit_learn(kind: str, types: Sequence[str]) -> None:
    rows = [one for one in audited_questions(made_build("", each=6), []) if one.type in types]
    texts = [" ".join(one.masked) for one in rows]
    halves = drug_halves([one.drug for one in rows])
    classes = np.array([types.index(one.type) for one in rows], np.int64)
    made = word_features([one.masked for one in rows]) if kind == "words" else character_features(texts)
    scores = cross_fitted_scores(made, halves, classes, len(types))
    options: dict[str, Any] = {"ngram_range": (1, 2), "tokenizer": str.split, "token_pattern": None}
    if kind == "characters":
        options = {"ngram_range": (3, 5), "analyzer": "char"}
    for half in (0, 1):
        train, test = ([text for text, of in zip(texts, halves, strict=True) if of == one] for one in (1 - half, half))
        counter = CountVectorizer(**options)
        model = MultinomialNB().fit(counter.fit_transform(train), classes[halves != half])
        theirs = model.predict_joint_log_proba(counter.transform(test))
        np.testing.assert_allclose(scores[halves == half], theirs, rtol=1e-9)


def test_f1_and_area_equal_those_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    classes = random.integers(0, 2, 300)
    scores = np.round(classes + random.normal(size=300), 1)  # with ties
    one_half = np.zeros(300, np.int64)
    weights = random.integers(0, 3, (4, 300)).astype(np.float64)
    areas = area_under_curve(scores, classes, one_half, weights)
    theirs = [roc_auc_score(classes, scores, sample_weight=sample) for sample in weights]
    np.testing.assert_allclose(areas, theirs)
    predicted = (scores > 0.5).astype(np.int64)
    confusions = np.bincount(classes * 2 + predicted, minlength=4).astype(np.float64)
    assert refusal_f1(confusions) == pytest.approx(f1_score(classes, predicted))


def test_no_drug_is_in_both_halves_and_classes_are_balanced() -> None:
    rows = audited_questions(made_build(drugs=7), [])
    halves = drug_halves([one.drug for one in rows])
    assert all(len({int(half) for one, half in zip(rows, halves, strict=True) if one.drug == drug}) == 1
               for drug in {one.drug for one in rows})  # fmt: skip
    refusals = np.array([one.is_refusal for one in rows], np.int64)
    drawn, reason = drawn_questions(halves, refusals, 2)
    assert not reason
    for half in (0, 1):
        here = refusals[drawn][halves[drawn] == half]
        assert 2 * here.sum() == len(here)


@pytest.mark.parametrize(
    ("drugs", "each", "why"), [(3, 60, "3 drugs, and 4 are needed"), (4, 5, "10 questions of a class, and 20")]
)
def test_too_little_is_not_measured_and_does_not_fail(drugs: int, each: int, why: str) -> None:
    audit = audit_artifacts(made_build("reportedly", drugs, each), resamples=50)
    one = figure(audit, "refusal_f1", **BY_WORDS)
    assert one.value is None and why in one.reason
    assert audit.failed == []


def test_a_build_without_questions_has_no_figures() -> None:
    assert audit_artifacts([]) == ArtifactAudit()


@pytest.mark.parametrize(
    ("value", "low", "high", "failed"),
    [
        (0.55, 0.52, 0.58, False),
        (0.66, 0.61, 0.71, True),
        (0.34, 0.29, 0.39, True),
        (0.66, 0.44, 0.88, False),
    ],
    ids=["within", "above", "below", "of few drugs"],
)
def test_an_auc_fails_on_either_side_of_a_guess(value: float, low: float, high: float, failed: bool) -> None:
    auc = AuditFigure(value, low, high, metric="refusal_auc", bound=0.6, low_bound=0.4)
    assert fails(auc) is failed


FILLER = [f"Statement {word} on something else." for word in ("one", "two", "three", "four", "five", "six")]


def reading_aucs(label_says: str) -> dict[str, float | None]:
    """The AUCs of the readers of words, of questions on 12 drugs about a thing that each label has or lacks."""
    questions: list[QuestionAnswer] = []
    scores: dict[str, ReadingScores] = {}
    for at in range(12):
        of_label = [
            asked(kind, f"Drug{at}", f"What does the label of Drug{at} say on {subject}?", f"Yes {at}.", f"label-{at}")
            for number, subject in enumerate(SUBJECTS[:10])
            for kind in [("factual", "refusal")[(number + at) % 2]]
        ]
        known = " ".join(word for one in of_label if one.type == "factual" for word in one.question.split())
        scores |= reading_scores(of_label, [f"The label of a drug. {known}", label_says.format(at=at), *FILLER])
        questions += of_label
    figures = audit_artifacts(questions, scores=scores).figures
    return {one.keys["reader"]: one.value for one in figures if one.metric == "reading_auc"}


def test_refusals_whose_words_the_label_lacks_are_told_by_words() -> None:
    told = reading_aucs("Nothing else stands here.")
    assert told["coverage"] is not None and told["coverage"] > 0.9
    assert told["bm25"] is not None and told["bm25"] > 0.9
    alike = reading_aucs(f"What does the label of Drug{{at}} say on {' '.join(SUBJECTS)}")
    assert alike["coverage"] is not None and alike["coverage"] < 0.8


def test_without_labels_the_readers_of_words_are_not_measured() -> None:
    assert reading_scores([], ["text"]) == {}
    [one] = reading_scores([asked("factual", "Velorin", "What is Velorin for?")], ["Velorin is for gout."]).values()
    assert one.coverage == 1.0


def test_questions_that_recur_with_another_answer_fail() -> None:
    rows = made_build()
    again = [
        replace(one, id=f"{one.id}-2", set_id=f"{one.set_id}-2", answer=one.answer if at % 2 else f"{one.answer} No.")
        for at, one in enumerate(rows)
        if one.type == "factual"
    ]
    audit = audit_artifacts([*rows, *again], resamples=50)
    number, total = len(again), len(rows) + len(again)
    assert value(audit, "recurring") >= 2 * number / total
    assert value(audit, "recurring_other_gold") >= number / total
    assert any("recur on another label with another gold answer" in message for message in audit.failed)
    alone = audit_artifacts(rows, resamples=50)
    assert value(alone, "recurring") == value(alone, "recurring_other_gold") == 0


def test_wordings_of_one_side_fail() -> None:
    rows = [
        asked(kind, f"Drug{number:02d}ol", f"{'Must' if kind == 'refusal' else 'May'} Drug{number:02d}ol be {verb}?")
        for number in range(10)
        for verb in ("chewed", "crushed", "frozen", "split", "diluted")
        for kind in ("factual", "refusal")
    ]
    audit = audit_artifacts(rows, resamples=50)
    assert value(audit, "one_sided_wording", masked="drug") == 1
    assert any(message.startswith("Questions with a wording that only") for message in audit.failed)
    mixed = [replace(one, question=one.question.replace("Must", "May")) for one in rows]
    assert value(audit_artifacts(mixed, resamples=50), "one_sided_wording", masked="drug") == 0


def test_answers_that_need_no_label() -> None:
    """Of four questions on each drug, one is guessable, one has its answer in it, and two need the label."""
    rows = []
    for number in range(20):
        drug = f"Drug{number:02d}ol"
        rows += [
            asked("factual", drug, f"Is {drug} for people?", f"Yes, {drug} is."),
            asked("factual", drug, f"Is {drug} a strong tablet?", f"{drug} is a tablet."),
            asked("factual", drug, f"What is {drug} made of?", f"Substance{number}."),
            asked("factual", drug, f"Which is the color of {drug}?", "Red." if number < 2 else f"Shade{number}."),
        ]
    audit = audit_artifacts(rows, resamples=50)
    assert value(audit, "answer_in_question", group="factual") == pytest.approx(1 / 4)
    assert value(audit, "answer_from_wording", group="factual") == pytest.approx(2 / 4)
    assert value(audit, "answerable_without_label", group="factual") == pytest.approx(2 / 4)


def test_answers_on_the_same_drug_do_not_make_an_answer_guessable() -> None:
    rows = [
        asked("factual", drug, f"What is {drug} made of?", f"Substance of {drug}", label=f"{drug} {label}")
        for drug in ("Abacor", "Benzol", "Cardiv", "Dolomer")
        for label in range(15)
    ]
    audit = audit_artifacts(rows, resamples=50)
    assert value(audit, "answer_from_wording", group="factual") == 1, "the drug's name is masked in answers"
    own = [replace(one, answer=content_id(one.drug_name)) for one in rows]
    assert value(audit_artifacts(own, resamples=50), "answer_from_wording", group="factual") == 0


def test_lengths_and_first_words() -> None:
    rows = [
        asked("factual", f"Drug{at % 5}ol", f"What is Drug{at % 5}ol, part {at}?", "w " * at) for at in range(1, 101)
    ]
    audit = audit_artifacts(rows, resamples=50)
    found = [value(audit, f"answer_words_{part}", group="factual") for part in ("p10", "median", "p90")]
    assert found == [10, 50, 90]
    assert [(one.name, one.value) for one in audit.openings] == [("what is [drug]", 1.0)]


def test_a_build_shows_its_audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The questions of the built-in rules pass; a build that fails is shown as such."""
    monkeypatch.setattr(artifact_audit, "fails", lambda one: one.metric == "recurring_other_gold")
    done = run_job("build", "--labels", EXAMPLES, "--out", tmp_path / "run", "--cpus", 2)
    assert done.returncode == 0, done.stderr
    audit = json.loads((tmp_path / "run" / "run.json").read_text())["audit"]
    one = next(row for row in audit["figures"] if row["metric"] == "recurring_other_gold")
    shown = f"{one['value']:.3f}"
    assert one["failed"] and audit["failed"]
    stored = list(read_records(Location(tmp_path / "run") / "metrics.parquet", Figure))
    assert len(stored) == len(audit["figures"]) + len(audit["openings"])
    assert next(row for row in stored if row.metric == "recurring_other_gold").value == one["value"]

    assert done.stdout.lstrip().startswith("THE ARTIFACT AUDIT FAILED")
    assert f"{shown}  {one['low']:.3f} to {one['high']:.3f}  {one['name']}; the bound is 0.050" in done.stdout
    card = (tmp_path / "run" / "benchmark" / "README.md").read_text()
    assert card.index("audit of this build failed") < card.index("This dataset contains")
    assert f"| {one['name']} | {shown} |" in card
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.index("The artifact audit failed") < page.index('class="tiles"') < page.index('<section id="audit"')
    assert all(message in page for message in audit["failed"])
    assert f'✗ {one["name"]}</b></td><td class="n">{shown}</td>' in page


def test_a_large_build_is_audited_by_some_drugs(example_build: Path, tmp_path: Path) -> None:
    """Drugs are audited with all their questions until there are enough, and the audit says how many they are."""
    copytree(example_build, tmp_path / "run")
    run = RunDirectory.open(str(tmp_path / "run"))
    drug_of = {one.set_id: one.drug for part in run.parts("labels") for one in read_records(part, Label)}
    asked_of = Counter(
        drug_of[one.set_id] for part in run.parts("questions") for one in read_records(part, QuestionAnswer)
    )
    whole = audit_build(run, Splits())
    assert {one["rows"] for one in whole["figures"] if one["metric"] == "recurring"} == {asked_of.total()}
    assert whole["note"] == ""

    some = audit_build(run, Splits(), most=asked_of.total() * 3 // 4)
    [audited] = {one["rows"] for one in some["figures"] if one["metric"] == "recurring"}
    first = sorted(asked_of, key=lambda drug: content_id("audit", drug))
    sums = [sum(asked_of[drug] for drug in first[: at + 1]) for at in range(len(first))]
    assert audited == next(total for total in sums if total >= asked_of.total() * 3 // 4) < asked_of.total()
    assert f"the audit reads {audited:,} of {asked_of.total():,} questions" in some["note"]
    assert f"on {sums.index(audited) + 1} of {len(asked_of)} drugs" in some["note"]
    assert some["note"] in dataset_card(BenchmarkCounts(), [], {"audit": some})
