"""Jobs with --batch-files: requests in files, which a program answers, give what requests to a server give."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.records import Prediction
from tests.conftest import EXAMPLES
from tests.jobs.answering_files import answer_all, output_line, refused_line, requests_of, unanswered
from tests.jobs.evaluating import evaluate, models_file, respond, rows_of, untimed
from tests.jobs.in_process import run_job
from tests.jobs.test_batch_jobs import AMOUNTS, answers, rows_of_benchmark
from tests.llm.loopback_server import LoopbackServer
from tests.pipeline import scripted

pytestmark = pytest.mark.slow

pytest_plugins = ["tests.jobs.test_batch_jobs"]


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(respond) as running:
        yield running


def test_a_build_by_files_makes_the_same_benchmark(
    script: scripted.Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "my files", tmp_path / "files"
    line: tuple[object, ...] = ("build", "--labels", EXAMPLES, *AMOUNTS, "--cpus", 2)
    line += tuple(word for role in ("--generator", "--reader", "--judge") for word in (role, scripted.NAME))
    with LoopbackServer(script) as server:
        models = scripted.models_file(tmp_path, server.openai_url)
        done = run_job(*line, "--models", models, "--out", tmp_path / "direct")
        assert done.returncode == 0, done.stderr
        asked = server.number
    monkeypatch.delenv(scripted.KEY_VARIABLE)
    line += ("--models", models, "--out", out, "--batch-files", folder)
    first = run_job(*line)
    [file] = unanswered(folder)
    requests = requests_of(file)
    schema = requests[0]["body"]["response_format"]["json_schema"]
    assert (schema["strict"], schema["schema"]["type"], requests[0]["body"]["model"]) == (True, "object", "tiny")
    assert first.returncode == 3 and "stopped: requests to scripted wait" in first.stderr
    command = f"vllm run-batch -i '{file}' -o '{folder}/001-scripted.output.jsonl' --model tiny"
    assert f"{file} has {len(requests):,} requests to tiny" in first.stderr and command in first.stderr
    again = run_job(*line)
    assert again.returncode == 3 and len(list(folder.iterdir())) == 1  # nothing is asked twice
    answered, rounds, code = 0, 0, 3
    while code == 3:
        answered += answer_all(folder, script)
        done = run_job(*line)
        code, rounds = done.returncode, rounds + 1
        assert rounds < 12
    assert code == 0, done.stderr
    assert answered == asked
    assert rows_of_benchmark(tmp_path / "direct") == rows_of_benchmark(out)
    assert json.loads((out / "run.json").read_text())["asked"][0]["batched"] > 0


def test_partial_outputs_with_all_faults_are_completed(
    example_build: Path, server: LoopbackServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "a"})
    line: tuple[object, ...] = ("--models", models, "--settings", "closed_book,oracle")
    assert evaluate(example_build, tmp_path / "direct", *line).returncode == 0
    asked = server.number
    folder, out = tmp_path / "files", tmp_path / "run"
    line += ("--batch-files", folder)
    assert evaluate(example_build, out, *line).returncode == 3
    [file] = unanswered(folder)
    requests = requests_of(file)
    assert len(requests) == asked and not any("response_format" in request["body"] for request in requests)

    first, second, refused, failed, *rest = requests
    kept = rest[: len(rest) // 2]
    lines = [output_line(request, respond(request["body"])) for request in (first, second, *kept)]
    again = output_line(first, "another reply, which comes too late")
    unknown = output_line({**first, "custom_id": "0" * 32 + "-reply"}, "to nobody")
    errors = [refused_line(refused, 400, "the prompt is not allowed"), refused_line(failed, 500, "out of memory")]
    texts = [json.dumps(one) for one in (*errors, refused_line(second, 500, "first try"), *lines, again, unknown)]
    (folder / "001-a.output.1.jsonl").write_text("\n".join(texts[:10]) + "\n")
    (folder / "001-a.output.2.jsonl").write_text("\n".join(texts[10:]) + "\n" + texts[3][:50])
    done = evaluate(example_build, out, *line)
    assert done.returncode == 3
    [file] = unanswered(folder)
    assert file.name == "002-a.jsonl"
    missing = {request["custom_id"] for request in (failed, *rest[len(rest) // 2 :])}
    assert {request["custom_id"] for request in requests_of(file)} == missing
    assert "1 lines are of requests that no file there asks" in caplog.text and "1 lines cannot be read" in caplog.text

    answer_all(folder, respond)
    done = evaluate(example_build, out, *line)
    assert done.returncode == 0, done.stderr
    assert server.number == asked
    rows = rows_of(out, "predictions/a", Prediction)
    assert [row.reason for row in rows if row.outcome == "failed"] == ["refused_request"]
    assert not any("too late" in row.text for row in rows)
    direct = answers(tmp_path / "direct")
    same = [row for row in answers(out) if row.outcome != "failed"]
    assert len(same) == len(direct) - 1 and all(row in direct for row in same)


def test_several_models_and_a_judge_each_have_their_files(
    example_build: Path, server: LoopbackServer, tmp_path: Path
) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "a"}, {"name": "b"}, {"name": "strong"})
    line: tuple[object, ...] = ("--models", models, "--judge", "strong", "--settings", "oracle", "--sample", 3)
    assert evaluate(example_build, tmp_path / "direct", *line).returncode == 0
    asked, folder, out = server.number, tmp_path / "files", tmp_path / "run"
    line += ("--batch-files", folder)
    assert evaluate(example_build, out, *line).returncode == 3
    assert [file.name for file in unanswered(folder)] == ["001-a.jsonl", "001-b.jsonl"]
    count = answer_all(folder, respond)
    assert evaluate(example_build, out, *line).returncode == 3
    assert [file.name for file in unanswered(folder)] == ["001-strong.jsonl"]
    count += answer_all(folder, respond)
    done = evaluate(example_build, out, *line)
    assert done.returncode == 0, done.stderr
    assert (server.number, count) == (asked, asked)
    assert untimed(out) == untimed(tmp_path / "direct")


def test_a_program_without_structured_output_is_asked_in_words(
    example_build: Path, server: LoopbackServer, tmp_path: Path
) -> None:
    def refuse(body: Mapping[str, Any]) -> bool:
        return bool(body.get("response_format", {}).get("type") == "json_schema")

    models = models_file(tmp_path, server.openai_url, {"name": "a"}, {"name": "strong"})
    folder, out = tmp_path / "files", tmp_path / "run"
    line: tuple[object, ...] = (
        "--models",
        models,
        "--judge",
        "strong",
        "--settings",
        "oracle",
        "--batch-files",
        folder,
    )
    code, rounds = evaluate(example_build, out, *line).returncode, 0
    while code == 3 and rounds < 5:
        for file in unanswered(folder):
            rows = [
                refused_line(request, 400, "response_format json_schema is not supported")
                if refuse(request["body"])
                else output_line(request, respond(request["body"]))
                for request in requests_of(file)
            ]
            file.with_name(f"{file.stem}.output.jsonl").write_text("\n".join(map(json.dumps, rows)))
        code, rounds = evaluate(example_build, out, *line).returncode, rounds + 1
    assert (code, server.number) == (0, 0)
    last = requests_of(folder / "002-strong.jsonl")
    assert {request["body"]["response_format"]["type"] for request in last} == {"json_object"}
    assert len(last) == len(requests_of(folder / "001-strong.jsonl")) and not (folder / "003-strong.jsonl").exists()


def test_a_model_with_the_wrong_name_stops_the_job_with_the_remedy(
    example_build: Path, server: LoopbackServer, tmp_path: Path
) -> None:
    folder, out = tmp_path / "files", tmp_path / "run"
    models = models_file(tmp_path, server.openai_url, {"name": "a"})
    line: tuple[object, ...] = ("--models", models, "--settings", "oracle", "--batch-files", folder)
    evaluate(example_build, out, *line)
    rows = [refused_line(one, 400, "max_tokens is too large") for one in requests_of(folder / "001-a.jsonl")]
    (folder / "001-a.output.jsonl").write_text("\n".join(map(json.dumps, rows)))
    done = evaluate(example_build, out, *line)
    assert done.returncode == 3
    told = json.loads((out / "run.json").read_text())["cells"][0]["reason"]
    assert "max_tokens is too large" in told and f"delete the outputs in {folder} that say so" in told
    (folder / "001-a.output.jsonl").unlink()
    answer_all(folder, respond)
    assert evaluate(example_build, out, *line).returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--executor", "ray"), "--batch-files works in this process; leave out --executor ray"),
        (("--batch",), "--batch asks servers, and --batch-files asks none; leave one of them out"),
    ],
)
def test_files_are_refused_where_they_are_not_written(
    options: tuple[str, ...], message: str, example_build: Path, tmp_path: Path
) -> None:
    models = models_file(tmp_path, "http://127.0.0.1:1", {"name": "a"})
    files = ("--models", models, "--batch-files", tmp_path / "files")
    done = evaluate(example_build, tmp_path / "run", *files, *options)
    assert done.returncode == 2 and message in done.stderr
    assert not (tmp_path / "run").exists() and not (tmp_path / "files").exists()


def test_a_model_of_another_api_is_refused(example_build: Path, tmp_path: Path) -> None:
    models = models_file(tmp_path, "http://127.0.0.1:1", {"name": "a", "kind": "anthropic"})
    done = evaluate(example_build, tmp_path / "run", "--models", models, "--batch-files", tmp_path / "files")
    assert done.returncode == 2
    assert "model a: --batch-files writes OpenAI's format, not that of kind anthropic; set kind: openai" in done.stderr
