"""`fdarx evaluate` as a user runs it: by rules, with models, with answers made elsewhere; stopped, and again."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fdarx_core.records import Figure, Grade, Prediction, QuestionAnswer, Reject
from fdarx_core.storage import Location, read_records
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import cells, command, evaluate, models_file, respond, rows_of
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import Call, Fault, LoopbackServer


@pytest.fixture(scope="module")
def evaluated(example_evaluation: Path) -> Path:
    return example_evaluation


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=respond) as running:
        yield running


def test_every_question_that_is_due_has_a_grade(evaluated: Path) -> None:
    asked = json.loads((evaluated / "run.json").read_text())["questions"]
    answerable, everything = asked["factual"] + asked.get("multihop", 0), sum(asked.values())
    found = cells(evaluated)
    due = {key[1]: cell.due for key, cell in found.items()}
    assert due == {
        "closed_book": answerable, "oracle": answerable, "full_label": everything, "retrieved": everything,
    }  # fmt: skip
    assert all(cell.status == "done" and cell.answered + cell.refused == cell.due for cell in found.values())
    predictions = {row.id for row in rows_of(evaluated, "predictions/baseline", Prediction)}
    grades = {row.prediction_id for row in rows_of(evaluated, "grades/baseline", Grade)}
    assert predictions == grades and len(predictions) == sum(due.values())


def test_accuracy_is_what_the_grades_say(evaluated: Path) -> None:
    predictions = {row.id: row for row in rows_of(evaluated, "predictions/baseline", Prediction)}
    grades = rows_of(evaluated, "grades/baseline", Grade)
    oracle = [grade for grade in grades if predictions[grade.prediction_id].setting == "oracle"]
    [figure] = [
        row
        for row in read_records(Location(evaluated) / "metrics.parquet", Figure)
        if (row.keys["setting"], row.metric, row.keys["group_by"], row.keys["group"])
        == ("oracle", "accuracy", "type", "answerable")
    ]
    right = sum(grade.outcome == "correct" for grade in oracle)
    decided = [grade for grade in oracle if grade.outcome != "unscored"]
    assert figure.value == pytest.approx(right / len(decided)) and figure.rows == len(decided)
    assert figure.unscored == len(oracle) - len(decided)
    assert None not in (figure.low, figure.value, figure.high)
    assert sorted((figure.low, figure.value, figure.high)) == [figure.low, figure.value, figure.high]  # type: ignore[type-var]


def test_a_complete_run_is_left_alone(evaluated: Path, example_build: Path) -> None:
    before = (evaluated / "metrics.parquet").stat().st_mtime_ns
    again = evaluate(example_build, evaluated)
    assert again.returncode == 0 and "complete already" in again.stderr and "Table 1" in again.stdout
    assert (evaluated / "metrics.parquet").stat().st_mtime_ns == before


def test_the_page_is_drawn_anew(evaluated: Path) -> None:
    page = evaluated / "report.html"
    charts = page.read_text().count("<svg")
    page.unlink()
    assert run_job("report", evaluated).returncode == 0
    assert page.read_text().count("<svg") == charts > 0


def test_what_was_said_to_one_question(evaluated: Path) -> None:
    question = next(row for row in rows_of(evaluated, "questions", QuestionAnswer) if row.type == "factual")
    shown = run_job("show", evaluated, question.id)
    assert shown.returncode == 0, shown.stderr
    for part in (question.question, question.answer, "baseline · oracle", "baseline · retrieved · bm25", "graded"):
        assert part in shown.stdout
    unknown = run_job("show", evaluated, "nobody")
    assert unknown.returncode == 2 and "has no question 'nobody'" in unknown.stderr


def test_a_model_and_a_judge_on_a_server(example_build: Path, server: LoopbackServer, tmp_path: Path) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "small"}, {"name": "strong"})
    out = tmp_path / "run"
    done = evaluate(example_build, out, "--models", models, "--judge", "strong", "--settings", "oracle,retrieved")
    assert done.returncode == 0, done.stderr
    assert {key[0] for key in cells(out)} == {"small"}
    accuracy = [
        row.value
        for row in read_records(Location(out) / "metrics.parquet", Figure)
        if (row.metric, row.keys["group_by"], row.keys["group"]) == ("accuracy", "type", "answerable")
    ]
    assert accuracy == [1.0, 1.0]  # the judge is always content
    grades = rows_of(out, "grades/small", Grade)
    assert {grade.judge for grade in grades} == {"strong", "rule"}
    predictions = [row for row in rows_of(out, "predictions/small", Prediction) if row.setting == "retrieved"]
    assert all(row.cited == row.shown[:1] and 0 < len(row.shown) <= 5 for row in predictions)


def test_a_judge_without_a_usable_verdict_is_told(example_build: Path, server: LoopbackServer, tmp_path: Path) -> None:
    server.answer = lambda body: "It depends." if body["model"] == "vague" else respond(body)
    models = models_file(tmp_path, server.openai_url, {"name": "small"}, {"name": "tiny"}, {"name": "vague"})
    out = tmp_path / "run"
    done = evaluate(example_build, out, "--models", models, "--judge", "vague", "--settings", "oracle")
    assert done.returncode == 3 and "No reply of the judge vague could be used." in done.stderr
    grades = rows_of(out, "grades/small", Grade)
    judged = [grade for grade in grades if grade.judge == "vague"]
    assert {grade.outcome for grade in judged} == {"unscored"} and len(judged) > 20
    [line] = [line for line in done.stderr.splitlines() if line.startswith("small · oracle: ")]
    count = f"the judge “vague” gave no verdict on {len(judged)} of {len(judged)} answers (invalid json: "
    assert count in line and "they are unscored and count in no accuracy" in line
    assert f"fdarx show {out} {judged[0].question_id}" in done.stderr and "--regrade JUDGE" in done.stderr
    page = (out / "report.html").read_text()
    assert count in page and "Answers without a verdict of the judge" in page

    compared = run_job("compare", out, "--metric", "accuracy", "--out", tmp_path / "compare.html")
    assert compared.returncode == 0, compared.stderr
    assert "Accuracies of run are not compared, because no answer of it" in compared.stdout
    assert "in common" not in compared.stdout and "Nothing to compare" not in compared.stdout
    assert "Accuracies of run are not compared" in (tmp_path / "compare.html").read_text()


@pytest.mark.slow
def test_another_run_takes_over_what_was_answered(example_build: Path, server: LoopbackServer, tmp_path: Path) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "small"})
    first = evaluate(example_build, tmp_path / "a", "--models", models, "--settings", "oracle")
    assert first.returncode == 0, first.stderr
    asked = server.number
    more = ("--models", models, "--settings", "oracle,closed_book", "--reuse", tmp_path / "a")
    assert evaluate(example_build, tmp_path / "b", *more).returncode == 0
    answerable = cells(tmp_path / "b")["small", "oracle", ""].due
    assert server.number == asked + answerable


def test_answers_made_elsewhere_are_graded(evaluated: Path, example_build: Path, tmp_path: Path) -> None:
    questions = [json.loads(line) for line in (example_build / "benchmark" / "qa.jsonl").read_text().splitlines()]
    rows = [
        {
            "qid": row["qid"],
            "answer": row["answer"] if row["task"] != "refusal" else "NOT_ANSWERABLE",
            "setting": "full_label",
        }
        for row in questions
    ]
    file = tmp_path / "copycat.jsonl"
    file.write_text("\n".join([*map(json.dumps, [*rows, {"qid": "nobody", "answer": "5 mg"}]), "{broken"]))
    done = evaluate(
        example_build, tmp_path / "run", "--predictions", file, "--models", "baseline", "--settings", "oracle"
    )
    assert done.returncode == 0, done.stderr
    assert f"1 row cannot be used, first copycat.jsonl:{len(rows) + 2}: not_json" in done.stderr
    found = {
        (row.metric, row.keys["group"]): row.value
        for row in read_records(Location(tmp_path / "run") / "metrics.parquet", Figure)
        if row.keys["model"] == "copycat" and row.keys["group_by"] == "type"
    }
    assert found["accuracy", "answerable"] == pytest.approx(1, abs=0.01)
    assert found["refusal_f1", "all"] == 1.0
    assert cells(tmp_path / "run")["copycat", "full_label", ""].due == len(questions)
    assert [row.reason for row in rows_of(tmp_path / "run", "rejects", Reject)] == ["not_json", "unknown_question"]

    file.write_text(json.dumps({**rows[0], "answer": "something else"}))
    more = ("--predictions", file, "--models", "baseline", "--settings", "oracle")
    changed = evaluate(example_build, tmp_path / "run", *more)
    assert changed.returncode == 2 and "other answers" in changed.stderr
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "complete"


@pytest.mark.slow
def test_a_plan_asks_nothing(example_build: Path, server: LoopbackServer, tmp_path: Path) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "small", "prices": {"input": 1.0, "output": 2.0}})
    out = tmp_path / "run"
    planned = evaluate(example_build, out, "--models", models, "--plan")
    assert planned.returncode == 0, planned.stderr
    assert not out.exists()
    assert server.number == 0 and "answer_full_label" in planned.stdout
    total = int(
        next(line for line in planned.stdout.splitlines() if line.startswith("sum")).split()[1].replace(",", "")
    )
    done = evaluate(example_build, out, "--models", models)
    assert done.returncode == 0, done.stderr
    grading = sum(
        int(line.split()[2].replace(",", "")) for line in planned.stdout.splitlines() if line.startswith("grade_answer")
    )
    assert server.number == total - grading


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--settings", "oracle,open_book"), "--settings: there is no setting open_book"),
        (("--retrievers", "bm26"), "there is no retriever bm26"),
        (("--judge", "nobody"), "--judge nobody: there is no such model"),
        (("--models", "missing.yaml"), "models: missing.yaml is not a file"),
        (("--retrievers", "bm25+rerank"), "--reranker-model"),
        (("--bertscore-model", "nowhere"), "--bertscore-model: "),
        (("--benchmark", "nowhere"), "there is nothing at nowhere"),
        (("--predictions", "nowhere.jsonl"), "nowhere.jsonl"),
    ],
)
def test_a_wrong_argument_ends_at_once(more: tuple[str, ...], told: str, example_build: Path, tmp_path: Path) -> None:
    done = evaluate(example_build, tmp_path / "run", *more)
    assert done.returncode == 2 and told in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert not (tmp_path / "run").exists()


def test_a_judge_alone_is_refused_because_nobody_answers(
    example_build: Path, server: LoopbackServer, tmp_path: Path
) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "strong"})
    done = evaluate(example_build, tmp_path / "run", "--models", models, "--judge", "strong")
    assert done.returncode == 2 and "--only strong" in done.stderr and server.number == 0
    planned = evaluate(
        example_build, tmp_path / "run", "--models", models, "--judge", "strong", "--only", "strong", "--plan"
    )
    assert "answer_oracle" in planned.stdout


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_answered(example_build: Path, server: LoopbackServer, tmp_path: Path) -> None:
    server.latency = 0.05
    models = models_file(tmp_path, server.openai_url, {"name": "small", "max_in_flight": 2})
    line = command(example_build, tmp_path / "run", "--models", models, "--settings", "oracle,full_label")
    job = subprocess.Popen(line, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)
    while server.number < 40:
        assert job.poll() is None
        time.sleep(0.1)
    job.send_signal(signal.SIGINT)
    assert job.wait(60) == 130
    assert json.loads((tmp_path / "run" / "run.json").read_text())["status"] == "interrupted"
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    twice = server.number - sum(cell.due for cell in cells(tmp_path / "run").values())
    assert 0 <= twice <= 4


@pytest.mark.parametrize("down", [False, True])
def test_without_any_reply_there_is_one_error_and_no_report(
    example_build: Path, server: LoopbackServer, tmp_path: Path, down: bool
) -> None:
    server.faults = lambda call: Fault(status=401, error={"message": "Incorrect API key provided"})
    url = "http://127.0.0.1:9/v1" if down else server.openai_url
    models = models_file(tmp_path, url, {"name": "m", "max_wait_s": 1})
    done = evaluate(example_build, tmp_path / "run", "--models", models, "--only", "m", "--sample", 1, "--quiet")
    assert done.returncode == 3 and done.stdout == ""
    assert done.stderr.startswith("stopped: model m (m) at http://127.0.0.1:") and len(done.stderr.splitlines()) == 1
    assert ("check base_url" if down else "set key_env: ") in done.stderr
    assert not list(tmp_path.glob("run/*.html")) and not (tmp_path / "run/metrics.json").exists()


def test_one_model_fails_one_is_slow_one_is_fine(example_build: Path, server: LoopbackServer, tmp_path: Path) -> None:
    def weather(call: Call) -> Fault | None:
        if call.body["model"] == "broken":
            return Fault(status=500)
        return Fault(latency=0.25) if call.body["model"] == "slow" else None

    server.latency, server.faults = 0.05, weather
    models = models_file(tmp_path, server.openai_url, {"name": "fine"}, {"name": "slow"}, {"name": "broken"})
    out = tmp_path / "run"
    line = ("--models", models, "--settings", "closed_book,oracle")
    done = evaluate(example_build, out, *line)
    assert done.returncode == 3 and "broken" in done.stderr and "server_error" in done.stderr, done.stderr
    found = cells(out)
    assert len(found) == 3 * 2
    for (name, _, _), cell in found.items():
        assert (cell.status == "done") == (name != "broken")
        assert "500" in cell.reason if name == "broken" else cell.answered == cell.due
    names = [call.body["model"] for call in server.calls]
    last_fine = max(place for place, name in enumerate(names) if name == "fine")
    assert names[:last_fine].count("slow") < 0.6 * names.count("slow")

    asked = server.number
    server.faults = lambda call: None
    again = evaluate(example_build, out, *line)
    assert again.returncode == 0, again.stderr
    assert {call.body["model"] for call in server.calls[asked:]} == {"broken"}
    assert all(cell.status == "done" and cell.answered == cell.due for cell in cells(out).values())


def test_published_questions_without_their_labels(toy: Path, server: LoopbackServer, tmp_path: Path) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "small"})
    done = evaluate(toy, tmp_path / "run", "--models", models)
    assert done.returncode == 0, done.stderr
    found = cells(tmp_path / "run")
    assert {key[1]: (cell.status, cell.answered) for key, cell in found.items()} == {
        "closed_book": ("done", 56), "oracle": ("done", 56), "full_label": ("skipped", 0), "retrieved": ("skipped", 0),
    }  # fmt: skip
    assert "no label has its complete text" in done.stderr


def test_a_label_that_is_cut_is_counted_and_told(example_build: Path, tmp_path: Path) -> None:
    done = evaluate(example_build, tmp_path / "run", "--settings", "full_label", "--sample", 3, "--label-chars", 2000)
    assert done.returncode == 0, done.stderr
    [cell] = cells(tmp_path / "run").values()
    assert cell.cut == cell.due > 0 and cell.gold_shown < cell.gold_due
    told = f"labels cut for {cell.cut} of {cell.due} questions to fit the context; gold shown for {cell.gold_shown} of"
    assert told in done.stderr and told in (tmp_path / "run" / "report.html").read_text()
    assert "from the whole label" not in (tmp_path / "run" / "report.html").read_text()
