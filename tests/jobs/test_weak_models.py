"""What a build says whose model is too weak, or whose server refuses: terminal, page and exit code."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
import yaml
from lxml import html

from fdarx_core.report.retention import unusable_lines
from jobs import STOPPED
from jobs.build_benchmark import NO_QUESTIONS
from tests.conftest import EXAMPLES
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import Call, Fault, LoopbackServer
from tests.loopback.build import LoopbackModels
from tests.loopback.prompts import JUDGING, ShownPrompt

pytestmark = pytest.mark.slow

AMOUNTS = ("--sample", 4, "--passages", 2, "--section-pairs", 1, "--twins", 2, "--transfers", 0)
ROLES = ("--generator", "writer", "--reader", "reader", "--judge", "judge")


def build(
    folder: Path, answer: Callable[[Mapping[str, Any]], str], faults: Callable[[Call], Fault] | None = None
) -> CompletedProcess[str]:
    with LoopbackServer(answer) as server:
        if faults:
            server.faults = faults
        models = [{"name": name, "model": name, "base_url": server.openai_url} for name in ROLES[1::2]]
        file = folder / "models.yaml"
        file.write_text(yaml.safe_dump(models))
        return run_job("build", "--labels", EXAMPLES, "--out", folder / "run", *AMOUNTS, "--models", file, *ROLES)


def page_of(folder: Path) -> Any:
    return html.fromstring((folder / "run" / "report.html").read_text())


def notice_of(page: Any) -> str:
    [notice] = [one.text_content() for one in page.find_class("notice")]
    return str(notice)


def test_a_writer_without_usable_replies_ends_without_questions(tmp_path: Path) -> None:
    done = build(tmp_path, lambda _: '{"items": "none"}')
    assert done.returncode == NO_QUESTIONS, done.stderr
    [error] = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert (
        error.startswith("error: no question passed. ") and "at generate as wrong_shape. Such replies are JSON" in error
    )
    assert "writer writer: " in done.stdout and "take a stronger model" in done.stdout
    assert "shown" not in done.stdout and "judged" not in done.stdout, "nobody judged or read anything"
    page = page_of(tmp_path)
    assert "at generate as wrong_shape. Such replies are JSON" in notice_of(page)
    assert not page.xpath("//*[@id='questions' or @id='samples' or @id='judged' or @id='splits']")


@pytest.mark.parametrize("refused", ["writer", "judge", "reader"])
def test_prompts_that_a_server_refuses_as_too_long_are_named_so(tmp_path: Path, refused: str) -> None:
    def faults(call: Call) -> Fault:
        too_long = call.body["model"] == refused
        return Fault(status=400, error={"message": "maximum context length is 10 tokens"}) if too_long else Fault()

    done = build(tmp_path, LoopbackModels(), faults)
    assert done.returncode == (NO_QUESTIONS if refused == "writer" else STOPPED), done.stderr
    said = [line for line in done.stdout.splitlines() if f"{refused} {refused}: " in line]
    assert said and all("as context_too_long. " in line and "longer context" in line for line in said)


def test_questions_without_a_verdict_are_counted(tmp_path: Path) -> None:
    models = LoopbackModels()

    def answer(body: Mapping[str, Any]) -> str:
        return "no idea" if ShownPrompt.read(body).task in JUDGING else models(body)

    done = build(tmp_path, answer)
    assert done.returncode == STOPPED and "No reply of judge judge could be used. Replies" in done.stderr
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    total = sum(info["questions"].values())
    assert info["questions_without_verdict"] == total > 0
    line = f"{total} of {total} questions were kept although a verdict of at least one stage is missing"
    assert line in done.stdout and line in page_of(tmp_path).get_element_by_id("first").text_content()


def test_a_judge_that_drops_most_questions_is_named(tmp_path: Path) -> None:
    models = LoopbackModels()

    def answer(body: Mapping[str, Any]) -> str:
        verdict = {"reason": "It is not.", "category": "None / Irrelevant", "relevance": "irrelevant"}
        return json.dumps(verdict) if ShownPrompt.read(body).task == "judge_relevance" else models(body)

    done = build(tmp_path, answer)
    assert done.returncode == NO_QUESTIONS, done.stderr
    [line] = [one for one in done.stdout.splitlines() if "this model cannot judge them" in one]
    assert "judge judge: " in line and "at the stage relevance, most as irrelevant_topic. " in line
    assert line.strip() in page_of(tmp_path).get_element_by_id("first").text_content()


def test_failures_of_a_server_are_no_reason_for_a_stronger_model() -> None:
    replies = [{"stage": "support", "replies": 4, "unusable": 4, "reason": "transient_server_error"}]
    [line] = unusable_lines({"config": {"judge": {"name": "big"}}, "replies": replies})
    assert line.startswith(
        "judge big: 4 of 4 replies at the stage support were unusable, most as transient_server_error. "
    )
    assert "what the server said" in line and "stronger" not in line
