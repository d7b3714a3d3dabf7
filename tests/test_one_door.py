"""The command line and the Python API are one door: either resumes the runs of the other, and neither mixes up runs."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fdarx_core as fdarx
from fdarx_core.evaluation.metrics import mean_metric
from fdarx_core.llm import ModelsError
from fdarx_core.records import Grade, Prediction, QuestionAnswer
from fdarx_core.specs.serve import ServeSpec
from fdarx_core.storage import RunConflict
from jobs.cli import parse
from tests.conftest import EXAMPLES, REPOSITORY
from tests.jobs.evaluating import models_file, respond
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer
from tests.loopback.build import LoopbackModels

AMOUNTS = {"sample": 3, "passages": 1, "section_pairs": 1, "twins": 1}
ONE_SETTING = {"settings": ["oracle"], "resamples": 100, "sample": 2}
ANSWERS = [{"question": "How much is taken?", "answer": "Take 5 mg once daily."}]
TEXTS = [{"text": "The dose is 5 mg once daily."}]


def words(**options: Any) -> list[object]:
    """The options as a user types them."""
    typed: list[object] = []
    for name, value in options.items():
        typed += [f"--{name.replace('_', '-')}", *(value if isinstance(value, list) else [value])]
    return typed


def lines(file: Path, rows: list[dict[str, str]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


@pytest.fixture(scope="module")
def made_index(example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("index") / "index"
    fdarx.index(example_build, out, words_only=True)
    return out


def build_pair(out: Path, inputs: Path) -> tuple[Callable[[], object], list[object]]:
    return lambda: fdarx.build(EXAMPLES, out, **AMOUNTS), ["build", "--labels", EXAMPLES, *words(**AMOUNTS)]


def evaluate_pair(out: Path, inputs: Path) -> tuple[Callable[[], object], list[object]]:
    build = inputs / "build"
    line = ["evaluate", "--benchmark", build, *words(**ONE_SETTING)]
    return lambda: fdarx.evaluate(build, out=out, **ONE_SETTING), line


def grade_pair(out: Path, inputs: Path) -> tuple[Callable[[], object], list[object]]:
    file = lines(inputs / "graded.jsonl", [{**ANSWERS[0], "reference": "Take 5 mg once daily."}])
    return lambda: fdarx.grade(file, out=out, resamples=100), ["grade", file, *words(resamples=100)]


def evaluate_rag_pair(out: Path, inputs: Path) -> tuple[Callable[[], object], list[object]]:
    index, questions = inputs / "index", lines(inputs / "questions.jsonl", ANSWERS)
    options = {"strategies": ["question"], "postprocess": ["none"], "resamples": 100}
    line = ["evaluate-rag", "--index", index, "--questions", questions, *words(**options)]
    return lambda: fdarx.evaluate_rag(index, questions, out=out, **options), line


def factuality_pair(out: Path, inputs: Path) -> tuple[Callable[[], object], list[object]]:
    answers, texts = lines(inputs / "answers.jsonl", ANSWERS), lines(inputs / "texts.jsonl", TEXTS)
    options = {"entailment": "exact", "resamples": 100}
    line = ["factuality", "--predictions", answers, "--evidence", f"file:{texts}", *words(**options)]
    return lambda: fdarx.score_factuality(answers, f"file:{texts}", out=out, **options), line


PAIRS = {
    "build": build_pair,
    "evaluate": evaluate_pair,
    "grade": grade_pair,
    "evaluate-rag": evaluate_rag_pair,
    "factuality": factuality_pair,
}


@pytest.mark.parametrize("first", ["python", "command"])
@pytest.mark.parametrize("job", PAIRS)
def test_either_door_goes_on_with_the_run_of_the_other(
    job: str, first: str, example_build: Path, made_index: Path, tmp_path: Path
) -> None:
    (tmp_path / "build").symlink_to(example_build)
    (tmp_path / "index").symlink_to(made_index)
    call, line = PAIRS[job](tmp_path / "run", tmp_path)
    line += ["--out", tmp_path / "run", "--executor", "local"]
    if first == "python":
        call()
        begun = json.loads((tmp_path / "run/run.json").read_text())
        done = run_job(*line)
        assert done.returncode == 0 and "is complete already" in done.stderr, done.stderr
    else:
        done = run_job(*line)
        assert done.returncode == 0, done.stderr
        begun = json.loads((tmp_path / "run/run.json").read_text())
        call()
    assert json.loads((tmp_path / "run/run.json").read_text()) == begun


@pytest.mark.parametrize("first", ["python", "command"])
def test_either_door_updates_the_index_of_the_other(first: str, tmp_path: Path) -> None:
    def command() -> None:
        done = run_job("index", "--documents", EXAMPLES, "--out", tmp_path / "index", "--words-only")
        assert done.returncode == 0, done.stderr

    def call() -> None:
        fdarx.index(EXAMPLES, tmp_path / "index", words_only=True)

    (call if first == "python" else command)()
    begun = (tmp_path / "index/current.json").read_bytes() if (tmp_path / "index/current.json").exists() else b""
    (command if first == "python" else call)()
    assert begun == ((tmp_path / "index/current.json").read_bytes() if begun else b"")
    assert fdarx.Index.open(tmp_path / "index").search("starting dose", k=1)


def test_another_sampling_is_another_run(example_build: Path, tmp_path: Path) -> None:
    with LoopbackServer(respond) as server:

        def evaluate(temperature: float) -> None:
            model = fdarx.Model("m", base_url=server.openai_url, sampling={"temperature": temperature})
            fdarx.evaluate(example_build, [model], out=tmp_path / "run", **ONE_SETTING)

        evaluate(0)
        asked = server.number
        assert asked
        with pytest.raises(RunConflict, match=r"temperature: was 0(\.0)?, now 1"):
            evaluate(1)
        evaluate(0)
        assert server.number == asked


@pytest.mark.parametrize("limit", [{"max_requests": 1}, {"max_cost": 1e-9, "prices": {"input": 1, "output": 1}}])
def test_a_job_keeps_the_limits_of_its_model(limit: dict[str, Any], example_build: Path, tmp_path: Path) -> None:
    with LoopbackServer(respond) as server:
        model = fdarx.Model("m", base_url=server.openai_url, max_in_flight=1, **limit)
        run = fdarx.evaluate(example_build, ["baseline", model], out=tmp_path / "run", **ONE_SETTING)
        assert server.number == 1 and run.info()["status"] == "incomplete" and not run.complete
        other = fdarx.Model("judge", base_url=server.openai_url)
        with pytest.raises(ValueError, match="give max_requests and max_cost to the job"):
            fdarx.evaluate(example_build, [model], judge=other, out=tmp_path / "other", **ONE_SETTING)


def test_a_run_with_other_prompts_is_refused_with_their_names(example_build: Path, tmp_path: Path) -> None:
    with LoopbackServer(respond) as server:
        model = fdarx.Model("m", base_url=server.openai_url)

        def evaluate() -> fdarx.Run:
            return fdarx.evaluate(example_build, [model], out=tmp_path / "run", **ONE_SETTING)

        evaluate()
        file = tmp_path / "run/run.json"
        info = json.loads(file.read_text())
        info["config"]["prompts"]["grade_answer"] = "0" * 16
        file.write_text(json.dumps(info))
        with pytest.raises(RunConflict, match=r"begun with other prompts \(grade_answer\)"):
            evaluate()
        del info["config"]["prompts"]  # as in a run that was begun before prompts were stored
        file.write_text(json.dumps(info))
        assert evaluate().complete


def test_the_store_of_a_model_is_used_by_jobs(example_build: Path, tmp_path: Path) -> None:
    with LoopbackServer(respond) as server:
        model = fdarx.Model("m", base_url=server.openai_url)
        fdarx.evaluate(example_build, [model], out=tmp_path / "first", **ONE_SETTING)
        asked = server.number
        kept = fdarx.Model("m", base_url=server.openai_url, store=tmp_path / "first/responses")
        fdarx.evaluate(example_build, [kept], out=tmp_path / "second", **ONE_SETTING)
        assert server.number == asked


def test_a_model_object_is_the_model_of_a_file(example_build: Path, tmp_path: Path) -> None:
    with LoopbackServer(respond) as server:
        file = models_file(tmp_path, server.openai_url, {"name": "m"})
        typed = ["evaluate", "--benchmark", example_build, "--models", file, *words(**ONE_SETTING)]
        done = run_job(*typed, "--out", tmp_path / "run", "--executor", "local")
        assert done.returncode == 0, done.stderr
        asked = server.number
        model = fdarx.Model("m", base_url=server.openai_url)
        run = fdarx.evaluate(example_build, [model], out=tmp_path / "run", **ONE_SETTING)
        assert run.complete and server.number == asked


def test_a_build_by_models_is_one_run_for_both_doors(tmp_path: Path) -> None:
    with LoopbackServer(LoopbackModels()) as server:
        roles = {
            role: fdarx.Model(name, base_url=server.openai_url)
            for role, name in (("generator", "writer"), ("reader", "reader"), ("judge", "judge"))
        }
        run = fdarx.build(EXAMPLES, tmp_path / "run", transfers=0, **roles, **AMOUNTS)
        assert run.complete and sum(run.info()["questions"].values())
        asked = server.number
        file = models_file(tmp_path, server.openai_url, *({"name": one.name} for one in roles.values()))
        typed = words(labels=EXAMPLES, models=file, transfers=0, **{role: one.name for role, one in roles.items()})
        done = run_job("build", *typed, *words(**AMOUNTS), "--out", tmp_path / "run")
        assert done.returncode == 0 and "is complete already" in done.stderr, done.stderr
        assert server.number == asked


def test_a_build_is_identified_by_its_labels_and_not_by_their_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "labels")
    run = fdarx.build(EXAMPLES, tmp_path / "run", **AMOUNTS)
    monkeypatch.chdir(tmp_path)
    assert fdarx.build("labels", "run", **AMOUNTS).info() == run.info()
    for file in sorted((tmp_path / "labels").glob("*.xml"))[1:]:
        file.unlink()
    with pytest.raises(RunConflict, match="other labels"):
        fdarx.build("labels", "run", **AMOUNTS)
    done = run_job("build", "--labels", "labels", "--out", "run", *words(**AMOUNTS))
    assert done.returncode == 2 and "other labels" in done.stderr


def test_the_run_that_a_function_returns_is_complete(example_build: Path, tmp_path: Path) -> None:
    assert fdarx.build(EXAMPLES, tmp_path / "build", **AMOUNTS).complete
    assert fdarx.evaluate(example_build, out=tmp_path / "evaluation", **ONE_SETTING).complete


def test_wrong_options_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="passagess"):
        fdarx.build(EXAMPLES, tmp_path / "run", passagess=3)
    with pytest.raises(ValueError, match="plan_requests"):
        fdarx.build(EXAMPLES, tmp_path / "run", plan=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("page", ["README.md", "docs/python.md"])
def test_the_first_example_of_verify_is_supported_without_a_model(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FDARX_VERIFIER", raising=False)
    example = re.search(r"^\[verdict\] = (fdarx\.verify\(.*\))$", (REPOSITORY / page).read_text(), re.MULTILINE)
    assert example
    [verdict] = eval(example[1], {"fdarx": fdarx})
    assert verdict.verdict == "supported"


def test_models_are_deployed_by_the_command_alone(example_build: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelsError, match="only `fdarx evaluate` deploys"):
        fdarx.evaluate(example_build, out=tmp_path / "run", deploy=["model.yaml"])
    assert not (tmp_path / "run").exists()


def words_of(question: QuestionAnswer, prediction: Prediction, grade: Grade | None) -> float | None:
    return float(len(prediction.answer.split())) if prediction.outcome == "answered" else None


def test_functions_are_metrics_of_an_evaluation_and_identify_it(example_build: Path, tmp_path: Path) -> None:
    rows = [{"qid": qid, "answer": "Take 5 mg."} for qid in fdarx.Run.open(example_build).questions()["id"]]
    given: dict[str, Any] = {"models": [], "predictions": rows, "out": tmp_path / "run", "resamples": 100}
    run = fdarx.evaluate(example_build, metrics=[words_of], **given)
    figures = run.metrics()
    assert set(figures[figures.metric == "words_of"]["value"]) == {3.0}
    begun = run.info()
    assert fdarx.evaluate(example_build, metrics=[words_of], **given).info() == begun
    with pytest.raises(RunConflict, match=r"metrics\.words_of: was"):
        fdarx.evaluate(example_build, metrics=[mean_metric(lambda *row: 1.0, "words_of")], **given)
    with pytest.raises(RunConflict, match="words_of"):
        fdarx.evaluate(example_build, **given)
    for wrong in ([lambda *row: 1.0], [words_of, words_of]):
        with pytest.raises(ValueError, match=r"has no name|exists already"):
            fdarx.evaluate(example_build, metrics=wrong, **given)


def test_frames_and_the_report_of_a_run(example_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    build = fdarx.Run.open(example_build)
    assert {"question", "answer", "type"} <= set(build.questions()) and set(build.labels()["set_id"])
    assert {"id", "stage", "reason"} <= set(build.rejects())
    run = fdarx.evaluate(example_build, out=tmp_path / "run", **ONE_SETTING)
    assert {"question_id", "model", "answer"} <= set(run.answers())
    assert {"metric", "value", "low", "high"} <= set(run.metrics())
    assert run.rejects().empty
    assert run.open_report() == (tmp_path / "run/report.html").as_uri() == opened[0]


def test_the_service_has_one_specification(tmp_path: Path) -> None:
    file = models_file(tmp_path, "http://localhost:1/v1", {"name": "m"})
    typed = ["serve", "--index", "a=runs/a", "--models", str(file), "--answerer", "m", "--k", "3"]
    command = parse(typed).keywords["config"].service_config()
    model = fdarx.Model("m", base_url="http://localhost:1/v1")
    python = ServeSpec.of(index="a=runs/a", models=[model], answerer=model, k=3).service_config()
    assert python.corpora == command.corpora == {"a": "runs/a"} and python.http == command.http
    assert python.roles == command.roles and [one.name for one in python.models] == ["m"]
    with pytest.raises(ModelsError, match="a service has no limit"):
        ServeSpec.of(index="runs/a", models=[fdarx.Model("m", base_url="http://localhost:1/v1", max_requests=1)])
