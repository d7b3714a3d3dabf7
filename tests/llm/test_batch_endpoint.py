"""Requests through batch APIs: each once, whatever ends before them, and with the replies of direct requests."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from fdarx_core.llm import (
    Asker,
    AskingStopped,
    BatchEndpoint,
    BatchRecords,
    BudgetReached,
    EndpointStopped,
    ModelConfig,
    ResponseStore,
    Task,
)
from fdarx_core.llm.batch_formats import OpenAIBatches
from fdarx_core.llm.response_store import ledger
from fdarx_core.records import Response
from fdarx_core.storage import Location, StorageError
from tests.llm.batch_server import BatchServer
from tests.llm.conftest import ask_all, words
from tests.llm.loopback_server import Call, Fault

NUMBERS = [str(number) for number in range(60)]
PRICES = {"input": 2000, "output": 10000}
pytestmark = pytest.mark.usefixtures("quick_retries", "quick_batches")


def spelled(body: Any) -> str:
    """As a model that does the small task right."""
    content = body["messages"][-1]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    return orjson.dumps({"text": text.split()[1][::-1]}).decode()


def word_of(call: Call) -> str:
    content = call.body["messages"][-1]["content"]
    return str((content if isinstance(content, str) else content[0]["text"]).split()[1])


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer(answer=spelled) as running:
        yield running


@pytest.fixture
def run(tmp_path: Path) -> Location:
    return Location(tmp_path)


def model(server: BatchServer, kind: str = "openai", **fields: Any) -> ModelConfig:
    url = server.openai_url if kind == "openai" else server.url
    given = {"name": "m", "model": "tiny", "kind": kind, "base_url": url, "max_tries": 3, "prices": PRICES}
    return ModelConfig(**given | fields)


def asking(
    config: ModelConfig, run: Location, use: Callable[[Asker, BatchEndpoint], Awaitable[Any]], **limits: Any
) -> Any:
    """What `use` returns of an asker of one server in batches, which is closed after it."""

    async def main() -> Any:
        endpoint = BatchEndpoint(config, BatchRecords(run / "batches"))
        asker = Asker({endpoint.name: endpoint}, ResponseStore(run / "responses"), **limits)
        try:
            return await use(asker, endpoint)
        finally:
            await asker.close()

    return asyncio.run(main())


def ask(task: Task[Any], config: ModelConfig, run: Location, *given: str, **limits: Any) -> list[Response]:
    """The responses to one request a word, each asked on its own, in order."""

    async def use(asker: Asker, endpoint: BatchEndpoint) -> list[Response]:
        requests = words(task, endpoint, *given)
        return [one for [one] in await asyncio.gather(*(asker.ask([request]) for request in requests))]

    responses: list[Response] = asking(config, run, use, **limits)
    return responses


def abandon(task: Task[Any], config: ModelConfig, run: Location, server: BatchServer, *given: str) -> None:
    """Ask as a process that is stopped once the server has a batch more."""
    before = len(server.batches)

    async def use(asker: Asker, endpoint: BatchEndpoint) -> None:
        asked = asyncio.ensure_future(asker.ask(words(task, endpoint, *given)))
        while len(server.batches) == before:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        await asker.stop()
        with pytest.raises(AskingStopped):
            await asked

    asking(config, run, use)


def untimed(responses: list[Response]) -> list[Response]:
    return [dataclasses.replace(one, latency_s=0.0, batched=False) for one in responses]


def keys(server: BatchServer) -> list[str]:
    return [custom_id for custom_id, _ in server.submitted.elements()]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_the_requests_of_many_callers_make_one_batch_with_the_direct_replies(
    kind: str, task: Task[Any], run: Location, server: BatchServer
) -> None:
    config = model(server, kind)
    responses = ask(task, config, run, *NUMBERS)
    assert len(server.batches) == 1 and len(server.submitted) == len(NUMBERS)
    assert untimed(responses) == untimed(ask_all(task, config, *NUMBERS))
    assert {one.batched for one in responses} == {True} and {one.attempts for one in responses} == {1}
    [row] = ledger(ResponseStore(run / "responses"), {"m": config})
    assert row["batched"] == row["requests"] == len(NUMBERS)
    assert config.prices is not None
    assert row["cost"] == pytest.approx(sum(config.prices.cost(one) for one in untimed(responses)) / 2)


def test_a_batch_that_is_full_is_followed_by_another(
    task: Task[Any], run: Location, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OpenAIBatches, "max_requests", 25)
    assert {one.reason for one in ask(task, model(server), run, *NUMBERS)} == {""}
    assert sorted(len(batch.items) for batch in server.batches.values()) == [10, 25, 25]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_what_failed_for_now_or_expired_is_asked_again_and_what_failed_is_kept(
    kind: str, task: Task[Any], run: Location, server: BatchServer
) -> None:
    seen: set[str] = set()

    def faults(call: Call) -> Fault | None:
        word = word_of(call)
        if word == "bad":
            return Fault(status=400, error={"message": "the prompt is not allowed"})
        return Fault(status=500) if word == "late" and call.attempt == 1 else None

    def expires(custom_id: str) -> bool:
        first = not seen
        seen.add(custom_id)
        return first

    server.faults, server.expires = faults, expires
    config = model(server, kind)
    responses = ask(task, config, run, *NUMBERS, "bad", "late")
    assert [one.reason for one in responses] == [""] * len(NUMBERS) + ["refused_request", ""]
    assert "not allowed" in responses[-2].text
    assert sum(one.attempts for one in responses) == len(responses) + 2
    assert [len(batch.items) for batch in server.batches.values()] == [len(NUMBERS) + 2, 2]
    assert ask(task, config, run, *NUMBERS, "bad", "late") == responses
    assert len(server.batches) == 2
    counts = [record.results for record in BatchRecords(run / "batches").load()]
    assert counts[0]["replied"] == len(NUMBERS) - 1 and sum(counts[0].values()) == len(NUMBERS) + 2
    assert counts[1] == {"replied": 2}


def test_tries_are_bounded(task: Task[Any], run: Location, server: BatchServer) -> None:
    server.expires = lambda custom_id: True
    [response] = ask(task, model(server, max_tries=2), run, "a")
    assert response.reason == "transient_batch_expired" and response.attempts == 2
    assert ResponseStore(run / "responses").index() == {}


def test_a_schema_that_is_refused_is_sent_in_another_form_in_the_next_batch(
    task: Task[Any], run: Location, server: BatchServer
) -> None:
    def faults(call: Call) -> Fault | None:
        strict = call.body.get("response_format", {}).get("type") == "json_schema"
        return Fault(status=400, error={"message": "response_format json_schema is not supported"}) if strict else None

    server.faults = faults
    assert {one.reason for one in ask(task, model(server), run, *NUMBERS)} == {""}
    assert len(server.batches) == 2
    assert BatchRecords(run / "batches").load()[-1].learned()[task.name].mode == "json_object"


def test_a_reply_that_does_not_fit_is_repaired_in_the_next_batch(
    task: Task[Any], run: Location, server: BatchServer
) -> None:
    server.answer = lambda body: spelled(body) if len(body["messages"]) > 4 else '{"texts": "cba"}'
    responses = ask(task, model(server), run, "a", "b")
    assert {one.reason for one in responses} == {""} and len(server.batches) == 2
    assert [key.split("-")[1] for key in keys(server)] == ["reply"] * 2 + ["repair"] * 2
    assert responses[0].attempts == 2


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_later_process_collects_the_batches_of_an_earlier_one(
    kind: str, task: Task[Any], run: Location, server: BatchServer
) -> None:
    server.holds = lambda batch: True
    abandon(task, model(server, kind), run, server, *NUMBERS)
    assert ResponseStore(run / "responses").index() == {}
    assert sum(BatchRecords(run / "batches").uncollected().values()) == len(NUMBERS)
    server.holds = lambda batch: False
    responses = ask(task, model(server, kind), run, *NUMBERS, "more")
    assert {one.reason for one in responses} == {""} and {one.attempts for one in responses} == {1}
    assert [len(batch.items) for batch in server.batches.values()] == [len(NUMBERS), 1]
    assert set(server.submitted.values()) == {1}
    assert BatchRecords(run / "batches").uncollected() == {}


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_batch_whose_id_nobody_noted_is_found_again(
    kind: str, task: Task[Any], run: Location, server: BatchServer
) -> None:
    other = run / "other"
    ask(task, model(server, kind), other, *(f"x{number}" for number in NUMBERS))  # of the same size
    server.holds = lambda batch: True
    abandon(task, model(server, kind), run, server, *NUMBERS)
    records = BatchRecords(run / "batches")
    [record] = records.load()
    records.write(dataclasses.replace(record, id=""))
    server.holds = lambda batch: False
    ask(task, model(server, kind), run / "other", *(f"y{number}" for number in NUMBERS))
    assert {one.reason for one in ask(task, model(server, kind), run, *NUMBERS)} == {""}
    assert len(server.batches) == 3 and set(server.submitted.values()) == {1}
    assert [one.id for one in records.load()] == [record.id]


def test_a_batch_that_was_never_submitted_is_submitted_by_the_next_process(
    task: Task[Any], run: Location, server: BatchServer
) -> None:
    server.holds = lambda batch: True
    abandon(task, model(server), run, server, *NUMBERS)
    records = BatchRecords(run / "batches")
    [record] = records.load()
    records.write(dataclasses.replace(record, id=""))
    server.batches.clear()
    server.holds = lambda batch: False
    assert {one.reason for one in ask(task, model(server), run, *NUMBERS)} == {""}
    assert [len(one.custom_ids) for one in records.load()] == [len(NUMBERS)]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("fault", ["drop", 500])
def test_a_lost_reply_to_a_submission_makes_no_second_batch(
    kind: str, fault: int | str, task: Task[Any], run: Location, server: BatchServer
) -> None:
    create = "POST /v1/batches" if kind == "openai" else "POST /v1/messages/batches"
    server.call_faults = lambda call, number: fault if (call, number) == (create, 1) else None
    assert {one.reason for one in ask(task, model(server, kind), run, *NUMBERS)} == {""}
    assert len(server.batches) == 1 and set(server.submitted.values()) == {1}


def test_a_server_that_fails_for_a_while_is_asked_again(task: Task[Any], run: Location, server: BatchServer) -> None:
    server.call_faults = lambda call, number: 503 if number == 1 or (call.endswith("content") and number < 3) else None
    assert {one.reason for one in ask(task, model(server), run, *NUMBERS)} == {""}
    assert len(server.batches) == 1


def test_a_full_queue_is_tried_again(task: Task[Any], run: Location, server: BatchServer) -> None:
    full = {"code": "token_limit_exceeded", "message": "Enqueued token limit reached", "param": None, "line": None}
    server.refuses = lambda batch: full if len(server.batches) < 2 else None
    assert {one.reason for one in ask(task, model(server), run, *NUMBERS)} == {""}
    assert len(server.batches) == 3 and server.calls_made["POST /v1/files"] == 1
    assert [one.id for one in BatchRecords(run / "batches").load()] == ["batch_2"]


def test_a_batch_that_is_refused_as_a_whole_stops_the_model(
    task: Task[Any], run: Location, server: BatchServer
) -> None:
    server.refuses = lambda batch: {"code": "model_not_found", "message": "tiny is not available for batches"}
    with pytest.raises(EndpointStopped, match="tiny is not available for batches"):
        ask(task, model(server), run, *NUMBERS)
    server.refuses = lambda batch: None
    assert {one.reason for one in ask(task, model(server), run, *NUMBERS)} == {""}


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_a_wrong_key_stops_before_anything_is_submitted(
    kind: str, task: Task[Any], run: Location, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.key = "sk-right"
    monkeypatch.setenv("BATCH_KEY", "sk-wrong")
    with pytest.raises(EndpointStopped, match="wrong key; check the key that key_env names"):
        ask(task, model(server, kind, key_env="BATCH_KEY"), run, *NUMBERS)
    assert not server.batches and sum(server.calls_made.values()) == 1
    monkeypatch.setenv("BATCH_KEY", "sk-right")
    assert {one.reason for one in ask(task, model(server, kind, key_env="BATCH_KEY"), run, *NUMBERS)} == {""}
    assert "sk-" not in "".join(file.read_text() for file in (run / "batches").list())


def test_a_server_without_batches_is_named_with_the_remedy(task: Task[Any], run: Location, server: BatchServer) -> None:
    server.has_batches = False
    with pytest.raises(EndpointStopped, match="leave out --batch, or set batch_api: false"):
        ask(task, model(server), run, *NUMBERS)


def test_a_batch_that_the_server_no_longer_has_is_not_paid_for_again(
    task: Task[Any], run: Location, server: BatchServer
) -> None:
    server.holds = lambda batch: True
    abandon(task, model(server), run, server, *NUMBERS)
    server.batches.clear()
    with pytest.raises(EndpointStopped, match="does not have batch batch_0"):
        ask(task, model(server), run, *NUMBERS)
    assert not server.batches


def test_a_limit_of_requests_holds_and_the_same_command_goes_on(
    task: Task[Any], run: Location, server: BatchServer
) -> None:
    for sent in (25, 50):
        with pytest.raises(BudgetReached):
            ask(task, model(server), run, *NUMBERS, max_requests=25)
        assert len(server.submitted) == sent and len(ResponseStore(run / "responses").index()) == sent
    assert {one.reason for one in ask(task, model(server), run, *NUMBERS, max_requests=25)} == {""}
    assert set(server.submitted.values()) == {1}


def test_a_limit_of_cost_holds_by_the_most_that_a_batch_may_cost(
    task: Task[Any], run: Location, server: BatchServer
) -> None:
    config = model(server, max_tokens=10)
    [one] = ask(task, config, run / "one", "0")
    assert config.prices is not None
    limit = 20 * config.prices.cost(one)
    server.submitted.clear()
    with pytest.raises(BudgetReached):
        ask(task, config, run, *NUMBERS, max_cost=limit)
    [row] = ledger(ResponseStore(run / "responses"), {"m": config})
    assert 0.8 * limit < row["cost"] <= limit
    assert len(server.submitted) == row["requests"]


def test_a_stop_sends_nothing_that_waits(task: Task[Any], run: Location, server: BatchServer) -> None:
    async def use(asker: Asker, endpoint: BatchEndpoint) -> None:
        asked = asyncio.ensure_future(asker.ask(words(task, endpoint, *NUMBERS)))
        while endpoint.counters.in_flight < len(NUMBERS):
            await asyncio.sleep(0.01)
        await asker.stop()
        with pytest.raises(AskingStopped):
            await asked

    asking(model(server), run, use)
    assert not server.batches and not BatchRecords(run / "batches").load()


def test_a_run_that_cannot_be_written_stops_before_anything_is_submitted(
    task: Task[Any], run: Location, server: BatchServer
) -> None:
    (run / "batches").write_text("a file where the folder of records should be")
    with pytest.raises(StorageError):
        ask(task, model(server), run, *NUMBERS)
    assert not server.batches


def test_a_damaged_record_is_named_with_what_its_loss_costs(
    task: Task[Any], run: Location, server: BatchServer
) -> None:
    (run / "batches" / "1-2.json").write_text("{")
    with pytest.raises(StorageError, match=r"1-2\.json is damaged.*sent and paid for again"):
        ask(task, model(server), run, *NUMBERS)
    assert not server.batches


def test_a_key_that_expires_while_a_batch_is_worked_on_is_renewed(
    task: Task[Any], run: Location, server: BatchServer, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_text("sk-first")
    server.key = "sk-first"

    def expire(call: str, number: int) -> None:
        if call == "POST /v1/batches":
            server.key = "sk-second"
            key.write_text("sk-second")

    server.call_faults = expire
    responses = ask(task, model(server, key_command=f"cat {key}"), run, *NUMBERS)
    assert {one.reason for one in responses} == {""} and len(server.batches) == 1
