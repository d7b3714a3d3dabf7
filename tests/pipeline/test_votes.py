"""Builds in which several judges vote, or one votes several times, and how far the votes agree."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from fdarx_core.filters.judges import judge_tasks, judges
from fdarx_core.filters.round_trip import STAGE as ROUND_TRIP
from fdarx_core.generation.contexts import GenerationConfig
from fdarx_core.llm import ModelConfig, ModelsError
from fdarx_core.pipeline.build_results import split_votes, vote_agreement
from fdarx_core.pipeline.build_steps import Roles
from fdarx_core.pipeline.steps import Address
from fdarx_core.records import JudgeVerdict, QuestionAnswer, Reject
from fdarx_core.review.items import draw_sample
from fdarx_core.storage import RunDirectory
from jobs.build_benchmark import NO_QUESTIONS
from tests.conftest import EXAMPLES
from tests.filters.judged import LABEL, PASSAGES, QUESTIONS, judge
from tests.jobs.in_process import run_job
from tests.llm.loopback_server import LoopbackServer, text_of
from tests.pipeline.scripted import GARBAGE, KEY_VARIABLE, NAME, PLANTED_KEY, Script, models_file, read_models
from tests.pipeline.test_models import qa, records
from tests.pipeline.test_steps import identities

pytestmark = pytest.mark.slow

AMOUNTS = ("--passages", "2", "--section-pairs", "2", "--twins", "2", "--transfers", "0", "--sample", "3")
SEED = 40
JUDGES = ("one", "two", "three")
IRRELEVANT = '{"reason": "", "category": "None / Irrelevant", "relevance": "irrelevant"}'


@pytest.fixture(scope="module", autouse=True)
def key() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, PLANTED_KEY)
        yield


@pytest.fixture(scope="module")
def script(key: None, tmp_path_factory: pytest.TempPathFactory) -> Script:
    file = models_file(tmp_path_factory.mktemp("models"), "http://127.0.0.1:1/v1")
    return Script(
        identities(EXAMPLES, sample=3), GenerationConfig(passages=2, section_pairs=2, twins=2), read_models(file)
    )


Changed = Callable[[Mapping[str, Any], str], str]
"""What a server replies, given the request's body and the script's reply."""


@pytest.fixture
def server(script: Script) -> Iterator[LoopbackServer]:
    with LoopbackServer(answer=script) as running:
        yield running


def judged_as(server: LoopbackServer, script: Script, changed: Changed) -> None:
    server.answer = lambda body: changed(body, script(body))


def build(server: LoopbackServer, folder: Path, out: Path, *more: object) -> tuple[int, str, str]:
    """Build with a generator that the script knows, and three judges on the same server besides."""
    models = [
        {
            "name": name,
            "model": f"id-{name}",
            "base_url": server.openai_url,
            "key_env": KEY_VARIABLE,
            "sampling": {"seed": SEED},
        }
        for name in (NAME, *JUDGES)
    ]
    file = folder / "models.yaml"
    file.write_text(yaml.safe_dump(models))
    usual = {"--executor": "local", "--reader": NAME}
    options = [one for pair in usual.items() if pair[0] not in more for one in pair]
    line = ("--labels", EXAMPLES, "--out", out, *AMOUNTS, "--models", file, *options)
    done = run_job("build", *line, "--generator", NAME, *more)
    return done.returncode, done.stdout, done.stderr


def must_build(server: LoopbackServer, folder: Path, out: Path, *more: object) -> dict[str, Any]:
    code, _, errors = build(server, folder, out, *more)
    info: dict[str, Any] = json.loads((out / "run.json").read_text())
    assert code == (0 if sum(info["questions"].values()) else NO_QUESTIONS), errors
    return info


@pytest.fixture(scope="module")
def alone(script: Script, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A build with one judge and one vote."""
    folder = tmp_path_factory.mktemp("alone")
    with LoopbackServer(answer=script) as server:
        info = must_build(server, folder, folder / "run", "--judge", NAME)
    assert "agreement" not in info and "votes" not in info["config"]
    return folder / "run"


def is_relevance(body: Mapping[str, Any]) -> bool:
    return text_of(body["messages"][0]).startswith("You sort questions")


