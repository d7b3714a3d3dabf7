"""Builds whose questions a real vLLM engine writes and judges. Its random weights write nonsense, which must leave by
name; that every reply has its task's shape, and that all adds up, does not depend on what it says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from fdarx_core.generation.writing import writing_tasks
from fdarx_core.llm import ResponseStore
from fdarx_core.pipeline.label_state import check_accounts
from fdarx_core.records import JudgeVerdict, QuestionAnswer, Reject, Response, StageCount
from fdarx_core.storage import RunDirectory, read_records
from jobs.build_benchmark import NO_QUESTIONS
from tests.conftest import EXAMPLES, REPOSITORY
from tests.engine.server import MODEL
from tests.engine.test_engine import counted, why_none

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

Row = TypeVar("Row")
ENGINE = "tiny"
AMOUNTS = ("--passages", 3, "--section-pairs", 2, "--twins", 4)
WRITTEN = ("--generator", ENGINE, "--reader", ENGINE, "--judge", ENGINE)
JUDGED = ("--generator", "baseline", "--reader", "none", "--judge", ENGINE, "--strict")
COUNTERS = ("prompt_tokens", "generation_tokens", "prefix_cache_hits", "request_success")
NO_REPLY = {"truncated_reply", "failed_request"}
"""Why nothing is read from a reply of random weights: it ran on, in text or in white space, or was too much to ask."""
NO_VERDICT = {*NO_REPLY, "no_evidence", "evidence_not_in_passage", "wrong_shape"}
"""The last: random names in a comparison of answers leave an answer that was not compared."""


@dataclass(frozen=True)
class Made:
    """A complete run, all that was answered in it, and how far the engine's own counters went meanwhile."""

    run: RunDirectory
    info: Mapping[str, Any]
    responses: Sequence[Response]
    engine: Mapping[str, float]

    def rows(self, kind: str, record: type[Row]) -> list[Row]:
        return [row for part in self.run.parts(kind) for row in read_records(part, record)]

    def stages(self) -> dict[str, StageCount]:
        return {stage["stage"]: StageCount(**stage) for stage in self.info["stages"]}

    def asked(self, column: str) -> int:
        """A column of the ledger, summed."""
        return sum(row[column] for row in self.info["asked"] if row["endpoint"] == ENGINE)


def build(engine: str, out: Path, *options: object) -> None:
    """A build as a user runs it, with the engine in its models file."""
    model = {"name": ENGINE, "model": MODEL, "base_url": f"{engine}/v1", "max_in_flight": 8, "max_tokens": 512}
    models = out.with_suffix(".yaml")
    models.write_text(yaml.safe_dump([{**model, "sampling": {"temperature": 1.0}}]))
    line = ["-m", "jobs.build_benchmark", "--out", out, "--models", models, "--cpus", 1, *AMOUNTS, *options]
    done = subprocess.run(
        [sys.executable, *map(str, line)], cwd=REPOSITORY, capture_output=True, text=True, timeout=900
    )
    assert done.returncode in (0, NO_QUESTIONS), done.stderr


def made(engine: str, out: Path, *options: object) -> Made:
    before = {name: counted(engine, name) for name in COUNTERS}
    build(engine, out, *options)
    run = RunDirectory.open(str(out))
    store = ResponseStore(run.file("responses"))
    return Made(
        run,
        json.loads((out / "run.json").read_text()),
        [one for one in store.get(store.index()).values() if one.endpoint == ENGINE],
        {name: counted(engine, name) - before[name] for name in COUNTERS},
    )


@pytest.fixture(scope="module")
def labels(request: pytest.FixtureRequest) -> Path:
    """Real ones where there are any."""
    try:
        return Path(request.getfixturevalue("real_labels"))
    except pytest.skip.Exception:
        return EXAMPLES


