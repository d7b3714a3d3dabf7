"""Which of two models hallucinates more on contraindications, as a user asks it of an evaluation."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from shutil import copyfile
from typing import Any

import pytest

from tests.jobs.evaluating import evaluate, models_file
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer, text_of

TOPIC = "Contraindications"
SETTINGS = ("--settings", "full_label,oracle")


def respond(body: Mapping[str, Any]) -> str:
    """Two models, one of which refuses everything, and a judge that finds every answer wrong."""
    if "response_format" in body:
        return json.dumps({"reason": "unsupported_content: not in the reference", "grade": "INCORRECT"})
    asked = "\n".join(text_of(message) for message in body["messages"])
    if body["model"] == "careful":
        return "NOT_ANSWERABLE\nCITED_PASSAGES: []" if "CITED_PASSAGES" in asked else "The label does not say."
    return "Do not use it in anyone.\nCITED_PASSAGES: []"


@pytest.fixture(scope="module")
def benchmark(example_build: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The example benchmark, in which questions on populations and interactions are on contraindications."""
    folder = tmp_path_factory.mktemp("benchmark")
    published = example_build / "benchmark"
    copyfile(published / "labels.jsonl", folder / "labels.jsonl")
    rows = [json.loads(line) for line in (published / "qa.jsonl").read_text().splitlines()]
    for row in rows:
        if row["qfilter_category"] in (
            "Use in Specific Populations",
            "Drug Interactions",
            "Adverse Events",
            "Indications & Usage",
        ):
            row["qfilter_category"] = TOPIC
    (folder / "qa.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.fixture(scope="module")
def run(benchmark: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("run")
    with LoopbackServer(answer=respond) as server:
        models = models_file(folder, server.openai_url, *({"name": name} for name in ("hasty", "careful", "strong")))
        done = evaluate(benchmark, folder / "run", *SETTINGS, "--models", models, "--judge", "strong", "--verbose")
        assert done.returncode == 0, done.stderr
        (folder / "said.txt").write_text(done.stdout)
        yield folder


def test_an_evaluation_has_the_rate_by_topic(run: Path) -> None:
    said = (run / "said.txt").read_text()
    table = said[said.index("Hallucination rate by topic") :]
    assert re.search(rf"^{TOPIC} \(\d+ to \d+\) +1\.00", table, re.MULTILINE)
    assert "No questions in this benchmark: Indications & Usage" in table
    cells = json.loads((run / "run" / "metrics.json").read_text())
    rates = {
        (one["model"], one["setting"]): one["topics"]["hallucination_rate"][TOPIC] for one in cells if one["model"]
    }
    hasty, careful = (rates[name, "full_label"] for name in ("hasty", "careful"))
    assert (hasty["value"], careful["value"]) == (1, 0)
    assert hasty["rows"] == careful["rows"] > 10 and careful["unscored"] == 0
    assert rates["hasty", "oracle"]["rows"] < hasty["rows"]  # without refusal questions
    page = (run / "run" / "report.html").read_text()
    assert (
        "Hallucination rate by topic" in page
        and '"Hallucination rate (wrong ÷ graded answers)","Contraindications"' in page
    )


def test_the_models_of_one_evaluation_are_compared_on_a_topic(run: Path, tmp_path: Path) -> None:
    line = (
        "compare",
        run / "run",
        "--metric",
        "hallucination_rate",
        "--out",
        tmp_path / "page.html",
        "--resamples",
        200,
    )
    done = run_job(*line, "--topic", TOPIC)
    assert done.returncode == 0, done.stderr
    told = [one for one in done.stdout.splitlines() if one.startswith("hallucination_rate, ")]
    assert len(told) == 2 and all(one.startswith(f"hallucination_rate, {TOPIC}, ") for one in told)
    [found] = [one for one in told if "full_label" in one]
    assert "run · hasty − run · careful +1.000 [+1.000, +1.000], p 0." in found
    assert '"Hallucination rate (wrong ÷ graded answers)","Contraindications"' in (tmp_path / "page.html").read_text()
    assert (
        "run · hasty hallucinates more than run · careful from the whole label, on Contraindications, by 1.00 "
        in (done.stdout.splitlines()[-2])
    )
    assert done.stdout.splitlines()[-1] == f"open {tmp_path / 'page.html'}"
    none = run_job(*line, "--topic", "Indications & Usage")
    assert none.returncode == 0 and "No comparison was possible for these metrics and topics" in none.stdout
    wrong = run_job(*line, "--topic", "Contraindication")
    assert wrong.returncode == 2 and "there is no topic Contraindication; known are" in wrong.stderr


def test_two_evaluations_by_other_judges_are_not_compared(run: Path, benchmark: Path, tmp_path: Path) -> None:
    other = evaluate(benchmark, tmp_path / "rules", *SETTINGS)
    assert other.returncode == 0, other.stderr
    line = ("compare", run / "run", tmp_path / "rules", "--out", tmp_path / "page.html", "--resamples", 200)
    done = run_job(*line, "--metric", "hallucination_rate")
    assert done.returncode == 0 and "because the judges differ" in done.stdout
    told = [one for one in done.stdout.splitlines() if one.startswith("hallucination_rate, ")]
    assert told and not any("hasty" in one for one in told)  # no judge graded the refusals of the other model