def test_two_judges_outvote_one_that_errs(alone: Path, script: Script, server: LoopbackServer, tmp_path: Path) -> None:
    judged_as(
        server, script, lambda body, reply: IRRELEVANT if body["model"] == "id-two" and is_relevance(body) else reply
    )
    info = must_build(server, tmp_path, tmp_path / "run", "--judge", ",".join(JUDGES))
    assert qa(tmp_path / "run").keys() == qa(alone).keys() and len(qa(alone)) > 10
    made = records(tmp_path / "run", "questions", QuestionAnswer)
    assert {question.judge for question in made} == {"one, two, three"}
    assert {len(question.verdict_keys) for question in made} == {9}
    assert {question.relevance for question in made} == {"relevant"}
    assert [model["name"] for model in info["config"]["judge"]] == list(JUDGES)
    votes = records(tmp_path / "run", "verdicts", JudgeVerdict)
    by_question: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for vote in votes:
        by_question[vote.question_id, vote.stage].append((vote.vote, vote.endpoint))
    voted = {judge.stage for judge in judges()}
    assert all(cast == list(enumerate(JUDGES, 1)) for (_, stage), cast in by_question.items() if stage in voted)
    assert {cast[0][1] for (_, stage), cast in by_question.items() if stage == ROUND_TRIP} == {"one"}
    card = (tmp_path / "run" / "benchmark" / "README.md").read_text()
    assert "one, scripted, three, two" in card


@pytest.mark.slow
def test_on_ray_models_that_differ_ask_in_operators_of_their_own(server: LoopbackServer, tmp_path: Path) -> None:
    roles = ("--reader", "one", "--judge", ",".join(JUDGES))
    must_build(server, tmp_path, tmp_path / "here", *roles)
    asked = dict(server.answered)
    server.answered.clear()
    info = must_build(server, tmp_path, tmp_path / "there", *roles, "--executor", "ray")
    assert qa(tmp_path / "there") == qa(tmp_path / "here") and dict(server.answered) == asked
    flow = info["flows"]["build"]
    judging = "+".join(judge.stage for judge in judges())
    assert [row["operator"] for row in flow] == [
        "read+parse+chunk",
        "generate",
        "filter_by_rules+filter_duplicates",
        f"{judging}+round_trip+compare_answers",
        "keep_twins+write",
    ]
    assert [row["rows"] for row in flow] == [3, 3, 3, 3, 1]


def test_agreement_is_reported_where_runs_are_read(script: Script, server: LoopbackServer, tmp_path: Path) -> None:
    judged_as(
        server, script, lambda body, reply: IRRELEVANT if body["seed"] == SEED + 1 and is_relevance(body) else reply
    )
    code, _, errors = build(server, tmp_path, tmp_path / "run", "--judge", "one", "--votes", 3)
    assert code == 0, errors
    info = json.loads((tmp_path / "run" / "run.json").read_text())
    assert info["config"]["votes"] == 3
    relevance, support, _ = info["agreement"]
    judged = relevance["questions"]
    # Each question has two votes to keep it and one to drop it: 2/3 of the pairs differ, where by chance
    # 2 · 2n · n / (3n · (3n − 1)) would.
    assert (relevance["stage"], relevance["votes"], relevance["unanimous"]) == ("relevance", 3 * judged, 0)
    assert relevance["alpha"] == pytest.approx(1 - (2 / 3) / (4 * judged / (3 * (3 * judged - 1))))
    assert (support["unanimous"], support["alpha"]) == (1, 1)  # the rules keep some and drop some
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Agreement of the judges" in page and f"{relevance['alpha']:.2f}</td>" in page


def test_agreement_equals_what_is_computed_by_hand() -> None:
    """Over questions with 3:0, 2:1 and 0:3 votes, 2 of 9 pairs differ; by chance 2 · 5 · 4 / (9 · 8) would."""
    splits = {"a": "kkk", "b": "kkd", "c": "ddd", "d": "kuu", "e": "u"}
    outcomes = {"k": "kept", "d": "dropped", "u": "unscored"}
    votes = [JudgeVerdict(name, "s", "support", outcomes[one]) for name, split in splits.items() for one in split]
    [found] = vote_agreement(split_votes(votes))
    assert [found[name] for name in ("stage", "votes", "unscored", "questions")] == ["support", 13, 3, 3]
    assert found["unanimous"] == pytest.approx(2 / 3)
    assert found["alpha"] == pytest.approx(1 - (2 / 9) / (5 / 9))
    [same] = vote_agreement(split_votes(vote for vote in votes if vote.question_id == "a"))
    assert (same["unanimous"], same["alpha"]) == (1, None)
    [single] = vote_agreement(split_votes(vote for vote in votes if vote.question_id in "de"))
    assert (single["questions"], single["unanimous"], single["alpha"]) == (0, None, None)


