"""The figures of an evaluation on real labels, each computed once more by other means from the run's raw rows."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from math import log2
from pathlib import Path
from statistics import fmean
from typing import Any

import nltk
import numpy as np
import pyarrow.parquet as pq
import pytest
import sacrebleu
from nltk.corpus import wordnet
from nltk.stem.porter import PorterStemmer
from nltk.translate.meteor_score import single_meteor_score
from rank_bm25 import BM25Okapi
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics.bleu import BLEU
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from fdarx_core.records import Figure
from tests.jobs.evaluating import by_type, evaluate
from tests.jobs.in_process import run_job

pytestmark = pytest.mark.slow

Rows = list[dict[str, Any]]
EXACT = 1e-9
SETTINGS = ("closed_book", "oracle", "full_label", "retrieved")
CITING = ("full_label", "retrieved")
TYPES = {"factual": ("factual",), "answerable": ("factual", "multihop")}


@pytest.fixture(scope="module")
def run(real_labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("real")
    varied = ("--sample", 45, "--per-drug", 1, "--cpus", 2)
    built = run_job("build", "--labels", real_labels, "--out", folder / "build", *varied)
    assert built.returncode == 0, built.stderr
    done = evaluate(folder / "build", folder / "run", "--resamples", 2000)
    assert done.returncode == 0, done.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def figures(run: Path) -> dict[tuple[str, str, str, str, str], Figure]:
    return by_type(run)


def read(run: Path, kind: str) -> Rows:
    return [row for part in sorted((run / kind).glob("*.parquet")) for row in pq.read_table(part).to_pylist()]


@pytest.fixture(scope="module")
def questions(run: Path) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in read(run, "questions")}


@pytest.fixture(scope="module")
def answers(run: Path, questions: dict[str, dict[str, Any]]) -> Rows:
    """Each prediction with its question's type, gold answer and gold passages, and its grade."""
    grades = {row["prediction_id"]: row["outcome"] for row in read(run, "grades/baseline")}
    made = []
    for row in read(run, "predictions/baseline"):
        question = questions[row["question_id"]]
        marked = zip(question["gold_passages"], question["gold_has_answer"], strict=True)
        gold = {passage for passage, has_answer in marked if has_answer} or set(question["gold_passages"])
        about = {"type": question["type"], "reference": question["answer"], "gold": gold}
        made.append({**row, **about, "grade": grades[row["id"]]})
    return made


class Table:
    """The figures of one cell of the baseline."""

    def __init__(self, figures: dict[tuple[str, str, str, str, str], Figure], setting: str) -> None:
        self._figures, self._key = figures, ("baseline", setting, "bm25" if setting == "retrieved" else "")

    def __call__(self, metric: str, group: str) -> float:
        key = (*self._key, metric, group)
        value = self._figures[key].value
        assert value is not None
        return value


def of(answers: Rows, setting: str, group: str = "") -> Rows:
    return [row for row in answers if row["setting"] == setting and (not group or row["type"] in TYPES[group])]


def graded(rows: Rows) -> Rows:
    """The rows whose grade the baseline could decide."""
    return [row for row in rows if row["grade"] != "unscored"]


def share(rows: Rows, key: str, value: str) -> float:
    return sum(bool(row[key] == value) for row in rows) / len(rows)


def test_there_are_enough_rows(answers: Rows, run: Path) -> None:
    scores = read(run, "scores/baseline")
    assert len(scores) == len(answers) > 400
    assert all(len(of(answers, setting)) >= 80 for setting in SETTINGS)
    for setting in ("oracle", "retrieved"):
        assert {row["grade"] for row in of(answers, setting, "answerable")} >= {"correct", "unscored"}
    assert {row["outcome"] for row in answers} == {"answered", "refused"}  # so every answer is graded or undecided


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("group", TYPES)
def test_answers(setting: str, group: str, answers: Rows, figures: Any) -> None:
    told, rows = Table(figures, setting), of(answers, setting, group)
    if not graded(rows):
        assert figures["baseline", setting, "", "accuracy", group].value is None
        return
    assert told("accuracy", group) == pytest.approx(share(graded(rows), "grade", "correct"), abs=EXACT)
    assert told("not_attempted_rate", group) == pytest.approx(share(graded(rows), "grade", "not_attempted"), abs=EXACT)
    assert told("false_refusal_rate", group) == pytest.approx(share(rows, "outcome", "refused"), abs=EXACT)
    if attempted := [row for row in graded(rows) if row["grade"] != "not_attempted"]:
        expected = share(attempted, "grade", "correct")
        assert told("accuracy_given_attempted", group) == pytest.approx(expected, abs=EXACT)


