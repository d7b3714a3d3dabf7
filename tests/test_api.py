"""The public API: whole jobs as functions, without Ray."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import fdarx_core as fdarx
from fdarx_core.generation.contexts import GenerationConfig
from jobs.build_benchmark import BuildConfig
from tests.conftest import EXAMPLES, REPOSITORY


def test_build_evaluate_and_score_in_this_process(tmp_path: Path) -> None:
    run = fdarx.build(EXAMPLES, tmp_path / "build", twins=4)
    assert run.info()["status"] == "complete" and (tmp_path / "build/benchmark/qa.jsonl").exists()
    again = fdarx.build(EXAMPLES, tmp_path / "build", twins=4)
    assert again.info() == run.info()
    evaluated = fdarx.evaluate(run, ["baseline"], out=tmp_path / "evaluation", settings=["oracle"], resamples=100)
    assert evaluated.info()["status"] == "complete" and evaluated.file("metrics.json").exists()
    answers = [{"question": "How much is taken?", "answer": "Take 5 mg once daily."}]
    result = fdarx.score_factuality(answers, ["The dose is 5 mg once daily."], out=tmp_path / "f", resamples=100)
    assert len(result.scores) == 1 and len(result.claims) == len(result.verdicts) >= 1


def test_a_build_is_that_of_the_command_line(example_build: Path, tmp_path: Path) -> None:
    config = json.loads((example_build / "run.json").read_text())["config"]
    names = ("passages", "pairs_per_passage", "section_pairs", "twins", "topic_labels")
    amounts = {name: config[name] for name in names}
    fdarx.build(EXAMPLES, tmp_path / "build", **amounts)
    assert (tmp_path / "build/benchmark/qa.jsonl").read_bytes() == (example_build / "benchmark/qa.jsonl").read_bytes()


def test_a_build_has_the_defaults_of_the_command_line() -> None:
    ours = {name: one.default for name, one in inspect.signature(fdarx.build).parameters.items()}
    theirs = BuildConfig.model_fields
    for amount in fields(GenerationConfig):
        assert ours[amount.name] == amount.default == theirs[amount.name].default, amount.name
    assert ours["generator"] == theirs["generator"].default == "baseline"
    assert ours["reader"] is None and ours["judge"] is None


def test_a_name_that_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"fdarx\.Model"):
        fdarx.build(EXAMPLES, tmp_path / "run", reader="gpt-9")


def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY)
    names: dict[str, Any] = {}
    for cell in json.loads(Path("examples/quickstart.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert list(names["labels"]["drug_name"]) and names["label"].drug_name
    assert names["answer"].text and names["answer"].citations
    hit = names["index"].search("What is the starting dose of telvanto?", k=1)[0]
    assert hit.text and hit.set_id and hit.score > 0
    assert names["verdict"].verdict == "supported"
    assert {row.verdict for row in names["result"].verdicts} <= {"supported", "contradicted", "undecided"}
