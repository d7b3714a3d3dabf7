"""The public API: whole jobs as functions, without Ray."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import fdarx_core as fdarx
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.labels import BadDocument
from fdarx_core.specs.build import BuildSpec
from fdarx_core.specs.factuality import FactualitySpec
from fdarx_core.storage import StorageError
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


def test_amounts_have_the_defaults_of_the_options() -> None:
    for amount in fields(GenerationConfig):
        assert amount.default == BuildSpec.model_fields[amount.name].default, amount.name


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


def test_a_run_gives_data_frames(
    example_build: Path, example_evaluation: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, evaluation = fdarx.Run.open(str(example_build)), fdarx.Run.open(str(example_evaluation))
    counted = build.info()["questions"]
    assert build.questions()["type"].value_counts().to_dict() == {kind: n for kind, n in counted.items() if n}
    assert set(build.questions()["set_id"]) <= set(build.labels()["set_id"])
    assert set(build.rejects()["stage"]) and build.table("passages").num_rows > len(build.labels())
    assert set(evaluation.answers()["question_id"]) <= set(build.questions()["id"])
    assert {"metric", "value"} <= set(evaluation.metrics().columns)
    with pytest.raises(StorageError, match="has no labels; it is a run of evaluate"):
        evaluation.labels()
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert [build.open_report()] == opened and opened[0].startswith("file:///")


def test_answers_of_another_program_are_graded_as_rows(example_build: Path, tmp_path: Path) -> None:
    questions = fdarx.Run.open(str(example_build)).questions()
    rows = [{"qid": one.id, "answer": one.answer} for one in questions.head(3).itertuples()]
    run = fdarx.evaluate(example_build, models=[], predictions=rows, out=tmp_path / "run", resamples=100, split="all")
    answers = run.answers()
    assert set(answers["question_id"]) == {row["qid"] for row in rows} and run.complete


def test_labels_are_read_from_the_same_inputs_one_and_many() -> None:
    file = EXAMPLES / "telvanto-tablets.xml"
    for given in (file, str(file), file.read_bytes(), str(EXAMPLES / "telvanto-t*.xml")):
        label, frame = fdarx.parse_label(given), fdarx.read_labels(given)
        assert [label.set_id] == list(frame["set_id"])
    with pytest.raises(BadDocument, match="the given bytes"):
        fdarx.parse_label(b"<html/>")
    assert len(fdarx.read_labels([EXAMPLES, file.read_bytes()])) == len(fdarx.read_labels(EXAMPLES)) + 1


def test_sources_of_evidence_are_a_list_and_paths_may_have_commas(tmp_path: Path) -> None:
    answers = tmp_path / "answers, of May.jsonl"
    answers.write_text(json.dumps({"question": "How much?", "answer": "Take 5 mg once daily."}))
    texts = tmp_path / "trials, 2024.jsonl"
    texts.write_text(json.dumps({"text": "Take 5 mg once daily."}))
    fdarx.index(documents=[str(EXAMPLES)], out=tmp_path / "labels, all", words_only=True)
    for evidence in ([f"file:{texts}"], [f"file:{texts}", f"index:{tmp_path / 'labels, all'}"], f"file:{texts}"):
        result = fdarx.score_factuality(str(answers), evidence, resamples=100)
        assert [verdict.verdict for verdict in result.verdicts] == ["supported"]
        listed = [evidence] if isinstance(evidence, str) else evidence
        assert len(listed) == 1 or len(result.run.info()["config"]["evidence"]) == 2
    several = FactualitySpec.of(predictions="a.csv,b.csv", evidence="labels:a,pubmed", out="x", references=[answers])
    assert (several.predictions, several.evidence) == (["a.csv", "b.csv"], ["labels:a", "pubmed"])
    assert several.references == [str(answers)]
    with pytest.raises(ValueError, match="'indx:labels' names no evidence"):
        fdarx.score_factuality(str(answers), [f"file:{texts}", "indx:labels"])
    told = fdarx.score_factuality(str(answers), ["index: Take 5 mg once daily."], resamples=100)
    assert told.run.info()["config"]["evidence"]["kind"] == "file"


def test_rows_that_cannot_be_used_are_named_as_the_argument() -> None:
    answers = [{"question": "What is the dose?", "answer": "The dose is 5 mg."}]
    for evidence in (["x"], ["", "5"]):
        with pytest.raises(ValueError, match=rf"^evidence: no text .*, the first is '{evidence[0]}'"):
            fdarx.score_factuality(answers, evidence)
    with pytest.raises(ValueError, match=r"^evidence: there are none"):
        fdarx.score_factuality(answers, [])
    with pytest.raises(ValueError, match=r"^answers: there are none"):
        fdarx.score_factuality([], ["The dose is 5 mg."])
    with pytest.raises(ValueError, match=r"^answers: there are none"):
        fdarx.grade([])
