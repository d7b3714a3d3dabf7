"""`fdarx grade` as a user runs it, on files as Ragas, promptfoo and DeepEval write them, and thresholds and limits."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import copy
from typing import Any
from xml.etree import ElementTree

import pytest

import fdarx_core as fdarx
from fdarx_core.records import Grade, Prediction, QuestionAnswer, Reject
from fdarx_core.storage import RunConflict, StorageError
from fdarx_core.storage.graded_files import read_graded_file
from jobs.cli import parse
from tests.conftest import REPOSITORY
from tests.jobs.evaluating import by_type, cells, models_file, rows_of
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import Call, Fault, LoopbackServer, text_of

DOSE, ANURIA, WEEKLY = (
    "What is the starting dose of Quorvelin?",
    "In whom is Trebavin contraindicated?",
    "How often is Olmivax taken?",
)
RIGHT = {DOSE: "Start at 20 mg once daily.", ANURIA: "In patients with anuria.", WEEKLY: "Once weekly."}
SAID = {DOSE: "Begin with 20 mg a day.", ANURIA: "In patients with gout.", WEEKLY: "I don't know."}
CONTEXTS = {DOSE: ["Adults start at 20 mg once daily.", "Raise it weekly."], ANURIA: ["Not in anuria."], WEEKLY: []}


def respond(body: Mapping[str, Any]) -> str:
    """A judge that finds gout wrong, and unsupported by a context."""
    asked = text_of(body["messages"][-1])
    wrong = "gout" in asked
    if body["response_format"]["json_schema"]["name"] == "grade_answer":
        return json.dumps({"reason": "key_content_missing: x" if wrong else "y", "grade": "IN" * wrong + "CORRECT"})
    verdict = {"passage": 1, "reason": "z", "quote": "", "verdict": "unsupported" if wrong else "supported"}
    return json.dumps({"verdicts": [verdict]})


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=respond) as running:
        yield running


def grade(server: LoopbackServer, file: Path, *more: object) -> Any:
    models = models_file(file.parent, server.openai_url, {"name": "strong"})
    options = ("--models", models, "--judge", "strong", "--out", file.parent / "run", "--resamples", 100)
    return run_job("grade", file, *options, "--executor", "local", *more)


def write_csv(file: Path, header: list[str], rows: list[list[Any]]) -> Path:
    with file.open("w", newline="") as stream:
        csv.writer(stream).writerows([header, *rows])
    return file


def ragas_jsonl(file: Path) -> Path:
    """As `EvaluationDataset.to_jsonl` of Ragas."""
    names = ("user_input", "retrieved_contexts", "response", "reference")
    rows = [dict(zip(names, (q, CONTEXTS[q], SAID[q], RIGHT[q]), strict=True)) for q in RIGHT]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


FILES = Path(__file__).with_name("data")
"""Files that ragas 0.4.3, deepeval 4.3.1 and promptfoo 0.121.20 wrote of these answers, without their indents."""
WRITTEN = sorted(file.name for file in FILES.iterdir() if "repeat" not in file.name)


@pytest.mark.parametrize("name", WRITTEN)
def test_the_files_of_other_tools_have_the_same_grades(name: str, server: LoopbackServer, tmp_path: Path) -> None:
    done = grade(server, Path(copy(FILES / name, tmp_path)))
    assert done.returncode == 0, done.stderr
    run = tmp_path / "run"
    model = "qa" if name.startswith("promptfoo") else name.partition(".")[0]
    found = by_type(run)
    accuracy = found[model, "reference", "", "accuracy", "answerable"]
    supported = found[model, "given_context", "", "supported_rate", "all"]
    assert (accuracy.value, accuracy.rows, accuracy.unscored) == (1 / 3, 3, 0)
    assert (supported.value, supported.rows, supported.unscored) == (0.5, 2, 0)
    assert found[model, "reference", "", "hallucination_rate", "all"].value == 1 / 3
    assert not any(key[1] == "given_context" and key[3] in ("accuracy", "hallucination_rate", "bleu") for key in found)
    prompts = {cell.setting: cell.judge_prompt for cell in cells(run).values()}
    assert prompts == {"reference": "grade_answer 1", "given_context": "judge_claim 3"}
    assert all(cell.status == "done" for cell in cells(run).values() if cell.model == model)
    outcomes = sorted(row.outcome for row in rows_of(run, f"grades/{model}", Grade))
    assert outcomes == ["correct", "incorrect", "not_attempted", "supported", "unsupported"]
    assert (
        f"of the graded answers of “{model}” are correct by the references" in done.stdout
        and f"the given contexts support 50 % [0 %, 100 %] of the judged answers of “{model}”" in done.stdout
    )
    if name.startswith("promptfoo"):
        [reject] = rows_of(run, "rejects", Reject)
        assert reject.reason == "no_answer"
        assert reject.detail == ("timeout" if name.endswith("json") else "the model failed")  # its CSV has no messages
        assert f"1 row cannot be used, first {name}:" in done.stderr
        assert found["other", "reference", "", "accuracy", "answerable"].value == 1
        assert cells(run)["other", "reference", ""].status == "partial"
    else:
        assert not rows_of(run, "rejects", Reject)


def test_further_answers_to_a_question_are_repeats(server: LoopbackServer, tmp_path: Path) -> None:
    done = grade(server, Path(copy(FILES / "promptfoo_repeat.jsonl", tmp_path)))
    assert done.returncode == 0, done.stderr
    found = by_type(tmp_path / "run")
    assert {key[0] for key in found} == {"qa", "qa-2"} and not rows_of(tmp_path / "run", "rejects", Reject)
    accuracy = found["qa", "reference", "", "accuracy", "answerable"]
    assert (accuracy.value, accuracy.rows, accuracy.clusters) == (1 / 3, 6, 3)
    assert "2 models on 3 questions of a graded file" in (tmp_path / "run/report.html").read_text()
    questions = rows_of(tmp_path / "run", "questions", QuestionAnswer)
    assert sorted(row.id for row in questions) == sorted(
        f"{row.set_id}{end}" for row in questions[::2] for end in ("", "~2")
    )


def test_the_prompts_of_promptfoo_are_numbered_in_their_order() -> None:
    _, answers = read_graded_file(str(FILES / "promptfoo_repeat.jsonl"), {})
    assert [row.model for row in answers[::12]] == ["qa", "qa-2"]


def test_a_graded_file_is_resumed_and_can_be_looked_at(server: LoopbackServer, tmp_path: Path) -> None:
    file = ragas_jsonl(tmp_path / "qa.jsonl")
    server.faults = lambda call: Fault(status=503) if "gout" in str(call.body) else None
    failed = grade(server, file)
    assert failed.returncode == 3 and "incomplete" in failed.stderr
    asked, server.faults = server.number, lambda call: None
    assert grade(server, file).returncode == 0 and server.number == asked + 2
    again = grade(server, file)
    assert again.returncode == 0 and "complete already" in again.stderr and server.number == asked + 2
    run = fdarx.grade(
        file, judge=fdarx.Model("strong", base_url=server.openai_url), out=tmp_path / "run", resamples=100
    )
    assert server.number == asked + 2 and run.complete
    page = (tmp_path / "run/report.html").read_text()
    assert "1 model on 3 questions of a graded file" in page and "drug labels" not in page
    assert "Answer not supported by its context" in page and "bootstrap over questions or drugs" in page
    [question] = [row for row in rows_of(tmp_path / "run", "questions", QuestionAnswer) if row.question == DOSE]
    shown = run_job("show", tmp_path / "run", question.id)
    assert shown.returncode == 0 and SAID[DOSE] in shown.stdout and "given_context" in shown.stdout
    assert not any(word in shown.stdout for word in ("label", "set id", "split", "factual"))
    file.write_text(file.read_text().replace("gout", "fever"))
    with pytest.raises(RunConflict, match="other answers"):
        fdarx.grade(file, judge=fdarx.Model("strong", base_url=server.openai_url), out=tmp_path / "run", resamples=100)


def test_a_judge_that_fails_is_no_verdict(server: LoopbackServer, tmp_path: Path) -> None:
    def garbled(call: Call) -> Fault | None:
        return Fault(text="Looks good to me.") if "gout" in str(call.body) else None

    server.faults = garbled
    done = grade(server, ragas_jsonl(tmp_path / "qa.jsonl"))
    assert done.returncode == 0, done.stderr
    unscored = [row for row in rows_of(tmp_path / "run", "grades/qa", Grade) if row.outcome == "unscored"]
    assert {row.task for row in unscored} == {"grade_answer", "judge_claim"} and len(unscored) == 2
    found = by_type(tmp_path / "run")
    assert found["qa", "given_context", "", "supported_rate", "all"].unscored == 1
    assert "no verdict on 1 of" in done.stderr


def test_columns_are_named_by_options(server: LoopbackServer, tmp_path: Path) -> None:
    rows = [["q7", DOSE, "A", SAID[DOSE], RIGHT[DOSE]], ["q7", DOSE, "B", RIGHT[DOSE], RIGHT[DOSE]],
            ["q7", ANURIA, "A", "x", "y"], ["", "", "A", "x", "y"], ["q8", WEEKLY, "A", "x", ""],
            ["q7", DOSE, "A", "again", RIGHT[DOSE]]]  # fmt: skip
    file = write_csv(tmp_path / "mine.csv", ["nr", "frage", "who", "said", "truth"], rows)
    done = grade(server, file)
    assert done.returncode == 2 and not (tmp_path / "run").exists()
    assert "mine.csv has the columns nr, frage, who, said, truth, none for question; name columns by" in done.stderr
    assert "--question, --answer, --reference, --context, --id, --model-name, --drug" in done.stderr
    named = ("--question", "frage", "--answer", "said", "--reference", "truth", "--id", "nr")
    wrong = grade(server, file, *named, "--model-name", "whom")
    assert wrong.returncode == 2 and "--model-name whom: mine.csv has the columns nr, frage" in wrong.stderr
    done = grade(server, file, *named, "--model-name", "who")
    assert done.returncode == 0, done.stderr
    assert {
        (row.model, row.question_id)
        for model in "AB"
        for row in rows_of(tmp_path / "run", f"predictions/{model}", Prediction)
    } == {("A", "q7"), ("A", "q7~2"), ("B", "q7")}
    reasons = sorted(row.reason for row in rows_of(tmp_path / "run", "rejects", Reject))
    assert reasons == ["no_question", "no_reference_or_context", "other_question"]


def test_files_that_cannot_be_graded_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    for name, told in (("notes.txt", "of another kind"), ("none.csv", "not there")):
        with pytest.raises(StorageError, match=told):
            fdarx.grade(tmp_path / name, out=tmp_path / "run")
    empty = [{"question": DOSE, "answer": None, "reference": "x"}]
    with pytest.raises(StorageError, match="holds no answer to grade"):
        fdarx.grade(empty, out=tmp_path / "run")
    with pytest.raises(ValueError, match=r"no metric acuracy for a threshold; did you mean accuracy\?"):
        fdarx.grade([{"question": DOSE, "answer": "x", "reference": "x"}], out=tmp_path / "run", fail_under="acuracy=1")
    with pytest.raises(ValueError, match="METRIC=NUMBER"):
        fdarx.grade([{"question": DOSE, "answer": "x", "reference": "x"}], out=tmp_path / "run", fail_under="accuracy")
    assert not (tmp_path / "run").exists()


def test_thresholds_have_an_exit_code_and_a_junit_file(server: LoopbackServer, tmp_path: Path) -> None:
    file, junit = ragas_jsonl(tmp_path / "qa.jsonl"), tmp_path / "run/junit.xml"
    assert grade(server, file).returncode == 0 and not junit.exists()
    met = grade(server, file, "--fail-under", "accuracy=0.3", "--fail-over", "hallucination_rate=0.5")
    assert met.returncode == 0, met.stderr
    suite = ElementTree.fromstring(junit.read_text())
    assert (suite.get("tests"), suite.get("failures")) == ("2", "0")
    missed = grade(server, file, "--fail-under", "accuracy=0.3", "supported_rate=0.8", "refusal_f1=0.1")
    assert missed.returncode == 4
    assert "threshold missed: qa · given_context: supported_rate is 0.5, and must be at least 0.8" in missed.stderr
    assert "threshold missed: refusal_f1 has no value" in missed.stderr
    suite = ElementTree.fromstring(junit.read_text())
    failures = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failures == ["supported_rate at least 0.8", "refusal_f1 at least 0.1"] and suite.get("failures") == "2"
    told = json.loads(grade(server, file, "--fail-over", "reference/hallucination_rate=0.1", "--json").stdout)
    assert told["thresholds"][0]["fault"].endswith("hallucination_rate is 0.3333, and must be at most 0.1")
    with pytest.raises(AssertionError, match=r"accuracy is 0\.3333, and must be at least 0\.9"):
        fdarx.assert_thresholds(tmp_path / "run", under={"accuracy": 0.9})
    with pytest.raises(ValueError, match="did you mean hallucination_rate"):
        fdarx.assert_thresholds(tmp_path / "run", over={"hallucinations_rate": 0.1})
    with pytest.raises(AssertionError, match="accuracy"):
        judge = fdarx.Model("strong", base_url=server.openai_url)
        fdarx.grade(file, judge=judge, out=tmp_path / "run", resamples=100, fail_under="accuracy=0.9")


def test_the_example_of_the_documentation_passes(server: LoopbackServer, tmp_path: Path) -> None:
    page = (REPOSITORY / "docs/grading.md").read_text()
    example = re.search(r"```python\n(.*?def test_.*?)```", page, re.DOTALL)
    assert example
    file = ragas_jsonl(tmp_path / "answers.jsonl")
    models = models_file(tmp_path, server.openai_url, {"name": "strong"})
    code = example[1].replace('"answers.jsonl"', repr(str(file))).replace('"models.yaml"', repr(str(models)))
    names: dict[str, Any] = {}
    exec(code, names)
    [test] = [function for name, function in names.items() if name.startswith("test_")]
    with pytest.raises(AssertionError, match=r"accuracy is 0\.3333"):
        test()


def test_a_limit_takes_the_first_questions_in_a_seeded_order(server: LoopbackServer, tmp_path: Path) -> None:
    file = ragas_jsonl(tmp_path / "qa.jsonl")
    done = grade(server, file, "--limit", 2)
    assert done.returncode == 0, done.stderr
    assert "Only 2 of 3 questions were taken, drawn by the seed (--limit)." in done.stdout
    assert len(rows_of(tmp_path / "run", "questions", QuestionAnswer)) == 2
    other = grade(server, file, "--limit", 1)
    assert other.returncode == 2 and "limit: was 2, now 1" in other.stderr


def test_a_comparison_of_strategies_has_the_limit_too() -> None:
    limited = parse(["evaluate-rag", "--index", "i", "--questions", "q", "--out", "o", "--limit", "5"])
    assert limited.keywords["config"].sample == 5


def test_an_evaluation_takes_a_limit_and_answers_by_their_questions(example_build: Path, tmp_path: Path) -> None:
    questions = [row for row in rows_of(example_build, "questions", QuestionAnswer) if row.type == "factual"]
    texts = [row.question for row in questions]
    alone = [row for row in questions if texts.count(row.question) == 1][:2]
    rows = [{"question": f" {row.question.upper()} ", "answer": row.answer} for row in alone]
    rows += [{"question": "What is nowhere?", "answer": "x"}]
    options: dict[str, Any] = {"settings": ["oracle"], "resamples": 100, "split": "all"}
    run = fdarx.evaluate(example_build, models=[], predictions=rows, out=tmp_path / "given", **options)
    assert {row.question_id for row in rows_of(run.root, "predictions/given.predictions", Prediction)} == {
        row.id for row in alone
    }
    assert [row.reason for row in rows_of(run.root, "rejects", Reject)] == ["unknown_question"]
    few = fdarx.evaluate(example_build, limit=5, out=tmp_path / "few", **options)
    more = fdarx.evaluate(example_build, limit=9, out=tmp_path / "more", **options)
    every = [{"qid": row.id, "answer": row.answer} for row in questions] + [{"qid": "none", "answer": "x"}]
    bounds: list[dict[str, Any]] = [{"limit": 5}, {"sample": 1}, {}]
    for bound in bounds:
        place = tmp_path / str(bound) / "given"
        part = fdarx.evaluate(example_build, predictions=every, models=[], out=place, **bound, **options)
        assert [row.id for row in rows_of(part.root, "rejects", Reject)] == ["none"]
        taken = len(rows_of(part.root, "predictions/given.predictions", Prediction))
        told = f"{len(questions) - taken:,} of the given answers are to questions that were not taken."
        assert (told in part.info()["notes"]) == (told in part.file("report.html").read_text()) == bool(bound)
    first, second = ({row.id for row in rows_of(one.root, "questions", QuestionAnswer)} for one in (few, more))
    assert len(first) == 5 and len(second) == 9 and first < second
    assert few.info()["result"].endswith("questions were taken, drawn by the seed (--limit).")
    assert few.info()["config"]["limit"] == 5 and "limit" not in run.info()["config"]
    assert "(--limit)" in few.file("report.html").read_text()


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ([DOSE], "No intervals: they need two questions or drugs at least."),
        ([DOSE, ANURIA], "over questions or drugs, with each missing verdict counted as wrong and as right."),
        (
            [DOSE, ANURIA, WEEKLY],
            "Intervals: 95 %, bootstrap over questions or drugs. Only 2 questions or drugs: these",
        ),
    ],
)
def test_a_table_says_what_its_intervals_rest_on(
    asked: list[str], told: str, server: LoopbackServer, tmp_path: Path
) -> None:
    server.faults = lambda call: Fault(text="Looks good to me.") if "gout" in str(call.body) else None
    rows = [{"question": name, "response": SAID[name], "reference": RIGHT[name]} for name in asked]
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    printed = " ".join(grade(server, tmp_path / "qa.jsonl").stdout.split())
    assert told in printed and ("No intervals" in told or "[0.00, 1.00]" in printed)
