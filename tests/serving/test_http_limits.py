"""Keys, rates, places, deadlines, clients that leave; and what the logs say of all that."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.datastructures import Headers

from serving.http.access import ClientRateLimiter, ConcurrencyLimiter, add_key, key_of_request, read_keys
from tests.llm.loopback_server import LoopbackServer
from tests.serving.local_service import BY_MODEL, LocalBackend, Service, by_server, eventually, service

QUESTION = "What is the recommended dose of velocimab?"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """What was logged about requests, read back."""
    caplog.set_level(logging.INFO, "fdarx.requests")
    return lambda: [orjson.loads(record.message) for record in caplog.records if record.name == "fdarx.requests"]


def test_a_key_opens_the_api_and_nothing_else_does(tmp_path: Path, lines: Any) -> None:
    file = tmp_path / "keys"
    key, other = add_key(file, "alice"), add_key(file, "bob")
    with service(keys_file=file) as served:
        for headers, status in (
            ({}, 401),
            ({"Authorization": "Bearer wrong"}, 401),
            ({"Authorization": f"Basic {key}"}, 401),
            ({"Authorization": "Bearer é"}, 401),
            ({"X-API-Key": key[:-1]}, 401),
            ({"Authorization": f"Bearer {key}"}, 200),
            ({"authorization": f"bearer  {key} "}, 200),
            ({"X-API-Key": other}, 200),
        ):
            reply = served.post("/v1/answers", {"question": QUESTION}, headers=headers)
            assert reply.status == status, headers
            assert status == 200 or (reply.headers["WWW-Authenticate"] == "Bearer" and key not in str(reply.error))
        assert served.get("/v1/corpora").status == served.get("/v1/nowhere").status == 401
        for path in ("/", "/static/page.css", "/healthz", "/readyz", "/docs", "/openapi.json"):
            assert served.get(path).status == 200, path
        document = served.get("/openapi.json").json()
        assert document["paths"]["/v1/answers"]["post"]["security"] and document["components"]["securitySchemes"]
        assert "security" not in document["paths"]["/healthz"]["get"]
        assert served.meter.rejections == {"key": 7}
    logged = lines()
    named = sorted(one["key"] for one in logged if one["status"] == 200 and "key" in one)
    assert named == ["alice", "alice", "bob"]
    hashes = re.findall("[0-9a-f]{64}", file.read_text())
    assert not any(secret in str(logged) for secret in (key, key[:-1], other, *hashes))


def test_a_key_is_made_once_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("# ours\nold:" + "0" * 64)
    key = add_key(file, "new")
    assert len(key) == 43 and key not in file.read_text() and file.read_text().count("\n") == 3
    keys = read_keys(file)
    assert keys.name_of(key.encode()) == "new" and keys.name_of(b"") is None and keys.name_of(key.encode()[:-1]) is None
    for name in ("new", "", "a:b", "a b", "é", "x" * 65):
        with pytest.raises(ValueError):
            add_key(file, name)
    private = tmp_path / "private"
    add_key(private, "first")
    assert private.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "wrong", ["alice:MYSECRETKEY", "alice", ":" + "0" * 64, "a:" + "G" * 64, f"a:{'0' * 64}\n" * 2]
)
def test_a_keys_file_that_is_none_is_told_by_line_without_its_content(tmp_path: Path, wrong: str) -> None:
    file = tmp_path / "keys"
    file.write_text(f"# a comment\n\n{wrong}\n")
    with pytest.raises(ValueError, match=f"{file.name}:[34]") as error:
        read_keys(file)
    assert "MYSECRETKEY" not in str(error.value)
    with pytest.raises(ValueError, match=r"keys_file: .*absent"):
        read_keys(tmp_path / "absent")


@given(st.lists(st.tuples(st.sampled_from([b"authorization", b"x-api-key", b"accept"]), st.binary(max_size=20))))
def test_headers_of_any_kind_hold_a_key_or_none(headers: list[tuple[bytes, bytes]]) -> None:
    assert isinstance(key_of_request(Headers(raw=headers)), bytes)


def test_logs_say_what_happened_and_hold_no_question(lines: Any) -> None:
    with service() as served:
        served.post("/v1/answers", {"question": QUESTION, "strategy": "hyde"}, headers={"X-Request-Id": "abc-1"})
        served.ask("x" * 5000)
        served.get("/nowhere?api_key=sesame")
        served.get("/v1/names?prefix=velo")
    told = {(one["route"], one["status"]): one for one in lines()}
    assert {*told} == {("/v1/answers", 200), ("/v1/answers", 422), ("unmatched", 404), ("/v1/names", 200)}
    first = told["/v1/answers", 200]
    assert first["request_id"] == "abc-1"
    assert first["strategy"] == "hyde" and first["corpus"] == "labels" and first["passages"] == 3 and first["ms"] > 0
    assert told["/v1/answers", 422]["error"] == "too_long"
    logged = str(lines())
    assert "recommended dose" not in logged and "sesame" not in logged and "velo" not in logged


def test_questions_are_logged_where_that_is_asked_for(lines: Any) -> None:
    with service(log_questions=True) as served:
        served.ask(QUESTION)
    assert lines()[0]["question"] == QUESTION


def test_one_who_asks_too_often_is_told_when_to_come_again(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    keys = [add_key(file, name) for name in ("alice", "bob")]
    with service(keys_file=file, requests_per_minute=60, burst=2) as served:

        def ask(key: str) -> Any:
            return served.post("/v1/search", {"question": "dose"}, headers={"X-API-Key": key})

        assert [ask(keys[0]).status for _ in range(4)][-1] == 429
        refused = ask(keys[0])
        assert refused.headers["Retry-After"] == "1" and refused.error["type"] == "rate_limit_error"
        assert ask(keys[1]).status == 200
        assert served.get("/v1/corpora", headers={"X-API-Key": keys[0]}).status == 200
        assert served.meter.rejections["rate"] >= 2


def test_a_bucket_gives_no_more_than_its_rate() -> None:
    now = [0.0]
    rate = ClientRateLimiter(60, 3, lambda: now[0])
    assert [rate.acquire("a") for _ in range(4)] == [0, 0, 0, 1]
    now[0] = 0.5
    assert rate.acquire("a") == 0.5 and rate.acquire("b") == 0
    now[0] = 1000
    assert [rate.acquire("a") for _ in range(4)] == [0, 0, 0, 1]


@given(
    st.lists(
        st.tuples(st.sampled_from(["enter", "leave", "cancel"]), st.integers(0, 5), st.sampled_from("abc")), max_size=40
    )
)
def test_a_room_never_holds_more_than_its_places_and_loses_none(moves: list[tuple[str, int, str]]) -> None:
    async def play() -> None:
        taken: list[int] = []
        room = ConcurrencyLimiter(3, 2, 10, taken.append)
        inside: list[tuple[str, asyncio.Task[bool]]] = []
        for move, which, client in moves:
            if move == "enter":
                inside.append((client, asyncio.ensure_future(room.acquire(client))))
            elif move == "cancel" and inside and not inside[which % len(inside)][1].done():
                inside.pop(which % len(inside))[1].cancel()
            elif move == "leave" and (done := [one for one in inside if one[1].done() and one[1].result()]):
                inside.remove(done[0])
                room.release(done[0][0])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert sum(one.done() and one.result() for _, one in inside) == sum(taken) <= 3
        for _, one in inside:
            one.cancel()
        ends = await asyncio.gather(*(one for _, one in inside), return_exceptions=True)
        for (client, _), end in zip(inside, ends, strict=True):
            if end is True:
                room.release(client)
        assert sum(taken) == 0
        assert all(await asyncio.gather(*map(room.acquire, "abc")))
        assert sum(taken) == 3

    asyncio.run(play())


def test_a_room_keeps_no_one_waiting_for_ever() -> None:
    async def play() -> None:
        room = ConcurrencyLimiter(1, 1, 0.01, lambda change: None)
        assert await room.acquire("a") and not await room.acquire("a")
        room.release("a")
        assert await room.acquire("a")

    asyncio.run(play())


def test_no_client_takes_the_places_of_all() -> None:
    """Whoever takes all that it may leaves places, and room to wait, to the next one."""

    async def play() -> None:
        room = ConcurrencyLimiter(8, 8, 0.01, lambda change: None)
        granted = {name: sum(await asyncio.gather(*[room.acquire(name) for _ in range(20)])) for name in "abc"}
        assert granted == {"a": 4, "b": 2, "c": 1}
        room = ConcurrencyLimiter(2, 8, 10, lambda change: None)
        waiting = [asyncio.ensure_future(room.acquire("a")) for _ in range(20)]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len([one for one in waiting if not one.done()]) == 4
        assert await room.acquire("b")

    asyncio.run(play())


def test_a_place_goes_to_the_client_with_the_fewest() -> None:
    async def play() -> list[str]:
        order: list[str] = []
        room = ConcurrencyLimiter(1, 20, 10, lambda change: None)

        async def enter(client: str) -> None:
            assert await room.acquire(client)
            order.append(client)
            await asyncio.sleep(0)
            room.release(client)

        assert await room.acquire("a")
        entering = [asyncio.ensure_future(enter(client)) for client in "aab"]
        await asyncio.sleep(0)
        room.release("a")
        await asyncio.gather(*entering)
        return order

    assert asyncio.run(play()) == ["b", "a", "a"]


async def _at_once(served: Service, count: int) -> list[tuple[int, str | None]]:
    async def one(session: aiohttp.ClientSession) -> tuple[int, str | None]:
        async with session.post(f"{served.url}/v1/answers", json={"question": QUESTION}) as reply:
            await reply.read()
            return reply.status, reply.headers.get("Retry-After")

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        return await asyncio.gather(*(one(session) for _ in range(count)))


def test_more_than_a_replica_takes_on_is_503_at_once() -> None:
    """One client alone has half of the places."""
    with service(LocalBackend(BY_MODEL, hold=0.3), in_flight=8, waiting=2, wait_s=0.05) as served:
        replies = asyncio.run(_at_once(served, 30))
        assert [status for status, _ in replies].count(200) == 4
        assert {reply for reply in replies if reply[0] != 200} == {(503, "1")}
        assert served.meter.most_in_flight == 4 and eventually(lambda: served.meter.now_in_flight == 0)
        assert eventually(lambda: served.meter.requests["/v1/answers", 503] == 26)
        assert served.meter.rejections == {"concurrency": 26} and served.get("/healthz").status == 200
        assert served.ask().status == 200


def test_those_who_wait_get_the_places_that_come_free() -> None:
    with service(LocalBackend(BY_MODEL, hold=0.02), in_flight=8, waiting=60, wait_s=60) as served:
        assert {status for status, _ in asyncio.run(_at_once(served, 30))} == {200}
        assert served.meter.most_in_flight == 4


LOOKUPS = ("/v1/corpora", "/v1/names?prefix=velo", "/v1/filters", "/v1/passages/l0", "/v1/models")


def test_one_key_does_not_starve_the_other(tmp_path: Path) -> None:
    """18 slow requests of one key would take all places, and all room to wait."""
    file = tmp_path / "keys"
    greedy, other = ({"X-API-Key": add_key(file, name)} for name in ("greedy", "other"))
    with (
        service(LocalBackend(BY_MODEL), keys_file=file, in_flight=16, waiting=2) as served,
        ThreadPoolExecutor() as pool,
    ):
        assert served.post("/v1/answers", {"question": QUESTION}, headers=other).status == 200  # what is loaded once is
        served.world.hold = 5
        with ThreadPoolExecutor(18) as many:
            slow = [many.submit(served.post, "/v1/answers", {"question": QUESTION}, headers=greedy) for _ in range(18)]
            assert eventually(lambda: served.meter.now_in_flight >= 8)
            began = time.monotonic()
            assert [served.get(path, headers=other).status for path in LOOKUPS] == [200] * len(LOOKUPS)
            assert served.get("/v1/corpora", headers=greedy).status == 200
            assert time.monotonic() - began < 5, "look-ups have places of their own"
            asked = pool.submit(served.post, "/v1/answers", {"question": QUESTION}, headers=other)
            assert eventually(lambda: served.world.asked["answerer"] == 10), "the other key's question has a place"
        assert asked.result().status == 200
        assert [one.result().status for one in slow].count(200) == 8


def test_lookups_have_a_rate_of_their_own() -> None:
    with service(requests_per_minute=1, burst=1) as served:
        assert [served.ask().status for _ in range(2)] == [200, 429]
        statuses = [served.get("/v1/corpora").status for _ in range(11)]
        assert statuses == [200] * 10 + [429]
        refused = served.get("/v1/names?prefix=velo")
        assert refused.status == 429 and "10 look-ups a minute" in refused.error["message"]
        assert served.get("/healthz").status == 200


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/answers", 401),
        ("POST", "/v1/chat/completions", 401),
        ("POST", "/v1/documents?name=a.txt", 401),
        ("POST", "/v1/feedback", 401),
        ("POST", "/mcp", 401),
        ("PUT", "/v1/answers", 401),
        ("GET", "/v1/corpora", 401),
        ("DELETE", "/v1/documents", 401),
        ("POST", "/%761/answers", 401),
        ("POST", "/mcp/", 404),
        ("POST", "/", 405),
    ],
)
def test_no_byte_of_a_body_is_read_without_a_key(tmp_path: Path, method: str, path: str, status: int) -> None:
    """The reply comes although the body does not."""
    file = tmp_path / "keys"
    add_key(file, "alice", upload=True)
    with service(keys_file=file, feedback=tmp_path / "feedback.jsonl") as served:
        address = urlsplit(served.url)
        connection = HTTPConnection(address.hostname or "", address.port, timeout=10)
        connection.putrequest(method, path)
        connection.putheader("Content-Length", "1000")
        connection.endheaders()
        assert connection.getresponse().status == status
        connection.close()


@pytest.mark.parametrize("stream", [False, True])
def test_a_deadline_cancels_the_work(stream: bool) -> None:
    with service(LocalBackend(BY_MODEL, hold=30), deadline_s=20) as served:
        body = {"question": QUESTION, "stream": stream}
        reply = served.post("/v1/answers", body, headers={"X-Deadline-Ms": "100"})
        if stream:
            assert reply.status == 200 and b'event: error\ndata: {"error":{"type":"timeout_error"' in reply.body
        else:
            assert reply.status == 504 and reply.error["code"] == "deadline" and "0.1 s" in reply.error["message"]
        assert eventually(lambda: served.world.cancelled["answerer"] == 1 and served.meter.now_in_flight == 0)


def test_no_request_may_ask_for_more_than_the_servers_deadline() -> None:
    with service(LocalBackend(BY_MODEL, hold=30), deadline_s=0.1) as served:
        reply = served.post(
            "/v1/answers", {"question": QUESTION, "strategy": "hyde"}, headers={"X-Deadline-Ms": "9" * 30}
        )
        assert reply.status == 504 and served.world.cancelled["rewriter"] == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_ends_the_work(stream: bool, lines: Any) -> None:
    async def leave(served: Service) -> None:
        wait = aiohttp.ClientTimeout(total=0.2)
        async with aiohttp.ClientSession(timeout=wait) as session:
            body = {"question": QUESTION, "stream": stream}
            async with session.post(f"{served.url}/v1/answers", json=body) as reply:
                await reply.read()

    with service(LocalBackend(BY_MODEL, hold=30)) as served:
        with pytest.raises(asyncio.TimeoutError):
            asyncio.run(leave(served))
        assert eventually(lambda: served.world.cancelled["answerer"] == 1 and served.meter.now_in_flight == 0)
        assert eventually(lambda: served.meter.requests["/v1/answers", 499] == 1)
    assert lines()[0]["status"] == 499


def test_the_model_server_sees_a_cancelled_request_go() -> None:
    with LoopbackServer(latency=30) as model, service(LocalBackend(by_server(model.openai_url))) as served:
        reply = served.post("/v1/answers", {"question": QUESTION}, headers={"X-Deadline-Ms": "300"})
        assert reply.status == 504 and model.number == 1
        assert eventually(lambda: model.in_flight == 0)


def test_a_body_that_never_comes_is_given_up() -> None:
    async def slow() -> Any:
        yield b"{"
        await asyncio.sleep(30)

    with service(deadline_s=0.2) as served:
        reply = served.call("POST", "/v1/answers", data=slow(), headers={"Content-Type": "application/json"})
        assert reply.status == 408 and reply.error["code"] == "slow_body"
