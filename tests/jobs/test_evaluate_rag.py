"""`fdarx evaluate-rag` as a user types it: with the built-in rules, with a model on a server, with one that fails."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.rag.strategies import ABLATIONS, STRATEGIES
from fdarx_core.records import Figure, RagAnswer, RagScore, TitleRank
from fdarx_core.storage import Location, read_records
from tests.conftest import REPOSITORY
from tests.jobs.answering_files import answer_all
from tests.jobs.evaluating import models_file, reopen, rows_of
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import Fault, LoopbackServer, text_of

pytestmark = pytest.mark.service

EXAMPLES = REPOSITORY / "examples"
QUESTIONS = EXAMPLES / "questions.jsonl"
REPLIES = {
    "more_questions": {"questions": ["Which storage applies?", "How long is a study?", "Who sets the batches?"]},
    "score_chunk": {"reason": "It is about the same.", "score": 7},
    "judge_claim": {"verdicts": [{"passage": 1, "reason": "It says so.", "quote": "", "verdict": "supported"}]},
    "judge_useful_context": {"reason": "It holds the answer.", "useful": True},
}


def respond(body: Mapping[str, Any]) -> str:
    """As a model that quotes the first context, and a judge that finds every context useful and nothing else held."""
    name = body.get("response_format", {}).get("json_schema", {}).get("name")
    if name == "judge_reference_statements":
        return json.dumps({"verdicts": [{"statement": 1, "reason": "No context says so.", "attributed": False}]})
    if name:
        return json.dumps(REPLIES[name])
    first = re.search(r'<context number="1".*?>(.*?)</context>', text_of(body["messages"][-1]), re.DOTALL)
    sentence = re.search(r"[A-Z][^.#\n]*(?:\n[^.#\n]+)*(?=\.\s)", first[1]) if first else None
    return f"{' '.join(sentence[0].split())} [1]." if sentence else "It is done within 15 calendar days."


def arguments(index: Path, out: Path, *options: object) -> list[object]:
    plain = ("--index", index, "--out", out, "--resamples", 200, "--cpus", 2)
    questions = () if "--questions" in options else ("--questions", QUESTIONS)
    return [*plain, *questions, *options]


def compare(index: Path, out: Path, *options: object) -> subprocess.CompletedProcess[str]:
    """Compare in this process."""
    return run_job("evaluate-rag", *arguments(index, out, *options))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("rag") / "index"
    small = ("--chunk-size", 400, "--overlap", 50, "--words-only")
    done = run_job("index", "--documents", EXAMPLES / "guidelines", "--out", out, *small)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(respond) as running:
        yield running


def test_all_ways_by_the_built_in_rules(index: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    line = [sys.executable, "-m", "jobs.evaluate_rag", *map(str, arguments(index, out, "--verbose"))]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    for number in (2, 3, 4, 5):
        assert f"Table {number}." in done.stdout
    assert (
        "no language model" in done.stdout
        and "only retrievers by words" in done.stderr
        and "destroyed" not in done.stderr
    )
    answers, scores = rows_of(out, "answers", RagAnswer), rows_of(out, "scores", RagScore)
    ways = {(row.strategy, row.postprocess) for row in answers}
    assert ways == {(name, post) for name in STRATEGIES | ABLATIONS for post in ("score", "none")}
    assert len(answers) == len(scores) == 8 * len(ways)
    by_question = [row for row in scores if row.strategy == "question"]
    assert sum(row.title_rank == 1 for row in by_question) >= 12
    assert {row.retriever for row in rows_of(out, "title_ranks", TitleRank)} == {"bm25"}
    figures = list(read_records(Location(out) / "figures.parquet", Figure))
    assert all(0 <= one.value <= 1 for one in figures if one.value is not None)
    assert (out / "report.html").read_text().startswith("<!doctype html>")
    again = compare(index, out, "--verbose")
    assert (again.returncode, "complete already" in again.stderr) == (0, True)
    assert again.stdout == done.stdout


def test_a_model_on_a_server(index: Path, tmp_path: Path, server: LoopbackServer) -> None:
    out = tmp_path / "run"
    named = ("--models", models_file(tmp_path, server.openai_url, {"name": "m"}), "--answerer", "m", "--judge", "m")
    planned = compare(index, out, *named, "--sample", 3, "--plan")
    assert (planned.returncode, server.number, out.exists()) == (0, 0, False), planned.stderr
    assert "score_chunk" in planned.stdout
    done = compare(index, out, *named, "--sample", 3)
    assert done.returncode == 0, done.stderr
    answers, scores = rows_of(out, "answers", RagAnswer), rows_of(out, "scores", RagScore)
    assert all(row.citations == [1] and row.outcome == "answered" for row in answers)
    assert all(row.context_precision == pytest.approx(1) and row.context_recall == 0 for row in scores)
    searches = {row.strategy: len(row.searches) for row in answers}
    assert (searches["question"], searches["qa_rag"], searches["multiquery"]) == (1, 2, 4)
    assert all(row.prompt_tokens > 0 for row in answers)
    asked = server.number
    assert max(server.by_prompt.values()) == 1, "what several ways ask alike is asked once"
    reopen(out)
    again = compare(index, out, *named, "--sample", 3)
    assert again.returncode == 0, again.stderr
    assert server.number == asked
    reused = compare(index, tmp_path / "reused", *named, "--sample", 3, "--reuse", out)
    assert (reused.returncode, server.number) == (0, asked), reused.stderr


@pytest.mark.parametrize(("strategies", "sample"), [("question,qa_rag", 3), ("qa_rag", 2)])
def test_a_model_by_batch_files(
    index: Path, tmp_path: Path, server: LoopbackServer, strategies: str, sample: int
) -> None:
    runs, folder = [tmp_path / "direct", tmp_path / "run"], tmp_path / "files"
    models = models_file(tmp_path, server.openai_url, {"name": "m"})
    line: list[object] = ["evaluate-rag", "--index", index, "--questions", QUESTIONS, "--sample", sample]
    line += ["--models", models, "--answerer", "m", "--judge", "m", "--strategies", strategies, "--resamples", 200]
    assert run_job(*line, "--out", runs[0]).returncode == 0
    asked, answered, code = server.number, 0, 3
    while code == 3 and answered <= asked:
        code = run_job(*line, "--out", runs[1], "--batch-files", folder).returncode
        answered += answer_all(folder, respond)
    assert (code, answered, server.number) == (0, asked, asked)
    direct, by_files = (
        [(row.strategy, row.postprocess, row.answer, row.citations) for row in rows_of(run, "answers", RagAnswer)]
        for run in runs
    )
    assert direct == by_files


def test_what_fails_is_named_and_asked_again(index: Path, tmp_path: Path, server: LoopbackServer) -> None:
    out = tmp_path / "run"
    broken = {"on": True}

    def ask(body: Mapping[str, Any]) -> bool:
        return "accelerated" in text_of(body["messages"][-1]) and "response_format" not in body

    server.faults = lambda call: Fault(status=500) if broken["on"] and ask(call.body) else None
    named = ("--models", models_file(tmp_path, server.openai_url, {"name": "m"}), "--answerer", "m")
    few = ("--strategies", "question", "--postprocess", "none")
    done = compare(index, out, *named, *few)
    assert done.returncode == 3, done.stderr
    assert "failed for now" in done.stderr
    failed = [row for row in rows_of(out, "answers", RagAnswer) if row.outcome == "failed"]
    assert failed and all("500" in row.reason for row in failed)
    broken["on"] = False
    before = server.number
    done = compare(index, out, *named, *few)
    assert done.returncode == 0, done.stderr
    assert server.number - before == len(failed)
    assert all(row.outcome == "answered" for row in rows_of(out, "answers", RagAnswer))


def test_a_wrong_key_is_one_error_without_a_report(index: Path, tmp_path: Path, server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=401, error={"message": "Incorrect API key provided"})
    models = models_file(tmp_path, server.openai_url, {"name": "m"})
    done = compare(index, tmp_path / "run", "--models", models, "--answerer", "m", "--quiet")
    assert done.returncode == 3 and done.stdout == ""
    assert "set key_env: " in done.stderr.splitlines()[-1] and done.stderr.count("model m") == 1
    assert not (tmp_path / "run/report.html").exists()


def test_the_right_document_may_be_left_out(index: Path, tmp_path: Path) -> None:
    done = compare(index, tmp_path / "run", "--exclude-own", "--strategies", "question", "--postprocess", "none")
    assert done.returncode == 0, done.stderr
    assert {row.title_rank for row in rows_of(tmp_path / "run", "scores", RagScore)} == {0}


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--strategies", "telepathy"), "telepathy"),
        (("--postprocess", "rerank"), "--reranker-model"),
        (("--retriever", "cosine"), "cosine"),
        (("--answerer", "nobody"), "nobody"),
        (("--questions", "no/such/file.jsonl"), "no/such/file.jsonl"),
        (("--index-version", "0009-none"), "0009-none"),
        (("--max-cost", "1", "--answerer", "baseline", "--contexts", "0"), "--contexts"),
    ],
)
def test_wrong_arguments(index: Path, tmp_path: Path, options: tuple[object, ...], complaint: str) -> None:
    done = compare(index, tmp_path / "run", *options)
    assert done.returncode == 2
    assert complaint in done.stderr.splitlines()[-1], done.stderr
    assert not (tmp_path / "run").exists()
