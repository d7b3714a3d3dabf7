"""`fdarx export`: what a package holds, and what cannot be exported."""

from __future__ import annotations

import ast
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from fdarx_core.harnesses.scoring import METRICS
from tests.jobs.in_process import run_job

SETTINGS = ("closed_book", "full_label", "oracle", "retrieved")


def rows(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.fixture(scope="module")
def package(example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("packages") / "lm-eval"
    done = run_job("export", example_build, "--to", "lm-eval", "--out", out, "--top-k", 3, "--json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["samples"] == {setting: len(rows(out / f"{setting}.jsonl")) for setting in SETTINGS}
    return out


def test_each_question_is_in_the_settings_that_it_is_meant_for(package: Path, example_build: Path) -> None:
    questions = {row["qid"]: row for row in rows(example_build / "benchmark" / "qa.jsonl")}
    answerable = {id for id, row in questions.items() if row["task"] != "refusal"}
    for setting in SETTINGS:
        found = rows(package / f"{setting}.jsonl")
        assert {row["id"] for row in found} == (
            answerable if setting in ("closed_book", "oracle") else questions.keys()
        )
        assert len(found) == len({row["id"] for row in found})
        assert all(row["setting"] == setting and row["question"] in row["user"] for row in found)


def test_the_prompts_and_what_they_mark(package: Path) -> None:
    messages = {row["id"]: row["text"] for row in rows(package / "system_messages.jsonl")}
    assert len(set(messages.values())) == len(messages)
    labels = set()
    for row in rows(package / "full_label.jsonl"):
        assert all(f"||PASSAGE_{index:04d}||" in messages[row["system"]] for index in row["citable"])
        assert row["type"] == "refusal" or set(row["gold"]) <= set(row["citable"])
        labels.add(row["set_id"])
    assert len({row["system"] for row in rows(package / "full_label.jsonl")}) == len(labels)
    for row in rows(package / "retrieved.jsonl"):
        assert len(row["citable"]) == 3 and row["retriever"] == "bm25"
        assert all(f"||PASSAGE_{index:04d}||" in row["user"] for index in row["citable"])


def test_an_oracle_prompt_shows_the_gold_passages_without_markers(package: Path) -> None:
    assert all(row["citable"] == [] and "||PASSAGE_" not in row["user"] for row in rows(package / "oracle.jsonl"))


def test_the_tasks_of_lm_eval(package: Path) -> None:
    group = yaml.safe_load((package / "fdarx.yaml").read_text())
    assert group == {"group": "fdarx", "task": [f"fdarx_{setting}" for setting in SETTINGS]}
    for name in group["task"]:
        task = yaml.safe_load((package / f"{name}.yaml").read_text())
        assert task["task"] == name and (package / task["include"]).exists()
    code = (package / "utils.py").read_text()
    assert all(f'\n{metric} = partial(combine, "{metric}")\n' in code for metric in METRICS)


def test_without_labels_only_their_settings_are_left_out(example_build: Path, tmp_path: Path) -> None:
    (tmp_path / "benchmark").mkdir()
    shutil.copy(example_build / "benchmark" / "qa.jsonl", tmp_path / "benchmark")
    done = run_job("export", tmp_path / "benchmark", "--to", "inspect", "--out", tmp_path / "package")
    assert done.returncode == 0, done.stderr
    assert "full_label   0 questions, because the benchmark has no complete text of its labels" in done.stdout
    assert {file.name for file in (tmp_path / "package").iterdir()} == {
        *("README.md", "closed_book.jsonl", "fdarx_tasks.py", "oracle.jsonl", "system_messages.jsonl")
    }
    code = ast.parse((tmp_path / "package" / "fdarx_tasks.py").read_text())
    assert {"closed_book", "oracle"} == {
        node.name
        for node in code.body
        if isinstance(node, ast.FunctionDef) and "task" in map(ast.unparse, node.decorator_list)
    }
    options = ("--settings", "retrieved", "--out", tmp_path / "other")
    done = run_job("export", tmp_path / "benchmark", "--to", "inspect", *options)
    assert done.returncode == 2 and "retrieved need labels with their complete text" in done.stderr


def test_a_label_can_be_cut(example_build: Path, tmp_path: Path) -> None:
    options = ("--settings", "full_label", "--label-chars", 2000)
    assert run_job("export", example_build, "--to", "inspect", "--out", tmp_path / "p", *options).returncode == 0
    assert all(len(row["text"]) < 4000 for row in rows(tmp_path / "p" / "system_messages.jsonl"))


def test_what_cannot_be_exported(example_build: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    said = {
        ("--to", "helm", "--out", tmp_path / "p"): "--to",
        ("--to", "inspect", "--out", tmp_path / "full"): "has files in it; give a new folder",
        ("--to", "inspect", "--out", tmp_path / "p", "--settings", "open_book"): "there is no setting open_book",
    }
    for options, complaint in said.items():
        done = run_job("export", example_build, *options)
        assert done.returncode == 2 and complaint in done.stderr
    done = run_job("export", tmp_path / "nothing", "--to", "inspect", "--out", tmp_path / "p")
    assert done.returncode == 2 and "there is nothing at" in done.stderr
