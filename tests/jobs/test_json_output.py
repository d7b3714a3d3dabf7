"""`--json`: one JSON object on standard output with the facts of the printed text, and nothing else there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.records.question_types import type_title
from jobs.cli import main
from tests.conftest import EXAMPLES
from tests.jobs.checking import made_files
from tests.jobs.in_process import run_job

LABELS = [EXAMPLES / f"{name}-tablets.xml" for name in ("telvanto", "corvaxolin")]


def told(*arguments: object) -> dict[str, Any]:
    """The object that a command prints with `--json`."""
    done = run_job(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert isinstance(value, dict)
    return value


@pytest.fixture(scope="module")
def build(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("json") / "build"
    done = run_job("build", "--labels", *LABELS, "--out", out, "--twins", 3, "--executor", "local")
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def evaluation(build: Path) -> Path:
    out = build.parent / "evaluation"
    done = run_job("evaluate", "--benchmark", build, "--out", out, "--resamples", 100, "--executor", "local")
    assert done.returncode == 0, done.stderr
    return out


def test_a_build_and_its_plan(build: Path, tmp_path: Path) -> None:
    same = ("build", "--labels", *LABELS, "--twins", 3, "--executor", "local")
    text, value = run_job(*same, "--out", build).stdout, told(*same, "--out", build)
    assert value["run"] == str(build) and value["status"] == "complete"
    assert all(f"{count} {type_title(name).lower()}" in text for name, count in value["questions"].items() if count)
    for stage in value["stages"]:
        assert re.search(rf"{stage['stage']} +{stage['rows_in']} in +{stage['rejected']} rejected", text)
    planned = told(*same, "--out", tmp_path / "plan", "--plan")
    assert not (tmp_path / "plan").exists()
    shown = run_job(*same, "--out", tmp_path / "plan", "--plan").stdout
    rows = {row["task"]: row for row in planned["plan"]}
    assert rows and sum(row["requests"] for row in rows.values()) == planned["sum"]["requests"]
    for task, row in rows.items():
        assert re.search(rf"^{task} +{row['endpoint']} +{row['requests']:,} +{row['prompt_tokens']:,} ", shown, re.M)


def test_an_evaluation_and_a_comparison(evaluation: Path, build: Path, tmp_path: Path) -> None:
    value = told("evaluate", "--benchmark", build, "--out", evaluation, "--resamples", 100, "--executor", "local")
    assert value["run"] == str(evaluation) and value["cells"]
    assert value["metrics"] == json.loads((evaluation / "metrics.json").read_bytes())
    other = tmp_path / "other"
    options = ("--settings", "oracle", "--resamples", 100, "--executor", "local", "-q")
    assert run_job("evaluate", "--benchmark", build, "--out", other, *options).returncode == 0
    same = ("compare", evaluation, other, "--out", tmp_path / "page.html", "--resamples", 100)
    text, compared = run_job(*same).stdout, told(*same)
    assert compared["runs"] == {"evaluation": str(evaluation), "other": str(other)}
    assert {row["model"] for row in compared["figures"] if row["model"]} == {
        "evaluation · baseline",
        "other · baseline",
    }
    assert compared["differences"] and compared["page"] == str(tmp_path / "page.html")
    shown = [row for row in compared["differences"] if f"{row['metric']}, {row['group']}, " in text]
    assert (
        {f"{row['value']:+.3f}" for row in shown} >= set(re.findall(r"(?m)^\w+, .* ([+-]\d\.\d{3}) \[", text)) > set()
    )


def test_a_question_of_a_build_and_of_an_evaluation(build: Path, evaluation: Path) -> None:
    row = json.loads((build / "benchmark" / "qa.jsonl").read_text().splitlines()[0])
    value, text = told("show", build, row["qid"]), run_job("show", build, row["qid"]).stdout
    assert value["question"]["question"] == row["question"] and value["outcome"] == "in the benchmark, test split"
    assert value["verdicts"] == []  # template questions are judged by nobody
    assert all(response["text"].splitlines()[0] in text for response in value["responses"].values())
    answered = told("show", evaluation, row["qid"])["predictions"]
    assert {one["prediction"]["setting"] for one in answered} >= {"closed_book", "full_label", "retrieved"}
    assert all(one["grade"]["outcome"] for one in answered)


def test_show_without_an_id_tells_some_and_where_all_are(build: Path, evaluation: Path, tmp_path: Path) -> None:
    for run, page in ((build, "questions.html"), (evaluation, "answers.html")):
        done, ids = run_job("show", run), told("show", run)["ids"]
        assert done.returncode == 0 and len(ids) == 5 and f"{run / page} has all of them" in done.stdout
        assert all(f"{id}  {text}" in done.stdout for id, text in ids.items())
        assert run_job("show", run, next(iter(ids))).returncode == 0
    index = tmp_path / "run"
    index.mkdir()
    (index / "run.json").write_text((build / "run.json").read_text().replace("build_benchmark", "evaluate_rag"))
    done = run_job("show", index)
    assert done.returncode == 2 and "is a run of evaluate_rag; show prints questions of builds" in done.stderr


def test_pages_built_again(build: Path, evaluation: Path) -> None:
    assert told("report", build) == {
        "run": str(build), "questions": f"{build}/questions.html", "report": f"{build}/report.html",
    }  # fmt: skip
    assert told("report", evaluation) == {
        "run": str(evaluation), "answers": f"{evaluation}/answers.html", "report": f"{evaluation}/report.html",
    }  # fmt: skip


def test_each_step_of_a_review(build: Path, tmp_path: Path) -> None:
    folder = tmp_path / "review"
    drawn = told("review", "sample", build, "--n", 4, "--annotators", "anna,ben", "--out", folder)
    assert drawn["review"] == str(folder) and drawn["pages"].keys() == {"anna", "ben"} and drawn["items"] == 8
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    for at, name in enumerate(("anna", "ben")):
        answers = [{"id": item["id"], "value": item["choices"][at]} for item in items]
        page = {"format": 1, "review": drawn["digest"], "annotator": name, "answers": answers}
        (tmp_path / f"{name}.json").write_text(json.dumps(page))
    done = told("review", "import", folder, tmp_path / "anna.json", tmp_path / "ben.json")
    assert (done["new"], done["known"], len(done["differing"])) == (16, 0, 8)
    assert done["differing"][0]["marks"].keys() == {"anna", "ben"}
    assert told("review", "adjudicate", folder, "--adjudicator", "dora")["items"] == 8
    assert len(told("review", "export", folder, "--to", "label-studio", "--out", tmp_path / "out")["written"]) == 4
    found = told("review", "report", folder, "--resamples", 100)
    page = found.pop("page")
    assert found == json.loads((folder / "agreement.json").read_bytes()) and page == f"{folder}/agreement.html"


def test_verify_and_factuality(tmp_path: Path) -> None:
    pair = {"text": "The dose is 5 mg.", "statement": "The dose is 5 mg.", "mark": "supported"}
    (tmp_path / "pairs.jsonl").write_text(json.dumps(pair) + "\n")
    value = told("verify", "--pairs", tmp_path / "pairs.jsonl", "--resamples", 100)
    assert value["engine"] == "exact" and value["figures"]
    run = tmp_path / "facts"
    value = told("factuality", *made_files(tmp_path), "--out", run, "--resamples", 100, "--executor", "local")
    assert value["run"] == str(run) and value["metrics"] == json.loads((run / "metrics.json").read_bytes())


@pytest.mark.service
def test_a_comparison_of_strategies(tmp_path: Path) -> None:
    documents, questions = EXAMPLES.parent / "guidelines", EXAMPLES.parent / "questions.jsonl"
    assert told("index", "--documents", documents, "--out", tmp_path / "index", "--words-only")["documents"]
    options = ("--strategies", "question", "--resamples", 100, "--executor", "local", "--sample", 2)
    same = (
        "evaluate-rag",
        "--index",
        tmp_path / "index",
        "--questions",
        questions,
        "--out",
        tmp_path / "rag",
        *options,
    )
    value = told(*same)
    assert value["metrics"] == json.loads((tmp_path / "rag" / "metrics.json").read_bytes()) and value["usage"]


def test_a_failure_prints_nothing_on_standard_output(tmp_path: Path) -> None:
    done = run_job("show", tmp_path, "0" * 16, "--json")
    assert (done.returncode, done.stdout) == (2, "") and "is not a run" in done.stderr


def test_jobs_end_with_a_sentence_and_the_page_to_open(build: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(build)]) == 0
    told = capsys.readouterr().out
    assert told.endswith(f".\nopen {build}/questions.html\nopen {build}/report.html\n") and "This build has" in told
    assert main(["view", str(build.parent)]) == 0
    assert f".\nopen {build.parent}/index.html\n" in capsys.readouterr().out


def test_the_option_may_come_from_the_environment(
    build: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FDARX_REPORT_JSON", "true")
    assert main(["report", str(build)]) == 0
    assert json.loads(capsys.readouterr().out)["run"] == str(build)
