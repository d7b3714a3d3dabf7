"""Before a build asks, it says which prompts leave no room for a reply, by role; a plan says the same."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.asking import PlanRow
from fdarx_core.pipeline.job import prompt_length_lines
from tests.conftest import EXAMPLES
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer

pytestmark = pytest.mark.slow

AMOUNTS = ("--sample", 4, "--passages", 3, "--section-pairs", 1, "--twins", 2, "--transfers", 0)
ROLES = ("--generator", "writer", "--reader", "reader", "--judge", "judge")
_SAID = re.compile(r"^(writer|reader|judge) \w+: ([\d,]+) of ([\d,]+) prompts ", re.MULTILINE)


def build(server: LoopbackServer, folder: Path, models: Sequence[dict[str, Any]], *more: object) -> Any:
    """A build that stops after its first request, unless `more` makes it a plan; its output."""
    common = {"base_url": server.openai_url, "max_tokens": 512}
    file = folder / "models.yaml"
    file.write_text(yaml.safe_dump([{**common, "model": one["name"], **one} for one in models]))
    line = ("build", "--labels", EXAMPLES, "--out", folder / "run", *AMOUNTS, "--models", file, *ROLES, *more)
    return run_job(*line)


def said(text: str) -> dict[str, tuple[int, int]]:
    """The numbers of prompts that are too long and of all, by role."""
    return {role: (int(long), int(number.replace(",", ""))) for role, long, number in _SAID.findall(text)}


def named(**contexts: int | None) -> list[dict[str, Any]]:
    return [
        {"name": name, **({} if length is None else {"context_length": length})} for name, length in contexts.items()
    ]


def test_a_build_says_before_it_asks_which_roles_have_prompts_that_are_too_long(tmp_path: Path) -> None:
    models = named(writer=3000, reader=100_000, judge=4000)
    with LoopbackServer(answer=lambda _: "{}") as server:
        planned = build(server, tmp_path, models, "--plan")
        assert (planned.returncode, server.number) == (0, 0), planned.stderr
        built = build(server, tmp_path, models, "--max-requests", 1)
    assert built.returncode == 3, built.stderr
    assert set(said(built.stderr)) == {"writer", "judge"}
    assert said(built.stderr) == said(planned.stdout), "both count all of these few labels, in the same way"
    assert "context_length of 3,000" in built.stderr and "context_length of 4,000" in built.stderr
    assert "all of them judge_support_refusal" in built.stderr, "the whole label stands in these prompts"
    assert built.stderr.index("writer writer:") < built.stderr.index("labels built")


def test_of_many_labels_some_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fdarx_core.pipeline.build.COUNTED_LABELS", 3)
    models = named(writer=3000, reader=4000, judge=4000)
    with LoopbackServer(answer=lambda _: "{}") as server:
        built = build(server, tmp_path, models, "--max-requests", 1)
    assert built.returncode == 3, built.stderr
    assert "on 3 of the 4 labels, drawn at random" in built.stderr


def test_a_model_without_a_context_length_is_named_once_with_the_remedy(tmp_path: Path) -> None:
    with LoopbackServer(answer=lambda _: "{}") as server:
        built = build(server, tmp_path, named(writer=None, reader=None, judge=100_000), "--max-requests", 1)
        planned = build(server, tmp_path, named(writer=None, reader=None, judge=100_000), "--plan")
    for text in (built.stderr, planned.stdout):
        assert not said(text)
        [line] = [one for one in text.splitlines() if "context_length" in one]
        assert "writer and reader" in line and "judge" not in line and "--models" in line


def test_template_questions_have_no_prompts(tmp_path: Path) -> None:
    done = run_job("build", "--labels", EXAMPLES, "--sample", 2, "--out", tmp_path / "run")
    assert done.returncode == 0 and "context_length" not in done.stdout + done.stderr


def test_a_task_without_a_role_has_its_own_name() -> None:
    model = ModelConfig(name="m", model="m", base_url="http://127.0.0.1:1/v1", context_length=1000)
    rows = [PlanRow("grade_answer", "m", requests=10, too_long=3), PlanRow("answer_oracle", "m", requests=5)]
    [line] = prompt_length_lines(rows, {"m": model})
    assert line.startswith("grade_answer m: 3 of 10 prompts ")
