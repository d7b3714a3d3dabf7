"""The build over all real labels: size, balance, accounts, and provenance that is true for every question."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.conftest import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@pytest.fixture(scope="module", params=[70, pytest.param(700, marks=pytest.mark.nightly)])
def labels(request: pytest.FixtureRequest) -> int:
    """The number of labels that are drawn."""
    return int(request.param)


@pytest.fixture(scope="module")
def run(labels: int, real_labels: Path, other_labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("real") / "run"
    line = [sys.executable, "-m", "jobs.build_benchmark", "--labels", str(real_labels), str(other_labels)]
    done = subprocess.run(
        [*line, "--sample", str(labels), "--out", str(out)], cwd=REPOSITORY, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return out


def rows(run: Path, kind: str) -> Iterator[dict[str, object]]:
    for part in sorted((run / kind).glob("*.parquet")):
        yield from pq.read_table(part).to_pylist()


def test_there_are_many_questions_of_every_type(labels: int, run: Path) -> None:
    kinds = json.loads((run / "run.json").read_text())["questions"]
    total = sum(kinds.values())
    assert total >= 1.8 * labels  # with few drugs, few topics are plausible where they are not answered
    assert 0.08 * total <= kinds["refusal"] <= 0.45 * total and not kinds["multihop"], kinds
    assert lines(run, "qa") == total
    built = sum(1 for _ in rows(run, "labels"))
    assert 0.99 * labels <= built <= labels
    assert lines(run, "labels") == built


def lines(run: Path, name: str) -> int:
    """The rows of both splits; a build of few drugs has no dev split."""
    return sum(
        sum(1 for _ in file.open())
        for file in (run / "benchmark" / f"{name}.jsonl", run / "benchmark" / f"{name}_dev.jsonl")
        if file.exists()
    )


def test_every_label_left_out_is_a_reject_with_its_reason(labels: int, run: Path) -> None:
    reasons = Counter(reject["reason"] for reject in rows(run, "rejects") if reject["stage"] == "select")
    assert reasons == {"document_type": 66, "route": 46, "not_sampled": 777 - labels}


def test_a_twin_is_answerable_and_the_term_of_others_than_near_misses_is_nowhere_in_the_label(run: Path) -> None:
    texts: dict[str, list[str]] = {}
    for passage in rows(run, "passages"):
        texts.setdefault(str(passage["set_id"]), []).append(str(passage["text"]).lower())
    asked = {question["id"]: question for question in rows(run, "questions")}
    refusals = [question for question in asked.values() if question["type"] == "refusal"]
    assert refusals
    for question in refusals:
        if question["twin"]:
            twin = asked[question["twin"]]
            assert twin["type"] != "refusal" and twin["set_id"] == question["set_id"]
        entity = str(question["entity"]).lower()
        assert entity in str(question["question"]).lower()
        named = any(re.search(rf"\b{re.escape(entity)}\b", text) for text in texts[str(question["set_id"])])
        assert question["attribute"] or not named, question


def test_provenance_is_true_for_every_question(run: Path) -> None:
    texts = {(p["set_id"], p["doc_chunk_index"]): str(p["text"]) for p in rows(run, "passages")}
    for question in rows(run, "questions"):
        gold = question["gold_passages"]
        assert isinstance(gold, list)
        found = [texts[question["set_id"], index] for index in gold]
        assert bool(found) == (question["type"] != "refusal")
        if question["type"] == "factual":
            missing = set(_NUMBER.findall(str(question["answer"]))) - set(_NUMBER.findall(" ".join(found)))
            assert not missing, question
