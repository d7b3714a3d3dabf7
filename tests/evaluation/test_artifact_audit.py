"""The artifact audit: what it finds in builds that give something away, and nothing in a build that does not."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import MultinomialNB

from fdarx_core.evaluation import artifact_audit
from fdarx_core.evaluation.artifact_audit import (
    ArtifactAudit,
    AuditedLabel,
    AuditFigure,
    area_under_curve,
    audit_artifacts,
    audited_questions,
    cross_fitted_scores,
    drawn_questions,
    drug_halves,
    fails,
    ngrams,
)
from fdarx_core.labels.drugs import words_of
from fdarx_core.pipeline.build_results import audit_build
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
    assert value(audit, "refusal_auc", **keys) > 0.95
    assert figure(audit, "refusal_auc", **keys).failed
    assert any(
        message.startswith("AUC of telling refusals by") and "0.40 and 0.60" in message for message in audit.failed
    )


def test_equal_wordings_pass() -> None:
    audit = audit_artifacts(made_build(drugs=20, each=20), resamples=200)
    assert audit.failed == []
    for one in audit.figures:
        if one.metric == "refusal_auc":
            assert one.value == pytest.approx(0.5, abs=0.08), one
            assert one.low is not None and one.high is not None and one.low < 0.5 < one.high


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
    made = {"refusal" if one.is_refusal else "factual": one for one in audited_questions(rows, [names])}
    assert made["factual"].masked == words_of("does thedrug's maker thelabeler warn of gout on thedrug")
    assert made["factual"].without_entities == words_of("does thedrug's maker thelabeler warn of on thedrug")
    assert made["refusal"].masked == ("is", "thedrug", "given", "in", "gout")
    assert made["refusal"].without_entities == ("is", "thedrug", "given", "in")
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
    assert value(audit_artifacts(rows, resamples=50), "refusal_auc", **BY_WORDS) > 0.9
    assert value(audit_artifacts(rows, labels, resamples=50), "refusal_auc", **BY_WORDS) < 0.65


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_scores_equal_those_of_scikit_learn(kind: str) -> None:
    rows = audited_questions(made_build("", each=6), [])
    texts = [" ".join(one.masked) for one in rows]
    halves = drug_halves([one.drug for one in rows])
    classes = np.array([one.is_refusal for one in rows], np.bool_)
    made = ngrams([one.masked for one in rows], (1, 2)) if kind == "words" else ngrams(texts, (3, 4, 5))
    scores = cross_fitted_scores(made, halves, classes)
    options: dict[str, Any] = {"ngram_range": (1, 2), "tokenizer": str.split, "token_pattern": None}
    if kind == "characters":
        options = {"ngram_range": (3, 5), "analyzer": "char"}
    for half in (0, 1):
        train, test = ([text for text, of in zip(texts, halves, strict=True) if of == one] for one in (1 - half, half))
        counter = CountVectorizer(**options)
        model = MultinomialNB().fit(counter.fit_transform(train), classes[halves != half])
        theirs = model.predict_joint_log_proba(counter.transform(test))
        np.testing.assert_allclose(scores[halves == half], theirs[:, 1] - theirs[:, 0], rtol=1e-9, atol=1e-12)


def test_the_area_equals_that_of_scikit_learn() -> None:
    random = np.random.default_rng(0)
    classes = random.integers(0, 2, 300).astype(np.bool_)
    scores = np.round(classes + random.normal(size=300), 1)  # with ties
    one_half = np.zeros(300, np.int64)
    weights = random.integers(0, 3, (4, 300)).astype(np.float64)
    areas = area_under_curve(scores, classes, one_half, weights)
    theirs = [roc_auc_score(classes, scores, sample_weight=sample) for sample in weights]
    np.testing.assert_allclose(areas, theirs)


def test_no_drug_is_in_both_halves_and_classes_are_balanced() -> None:
    rows = audited_questions(made_build(drugs=7), [])
    halves = drug_halves([one.drug for one in rows])
    assert all(len({int(half) for one, half in zip(rows, halves, strict=True) if one.drug == drug}) == 1
               for drug in {one.drug for one in rows})  # fmt: skip
    refusals = np.array([one.is_refusal for one in rows], np.bool_)
    drawn, reason = drawn_questions([one.id for one in rows], halves, refusals)
    assert not reason
    for half in (0, 1):
        here = refusals[drawn][halves[drawn] == half]
        assert 2 * here.sum() == len(here)


def test_questions_are_drawn_of_all_labels_and_not_of_the_first() -> None:
    ids, halves = [f"q{at}" for at in range(400)], np.zeros(400, np.int64)
    refusals = np.array([at % 20 == 0 for at in range(400)], np.bool_)
    drawn, _ = drawn_questions(ids, np.concatenate([halves[:200], halves[200:] + 1]), refusals)
    factual = [at for at in drawn if not refusals[at]]
    assert len(factual) == 20 and max(factual) > 300 and len([at for at in factual if at < 200]) == 10
    assert max(at for at in factual if at < 200) > 100


@pytest.mark.parametrize(
    ("drugs", "each", "why"), [(3, 60, "3 drugs, and 4 are needed"), (4, 5, "10 questions of a class, and 20")]
)
def test_too_little_is_not_measured_and_does_not_fail(drugs: int, each: int, why: str) -> None:
    audit = audit_artifacts(made_build("reportedly", drugs, each), resamples=50)
    one = figure(audit, "refusal_auc", **BY_WORDS)
    assert one.value is None and why in one.reason
    assert audit.failed == []


def test_a_build_without_questions_has_no_figures() -> None:
    assert audit_artifacts([]) == ArtifactAudit()


@pytest.mark.parametrize(
    ("value", "low", "high", "failed"),
    [(0.55, 0.52, 0.58, False), (0.66, 0.61, 0.71, True), (0.34, 0.29, 0.39, True), (0.66, 0.44, 0.88, False)],
    ids=["within", "above", "below", "of few drugs"],
)
def test_an_auc_fails_on_either_side_of_a_guess(value: float, low: float, high: float, failed: bool) -> None:
    auc = AuditFigure(value, low, high, metric="refusal_auc", bound=0.6, low_bound=0.4)
    assert fails(auc) is failed


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
    assert len(stored) == len(audit["figures"])
    assert next(row for row in stored if row.metric == "recurring_other_gold").value == one["value"]

    assert done.stdout.lstrip().startswith("THE ARTIFACT AUDIT FAILED")
    assert all(message in done.stdout for message in audit["failed"]) and one["name"] in done.stdout
    card = (tmp_path / "run" / "benchmark" / "README.md").read_text()
    assert card.index("audit of this build failed") < card.index("This dataset contains")
    assert f"| {one['name']} | {shown} |" in card
    page = (tmp_path / "run" / "report.html").read_text()
    assert page.index("The artifact audit failed") < page.index('class="tiles"') < page.index('<section id="audit"')
    assert all(message in page for message in audit["failed"])
    assert f'✗ {one["name"]}</b></td><td class="n">{shown}</td>' in page


def test_a_large_build_is_audited_by_some_drugs(
    example_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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

    monkeypatch.setattr("fdarx_core.pipeline.build_results.MOST_AUDITED", asked_of.total() * 3 // 4)
    some = audit_build(run, Splits())
    [audited] = {one["rows"] for one in some["figures"] if one["metric"] == "recurring"}
    first = sorted(asked_of, key=lambda drug: content_id("audit", drug))
    sums = [sum(asked_of[drug] for drug in first[: at + 1]) for at in range(len(first))]
    assert audited == next(total for total in sums if total >= asked_of.total() * 3 // 4) < asked_of.total()
    assert f"the audit reads {audited:,} of {asked_of.total():,} questions" in some["note"]
    assert f"on {sums.index(audited) + 1} of {len(asked_of)} drugs" in some["note"]
    assert some["note"] in dataset_card(BenchmarkCounts(), [], {"audit": some})
