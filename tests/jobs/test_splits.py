"""The splits of a build in what its commands count, print and show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.records import Figure, QuestionAnswer
from fdarx_core.storage import Location, read_records
from tests.conftest import EXAMPLES
from tests.jobs.evaluating import rows_of
from tests.jobs.in_process import run_job

FEW = ("--settings", "closed_book", "--resamples", 100, "--cpus", 2)


def info_of(run: Path) -> dict[str, Any]:
    info: dict[str, Any] = json.loads((run / "run.json").read_text())
    return info


def count(questions: dict[str, int]) -> int:
    return sum(questions.values())


def test_run_json_and_the_page_have_the_numbers_of_each_split(split_build: Path) -> None:
    info = info_of(split_build)
    splits = info["splits"]
    asked = rows_of(split_build, "questions", QuestionAnswer)
    dev = [one for one in asked if one.set_id in splits["dev_labels"]]
    assert (len(splits["dev_labels"]), splits["dev_drugs"]) == (1, 1)
    assert count(splits["questions"]["dev"]) == len(dev) > 0
    assert count(splits["questions"]["test"]) == len(asked) - len(dev)
    assert count(info["questions"]) == len(asked)
    page = (split_build / "report.html").read_text()
    assert f"The test split has {len(asked) - len(dev)} of these questions" in page
    assert f"The dev split has {len(dev)} questions, on 1 label: all labels of 1 drug." in page
    assert 'data-field="split"' in (split_build / "questions.html").read_text()


def test_the_audit_is_of_the_test_split(split_build: Path) -> None:
    tested = info_of(split_build)["splits"]["questions"]["test"]
    figures = read_records(Location(split_build) / "metrics.parquet", Figure)
    [recurring] = [one for one in figures if one.metric == "recurring"]
    assert recurring.rows == count(tested)


def test_the_same_benchmark_with_and_without_a_dev_split_has_the_same_questions(
    split_build: Path, tmp_path: Path
) -> None:
    done = run_job("build", "--labels", EXAMPLES, "--out", tmp_path / "run", "--twins", 4, "--cpus", 2)
    assert "There is no dev split, as the labels are of 9 drugs, fewer than 20; --dev-drugs makes one" in done.stdout
    lines = [(tmp_path / "run" / "benchmark" / "qa.jsonl").read_bytes()]
    assert not (tmp_path / "run" / "benchmark" / "qa_dev.jsonl").exists()
    split = [(split_build / "benchmark" / name).read_bytes() for name in ("qa.jsonl", "qa_dev.jsonl")]
    assert sorted(b"".join(split).splitlines()) == sorted(lines[0].splitlines())
    assert 'data-field="split"' not in (tmp_path / "run" / "questions.html").read_text()
    assert "There is no dev split" in (tmp_path / "run" / "benchmark" / "README.md").read_text()


def test_another_number_of_dev_drugs_is_another_run(split_build: Path) -> None:
    arguments = ("--labels", EXAMPLES, "--out", split_build, "--twins", 4)
    assert "dev_drugs: was 1, now 2" in run_job("build", *arguments, "--dev-drugs", 2).stderr
    assert "dev_drugs: was 1, now not set" in run_job("build", *arguments).stderr


@pytest.mark.parametrize("split", ["test", "dev", "all"])
def test_an_evaluation_asks_the_questions_of_its_split(split_build: Path, tmp_path: Path, split: str) -> None:
    out = tmp_path / "evaluation"
    chosen = () if split == "test" else ("--split", split)
    done = run_job("evaluate", "--benchmark", split_build, "--out", out, *FEW, *chosen)
    assert done.returncode == 0, done.stderr
    splits = info_of(split_build)["splits"]["questions"]
    wanted = count(info_of(split_build)["questions"]) if split == "all" else count(splits[split])
    info = info_of(out)
    assert count(info["questions"]) == wanted == len(rows_of(out, "questions", QuestionAnswer))
    assert info["benchmark"]["split"] == split and info["config"].get("split") == (split if chosen else None)
    name = {"test": "split-build.", "dev": "split-build (dev split).", "all": "split-build (all splits)."}[split]
    assert f"Benchmark {name}" in (out / "report.html").read_text()
    question = rows_of(out, "questions", QuestionAnswer)[0]
    assert f"{'all splits' if split == 'all' else f'{split} split'}\n" in run_job("show", out, question.id).stdout


def test_show_names_the_split_of_a_question(split_build: Path) -> None:
    dev = info_of(split_build)["splits"]["dev_labels"]
    asked = rows_of(split_build, "questions", QuestionAnswer)
    for split in ("test", "dev"):
        question = next(one for one in asked if (one.set_id in dev) == (split == "dev"))
        assert f"in the benchmark, {split} split" in run_job("show", split_build, question.id).stdout


def test_a_split_that_a_benchmark_lacks_is_refused(example_build: Path, tmp_path: Path) -> None:
    done = run_job("evaluate", "--benchmark", example_build, "--split", "dev", "--out", tmp_path / "run")
    assert done.returncode == 2 and "has no dev split; give --split test, or all" in done.stderr
