"""Exported packages in the real inspect and the real lm-eval, against a loopback server; their scores and logs."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.harnesses.scoring import METRICS
from fdarx_core.records import Prediction, QuestionAnswer
from fdarx_core.storage.imported_predictions import read_predictions
from tests.conftest import REPOSITORY
from tests.environments import Unavailable
from tests.harnesses.environment import installed
from tests.harnesses.replies import answers_of, cut_short
from tests.jobs.evaluating import by_type, evaluate, models_file, rows_of
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer, text_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SETTINGS = {"closed_book": "", "full_label": "", "oracle": "", "retrieved": "bm25"}
"""The settings with their retrievers."""
INSPECT_MODEL, LM_EVAL_MODEL = "openai-api/loopback/small", "third"
_READ_METRICS = """
import glob, json, sys
from inspect_ai.log import read_eval_log
logs = [read_eval_log(file, header_only=True) for file in glob.glob(sys.argv[1] + "/*.eval")]
metrics = {log.eval.task: log.results.scores[0].metrics for log in logs}
print(json.dumps({task: {name: one.value for name, one in row.items()} for task, row in metrics.items()}))
"""

Values = Mapping[tuple[str, str], float]
"""Metrics by setting and name."""


@pytest.fixture(scope="module")
def programs() -> Path:
    try:
        return installed()
    except Unavailable as reason:
        pytest.skip(f"no harnesses to test against: {reason}")


@pytest.fixture(scope="module")
def server(example_build: Path) -> Iterator[LoopbackServer]:
    with LoopbackServer(answers_of(rows_of(example_build, "questions", QuestionAnswer))) as running:
        yield running


@pytest.fixture(scope="module")
def packages(example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    for harness in ("inspect", "lm-eval"):
        done = run_job("export", example_build, "--to", harness, "--out", folder / harness)
        assert done.returncode == 0, done.stderr
    return folder


@dataclass
class Harnesses:
    """Starts inspect and lm-eval in the folders of their packages, as users do; `folder` takes what they write."""

    programs: Path
    packages: Path
    server: LoopbackServer
    folder: Path

    def inspect(self, logs: str, *options: str, task: str = "", fdarx: bool = True) -> subprocess.Popen[str]:
        how = ("--model", INSPECT_MODEL, "--log-dir", str(self.folder / logs), "--display", "none")
        return self.start("inspect", "inspect", "eval", f"fdarx_tasks.py{task}", *how, *options, fdarx=fdarx)

    def lm_eval(self, results: str, *options: str, tasks: str = "fdarx", fdarx: bool = True) -> subprocess.Popen[str]:
        server = f"base_url={self.server.openai_url}/chat/completions,num_concurrent=8"
        model = ("--model", "local-chat-completions", "--model_args", f"model={LM_EVAL_MODEL},{server}")
        where = ("--include_path", ".", "--tasks", tasks, "--output_path", str(self.folder / results))
        how = ("--apply_chat_template", "--log_samples", *options)
        return self.start("lm-eval", "lm_eval", "run", *model, *where, *how, fdarx=fdarx)

    def start(self, package: str, program: str, *arguments: str, fdarx: bool) -> subprocess.Popen[str]:
        """Start a program in the folder of a package; `fdarx`: FDARx can be imported."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        path = {"PYTHONPATH": str(REPOSITORY)} if fdarx else {}
        server = {"LOOPBACK_BASE_URL": self.server.openai_url, "LOOPBACK_API_KEY": "none"}
        return subprocess.Popen(
            [str(self.programs / program), *arguments],
            cwd=self.packages / package,
            env={**kept, **path, **server, "HF_HUB_OFFLINE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture(scope="module")
def harnesses(
    programs: Path, packages: Path, server: LoopbackServer, tmp_path_factory: pytest.TempPathFactory
) -> Harnesses:
    return Harnesses(programs, packages, server, tmp_path_factory.mktemp("harnesses"))


def ended(*processes: subprocess.Popen[str]) -> list[str]:
    """What the processes print until they end well."""
    printed = [process.communicate(timeout=800)[0] for process in processes]
    for process, text in zip(processes, printed, strict=True):
        assert process.returncode == 0, text[-3000:]
    return printed


@pytest.fixture(scope="module")
def harness_runs(harnesses: Harnesses) -> Harnesses:
    """Both harnesses on all settings: inspect with the model `strong` as judge, lm-eval with the built-in one.

    lm-eval does not tell which replies were cut short, so that only those to inspect are.
    """
    harnesses.server.faults = cut_short
    ended(harnesses.inspect("logs", "-T", "judge=openai-api/loopback/strong"), harnesses.lm_eval("results"))
    return harnesses


@pytest.fixture(scope="module")
def evaluations(example_build: Path, harness_runs: Harnesses) -> Path:
    """Two evaluations of the same model, one with each harness's logs and judge. Replies are cut in inspect's alone."""
    folder = harness_runs.folder
    models = models_file(folder, harness_runs.server.openai_url, {"name": "small"}, {"name": "strong"})
    asked = ("--models", models, "--only", "small")
    for out, judge, logs in (("by-model", "strong", "logs"), ("by-rules", "baseline", "results")):
        done = evaluate(example_build, folder / out, *asked, "--judge", judge, "--predictions", folder / logs)
        assert done.returncode == 0, done.stderr
        harness_runs.server.faults = lambda call: None
    return folder


def figures(run: Path, model: str) -> dict[tuple[str, str], float]:
    """The metrics of a model by setting and name, each over all questions that it concerns."""
    found: dict[tuple[str, str], float] = {}
    for wanted in ("refusal", "answerable", "all"):  # the last group that a metric has is the widest
        for (name, setting, retriever, metric, group), figure in by_type(run).items():
            if (name, group) == (model, wanted) and metric in METRICS and figure.value is not None:
                assert retriever == SETTINGS[setting]
                found[setting, metric] = figure.value
    return found


def assert_same(theirs: Values, ours: Values) -> None:
    assert theirs.keys() == ours.keys()
    for key, value in ours.items():
        assert theirs[key] == pytest.approx(value, abs=1e-9), key


def test_inspect_gives_the_scores_of_evaluate(evaluations: Path, harness_runs: Harnesses) -> None:
    [printed] = ended(
        harness_runs.start("inspect", "python", "-c", _READ_METRICS, str(evaluations / "logs"), fdarx=False)
    )
    metrics = json.loads(printed)
    theirs = {
        (task.removeprefix("fdarx_"), name): value for task, row in metrics.items() for name, value in row.items()
    }
    ours = figures(evaluations / "by-model", "small")
    assert {("full_label", "refusal_f1"), ("retrieved", "citation_f1"), ("oracle", "accuracy")} <= ours.keys()
    assert_same(theirs, ours)
    replies = rows_of(evaluations / "by-model", "predictions/small", Prediction)
    assert any(row.reason == "truncated_reply" for row in replies)


def test_lm_eval_gives_the_scores_of_evaluate(evaluations: Path) -> None:
    [file] = (evaluations / "results" / LM_EVAL_MODEL).glob("results_*.json")
    results = json.loads(file.read_text())["results"]
    theirs = {
        (task.removeprefix("fdarx_"), name.removesuffix(",none")): value
        for task, row in results.items()
        for name, value in row.items()
        if name.removesuffix(",none") in METRICS
    }
    assert_same(theirs, figures(evaluations / "by-rules", "small"))


@pytest.mark.parametrize(("run", "model"), [("by-model", INSPECT_MODEL.replace("/", "-")), ("by-rules", LM_EVAL_MODEL)])
def test_a_log_read_back_gives_the_scores_of_evaluate(evaluations: Path, run: str, model: str) -> None:
    ours = figures(evaluations / run, "small")
    assert len(ours) > 40
    assert_same(figures(evaluations / run, model), ours)


def test_the_messages_are_those_of_evaluate(evaluations: Path, server: LoopbackServer) -> None:
    sent: dict[str, Counter[Any]] = {}
    for call in server.calls:
        messages = tuple((message["role"], text_of(message)) for message in call.body["messages"])
        sent.setdefault(call.body["model"], Counter())[messages] += 1
    # `small` is asked by inspect and twice by evaluate, which asks for the replies of each run once.
    assert sent[LM_EVAL_MODEL].keys() == sent["small"].keys()
    assert {count // sent[LM_EVAL_MODEL][prompt] for prompt, count in sent["small"].items()} == {3}


def test_without_fdarx_replies_are_collected_and_read_back(harnesses: Harnesses) -> None:
    few = ("--limit", "6")
    printed = ended(
        harnesses.inspect("unscored-logs", *few, task="@retrieved", fdarx=False),
        harnesses.lm_eval("unscored-results", *few, tasks="fdarx_retrieved", fdarx=False),
    )
    assert all("replies will not be scored: FDARx cannot be imported here" in text for text in printed)
    for folder, model in (("unscored-logs", INSPECT_MODEL), ("unscored-results", LM_EVAL_MODEL)):
        predictions, rejects = read_predictions(str(harnesses.folder / folder))
        assert {(one.model, one.setting, one.retriever) for one in predictions} == {
            (model.replace("/", "-"), "retrieved", "bm25")
        }
        assert len(predictions) == 6 and not rejects
