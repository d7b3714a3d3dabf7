"""Each thing is asked once and kept; asking stops cleanly and goes on where it stopped."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.llm import (
    Asker,
    AskingStopped,
    Baseline,
    BudgetReached,
    EndpointStopped,
    HttpEndpoint,
    ModelConfig,
    Prices,
    ResponseStore,
    Task,
    ask,
)
from fdarx_core.records import Request
from fdarx_core.storage import Location, StorageError
from tests.llm.conftest import model, words
from tests.llm.loopback_server import Fault, LoopbackServer

FINE = '{"text": "cba"}'
NUMBERS = [str(number) for number in range(40)]
pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture
def store(tmp_path: Path) -> ResponseStore:
    return ResponseStore(Location(tmp_path / "responses"))


def asking(
    config: ModelConfig,
    store: ResponseStore | None,
    use: Callable[[Asker, HttpEndpoint], Awaitable[Any]],
    **limits: Any,
) -> Any:
    """What `use` returns of an asker of one server, which is closed after it."""

    async def run() -> Any:
        endpoint = HttpEndpoint(config)
        asker = Asker({endpoint.name: endpoint}, store, **limits)
        try:
            return await use(asker, endpoint)
        finally:
            await asker.close()

    return asyncio.run(run())


def stored(store: ResponseStore) -> int:
    return len(ResponseStore(store.root).index())


def test_in_order_and_once_for_each_key(task: Task[Any], store: ResponseStore, server: LoopbackServer) -> None:
    server.answer = lambda body: f'{{"text": "{body["messages"][-1]["content"].split()[1]}"}}'

    async def use(asker: Asker, endpoint: HttpEndpoint) -> list[str]:
        twice = words(task, endpoint, "a", "b", "a", "c")
        both = await asyncio.gather(asker.ask(twice), asker.ask(twice[::-1]))
        return [task.parse(one).text for responses in both for one in responses]

    assert "".join(asking(model(server), store, use)) == "abac" + "caba"
    assert server.number == 3
    assert stored(store) == 3


def test_what_was_answered_is_read_back(task: Task[Any], store: ResponseStore, server: LoopbackServer) -> None:
    async def use(asker: Asker, endpoint: HttpEndpoint) -> Any:
        return await asker.ask(words(task, endpoint, *NUMBERS))

    first = asking(model(server), store, use)
    assert asking(model(server), ResponseStore(store.root), use) == first
    assert server.number == len(NUMBERS)
    assert {one.attempts for one in first} == {1}
    assert all(one.latency_s > 0 for one in first)


def test_the_same_asker_asks_no_key_again(task: Task[Any], store: ResponseStore, server: LoopbackServer) -> None:
    async def use(asker: Asker, endpoint: HttpEndpoint) -> None:
        for _ in range(3):
            await asker.ask(words(task, endpoint, *NUMBERS))
            await asyncio.sleep(0.06)

    asking(model(server), store, use)
    assert server.number == len(NUMBERS)


def test_damaged_segments_are_asked_anew(task: Task[Any], store: ResponseStore, server: LoopbackServer) -> None:
    async def use(asker: Asker, endpoint: HttpEndpoint) -> Any:
        return await asker.ask(words(task, endpoint, "a", "b"))

    first = asking(model(server), store, use)
    again = ResponseStore(store.root)
    again.index()
    for file in store.root.list(recursive=True):
        file.write_bytes(b"PAR1 damaged")
    assert [one.text for one in asking(model(server), again, use)] == [one.text for one in first]


def test_responses_are_stored_while_others_are_asked(
    task: Task[Any], store: ResponseStore, server: LoopbackServer
) -> None:
    server.faults = lambda call: Fault(latency=1.0) if "Word: slow" in str(call.body["messages"]) else None

    async def use(asker: Asker, endpoint: HttpEndpoint) -> int:
        slow = asyncio.ensure_future(asker.ask(words(task, endpoint, "slow")))
        await asker.ask(words(task, endpoint, *NUMBERS))
        for _ in range(80):
            await asyncio.sleep(0.01)
            if stored(store):
                break
        assert not slow.done()
        kept = stored(store)
        await slow
        return kept

    assert asking(model(server), store, use) == len(NUMBERS)
    assert stored(store) == len(NUMBERS) + 1
    assert 2 <= len(store.root.list(recursive=True)) <= 20


def test_transient_failures_are_asked_again(task: Task[Any], store: ResponseStore, server: LoopbackServer) -> None:
    async def use(asker: Asker, endpoint: HttpEndpoint) -> list[str]:
        return [one.reason for one in await asker.ask(words(task, endpoint, "q", "b"))]

    server.faults = lambda call: Fault(status=500) if "Word: q" in str(call.body["messages"]) else None
    assert asking(model(server), store, use) == ["transient_server_error", ""]
    server.faults = lambda call: None
    assert asking(model(server), ResponseStore(store.root), use) == ["", ""]
    assert server.number == 2 + 1 + 1


def test_baseline_and_server_side_by_side(task: Task[Any], baseline: Baseline, server: LoopbackServer) -> None:
    async def run() -> list[str]:
        endpoint = HttpEndpoint(model(server))
        asker = Asker({"m": endpoint, "baseline": baseline})
        by_rules = task.request({"word": "xyz", "times": 1}, endpoint="baseline", sampling=baseline.sampling)
        try:
            return [one.text for one in await asker.ask([by_rules, *words(task, endpoint, "abc"), by_rules])]
        finally:
            await asker.close()

    assert asyncio.run(run()) == ['{"text":"zyx"}', FINE, '{"text":"zyx"}']


def test_what_the_baseline_answered_serves_both_ways(task: Task[Any], baseline: Baseline, store: ResponseStore) -> None:
    request = task.request({"word": "xyz", "times": 1}, endpoint="baseline", sampling=baseline.sampling)

    async def run() -> Any:
        asker = Asker({"baseline": baseline}, store)
        try:
            return await asker.ask([request])
        finally:
            await asker.close()

    assert asyncio.run(run()) == ask([request], Baseline({}, "r1"), ResponseStore(store.root))


def test_a_request_to_an_unknown_endpoint(task: Task[Any], server: LoopbackServer) -> None:
    async def use(asker: Asker, endpoint: HttpEndpoint) -> None:
        await asker.ask([task.request({"word": "a", "times": 1}, endpoint="other")])

    with pytest.raises(ValueError, match="for endpoint other; there are m"):
        asking(model(server), None, use)


def test_stopping_lets_those_in_flight_finish(task: Task[Any], store: ResponseStore, server: LoopbackServer) -> None:
    server.latency = 0.2

    async def use(asker: Asker, endpoint: HttpEndpoint) -> None:
        running = [asyncio.ensure_future(asker.ask(words(task, endpoint, *NUMBERS[part::4]))) for part in range(4)]
        await asyncio.sleep(0.1)
        await asker.stop()
        outcomes = await asyncio.gather(*running, return_exceptions=True)
        assert {type(one) for one in outcomes} == {AskingStopped}
        assert "run again to go on" in str(outcomes[0])
        with pytest.raises(AskingStopped):
            await asker.ask(words(task, endpoint, "new"))

    asking(model(server, max_in_flight=8), store, use)
    assert server.number == 8
    assert stored(store) == 8


def test_stopping_does_not_wait_for_ever(task: Task[Any], store: ResponseStore, server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(latency=60) if "Word: slow" in str(call.body["messages"]) else None

    async def use(asker: Asker, endpoint: HttpEndpoint) -> None:
        slow = asyncio.ensure_future(asker.ask(words(task, endpoint, "slow")))
        await asker.ask(words(task, endpoint, "a"))
        await asyncio.wait_for(asker.stop(), 5)
        with pytest.raises(AskingStopped):
            await slow

    asking(model(server), store, use, grace_s=0.1)
    assert stored(store) == 1


def test_stopping_ends_the_wait_for_another_try(task: Task[Any], server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=429, retry_after="60")

    async def use(asker: Asker, endpoint: HttpEndpoint) -> None:
        waiting = asyncio.ensure_future(asker.ask(words(task, endpoint, "a")))
        await asyncio.sleep(0.2)
        await asyncio.wait_for(asker.stop(), 5)
        with pytest.raises(AskingStopped):
            await waiting

    asking(model(server), None, use)
    assert server.number == 1


def test_as_many_requests_as_the_run_may(task: Task[Any], store: ResponseStore, server: LoopbackServer) -> None:
    async def use(asker: Asker, endpoint: HttpEndpoint) -> Any:
        return await asker.ask(words(task, endpoint, *NUMBERS))

    for done in (15, 30):
        with pytest.raises(BudgetReached, match="15 requests were sent"):
            asking(model(server), ResponseStore(store.root), use, max_requests=15)
        assert (server.number, stored(store)) == (done, done)
    assert len(asking(model(server), ResponseStore(store.root), use, max_requests=15)) == len(NUMBERS)


def test_as_much_as_the_run_may_cost(task: Task[Any], store: ResponseStore, server: LoopbackServer) -> None:
    prices = Prices(input=0, output=1_000_000 / 4)  # a reply has 4 tokens, and so costs a dollar
    server.latency = 0.02

    async def use(asker: Asker, endpoint: HttpEndpoint) -> None:
        with pytest.raises(BudgetReached, match="US dollars are spent"):
            await asker.ask(words(task, endpoint, *NUMBERS))
        assert asker.cost == 10

    asking(model(server, prices=prices, max_in_flight=4), store, use, max_cost=10)
    assert stored(store) == 10


def test_a_wrong_key_stops_everybody(task: Task[Any], store: ResponseStore, server: LoopbackServer) -> None:
    server.latency = 0.05
    server.faults = lambda call: Fault(status=401, error={"message": "bad key"}) if call.number > 4 else None

    async def use(asker: Asker, endpoint: HttpEndpoint) -> Any:
        both = (asker.ask(words(task, endpoint, *NUMBERS)), asker.ask(words(task, endpoint, "x", "y")))
        return await asyncio.gather(*both, return_exceptions=True)

    outcomes = asking(model(server, max_in_flight=4), store, use)
    assert {type(one) for one in outcomes} == {EndpointStopped}
    assert stored(store) == 4


def test_who_leaves_takes_nobody_along(task: Task[Any], server: LoopbackServer) -> None:
    server.latency = 0.2

    async def use(asker: Asker, endpoint: HttpEndpoint) -> Any:
        leaving = asyncio.ensure_future(asker.ask(words(task, endpoint, "a")))
        staying = asyncio.ensure_future(asker.ask(words(task, endpoint, "a")))
        await asyncio.sleep(0.1)
        leaving.cancel()
        return await staying

    assert asking(model(server), None, use)[0].text == FINE


def test_responses_that_cannot_be_kept_stop_the_run(task: Task[Any], tmp_path: Path, server: LoopbackServer) -> None:
    (tmp_path / "responses").mkdir()
    (tmp_path / "responses" / task.name).write_text("a file where a folder is to be")
    server.latency = 0.02

    async def use(asker: Asker, endpoint: HttpEndpoint) -> Any:
        return await asker.ask(words(task, endpoint, *map(str, range(1000))))

    with pytest.raises((StorageError, AskingStopped)):
        asking(model(server, max_in_flight=4), ResponseStore(Location(tmp_path / "responses")), use)
    assert server.number < 500


def test_retry_after_is_honoured_while_others_go_on(task: Task[Any], server: LoopbackServer) -> None:
    refusal = Fault(status=429, retry_after="1")
    server.faults = lambda call: refusal if "Word: late" in str(call.body["messages"]) and call.attempt == 1 else None

    async def use(asker: Asker, endpoint: HttpEndpoint) -> Any:
        return await asker.ask(words(task, endpoint, "late", *NUMBERS))

    responses = asking(model(server, max_in_flight=1), None, use)
    assert [one.reason for one in responses] == [""] * 41
    first, *others, last = server.calls
    assert first.prompt == last.prompt
    assert last.at - first.at >= 1.0
    assert others[-1].at - first.at < 1.0


def test_limits_hold_over_all_who_ask(task: Task[Any], server: LoopbackServer) -> None:
    server.latency = 0.01

    async def use(asker: Asker, endpoint: HttpEndpoint) -> None:
        await asyncio.gather(*(asker.ask(words(task, endpoint, *NUMBERS[part::8])) for part in range(8)))

    asking(model(server, max_in_flight=3, requests_per_minute=3000), None, use)
    assert server.most_in_flight <= 3
    assert server.calls[-1].at - server.calls[0].at >= 38 * 0.02 - 0.1


def test_an_endpoint_travels_until_it_is_used(task: Task[Any], server: LoopbackServer) -> None:
    endpoint: HttpEndpoint = pickle.loads(pickle.dumps(HttpEndpoint(model(server))))

    async def run(request: Request) -> str:
        try:
            return (await endpoint.ask(request)).text
        finally:
            await endpoint.close()

    assert asyncio.run(run(words(task, endpoint, "a")[0])) == FINE
    assert endpoint.counters.done == 1
