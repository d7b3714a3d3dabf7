"""Comparisons of runs that were graded by different judges, or that answer unequal shares of the questions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from fdarx_core.records import Grade, Prediction
from tests.jobs.evaluating import by_type, cells, evaluate, models_file, respond, rows_of
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer

SETTINGS = "oracle,full_label"
STRICT = json.dumps({"reason": "It says something else.", "grade": "INCORRECT"})

pytestmark = pytest.mark.slow


def answer(body: Mapping[str, Any]) -> str:
    return STRICT if body["model"] == "strict" and "response_format" in body else respond(body)


@pytest.fixture(scope="module")
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer) as running:
        yield running


@pytest.fixture(scope="module")
def models(server: LoopbackServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = [{"name": "small"}, {"name": "mild"}, {"name": "strict"}]
    return models_file(tmp_path_factory.mktemp("models"), server.openai_url, *names)


@pytest.fixture(scope="module")
def mild(example_build: Path, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "mild"
    options = ("--models", models, "--only", "small", "--settings", SETTINGS, "--judge", "mild", "--sample", 6)
    done = evaluate(example_build, out, *options)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def strict(mild: Path, models: Path, server: LoopbackServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The answers of `mild`, graded again by another judge."""
    out = tmp_path_factory.mktemp("runs") / "strict"
    server.calls.clear()
    done = run_job(
        *map(str, ("evaluate", "--predictions", mild, "--regrade", "strict", "--models", models, "--out", out)),
        *("--resamples", "200"),
    )
    assert done.returncode == 0, done.stderr
    return out


def test_regrading_asks_only_the_judge(mild: Path, strict: Path, server: LoopbackServer) -> None:
    asked = Counter(call.body["model"] for call in server.calls)
    judged = {row.response_key for row in rows_of(strict, "grades/small", Grade) if row.judge == "strict"}
    assert set(asked) == {"strict"} and asked["strict"] == len(judged) > 20


def test_regrading_keeps_answers_and_what_they_rest_on(mild: Path, strict: Path) -> None:
    def rows(run: Path) -> list[Prediction]:
        return rows_of(run, "predictions/small", Prediction)

    assert rows(mild) == rows(strict) != []
    before, after = by_type(mild), by_type(strict)
    for key in before.keys() & after.keys():
        if key[3] in ("citation_f1", "refusal_f1", "rouge_l", "recall_5", "prompt_tokens"):
            assert before[key].value == after[key].value
    assert after["small", "oracle", "", "accuracy", "answerable"].value == 0
    assert before["small", "oracle", "", "accuracy", "answerable"].value == 1
    cell = cells(strict)["small", "oracle", ""]
    assert (cell.status, cell.judge, cell.judge_engine) == ("done", "strict", "openai strict")
    assert cell.engine == "openai small" == cells(mild)["small", "oracle", ""].engine
    assert cell.due == cells(mild)["small", "oracle", ""].due


def test_every_figure_says_what_it_rests_on(mild: Path) -> None:
    rows = pq.read_table(mild / "metrics.parquet").to_pylist()
    answers = [row for row in rows if row["model"]]
    assert {row["judge"] for row in answers} == {"mild (openai mild, grade_answer 1)"}
    assert {row["engine"] for row in answers} == {"openai small"}
    prompts = {row["prompts"].split(" ")[0] for row in answers}
    assert prompts == {"answer_oracle", "answer_full_label"}
    assert all(row["answered"] == row["due"] > 0 for row in answers)
    for entry in json.loads((mild / "metrics.json").read_text()):
        assert not entry["model"] or entry["judge"] == "mild (openai mild, grade_answer 1)"


def test_accuracies_by_two_judges_are_not_compared(mild: Path, strict: Path, tmp_path: Path) -> None:
    done = run_job("compare", str(mild), str(strict), "--out", str(tmp_path / "page.html"), "--resamples", "200")
    assert done.returncode == 0, done.stderr
    assert (
        "the judges differ (mild (openai mild, grade_answer 1); strict (openai strict, grade_answer 1))" in done.stdout
    )
    assert "--regrade JUDGE" in done.stdout
    told = [line for line in done.stdout.splitlines() if "(Holm)" in line]
    assert told and not any(line.startswith("accuracy") for line in told)
    assert "the judges differ" in (tmp_path / "page.html").read_text()


def test_one_answer_of_many_is_not_done_and_not_compared(
    mild: Path, models: Path, example_build: Path, tmp_path: Path
) -> None:
    [first, *_] = rows_of(mild, "predictions/small", Prediction)
    row = {"qid": first.question_id, "answer": first.text, "setting": "oracle", "model": "other"}
    (tmp_path / "one.jsonl").write_text(json.dumps(row))
    options = ("--predictions", tmp_path / "one.jsonl", "--only", "small", "--models", models, "--judge", "mild")
    done = evaluate(example_build, tmp_path / "run", *options, "--settings", SETTINGS, "--sample", 6)
    assert done.returncode == 0, done.stderr
    cell, whole = (cells(tmp_path / "run")[name, "oracle", ""] for name in ("other", "small"))
    assert cell.status == "partial" and whole.status == "done"
    assert cell.due == whole.due > 20 and cell.covered == 1
    assert f"partial: other · oracle: {cell.due - 1:,} of {cell.due:,} questions have no answer" in done.stderr
    assert f"other · oracle: 1 of {cell.due:,} questions answered" in " ".join(done.stdout.split())
    compared = pq.read_table(tmp_path / "run" / "comparisons.parquet").to_pylist()
    assert not any("other" in (row["model_a"], row["model_b"]) for row in compared)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--regrade", "strict"), "--regrade needs --predictions"),
        (("--regrade", "strict", "--predictions", "{build}"), "is a run of build_benchmark, not of evaluate"),
        (("--regrade", "nobody", "--predictions", "{mild}"), "there is no such model"),
        ((), "--benchmark is missing"),
    ],
)
def test_wrong_options_are_refused(
    options: tuple[str, ...], told: str, mild: Path, example_build: Path, models: Path, tmp_path: Path
) -> None:
    given = [one.format(build=example_build, mild=mild) for one in options]
    done = run_job("evaluate", "--models", str(models), "--out", str(tmp_path / "run"), *given)
    assert done.returncode == 2
    assert told in done.stderr and len(done.stderr.splitlines()) == 1