@pytest.mark.parametrize("setting", CITING)
def test_refusals(setting: str, answers: Rows, figures: Any) -> None:
    told, rows = Table(figures, setting), of(answers, setting)
    truth, called = [row["type"] == "refusal" for row in rows], [row["outcome"] == "refused" for row in rows]
    assert told("refusal_precision", "all") == pytest.approx(precision_score(truth, called), abs=EXACT)
    assert told("refusal_recall", "all") == pytest.approx(recall_score(truth, called), abs=EXACT)
    assert told("refusal_f1", "all") == pytest.approx(f1_score(truth, called), abs=EXACT)
    assert told("refusal_accuracy", "all") == pytest.approx(accuracy_score(truth, called), abs=EXACT)
    absent = [row for row in rows if row["type"] == "refusal"]
    assert told("hallucination_rate", "refusal") == pytest.approx(1 - share(absent, "outcome", "refused"), abs=EXACT)


@pytest.mark.parametrize("setting", CITING)
@pytest.mark.parametrize("group", TYPES)
def test_citations(setting: str, group: str, answers: Rows, figures: Any) -> None:
    told, each, pooled = Table(figures, setting), [], np.zeros(3)
    for row in of(answers, setting, group):
        cited = set() if row["outcome"] == "refused" else set(row["cited"])
        named = len(cited) + (row["cited_unknown"] if row["outcome"] != "refused" else 0)
        hits = len(cited & row["gold"])
        precision, recall = (hits / named if named else 0.0), hits / len(row["gold"])
        each.append((precision, recall, 2 * precision * recall / (precision + recall) if hits else 0.0))
        pooled += (hits, named, len(row["gold"]))
    macro = np.mean(each, axis=0)
    micro = (pooled[0] / pooled[1], pooled[0] / pooled[2], 2 * pooled[0] / (pooled[1] + pooled[2]))
    for name, one, all_together in zip(("precision", "recall", "f1"), macro, micro, strict=True):
        assert told(f"citation_{name}", group) == pytest.approx(one, abs=EXACT)
        assert told(f"citation_{name}_micro", group) == pytest.approx(all_together, abs=EXACT)
    assert 0.2 < macro[2] < 0.95


class NoWords:
    """A WordNet without an entry, where none is installed."""

    def synsets(self, word: str) -> Sequence[Any]:
        return ()


@pytest.mark.parametrize("setting", SETTINGS)
def test_overlaps(setting: str, answers: Rows, figures: Any) -> None:
    told, rows = Table(figures, setting), of(answers, setting, "answerable")
    split, rouge, stemmer = BLEU().tokenizer, RougeScorer(["rougeL"], use_stemmer=True), PorterStemmer()
    try:
        lexicon: Any = nltk.data.find("corpora/wordnet") and wordnet
    except LookupError:
        lexicon = NoWords()
    found = defaultdict(list)
    for row in rows:
        answer, reference = row["answer"], row["reference"]
        words = [split(text.rstrip()).split() for text in (reference, answer)]
        found["bleu"].append(min(1.0, sacrebleu.sentence_bleu(answer, [reference]).score / 100))
        found["meteor"].append(single_meteor_score(*words, stemmer=stemmer, wordnet=lexicon))
        found["rouge_l"].append(rouge.score(reference, answer)["rougeL"].fmeasure)
    for metric, values in found.items():
        assert told(metric, "answerable") == pytest.approx(fmean(values), abs=EXACT)


