"""How the server is treated: a steady rate, few connections, waits as asked, and an end to asking."""

from __future__ import annotations

import asyncio
import time
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from pathlib import Path

import pytest

from fdarx_core.dailymed.fetching import FetchRequest
from fdarx_core.storage.retry import RateLimiter, parse_retry_after
from tests.dailymed.conftest import Fetch
from tests.dailymed.dailymed_server import DailyMedServer, Fault
from tests.dailymed.test_fetching import reasons


def test_requests_start_evenly_and_pause_when_told() -> None:
    async def starts() -> list[float]:
        limiter, found = RateLimiter(100), [time.monotonic()]
        for number in range(6):
            await limiter.wait()
            found.append(time.monotonic())
            if number == 3:
                limiter.hold(0.2)
        return found

    at = asyncio.run(starts())
    assert at[4] - at[0] >= 0.029
    assert at[6] - at[4] >= 0.209


def test_who_waits_for_a_turn_is_held_too() -> None:
    async def held() -> float:
        limiter = RateLimiter(20)
        await limiter.wait()
        waiting = asyncio.create_task(limiter.wait())
        await asyncio.sleep(0)
        since = time.monotonic()
        limiter.hold(0.3)
        await waiting
        return time.monotonic() - since

    assert asyncio.run(held()) >= 0.29


@pytest.mark.parametrize(
    ("value", "seconds"), [("3", 3), ("0.5", 0.5), ("-1", 0), ("soon", None), ("inf", None), (None, None)]
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert parse_retry_after(value) == seconds


def test_retry_after_a_date() -> None:
    then = datetime.now(timezone.utc) + timedelta(seconds=60)
    assert 50 < (parse_retry_after(format_datetime(then, usegmt=True)) or 0) <= 60


def test_no_request_while_the_server_asks_for_peace(server: DailyMedServer, fetch: Fetch) -> None:
    one, other, *_ = server.labels
    server.faults = lambda call: (
        Fault(status=429, headers={"Retry-After": "0.5"}) if one in call.path and call.attempt == 1 else None
    )
    assert len(fetch(FetchRequest(set_ids=(one, other))).fetched) == 2
    refused = next(call for call in server.calls if one in call.path)
    in_peace = [call for call in server.calls if 0.1 < call.at - refused.at < 0.45]
    assert not in_peace


@pytest.mark.parametrize("status", [403, 503])
def test_asking_ends_after_refusals_in_a_row(server: DailyMedServer, fetch: Fetch, tmp_path: Path, status: int) -> None:
    server.faults = lambda call: Fault(status=status) if call.name.endswith(".xml") else None
    outcome = fetch(FetchRequest(query={"drug_name": ""}))
    assert f"HTTP {status}" in outcome.stopped and "\n" not in outcome.stopped
    assert len(server.calls) <= 1 + (4 if status == 403 else 20)
    assert len(reasons(tmp_path / "out")) == len(server.labels)
    assert set(reasons(tmp_path / "out").values()) == {f"http_{status}", "not_asked"}


def test_a_long_wait_ends_it_at_once(server: DailyMedServer, fetch: Fetch) -> None:
    server.faults = lambda call: Fault(status=503, headers={"Retry-After": "7200"})
    outcome = fetch(FetchRequest(query={"drug_name": "tablets"}))
    assert "120 minutes" in outcome.stopped
    assert len(server.calls) == 1


def test_a_list_that_can_not_be_had_ends_it(server: DailyMedServer, fetch: Fetch) -> None:
    server.faults = lambda call: Fault(status=404)
    assert "--base-url" in fetch(FetchRequest(query={"drug_name": "x"})).stopped
    assert "--base-url" in fetch(FetchRequest(releases=("human_rx",))).stopped


def test_what_comes_after_the_end_is_not_asked(server: DailyMedServer, fetch: Fetch, tmp_path: Path) -> None:
    one = next(iter(server.labels))
    server.faults = lambda call: Fault(status=404) if call.name.endswith(".cfm") else None
    assert "--base-url" in fetch(FetchRequest(releases=("human_rx",), set_ids=(one,))).stopped
    assert reasons(tmp_path / "out") == {one: "not_asked"}
    assert len(server.calls) == 1


def test_nobody_there(fetch: Fetch, server: DailyMedServer) -> None:
    server.stop()
    assert "no_answer" in fetch(FetchRequest(query={"drug_name": "x"})).stopped


@pytest.mark.parametrize("connections", [1, 3])
def test_no_more_connections_than_told(server: DailyMedServer, fetch: Fetch, connections: int) -> None:
    assert len(fetch(FetchRequest(query={"drug_name": ""}), connections=connections).fetched) == len(server.labels)
    assert server.most_in_flight == 1 if connections == 1 else 1 < server.most_in_flight <= connections
