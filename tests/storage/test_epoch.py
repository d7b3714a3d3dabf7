"""What a job, or a worker of it, that slept while another job took its run over can still do to the run: nothing."""

from __future__ import annotations

import errno
import fcntl
import pickle
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from fdarx_core.storage import Location, RunConflict, RunDirectory, retry, run_lock
from fdarx_core.storage.s3 import PART
from fdarx_core.storage.s3_client import client
from tests.storage.loopback_s3 import Call, Fault, LoopbackS3

TAKEN = r"has taken the run over|has released it"


_BEGUN: list[RunDirectory] = []


def release_all() -> None:
    while _BEGUN:
        with suppress(Exception):
            _BEGUN.pop().release()


@pytest.fixture(autouse=True)
def released() -> Iterator[None]:
    """Release all runs at the end of a test, also of one that fails."""
    yield
    release_all()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackS3]:
    """A server that stays until all runs are released: else their heartbeats would find it silent, which all clients of
    the process then know, or reach that of the next test."""
    with LoopbackS3() as running:
        monkeypatch.setenv("AWS_ENDPOINT_URL", running.url)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        monkeypatch.setattr(run_lock, "HEARTBEAT_S", 0.1)
        client.cache_clear()
        yield running
        release_all()
        client.cache_clear()
        retry.SERVER_STATE.reached, retry.SERVER_STATE.silent_since = False, None


