"""`fdarx review judges` by the built-in rules, and for a judge whose errors are known."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.review.judged_candidates import JudgedCandidate, StageScore, read_judged
from tests.jobs.evaluating import models_file
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer, text_of

DRUG = "KELDRIVA"


def answer(body: Mapping[str, Any]) -> str:
    """Finds all of one drug irrelevant and all others relevant, every question fit, and no answer supported."""
    system, asked = text_of(body["messages"][0]), text_of(body["messages"][-1])
    if system.startswith("You sort questions"):
        liked = "irrelevant" if f"Drug: {DRUG}" in asked else "relevant"
        return json.dumps({"reason": "", "category": "Pharmacokinetics", "relevance": liked})
    if system.startswith("You decide which questions"):
        return json.dumps({"note": "", "flags": []})
    if system.startswith("You check the answer"):
        return json.dumps({"evidence": "", "fault": "", "supported": False})
    return "I would rather not say."


@pytest.fixture
def server() -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=answer) as running:
        yield running


def scores(out: Path) -> dict[tuple[str, str], StageScore]:
    rows = [StageScore.from_row(row) for row in json.loads((out / "scores.json").read_text())]
    return {(row.stage, row.group): row for row in rows}


def judged(candidates: list[JudgedCandidate], good: bool, kind: str = "") -> int:
    return sum(one.good == good and one.type == (kind or one.type) for one in candidates)


def test_without_models_the_rules_alone_are_measured() -> None:
    done = run_job("review", "judges", "-q")
    assert done.returncode == 0, done.stderr
    assert "All candidates: 89 good, 111 bad" in done.stdout and "not_standalone (11)" in done.stdout
    assert [line.split()[0] for line in done.stdout.splitlines()[2:4]] == ["rules", "chain"]
    found = json.loads(run_job("review", "judges", "--json", "-q").stdout)
    assert found["config"]["part"] == "tune" and found["config"]["judge"] == "none"
    assert {row["stage"] for row in found["scores"]} == {"rules", "chain"}


def test_errors_of_a_judge_are_counted(server: LoopbackServer, tmp_path: Path) -> None:
    models, out = models_file(tmp_path, server.openai_url, {"name": "m"}), tmp_path / "run"
    options = ("--models", models, "--judge", "m", "--out", out, "-q")
    done = run_job("review", "judges", *options)
    assert done.returncode == 0, done.stderr
    found, candidates = scores(out), read_judged("tune")
    of_drug = [one for one in candidates if one.set_id.endswith("03")]
    relevance = found["relevance", "all"]
    assert (relevance.count(True, "dropped"), relevance.count(False, "dropped")) == (
        judged(of_drug, True),
        judged(of_drug, False),
    )
    assert relevance.figure("precision").value == judged(of_drug, False) / len(of_drug) and not relevance.count(
        None, "unscored"
    )
    assert (
        found["quality", "all"].figure("recall").value == 0 and found["quality", "all"].figure("good_kept").value == 1
    )
    support = found["support", "factual"]
    assert support.figure("recall").value == 1 and support.figure("good_kept").value == 0
    assert found["support", "multihop"].count(None, "unscored") == judged(candidates, True, "multihop") + judged(
        candidates, False, "multihop"
    )
    rows = [json.loads(line) for line in (out / "outcomes.jsonl").read_text().splitlines()]
    assert {row["id"] for row in rows} == {one.id for one in candidates}
    dropped = next(row for row in rows if row["id"] == of_drug[0].id)
    assert dropped["stages"]["relevance"]["reason"] == "irrelevant"

    sent = len(server.calls)
    again = run_job("review", "judges", *options)
    assert again.returncode == 0 and "complete already" in again.stderr and again.stdout == done.stdout
    assert len(server.calls) == sent


def test_a_stopped_trial_is_resumed(server: LoopbackServer, tmp_path: Path) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "m"})
    options = ("--models", models, "--judge", "m", "--out", tmp_path / "run", "-q")
    stopped = run_job("review", "judges", *options, "--max-requests", "20")
    assert stopped.returncode == 3 and "stopped: " in stopped.stderr
    assert run_job("review", "judges", *options).returncode == 0
    first = {text_of(call.body["messages"][-1]) for call in server.calls[:20]}
    later = {text_of(call.body["messages"][-1]) for call in server.calls[20:]}
    assert first and not first & later


def test_a_plan_asks_nothing(server: LoopbackServer, tmp_path: Path) -> None:
    out = tmp_path / "run"
    models = models_file(tmp_path, server.openai_url, {"name": "m"})
    done = run_job("review", "judges", "--models", models, "--judge", "m", "--out", out, "--plan", "-q")
    assert done.returncode == 0, done.stderr
    assert "judge_relevance" in done.stdout and not server.calls and not out.exists()


def test_the_half_for_testing_shows_figures_only(tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = run_job("review", "judges", "--part", "test", "--out", out, "-q")
    assert done.returncode == 0 and "use it once" in done.stderr and "All candidates: 88 good" in done.stdout
    assert not (out / "outcomes.jsonl").exists()
    other = run_job("review", "judges", "--out", out, "-q")
    assert other.returncode == 2 and "part" in other.stderr


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--part", "train"), "--part"),
        (("--judge", "gpt"), "--judge gpt: there is no such model"),
        (("--reader", "gpt"), "--reader gpt: there is no such model"),
        (("--judge", "baseline"), "the built-in rules judge nothing"),
        (("--judge", "none", "m"), "none stands beside models"),
        (("--criteria", "absent.yaml"), "absent.yaml"),
        (("--models", "absent.yaml"), "absent.yaml"),
    ],
)
def test_wrong_options_are_one_line(options: tuple[str, ...], told: str) -> None:
    done = run_job("review", "judges", *options)
    assert done.returncode == 2 and told in done.stderr and len(done.stderr.splitlines()) == 1


def test_models_need_a_folder(server: LoopbackServer, tmp_path: Path) -> None:
    models = models_file(tmp_path, server.openai_url, {"name": "m"})
    done = run_job("review", "judges", "--models", models, "--reader", "m")
    assert done.returncode == 2 and "--out: give a run directory, in which the replies of m are kept" in done.stderr