@pytest.mark.parametrize(("mute", "strict"), [(1, True), (2, True), (2, False)])
def test_a_question_is_unscored_if_fewer_than_half_of_its_votes_are_scored(
    alone: Path, script: Script, server: LoopbackServer, tmp_path: Path, mute: int, strict: bool
) -> None:
    judged_as(
        server,
        script,
        lambda body, reply: GARBAGE if body["model"] in ("id-one", "id-two")[:mute] and is_relevance(body) else reply,
    )
    options = ("--judge", *JUDGES, *(("--strict",) if strict else ()))
    info = must_build(server, tmp_path, tmp_path / "run", *options)
    relevance = info["agreement"][0]
    assert relevance["unscored"] == mute * relevance["votes"] / 3
    rejects = Counter(one.reason for one in records(tmp_path / "run", "rejects", Reject) if one.stage == "relevance")
    marked = {tuple(one.unscored) for one in records(tmp_path / "run", "questions", QuestionAnswer)}
    if mute == 1 or not strict:  # a verdict that is missing drops nothing, and the question says so
        assert qa(tmp_path / "run").keys() == qa(alone).keys() and not rejects
        assert marked == ({()} if mute == 1 else {("relevance",)})
        return
    assert set(rejects) == {"unscored_invalid_json"} and not qa(tmp_path / "run")
    [detail] = {one.detail[:24] for one in records(tmp_path / "run", "rejects", Reject) if one.stage == "relevance"}
    assert detail.startswith("2 of 3 votes unscored: ")


def test_a_review_sees_the_verdict_of_the_majority(script: Script, server: LoopbackServer, tmp_path: Path) -> None:
    judged_as(
        server, script, lambda body, reply: IRRELEVANT if body["model"] != "id-three" and is_relevance(body) else reply
    )
    must_build(server, tmp_path, tmp_path / "run", "--judge", *JUDGES)
    sample = draw_sample(RunDirectory.open(str(tmp_path / "run")), 5, tasks=["relevance"])
    assert {item.decision for item in sample.items} == {"irrelevant"} and not any(item.kept for item in sample.items)
    assert {item.judge for item in sample.items} == {"one, two, three"}


def sent(server: LoopbackServer) -> Counter[bytes]:
    """How often each body was sent."""
    return Counter(orjson.dumps(call.body, option=orjson.OPT_SORT_KEYS) for call in server.calls)


def test_a_resumed_run_asks_nothing_twice_and_a_plan_counts_the_votes(
    alone: Path, server: LoopbackServer, tmp_path: Path
) -> None:
    votes = ("--judge", "one", "--votes", 3)
    code, planned, errors = build(server, tmp_path, tmp_path / "run", *votes, "--plan")
    assert code == 0 and server.number == 0, errors
    code, _, errors = build(server, tmp_path, tmp_path / "run", *votes, "--max-requests", 60)
    assert code == 3, errors
    info = must_build(server, tmp_path, tmp_path / "run", *votes)
    assert qa(tmp_path / "run").keys() == qa(alone).keys()
    assert max(sent(server).values()) == 1
    assert {call.body["seed"] for call in server.calls} == {SEED, SEED + 1, SEED + 2}
    assert not any("vote" in call.body for call in server.calls)
    asked = sum(row["requests"] for row in info["asked"])
    sums = next(line for line in planned.splitlines() if line.startswith("sum"))
    assert asked == server.number
    assert asked <= int(sums.split()[1].replace(",", "")) <= 3 * asked  # a plan drops nothing


def test_further_votes_reuse_the_first(server: LoopbackServer, tmp_path: Path) -> None:
    info = must_build(server, tmp_path, tmp_path / "one", "--judge", "one")
    judged = sum(row["requests"] for row in info["asked"] if row["task"] in judge_tasks())
    before = server.number
    must_build(server, tmp_path, tmp_path / "three", "--judge", "one", "--votes", 3, "--reuse", tmp_path / "one")
    assert server.number - before == 2 * judged


@pytest.mark.parametrize(
    "sampling", [{"temperature": 0.7}, {"temperature": 0.7, "seed": 3}], ids=["without a seed", "with a seed"]
)
def test_each_vote_has_a_key_of_its_own(sampling: dict[str, Any]) -> None:
    model = ModelConfig(name="m", model="m", base_url="http://localhost/v1", sampling=sampling)
    voters = Roles({"m": model}, judges=["m"], votes=3).voters
    question, support = QUESTIONS["factual"], judge("support")
    slots = support.slots(question, LABEL, PASSAGES)
    task = support.by_type["factual"].task
    requests = [voter.request(task, slots) for voter in voters]
    assert len({request.key for request in requests}) == 3
    assert requests[0].key == Address("m", model.request_parameters).request(task, slots).key
    assert [request.sampling.get("seed") for request in requests] == ([3, 4, 5] if "seed" in sampling else [None] * 3)


@pytest.mark.parametrize(
    ("judges", "votes", "sampling", "said"),
    [
        (["m"], 2, {}, "must be odd"),
        (["m", "m"], 1, {}, "must be odd"),
        (["m"], 3, {"temperature": 0}, "m has temperature 0"),
    ],
)
def test_votes_that_decide_nothing_are_refused(
    judges: list[str], votes: int, sampling: dict[str, Any], said: str
) -> None:
    model = ModelConfig(name="m", model="m", base_url="http://localhost/v1", sampling=sampling)
    with pytest.raises(ModelsError, match=said):
        Roles({"m": model}, judges=judges, votes=votes).check_votes()
