"""A plan leaves nothing: neither the folder of its run nor anything that a later run finds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.storage import Location, RunDirectory
from jobs.session import run_folder
from tests.conftest import EXAMPLES
from tests.jobs.evaluating import evaluate, models_file, respond
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer
from tests.storage.loopback_s3 import LoopbackS3

LINE = ("--settings", "closed_book", "--sample", 2)


def files_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*")}


def test_a_plan_of_an_evaluation_does_not_bind_the_run(example_build: Path, tmp_path: Path) -> None:
    with LoopbackServer(answer=respond) as server:
        models = models_file(tmp_path, server.openai_url, {"name": "a"}, {"name": "b"})
        planned = evaluate(example_build, tmp_path / "new" / "run", *LINE, "--models", models, "--plan")
        assert (planned.returncode, server.number) == (0, 0), planned.stderr
        assert "answer_closed_book" in planned.stdout
        assert files_in(tmp_path) == {"models.yaml"}
        other = evaluate(example_build, tmp_path / "new" / "run", *LINE, "--models", models, "--only", "a")
        assert other.returncode == 0, other.stderr


def test_a_plan_counts_what_the_judge_is_asked_about_given_answers(example_build: Path, tmp_path: Path) -> None:
    questions = [json.loads(line) for line in (example_build / "benchmark" / "qa.jsonl").read_text().splitlines()]
    given = [{"qid": row["qid"], "answer": f"Take {at} mg.", "setting": "oracle"} for at, row in enumerate(questions)]
    given[0]["answer"] = "NOT_ANSWERABLE"  # a rule grades refusals, and answers to refusal questions
    (tmp_path / "given.jsonl").write_text("\n".join(map(json.dumps, given)))
    with LoopbackServer(answer=respond) as server:
        models = models_file(tmp_path, server.openai_url, {"name": "judge"})
        graded = ("--models", models, "--judge", "judge")
        line = (example_build, tmp_path / "run", "--predictions", tmp_path / "given.jsonl", *graded)
        planned = evaluate(*line, "--plan")
        assert (planned.returncode, server.number) == (0, 0), planned.stderr
        assert planned_requests(planned.stdout) > 20
        done = evaluate(*line)
        assert done.returncode == 0, done.stderr
        assert server.number == planned_requests(planned.stdout)
        again = ("evaluate", "--predictions", tmp_path / "run", "--regrade", "judge", "--models", models)
        regraded = run_job(*again, "--out", tmp_path / "again", "--plan")
        assert planned_requests(regraded.stdout) == server.number, regraded.stderr


def test_a_plan_of_an_evaluation_counts_every_answer_that_the_judge_may_be_asked_about(
    example_build: Path, tmp_path: Path
) -> None:
    """Models refuse fewer questions than the built-in rules, which reply in a plan, and no two of them reply alike."""
    numbers = count()

    def reply(body: Mapping[str, Any]) -> str:
        return respond(body) if "response_format" in body else f"Take {next(numbers)} mg once daily."

    with LoopbackServer(answer=reply) as server:
        models = models_file(tmp_path, server.openai_url, {"name": "a"}, {"name": "b"}, {"name": "judge"})
        line = ("--settings", "closed_book,oracle", "--sample", 4, "--models", models, "--judge", "judge")
        planned = evaluate(example_build, tmp_path / "run", *line, "--plan")
        assert (planned.returncode, server.number) == (0, 0), planned.stderr
        assert "an evaluation send no more than these" in planned.stdout
        assert "No USD of judge: it has no `prices` in --models." in planned.stdout
        done = evaluate(example_build, tmp_path / "run", *line)
        assert done.returncode == 0, done.stderr
        asked = json.loads((tmp_path / "run" / "run.json").read_text())["asked"]
        graded = sum(row["requests"] for row in asked if row["task"] == "grade_answer")
        assert 0 < graded == planned_requests(planned.stdout)


def planned_requests(plan: str) -> int:
    """The requests of the task grade_answer in a plan."""
    return sum(int(line.split()[2].replace(",", "")) for line in plan.splitlines() if line.startswith("grade_answer"))


def test_a_plan_does_not_touch_a_finished_run(example_build: Path, tmp_path: Path) -> None:
    done = evaluate(example_build, tmp_path / "run", *LINE)
    assert done.returncode == 0, done.stderr
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")}
    planned = evaluate(example_build, tmp_path / "run", *LINE, "--judge", "baseline", "--seed", 3, "--plan")
    assert planned.returncode == 0, planned.stderr
    assert {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*")} == before


def test_a_plan_of_a_build_leaves_nothing(tmp_path: Path) -> None:
    planned = run_job("build", "--labels", EXAMPLES, "--sample", 2, "--out", tmp_path / "run", "--plan")
    assert planned.returncode == 0 and "generate_factual" in planned.stdout
    assert files_in(tmp_path) == set()


def test_a_plan_of_a_build_by_a_model_says_that_it_is_an_upper_bound(tmp_path: Path) -> None:
    with LoopbackServer(answer=respond) as server:
        by_model = ("--models", models_file(tmp_path, server.openai_url, {"name": "writer"}), "--generator", "writer")
        planned = run_job("build", "--labels", EXAMPLES, "--sample", 2, "--out", tmp_path / "run", *by_model, "--plan")
    assert (planned.returncode, server.number) == (0, 0), planned.stderr
    assert "a build and an evaluation send no more than these" in planned.stdout


def test_on_a_cluster_the_folder_of_a_plan_is_beside_that_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:6379")
    with LoopbackS3() as server:
        for name, value in (("AWS_ENDPOINT_URL_S3", server.url), ("AWS_ACCESS_KEY_ID", "a"),
                            ("AWS_SECRET_ACCESS_KEY", "b"), ("AWS_REGION", "us-east-1")):  # fmt: skip
            monkeypatch.setenv(name, value)
        for out in (tmp_path / "run", "s3://bucket/runs/a"):
            with run_folder(str(out), plan=True) as folder:
                run = RunDirectory.begin(folder, job="evaluate", config={}, versions={})
                run.part("rejects", 0).write_bytes(b"rows")
                assert Location(folder).parent == Location(out).parent
                assert not (Location(out) / "run.json").exists()
                run.release()
        assert not server.objects and not files_in(tmp_path)