def refuse_locks(patch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    patch.setattr(fcntl, "flock", refuse)


@pytest.fixture(params=["disk", "disk without locks", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "s3":
        request.getfixturevalue("server")
        return "s3://bucket/run"
    if request.param == "disk without locks":
        refuse_locks(monkeypatch)
    return str(tmp_path / "run")


def begin(place: object) -> RunDirectory:
    _BEGUN.append(RunDirectory.begin(str(place), job="build_benchmark", config={}, versions={}))
    return _BEGUN[-1]


def at_worker(run: RunDirectory) -> RunDirectory:
    """The run as a worker has it, which does not learn that its job has ended."""
    sent: RunDirectory = pickle.loads(pickle.dumps(run))
    return sent


def take_over(run: RunDirectory) -> RunDirectory:
    run.release()
    return begin(run.root)


def test_a_worker_of_an_earlier_job_writes_nothing(place: str) -> None:
    first = begin(place)
    worker = at_worker(first)
    worker.part("labels", 0).write_bytes(b"first")
    second = take_over(first)
    second.part("labels", 1).write_bytes(b"second")
    for number in (0, 1, 2):
        with pytest.raises(RunConflict, match=TAKEN):
            worker.part("labels", number).write_bytes(b"late")
    with pytest.raises(RunConflict, match=TAKEN):
        worker.stop("failed")
    with pytest.raises(RunConflict, match=TAKEN):
        worker.parts("labels")[0].delete()
    assert [part.read_bytes() for part in second.parts("labels")] == [b"first", b"second"]
    assert second.info()["status"] == "running"
    third = take_over(second)
    with pytest.raises(RunConflict, match=TAKEN):
        worker.part("labels", 0).write_bytes(b"late")
    third.finish({})


def test_what_was_half_written_when_the_run_was_taken_is_dropped(place: str) -> None:
    first = begin(place)
    worker = at_worker(first)
    with pytest.raises(RunConflict, match=TAKEN), worker.part("labels", 0).open_output() as stream:
        stream.write(b"late")
        second = take_over(first)
    assert second.parts("labels") == []
    second.part("labels", 0).write_bytes(b"second")
    assert second.part("labels", 0).read_bytes() == b"second"


def moments(server: LoopbackS3, at: Callable[[Call], bool], happens: Callable[[], None]) -> None:
    """Let something happen when the server gets the first request of a kind, before it does the request."""
    happened: list[Call] = []

    def look(call: Call) -> Fault | None:
        if not happened and at(call):
            happened.append(call)
            happens()
        return None

    server.faults = look


REQUESTS: dict[str, Callable[[Call], bool]] = {
    "it stages": lambda call: call.method == "PUT" and "/.staged/" in call.key and not call.source,
    "it looks at what it staged": lambda call: call.method == "HEAD" and "/.staged/" in call.key,
    "it checks its epoch": lambda call: call.method == "HEAD" and "/.epochs/" in call.key,
    "it commits": lambda call: bool(call.source),
}


@pytest.mark.parametrize("may_delete", [True, False])
@pytest.mark.parametrize("moment", REQUESTS)
def test_a_run_is_taken_while_a_request_of_a_commit_is_on_its_way(
    server: LoopbackS3, moment: str, may_delete: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request arrives after the other job has begun, as one does of a process that slept before it sent it."""
    monkeypatch.setattr(run_lock, "HEARTBEAT_S", 60)  # a request of a heartbeat could be taken for that of the commit
    first = begin("s3://bucket/run")
    worker, taken = at_worker(first), []

    def take() -> None:
        refused = lambda call: Fault(403, "AccessDenied") if call.method == "DELETE" else None  # noqa: E731
        server.faults = (lambda call: None) if may_delete else refused
        taken.append(take_over(first))
        taken[0].part("labels", 0).write_bytes(b"second")

    moments(server, REQUESTS[moment], take)
    with pytest.raises(RunConflict, match=TAKEN):
        worker.part("labels", 0).write_bytes(b"late")
    [second] = taken
    assert second.part("labels", 0).read_bytes() == b"second"


def test_a_claim_that_is_renewed_late_stops_nobody(server: LoopbackS3) -> None:
    """It has the lower token of the two, before which the other would give up."""
    first, key = begin("s3://bucket/run"), ""
    [key] = [name for name in server.objects if "/.claims/" in name]
    slept = server.objects[key].replace(first.root.epoch.token.encode(), b"0")  # type: ignore[union-attr]
    first.release()
    ended = next(name for name in server.objects if "/.epochs/" in name)
    server.objects["bucket/run/.epochs/0.json"] = server.objects[ended]
    second = begin("s3://bucket/run")
    server.objects["bucket/run/.claims/0.json"] = slept
    seen = len(server.calls)
    while not any("/.claims/" in call.key and call.method == "PUT" for call in server.calls[seen + 20 :]):
        time.sleep(0.05)
    second.part("labels", 0).write_bytes(b"second")
    second.finish({})
    assert begin("s3://bucket/run").complete


def test_nothing_hidden_stays_but_what_ends_epochs(server: LoopbackS3) -> None:
    run = begin("s3://bucket/run")
    run.part("labels", 0).write_bytes(b"x")
    run.finish({})
    assert {key.split("/")[2] for key in server.objects} == {".epochs", ".write-check", "labels", "run.json"}


def test_an_object_too_large_to_be_copied_at_once(server: LoopbackS3) -> None:
    run = begin("s3://bucket/run")
    refused: list[Call] = []

    def refuse_once(call: Call) -> Fault | None:
        if not call.source or refused:
            return None
        refused.append(call)
        return Fault(400, "InvalidRequest", "The specified copy source is larger than the maximum allowable size")

    server.faults = refuse_once
    run.part("labels", 0).write_bytes(b"x")
    assert refused and run.part("labels", 0).read_bytes() == b"x"


@pytest.mark.s3
def test_objects_of_any_size_are_committed_on_a_real_server(bucket: Location) -> None:
    run = begin(bucket / "sizes")
    for number, size in enumerate((0, 1, PART + 1)):
        run.part("labels", number).write_bytes(bytes(size))
        assert run.part("labels", number).read_bytes() == bytes(size)
    worker = at_worker(run)
    second = take_over(run)
    with pytest.raises(RunConflict, match=TAKEN):
        worker.part("labels", 2).write_bytes(b"late")
    assert second.part("labels", 2).size() == PART + 1
