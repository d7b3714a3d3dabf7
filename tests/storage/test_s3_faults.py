"""What an S3 server may do to a job in the middle of its work, and what is made of it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fdarx_core.labels import find_sources, read_source
from fdarx_core.storage import Location, StorageError, retry
from fdarx_core.storage.errors import Unreachable
from fdarx_core.storage.s3 import PART
from fdarx_core.storage.s3_client import client
from tests.storage.loopback_s3 import Call, Fault, LoopbackS3

KEYS = {"AWS_ACCESS_KEY_ID": "first", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackS3]:
    with LoopbackS3() as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path_factory.mktemp("aws") / "credentials"))
        patch.setenv("AWS_ENDPOINT_URL", server.url)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.delenv(name, raising=False)
        use_key("first")
        client.cache_clear()
        yield server
        client.cache_clear()


@pytest.fixture
def server(running: LoopbackS3) -> Iterator[LoopbackS3]:
    """One that this process has used before."""
    running.objects, running.uploads, running.calls = {}, {}, []
    retry.SERVER_STATE.answered()
    yield running
    running.faults = lambda call: None
    retry.SERVER_STATE.reached, retry.SERVER_STATE.silent_since = False, None


def use_key(key: str) -> None:
    text = f"[default]\naws_access_key_id = {key}\naws_secret_access_key = secret\n"
    Path(os.environ["AWS_SHARED_CREDENTIALS_FILE"]).write_text(text)


FAULTS = {
    "throttled": Fault(503, "SlowDown", "Please reduce your request rate."),
    "too many": Fault(429, "TooManyRequests"),
    "its own fault": Fault(500, "InternalError"),
    "bad gateway": Fault(502, "?"),
    "broken": Fault(drop=True),
    "broken after the work": Fault(drop=True, done_first=True),
}


def test_what_passes_is_waited_for(server: LoopbackS3) -> None:
    faults = list(FAULTS.values())
    server.faults = lambda call: None if call.number % 2 else faults[call.number // 2 % len(faults)]
    for number in range(3):
        place = Location(f"s3://bucket/{number}")
        place.write_text("first")
        assert place.read_text() == "first"
        assert place.exists() and Location("s3://bucket").list() == [place]
        place.delete()
    assert not server.objects
    assert len(server.calls) == 2 * 3 * 5 - 1


def test_a_server_that_asks_for_time_gets_it(server: LoopbackS3) -> None:
    slow = Fault(503, "SlowDown", headers={"Retry-After": "1"})
    server.faults = lambda call: slow if call.number == 1 else None
    before = time.monotonic()
    Location("s3://bucket/a").write_text("x")
    assert time.monotonic() - before >= 1


def test_patience_ends_with_one_line(server: LoopbackS3, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow_at_first(call: Call) -> Fault:
        time.sleep(0.7 if call.number == 1 else 0)
        return FAULTS["throttled"]

    monkeypatch.setattr(retry, "RETRY_TIMEOUT_S", 1.5)
    server.faults = slow_at_first
    with pytest.raises(Unreachable, match=r"cannot write s3://bucket/a: .*SlowDown.*; tried for \d s, once it answers"):
        Location("s3://bucket/a").write_text("x")
    asked = len(server.calls)
    with pytest.raises(Unreachable):
        Location("s3://bucket/a").read_text()
    assert len(server.calls) == asked + 1, "what has been silent for so long is asked once more, not waited for again"
    server.faults = lambda call: None
    Location("s3://bucket/a").write_text("back")


def test_one_request_is_not_tried_for_ever_while_others_succeed(
    server: LoopbackS3, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "RETRY_TIMEOUT_S", 1.5)

    def fails(call: Call) -> Fault | None:
        retry.SERVER_STATE.answered()  # as another thread's requests would have it
        return FAULTS["throttled"]

    server.faults = fails
    with pytest.raises(Unreachable, match="SlowDown"):
        Location("s3://bucket/a").write_text("x")


def test_expired_credentials_are_read_anew(server: LoopbackS3) -> None:
    server.faults = lambda call: Fault(400, "ExpiredToken", "expired") if call.access_key == "first" else None
    with pytest.raises(Unreachable, match=r"the credentials have expired; set AWS_.*the same command resumes the job"):
        Location("s3://bucket/a").write_text("x")
    use_key("second")
    Location("s3://bucket/a").write_text("x")
    assert server.objects == {"bucket/a": b"x"}


def test_a_head_that_is_refused_is_explained(server: LoopbackS3) -> None:
    server.faults = lambda call: Fault(400, "ExpiredToken", "expired")
    with pytest.raises(Unreachable, match="the credentials have expired"):
        Location("s3://bucket/a").size()


def test_a_clock_that_is_wrong_is_told_by_how_much(server: LoopbackS3) -> None:
    behind = {"Date": time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() - 3600))}
    skewed = Fault(403, "RequestTimeTooSkewed", "The difference is too large.", behind)
    server.faults = lambda call: skewed
    with pytest.raises(Unreachable, match=r"this machine's clock is 3[56]\d\d s ahead of the server's; set it right"):
        Location("s3://bucket/a").read_text()


def test_no_right_to_write(server: LoopbackS3) -> None:
    server.faults = lambda call: Fault(403, "AccessDenied", "no") if call.method == "PUT" else None
    with pytest.raises(StorageError, match=r"cannot write into s3://bucket/runs: access was denied; .*write in this"):
        Location("s3://bucket/runs").check_writable()


def test_no_label_is_lost_because_a_server_is_away(server: LoopbackS3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "RETRY_TIMEOUT_S", 0.5)
    Location("s3://bucket/labels/a.xml").write_text("<a/>")
    [source] = find_sources(["s3://bucket/labels"]).sources
    server.faults = lambda call: FAULTS["its own fault"]
    with pytest.raises(Unreachable):
        list(read_source(source))


def test_an_upload_in_parts_survives(server: LoopbackS3) -> None:
    data = os.urandom(1000) * (2 * PART // 1000) + b"end"
    failed: set[str] = set()

    def once_each(call: Call) -> Fault | None:
        name = f"{call.method} {call.query.get('partNumber')}"
        fails = call.method in ("PUT", "POST") and name not in failed
        failed.add(name)
        return FAULTS["its own fault"] if fails else None

    server.faults = once_each
    Location("s3://bucket/large").write_bytes(data)
    assert server.objects == {"bucket/large": data} and not server.uploads


def test_an_upload_whose_completion_was_not_heard_is_made_again(server: LoopbackS3) -> None:
    data = bytes(2 * PART)
    lost = FAULTS["broken after the work"]
    completed: list[Call] = []

    def fails(call: Call) -> Fault | None:
        if call.method != "POST" or "uploadId" not in call.query:
            return None
        completed.append(call)
        return lost if len(completed) == 1 else None

    server.faults = fails
    Location("s3://bucket/large").write_bytes(data)
    assert server.objects == {"bucket/large": data} and len(completed) == 3


def test_an_upload_that_fails_is_aborted_and_leaves_nothing(server: LoopbackS3) -> None:
    denied = Fault(403, "AccessDenied", "no")
    server.faults = lambda call: denied if call.query.get("partNumber") == ["2"] else None
    with pytest.raises(StorageError, match="access was denied"):
        Location("s3://bucket/large").write_bytes(bytes(2 * PART))
    assert not server.objects and not server.uploads


def test_a_port_where_nobody_listens_is_told_soon() -> None:
    code = """
from fdarx_core.storage import Location, StorageError
for _ in range(3):
    try:
        Location("s3://bucket/a").exists()
    except StorageError as error:
        print(error)
"""
    environment = {**os.environ, **KEYS, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Could not connect") == done.stdout.count("check AWS_ENDPOINT_URL") == 3


@pytest.mark.parametrize("address", ["s3://bucket/a/../b", "s3://bucket/..", "s3://bucket/./a"])
def test_addresses_that_lead_elsewhere_are_refused(address: str) -> None:
    with pytest.raises(StorageError, match=r"no part of an S3 address may be \. or \.\."):
        Location(address)
