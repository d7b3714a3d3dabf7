"""Where no reply of a model can be used, a job says so and how to ask again, and its exit code is not 0."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs import STOPPED
from tests.conftest import EXAMPLES
from tests.jobs.evaluating import models_file
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer

AGAIN = "to ask again, give a new --out, without --reuse of this run."


@pytest.fixture
def models(tmp_path: Path) -> Iterator[Path]:
    with LoopbackServer(answer=lambda _: "It is so.") as server:
        yield models_file(tmp_path, server.openai_url, {"name": "m"})


def ends_without(folder: Path, who: str, job: str, *options: object) -> None:
    done = run_job(job, *options, "--out", folder / "run", "--executor", "local")
    assert done.returncode == STOPPED and f"No reply of {who} could be used. " in done.stderr, done.stderr
    assert AGAIN in done.stderr
    again = run_job(job, *options, "--out", folder / "run", "--executor", "local")
    assert again.returncode == STOPPED and "is complete already, nothing to do. Replies" in again.stderr


def test_a_verifier(example_build: Path, tmp_path: Path, models: Path) -> None:
    rows = [json.loads(line) for line in (example_build / "benchmark" / "qa.jsonl").read_text().splitlines()[:4]]
    answers = tmp_path / "answers.jsonl"
    answers.write_text("\n".join(json.dumps({"question": row["question"], "answer": row["answer"]}) for row in rows))
    options = ("--predictions", answers, "--evidence", f"labels:{example_build}", "--models", models)
    ends_without(tmp_path, "the verifier m", "factuality", *options, "--entailment", "m", "--resamples", 100)


def test_a_model_that_extracts_claims(example_build: Path, tmp_path: Path, models: Path) -> None:
    answers = tmp_path / "answers.jsonl"
    answers.write_text(json.dumps({"question": "How much?", "answer": "Take 5 mg once daily."}))
    options = ("--predictions", answers, "--evidence", f"labels:{example_build}", "--models", models)
    ends_without(tmp_path, "the model m, which extracts claims", "factuality", *options, "--claims", "m")


def test_a_judge_of_an_evaluation(example_build: Path, tmp_path: Path, models: Path) -> None:
    options = ("--benchmark", example_build, "--settings", "oracle", "--limit", 4, "--resamples", 100)
    ends_without(tmp_path, "the judge m", "evaluate", *options, "--models", "baseline", models, "--only", "baseline",
                 "--judge", "m")  # fmt: skip


def test_a_judge_of_a_file(tmp_path: Path, models: Path) -> None:
    file = tmp_path / "answers.csv"
    file.write_text("question,answer,reference\nHow much?,Take 5 mg.,One tablet of 5 mg\n")
    ends_without(tmp_path, "the judge m", "grade", file, "--models", models, "--judge", "m", "--resamples", 100)


@pytest.mark.service
def test_a_judge_of_a_comparison(tmp_path: Path, models: Path) -> None:
    index = tmp_path / "index"
    done = run_job("index", "--documents", EXAMPLES.parent / "guidelines", "--out", index, "--words-only")
    assert done.returncode == 0, done.stderr
    options = ("--index", index, "--questions", EXAMPLES.parent / "questions.jsonl", "--sample", 2, "--resamples", 200)
    more = ("--strategies", "question", "--postprocess", "none", "--models", models, "--judge", "m")
    ends_without(tmp_path, "the judge m", "evaluate-rag", *options, *more)