def test_retrieval(run: Path, questions: dict[str, dict[str, Any]], answers: Rows, figures: Any) -> None:
    words = re.compile(r"[a-z0-9]+")
    engines, gold = {}, {row["question_id"]: row["gold"] for row in answers}
    for set_id in {row["set_id"] for row in questions.values()}:
        label = [row for row in read(run, "passages") if row["set_id"] == set_id]
        texts = [f"{row['section_path']}\n{row['text']}".lower() for row in label]
        engines[set_id] = BM25Okapi([words.findall(text) for text in texts]), [row["doc_chunk_index"] for row in label]
    found: dict[str, dict[str, list[float]]] = {group: defaultdict(list) for group in TYPES}
    rankings = {row["question_id"]: row["ranked"] for row in read(run, "rankings/bm25")}
    assert rankings.keys() == questions.keys()
    for question in questions.values():
        engine, indices = engines[question["set_id"]]
        scores = engine.get_scores(words.findall(question["question"].lower()))
        ranked = [indices[place] for place in np.argsort(-scores, kind="stable")]
        assert rankings[question["id"]][:10] == ranked[:10]
        for group, types in TYPES.items():
            if question["type"] in types:
                for metric, value in qualities(ranked, gold[question["id"]]).items():
                    found[group][metric].append(value)
    for group, metrics in found.items():
        for metric, values in metrics.items():
            assert figures["", "", "bm25", metric, group].value == pytest.approx(fmean(values), abs=EXACT)


def qualities(ranked: list[int], gold: set[int]) -> dict[str, float]:
    """By the definitions; MRR looks at the ten (or as many as are gold) that a ranking keeps."""
    right = [passage in gold for passage in ranked]
    kept = right[: max(10, len(gold))]
    gains = [1 / log2(place + 2) for place in range(10)]
    at_gold = sum(right[: len(gold)]) / len(gold)
    return {
        **{f"recall_{k}": sum(right[:k]) / len(gold) for k in (1, 5, 10)},
        "recall_gold": at_gold,
        "f1_gold": at_gold,
        "mrr": 1 / (kept.index(True) + 1) if True in kept else 0.0,
        "ndcg_10": sum(gain for gain, hit in zip(gains, right, strict=False) if hit) / sum(gains[: len(gold)]),
    }


def drug(label: dict[str, Any]) -> frozenset[str]:
    return frozenset(unii for product in label["products"] for unii in product["moiety_uniis"])


@pytest.mark.parametrize(("setting", "metric"), [("retrieved", "accuracy"), ("full_label", "citation_recall")])
def test_intervals_are_those_of_a_plain_loop_over_drugs(
    setting: str, metric: str, answers: Rows, figures: Any, run: Path
) -> None:
    drug_of = {row["set_id"]: drug(row) for row in read(run.parent / "build", "labels")}
    rows = of(answers, setting, "answerable")
    verdicts = {id(row) for row in graded(rows)}

    def value(row: dict[str, Any], undecided: float) -> float:
        """What a row counts; one without a verdict counts as wrong for the lower bound and as right for the upper."""
        if metric == "accuracy":
            return float(row["grade"] == "correct") if id(row) in verdicts else undecided
        cited = set() if row["outcome"] == "refused" else set(row["cited"])
        return len(cited & row["gold"]) / len(row["gold"])

    def means(undecided: float, chosen: list[dict[str, Any]]) -> tuple[list[list[float]], list[float]]:
        by_drug = defaultdict(list)
        for row in chosen:
            by_drug[drug_of[row["set_id"]]].append(value(row, undecided))
        drugs, dice = list(by_drug.values()), random.Random(11)
        drawn = [fmean(one for values in dice.choices(drugs, k=len(drugs)) for one in values) for _ in range(2000)]
        return drugs, sorted(drawn)

    drugs, decided = means(0.0, [row for row in rows if metric != "accuracy" or id(row) in verdicts])
    low, high = (means(undecided, rows)[1] for undecided in (0.0, 1.0))
    bounds = (min(decided[50], low[50]), max(decided[1949], high[1949]))
    figure = figures["baseline", setting, "bm25" if setting == "retrieved" else "", metric, "answerable"]
    assert figure.clusters == len(drugs) and figure.value == pytest.approx(
        fmean(one for values in drugs for one in values), abs=EXACT
    )
    width = bounds[1] - bounds[0]
    assert width > 0.05
    assert (figure.low, figure.high) == pytest.approx(bounds, abs=0.1 * width)
