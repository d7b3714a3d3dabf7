"""The package of docs/extending.md, built and installed as users do, which adds a component of each kind."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.filters.rules import rules
from fdarx_core.records import JudgeVerdict, QuestionAnswer, Reject
from fdarx_core.storage import RunDirectory, read_records, read_table
from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.evaluating import models_file, respond
from tests.jobs.in_process import run_job, run_jobs_apart
from tests.llm.loopback_server import LoopbackServer, text_of
from tests.loopback.prompts import ShownPrompt
from tests.loopback.readers import READERS
from tests.loopback.writer import write, write_factual

pytestmark = pytest.mark.slow

FILES: dict[str, str] = dict(
    re.findall(
        r"`(pyproject\.toml|acme_labels/\S+)`(?:(?!```).)*```\w+\n(.*?)```",
        (REPOSITORY / "docs" / "extending.md").read_text(),
        re.DOTALL,
    )
)
"""The files of the package, by their paths."""
NOISE = "a package that writes to standard output"
LABELS = [EXAMPLES / f"{name}-tablets.xml" for name in ("telvanto", "corvaxolin")]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which pip installed the package."""
    project, target = tmp_path_factory.mktemp("acme"), tmp_path_factory.mktemp("installed")
    (project / "acme_labels").mkdir()
    for name, text in FILES.items():
        noisy = text.replace("        scores = ", f"        print({NOISE!r})\n        scores = ")
        (project / name).write_text(noisy)
    offline = ("--no-index", "--no-deps", "--no-build-isolation", "--disable-pip-version-check", "-q")
    command = [sys.executable, "-m", "pip", "install", *offline, "--target", str(target), str(project)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return target


def result(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    value: dict[str, Any] = json.loads(done.stdout)
    return value


def judged(body: Mapping[str, Any]) -> str:
    """Write and judge as the loopback models do; prompts that they do not know are those of the package."""
    system, user = (text_of(body["messages"][place]) for place in (0, -1))
    if system.startswith("You write questions on the numbers"):
        items = write_factual(ShownPrompt("generate_numeric", system, user)).items
        return json.dumps({"items": [one.model_dump(include={"evidence", "question", "answer"}) for one in items]})
    try:
        prompt = ShownPrompt.read(body)
    except KeyError:
        return '{"short": true}'
    return READERS[prompt.task](prompt).model_dump_json() if prompt.task in READERS else write(prompt)


@pytest.fixture(scope="module")
def jobs(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, subprocess.CompletedProcess[str]]:
    """What jobs print in a process that finds the package, by name.

    They are a build by rules with a judge, a build whose questions a model writes, an evaluation of each of them, and
    the plan of a build.
    """
    folder, quiet = tmp_path_factory.mktemp("runs"), ("--json", "-q")
    roles = [word for role in ("--generator", "--reader", "--judge") for word in (role, "m")]
    amounts = ("--passages", 4, "--section-pairs", 0, "--twins", 3, "--transfers", 0)
    small = ("--resamples", 100, "--executor", "local")
    with LoopbackServer(answer=judged) as writer, LoopbackServer(respond) as answerer:
        (folder / "writer").mkdir()
        (folder / "acme").mkdir()
        by_writer = ("--models", models_file(folder / "writer", writer.openai_url, {"name": "m"}))
        by_acme = models_file(folder / "acme", answerer.openai_url.removesuffix("/v1"), {"name": "m", "kind": "acme"})
        graded = models_file(folder, answerer.openai_url, {"name": "m"}, {"name": "judge"})
        last_first = ("--settings", "retrieved", "--retrievers", "last_first", "--models", by_acme, *small)
        oracle = ("--settings", "oracle", "--models", graded, "--judge", "judge", "--split", "all", *small)
        judged_twins = ("--twins", 3, *by_writer, "--judge", "m")
        lines: Mapping[str, tuple[object, ...]] = {
            "build": ("build", "--labels", *LABELS, "--out", folder / "build", *judged_twins),
            "evaluation": ("evaluate", "--benchmark", folder / "build", "--out", folder / "evaluation", *last_first),
            "written": ("build", "--labels", *LABELS, "--out", folder / "written", *amounts, *by_writer, *roles),
            "answers": ("evaluate", "--benchmark", folder / "written", "--out", folder / "answers", *oracle),
            "plan": ("build", "--labels", LABELS[0], "--out", folder / "p", *by_writer, "--generator", "m", "--plan"),
        }
        ended, _ = run_jobs_apart([(*line, *quiet) for line in lines.values()], packages=[installed])
    return dict(zip(lines, ended, strict=True))


@pytest.fixture(scope="module")
def build(jobs: Mapping[str, subprocess.CompletedProcess[str]]) -> Mapping[str, Any]:
    return result(jobs["build"])


@pytest.fixture(scope="module")
def written(jobs: Mapping[str, subprocess.CompletedProcess[str]]) -> Mapping[str, Any]:
    """A build whose questions a model writes, among them those of the package's type."""
    return result(jobs["written"])


def test_a_build_uses_the_filter_and_the_judge_and_names_the_package(build: Mapping[str, Any]) -> None:
    stages = {stage["stage"]: stage for stage in build["stages"]}
    assert build["questions"]["factual"] > 0
    rejects = [row for part in RunDirectory.open(build["run"]).parts("rejects") for row in read_records(part, Reject)]
    assert {row.reason for row in rejects if row.stage == "rules"} == {"no_lists"} and stages["rules"]["rejected"]
    assert list(stages).index("brevity") == list(stages).index("quality") + 1
    assert build["config"]["packages"] == {
        "fdarx.filters": {"no_lists": "package acme-labels 1.2"},
        "fdarx.judges": {"brevity": "package acme-labels 1.2"},
        "fdarx.question_types": {"numeric": "package acme-labels 1.2"},
    }


def test_a_run_is_not_resumed_without_the_package(build: Mapping[str, Any]) -> None:
    done = run_job("build", "--labels", *LABELS, "--out", build["run"], "--twins", 3)
    assert done.returncode == 2 and "packages" in done.stderr


def test_an_evaluation_uses_the_retriever_the_metric_and_the_api(
    jobs: Mapping[str, subprocess.CompletedProcess[str]],
) -> None:
    value = result(jobs["evaluation"])
    assert NOISE in jobs["evaluation"].stderr
    [cell] = value["cells"]
    assert (cell["model"], cell["retriever"]) == ("m", "last_first") and cell["answered"] == cell["due"] > 0
    [metrics] = [one["metrics"] for one in value["metrics"] if one["model"] == "m"]
    assert metrics["answer_words"]["factual"]["value"] == 5.0  # Take 5 mg once daily.


def test_a_model_writes_questions_of_a_type_which_are_judged_answered_again_and_published(
    written: Mapping[str, Any],
) -> None:
    run = RunDirectory.open(written["run"])
    made = [row for part in run.parts("questions") for row in read_records(part, QuestionAnswer)]
    numeric = [row for row in made if row.type == "numeric"]
    assert len(numeric) == written["questions"]["numeric"] > 0 < written["questions"]["factual"]
    assert {(row.task, row.source, row.answer_kind) for row in numeric} == {("generate_numeric", "section", "numeric")}
    verdicts = [row for part in run.parts("verdicts") for row in read_records(part, JudgeVerdict)]
    stages = {row.stage for row in verdicts if row.question_id == numeric[0].id}
    assert stages == {"relevance", "support", "quality", "round_trip"}
    assert read_table(run.file("benchmark/numeric/test.parquet"), ["id"]).num_rows == len(numeric)
    page, card = (run.file(name).read_text() for name in ("report.html", "benchmark/README.md"))
    assert "numeric reasoning questions" in page and "#8a63b5" in page and "config_name: numeric" in card


def test_answers_to_questions_of_a_type_are_graded_and_in_the_tables(
    jobs: Mapping[str, subprocess.CompletedProcess[str]], written: Mapping[str, Any]
) -> None:
    value = result(jobs["answers"])
    [metrics] = [one["metrics"] for one in value["metrics"] if one["model"] == "m"]
    assert metrics["accuracy"]["numeric"]["value"] == 1.0
    assert metrics["accuracy"]["numeric"]["rows"] == written["questions"]["numeric"]
    page = (Path(value["run"]) / "report.html").read_text()
    assert "numeric reasoning questions" in page and '<abbr title="Numeric reasoning questions">Num</abbr>' in page


def test_a_plan_counts_the_requests_for_a_type(jobs: Mapping[str, subprocess.CompletedProcess[str]]) -> None:
    asked = {row["task"]: row["requests"] for row in result(jobs["plan"])["plan"]}
    assert 0 < asked["generate_numeric"] <= 4


def test_questions_of_a_type_are_not_read_without_its_package(written: Mapping[str, Any], tmp_path: Path) -> None:
    models = models_file(tmp_path, "http://127.0.0.1:9", {"name": "m"})
    done = run_job("evaluate", "--benchmark", written["run"], "--out", tmp_path / "run", "--models", models)
    assert done.returncode == 2 and "numeric" in done.stderr and "install" in done.stderr


def install(folder: Path, group: str, name: str, module: str) -> None:
    """Write a package as pip installs it: a module, and metadata with the entry point NAME = outside:component."""
    (folder / "outside.py").write_text(module)
    info = folder / "outside-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: outside\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{name} = outside:component\n")


@pytest.mark.parametrize(
    ("name", "module", "told"),
    [
        ("mine", "def component(question, evidence):\n    raise KeyError('dose')\n", "failed on question"),
        ("mine", "component = 3\n", "has type int; it must be a function"),
        ("mine", "import no_such_module\n", "cannot be imported"),
        ("malformed", "def component(question, evidence):\n    return None\n", "'malformed' is a built-in name"),
    ],
    ids=["fails", "no-function", "no-module", "name-taken"],
)
def test_a_filter_that_cannot_be_used_ends_the_job_with_one_line_that_names_it(
    name: str, module: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "fdarx.filters", name, module)
    monkeypatch.syspath_prepend(tmp_path)
    rules.cache_clear()
    try:
        options = ("--out", tmp_path / "run", "--twins", 2, "--executor", "local", "-q")
        done = run_job("build", "--labels", LABELS[0], *options)
    finally:
        rules.cache_clear()
        sys.modules.pop("outside", None)
    [line] = done.stderr.splitlines()
    assert done.returncode == 2 and line.startswith("error: ") and told in line and repr(name) in line


def test_an_unknown_kind_of_model_is_refused_with_those_that_exist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "fdarx.model_kinds", "acme", "component = None\n")
    monkeypatch.syspath_prepend(tmp_path)
    models = models_file(tmp_path, "http://127.0.0.1:9", {"name": "m", "kind": "acne"})
    done = run_job("evaluate", "--benchmark", tmp_path, "--out", tmp_path / "run", "--models", models)
    assert done.returncode == 2 and "known are openai, anthropic, acme" in done.stderr