@pytest.fixture(scope="module")
def written(engine: str, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The engine writes, answers again and judges, over two labels."""
    return made(engine, tmp_path_factory.mktemp("written") / "run", "--labels", labels, "--sample", 2, *WRITTEN)


@pytest.fixture(scope="module")
def judged(engine: str, labels: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The engine judges what rules wrote: questions of all types, which the rules let pass."""
    return made(engine, tmp_path_factory.mktemp("judged") / "run", "--labels", labels, "--sample", 2, *JUDGED)


@pytest.fixture(params=["written", "judged"])
def either(request: pytest.FixtureRequest) -> Made:
    return request.getfixturevalue(request.param)  # type: ignore[no-any-return]


def test_it_ends_with_a_whole_run(either: Made) -> None:
    assert either.info["status"] == "complete"
    questions = either.rows("questions", QuestionAnswer)
    kinds = Counter(question.type for question in questions)
    assert either.info["questions"] == {kind: kinds[kind] for kind in ("factual", "multihop", "refusal")}
    assert len(either.run.file("benchmark/qa.jsonl").read_bytes().splitlines()) == len(questions)
    assert b"</html>" in either.run.file("report.html").read_bytes()


def test_every_row_is_accounted_for(either: Made) -> None:
    stages, rejects = either.stages(), either.rows("rejects", Reject)
    check_accounts(list(stages.values()))
    left = Counter(reject.stage for reject in rejects)
    assert {name: stage.rejected for name, stage in stages.items()} == {name: left[name] for name in stages}
    assert all(reject.reason and reject.id for reject in rejects)


def test_replies_that_end_have_the_shape_of_their_task(either: Made) -> None:
    reasons = Counter((response.finish_reason, why_none(response)) for response in either.responses)
    assert {why for finish, why in reasons if finish == "stop"} == {""}
    assert {why for finish, why in reasons if finish != "stop"} <= NO_REPLY
    assert reasons["stop", ""] > 0.5 * reasons.total()  # random weights often write evidence until they are cut off


def test_what_could_not_be_read_left_by_that_name(written: Made) -> None:
    assert writing_tasks().keys() <= {response.task for response in written.responses}
    unread = Counter(why_none(response) for response in written.responses if response.task in writing_tasks())
    left = Counter(reject.reason for reject in written.rows("rejects", Reject) if reject.stage == "generate")
    assert all(left[reason] == unread[reason] for reason in NO_REPLY)
    assert left.keys() - NO_REPLY <= {"nothing_to_ask"}


def test_judges_either_find_or_say_why_not(judged: Made) -> None:
    verdicts, stages = judged.rows("verdicts", JudgeVerdict), judged.stages()
    given_by = {verdict.response_key for verdict in verdicts if verdict.response_key}
    assert given_by == {response.key for response in judged.responses}
    given = Counter((verdict.stage, verdict.outcome) for verdict in verdicts)
    for stage in ("relevance", "support"):
        assert given[stage, "kept"] == stages[stage].kept
        assert given[stage, "dropped"] + given[stage, "unscored"] == stages[stage].rejected
    unscored = [verdict for verdict in verdicts if verdict.outcome == "unscored"]
    assert {verdict.reason for verdict in unscored} <= NO_VERDICT
    named = {(reject.id, reject.stage) for reject in judged.rows("rejects", Reject) if "unscored_" in reject.reason}
    assert named == {(verdict.question_id, verdict.stage) for verdict in unscored}
    # what random weights quote stands in no passage
    assert sum(verdict.reason == "evidence_not_in_passage" for verdict in unscored) > 0
    assert {"judge_relevance", "judge_support_factual"} <= {verdict.task for verdict in verdicts}


def test_the_ledger_agrees_with_the_engine(either: Made) -> None:
    assert either.asked("prompt_tokens") == either.engine["prompt_tokens"] > 0
    assert either.asked("completion_tokens") == either.engine["generation_tokens"]
    assert either.asked("cached_tokens") == either.engine["prefix_cache_hits"] > 0


def test_nothing_is_asked_twice(either: Made) -> None:
    assert either.asked("requests") == len(either.responses) == len({one.key for one in either.responses})
    # a server may close an idle connection just as a request is sent; that request is sent again
    assert either.asked("retries") <= 0.1 * len(either.responses)
    assert either.engine["request_success"] == sum(one.prompt_tokens > 0 for one in either.responses)


@pytest.mark.nightly
def test_another_run_takes_over_all_answers(engine: str, labels: Path, written: Made, tmp_path: Path) -> None:
    options = ("--labels", labels, "--sample", 2, *WRITTEN, "--reuse", written.run.root)
    again = made(engine, tmp_path / "again", *options)
    assert set(again.engine.values()) == {0}
    assert again.info["asked"] == []
    for name in ("qa.jsonl", "labels.jsonl"):
        assert again.run.file(f"benchmark/{name}").read_bytes() == written.run.file(f"benchmark/{name}").read_bytes()
