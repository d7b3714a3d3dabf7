"""Of the requests on one label the first goes alone, where a vendor's prompt cache is to hold it for the rest."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fdarx_core.evaluation.predictions import ANSWER_TASKS
from fdarx_core.llm import Asker, AskingStopped, HttpEndpoint, ModelConfig, Prices, ResponseStore
from fdarx_core.llm.limits import PREFIX_CACHED_S, PrefixWarmup
from fdarx_core.records import Request
from fdarx_core.storage import Location
from tests.llm.conftest import model
from tests.llm.helpers import run
from tests.llm.loopback_server import Call, Fault, LoopbackServer, text_of

QUESTIONS = 6
pytestmark = pytest.mark.usefixtures("quick_retries")


def on_label(name: str, endpoint: HttpEndpoint, questions: int = QUESTIONS, words: int = 1200) -> list[Request]:
    """Questions on a label of that many words."""
    slots = [
        {"label": f"{name} tablets. " + "dose " * words, "drug": name, "question": f"number {number}?"}
        for number in range(questions)
    ]
    return [ANSWER_TASKS["full_label"].request(one, endpoint="m", sampling=endpoint.sampling) for one in slots]


class Seen:
    """What a server saw: labels in the order of their requests, and how many of each were under way at once before the
    first was answered."""

    def __init__(self, server: LoopbackServer) -> None:
        self.labels: list[str] = []
        self.together: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self._under_way: Counter[str] = Counter()
        self._server, self._faults = server, server.faults
        server.faults, server.answer = self._come, self._go

    def _come(self, call: Call) -> Fault | None:
        label = self._label(call.body)
        self.labels.append(label)
        fault = self._faults(call)
        if not self.answered[label]:
            self._under_way[label] += 1
            self.together[label] = max(self.together[label], self._under_way[label])
            self._under_way[label] -= bool(fault and (fault.status != 200 or fault.drop))
        return fault

    def _go(self, body: Any) -> str:
        self.answered[self._label(body)] += 1
        return "Take it with food."

    @staticmethod
    def _label(body: Any) -> str:
        return text_of(body["messages"][-1]).split()[1]


async def within(
    config: ModelConfig,
    use: Callable[[Asker, HttpEndpoint], Awaitable[Any]],
    store: ResponseStore | None = None,
    grace_s: float = 30.0,
) -> Any:
    endpoint = HttpEndpoint(config)
    asker = Asker({"m": endpoint}, store, grace_s=grace_s)
    try:
        return await use(asker, endpoint)
    finally:
        await asker.close()


def asked(config: ModelConfig, *labels: str, questions: int = QUESTIONS, words: int = 1200) -> list[str]:
    """The reasons of the responses to questions on these labels, asked label after label, all at once."""

    async def use(asker: Asker, endpoint: HttpEndpoint) -> list[str]:
        batches = [on_label(name, endpoint, questions, words) for name in labels]
        replies = await asyncio.gather(*(asker.ask(batch) for batch in batches))
        return [response.reason for batch in replies for response in batch]

    return list(asyncio.run(within(config, use)))


def test_the_rest_of_a_label_follows_its_first_answer(server: LoopbackServer) -> None:
    server.latency = 0.3
    seen = Seen(server)
    assert asked(model(server, first_alone=True), "A", "B") == [""] * 2 * QUESTIONS
    assert seen.together == {"A": 1, "B": 1}
    assert set(seen.labels[:2]) == {"A", "B"}, "labels don't wait for each other"
    assert server.most_in_flight > QUESTIONS, "what follows goes together"


@pytest.mark.parametrize(("first_alone", "words"), [(False, 1200), (None, 1200), (True, 200)])
def test_all_go_at_once_where_it_is_not_wanted_or_the_label_is_short(
    server: LoopbackServer, first_alone: bool | None, words: int
) -> None:
    server.latency = 0.3
    assert asked(model(server, first_alone=first_alone), "A", words=words) == [""] * QUESTIONS
    assert server.most_in_flight == QUESTIONS


def test_what_is_answered_soon_after_goes_at_once(server: LoopbackServer) -> None:
    server.latency = 0.3

    async def use(asker: Asker, endpoint: HttpEndpoint) -> None:
        first, *rest = on_label("A", endpoint)
        await asker.ask([first])
        await asker.ask(rest)

    asyncio.run(within(model(server, first_alone=True), use))
    assert server.most_in_flight == QUESTIONS - 1


@pytest.mark.parametrize("status", [400, 500])
def test_where_the_first_fails_the_next_leads(server: LoopbackServer, status: int) -> None:
    def fails(call: Call) -> Fault | None:
        number = int(text_of(call.body["messages"][-1]).split()[-1].rstrip("?"))
        return Fault(status=status, error={"message": "told to fail"}) if number < 3 else None

    server.faults, server.latency = fails, 0.02
    seen = Seen(server)
    reasons = asked(model(server, first_alone=True, max_in_flight=4), "A", "B")
    assert [bool(reason) for reason in reasons] == [number % QUESTIONS < 3 for number in range(2 * QUESTIONS)]
    assert seen.together == {"A": 1, "B": 1}


def test_a_first_that_is_told_to_wait_does_not_hold_up_the_rest(server: LoopbackServer) -> None:
    def refuse(call: Call) -> Fault | None:
        return Fault(status=429, retry_after="0.5") if call.number == 1 else None

    server.faults = refuse
    seen = Seen(server)
    assert asked(model(server, first_alone=True), "A") == [""] * QUESTIONS
    assert seen.together == {"A": 1}
    assert server.calls[-1].prompt == server.calls[0].prompt, "it comes back last"


def test_whoever_waits_holds_no_slot(server: LoopbackServer) -> None:
    server.latency = 0.02
    seen = Seen(server)
    assert asked(model(server, first_alone=True, max_in_flight=1), "A", "B", "C") == [""] * 3 * QUESTIONS
    assert seen.together == {"A": 1, "B": 1, "C": 1}
    assert server.most_in_flight == 1


def test_those_who_waited_go_before_new_labels(server: LoopbackServer) -> None:
    server.latency = 0.02
    seen = Seen(server)
    names = [f"L{number}" for number in range(30)]
    asked(model(server, first_alone=True, max_in_flight=4), *names, questions=3)
    last = {name: max(place for place, label in enumerate(seen.labels) if label == name) for name in names}
    first = {name: seen.labels.index(name) for name in names}
    assert max(last[name] - first[name] for name in names) <= 2 * 4 * 3, "about as many labels are open as slots"


def test_who_leaves_gives_up_the_lead(server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(latency=60) if call.number == 1 else None

    async def use(asker: Asker, endpoint: HttpEndpoint) -> list[str]:
        first, *rest = on_label("A", endpoint)
        leaving = asyncio.ensure_future(endpoint.ask(first))
        while not server.number:
            await asyncio.sleep(0.01)
        waiting = asyncio.ensure_future(asker.ask(rest))
        await asyncio.sleep(0.05)
        assert server.number == 1
        leaving.cancel()
        return [response.reason for response in await waiting]

    assert asyncio.run(within(model(server, first_alone=True), use)) == [""] * (QUESTIONS - 1)


@pytest.mark.parametrize(("latency", "grace_s", "answered"), [(0.2, 30.0, 1), (60.0, 0.1, 0)])
def test_stopping_while_the_rest_waits(
    server: LoopbackServer, tmp_path: Path, latency: float, grace_s: float, answered: int
) -> None:
    """The first finishes where it does so in time; nothing else goes out, and nobody waits on."""
    server.latency = latency
    store = ResponseStore(Location(tmp_path / "responses"))

    async def use(asker: Asker, endpoint: HttpEndpoint) -> None:
        waiting = asyncio.ensure_future(asker.ask(on_label("A", endpoint)))
        while not server.number:
            await asyncio.sleep(0.01)
        await asyncio.wait_for(asker.stop(), 30)
        with pytest.raises(AskingStopped):
            await waiting

    asyncio.run(within(model(server, first_alone=True), use, store, grace_s))
    assert server.number == 1
    assert len(ResponseStore(store.root).index()) == answered


def test_a_wrong_key_ends_all_who_wait(server: LoopbackServer) -> None:
    server.faults = lambda call: Fault(status=401, error={"message": "bad key"})
    with pytest.raises(AskingStopped):
        asked(model(server, first_alone=True), "A", "B")
    assert server.number <= 2


def test_the_default_is_where_a_cache_pays(server: LoopbackServer) -> None:
    cheaper = Prices(input=2, cached_input=0.2, output=8)
    assert not model(server).warms_prefixes
    assert not model(server, prices=Prices(input=2, output=8)).warms_prefixes
    assert model(server, prices=cheaper).warms_prefixes
    assert model(server, kind="anthropic", base_url=server.url).warms_prefixes
    assert not model(server, kind="anthropic", base_url=server.url, first_alone=False).warms_prefixes


def test_anthropic_gets_one_mark_after_the_label(server: LoopbackServer) -> None:
    server.latency = 0.02
    seen = Seen(server)
    assert asked(model(server, kind="anthropic", base_url=server.url), "A") == [""] * QUESTIONS
    assert seen.together == {"A": 1}
    for call in server.calls:
        assert [("A tablets. dose" in block["text"], "cache_control" in block) for block in call.body["system"]] == [
            (True, True)
        ]
        assert all("cache_control" not in block for turn in call.body["messages"] for block in turn["content"])


class Trial:
    """Requests of a few prefixes through `PrefixWarmup` alone, each of some length and fate, in virtual time."""

    def __init__(self) -> None:
        self.first = PrefixWarmup(enabled=True)
        self.under_way: Counter[str] = Counter()
        self.answered: Counter[str] = Counter()
        self.done = 0

    async def one(self, prefix: str, comes: float, takes: float, fails: bool) -> None:
        await asyncio.sleep(comes)
        messages = [{"role": "system", "content": prefix * 5000}, {"role": "user", "content": "?"}]
        try:
            async with self.first.turn(Request("", "t", 1, "m", {}, messages, {})):
                assert self.answered[prefix] or not self.under_way[prefix]
                self.under_way[prefix] += 1
                try:
                    await asyncio.sleep(takes)
                finally:
                    self.under_way[prefix] -= 1
                if fails:
                    raise ConnectionError
                self.answered[prefix] += 1
        except ConnectionError:
            pass
        self.done += 1


FATES = st.tuples(st.sampled_from("ABC"), st.integers(0, 5), st.integers(1, 3), st.booleans())
"""Whole seconds: much happens at the same moment."""


@given(st.lists(FATES, max_size=40))
def test_one_at_a_time_until_one_is_answered(fates: Sequence[tuple[str, float, float, bool]]) -> None:
    async def main() -> int:
        trial = Trial()
        await asyncio.gather(*(trial.one(*fate) for fate in fates))
        return trial.done

    assert run(main()) == len(fates)


@pytest.mark.parametrize(("pause", "alone"), [(PREFIX_CACHED_S - 1, False), (PREFIX_CACHED_S + 1, True)])
def test_what_caches_have_forgotten_is_led_again(pause: float, alone: bool) -> None:
    async def main() -> float:
        trial = Trial()
        await trial.one("A", 0, 1, False)
        if alone:
            trial.answered.clear()
        before = asyncio.get_running_loop().time()
        await asyncio.gather(*(trial.one("A", pause, 1, False) for _ in range(3)))
        return asyncio.get_running_loop().time() - before - pause

    assert run(main()) == pytest.approx(2 if alone else 1)
