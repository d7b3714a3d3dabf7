"""`fdarx fetch` as a user types it, against a server that answers as DailyMed does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fdarx_core import find_drugs
from fdarx_core.records import Reject
from fdarx_core.storage import Location, read_records
from jobs import cli
from tests.conftest import REPOSITORY
from tests.dailymed.conftest import examples, release, zipped
from tests.dailymed.dailymed_server import Call, DailyMedServer, Fault
from tests.labels.rrf import RXNCONSO, RXNREL

NAME = "dm_spl_release_human_rx_part1.zip"
UNKNOWN = "99999999-0000-4000-8000-000000000000"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[DailyMedServer]:
    monkeypatch.setattr("fdarx_core.dailymed.client._FIRST_WAIT_S", 0.01)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with DailyMedServer(examples(), {NAME: release()}) as running:
        yield running


def line(server: DailyMedServer, out: Path, *options: object) -> list[str]:
    return ["fetch", "--out", str(out), "--base-url", server.url, "--rate", "10", *map(str, options)]


def test_all_kinds_at_once(server: DailyMedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    one, other, *_ = server.labels
    listed = tmp_path / "ids.txt"
    listed.write_text(f"{one.upper()}\n\n{one}\n")
    wanted = ("--release", "human_rx", "--set-ids", listed, other, "--query", "capsules", "--contact", "me@example.org")
    assert cli.main(line(server, tmp_path / "out", *wanted)) == 0
    said = capsys.readouterr()
    assert "4 labels, 1 bulk file" in said.out
    assert "4 of 4 labels" in said.err
    assert "me@example.org" in server.calls[0].headers["User-Agent"]
    assert [call.query["drug_name"] for call in server.calls if "drug_name" in call.query] == ["capsules"]
    assert cli.main(line(server, tmp_path / "out", *wanted)) == 0
    assert "unchanged  5" in capsys.readouterr().out


def test_names_of_drugs_are_put_where_they_are_looked_for(
    server: DailyMedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    server.files["names.zip"] = zipped({"rrf/RXNCONSO.RRF": RXNCONSO.encode(), "rrf/RXNREL.RRF": RXNREL.encode()})
    server.faults = lambda call: Fault(cut=200) if call.attempt == 1 else None
    command = ["fetch", "--names", "--names-url", f"{server.url}/names.zip"]
    assert cli.main(command) == 0
    assert "0 labels, 1 bulk file" in capsys.readouterr().out
    assert server.names == ["names.zip"] * 2 and "Range" in server.calls[1].headers
    assert [one.moieties for one in find_drugs("Kestra")] == [["kestrelol"]]
    assert cli.main(command) == 0
    assert "unchanged  1" in capsys.readouterr().out


def test_labels_need_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["fetch", "--names", "--query", "x"])
    assert "--out is required for labels" in capsys.readouterr().err


def test_the_query_as_the_service_takes_it(server: DailyMedServer, tmp_path: Path) -> None:
    options = ("--query", "a&b=c", "--type", "human_otc", "--since", "2026-01-31", "--where", "labeler=A = B, Inc.")
    assert cli.main(line(server, tmp_path, *options)) == 3
    asked = server.calls[0].query
    assert asked.pop("page") and asked.pop("pagesize")
    assert asked == {
        "drug_name": "a&b=c",
        "doctype": "34390-5",
        "labeler": "A = B, Inc.",
        "published_date": "2026-01-31",
        "published_date_comparison": "gte",
    }


def test_what_is_not_had_is_told(server: DailyMedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(line(server, tmp_path, "--set-ids", UNKNOWN, next(iter(server.labels)))) == 3
    said = capsys.readouterr()
    assert "1 not_found" in said.err and UNKNOWN in said.err and "rejects.parquet" in said.err
    [reject] = read_records(Location(tmp_path / "rejects.parquet"), Reject)
    assert (reject.id, reject.reason) == (UNKNOWN, "not_found")


def test_what_a_server_says_is_shown_as_plain_text(
    server: DailyMedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listing = {"data": [{"setid": "\x1b[2J\nevil"}], "metadata": {"total_elements": 1, "total_pages": 1}}
    server.faults = lambda call: Fault(body=json.dumps(listing).encode())
    assert cli.main(line(server, tmp_path, "--query", "x")) == 3
    said = capsys.readouterr().err
    assert "\x1b" not in said and " [2j evil: bad_set_id" in said


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ((), "nothing to fetch"),
        (("--names", "--names-url", "names.zip"), "no http:// or https://"),
        (("--release", "human"), "no release human; known are human_rx"),
        (("--set-ids", "../../etc/passwd\n"), "no set id"),
        (("--set-ids", "x" * 9999), "no set id"),
        (("--set-ids", __file__), "test_fetch_job.py holds"),
        (("--query", "x", "--type", "rx"), "no type rx"),
        (("--where", "colour=blue"), "NAME=VALUE"),
        (("--release", "human_rx", "--limit", "3"), "--limit goes with"),
        (("--query", "x", "--part", "3"), "--part goes with --release"),
        (("--release", "human_rx", "--part", "0"), "counted from 1"),
        (("--set-ids", UNKNOWN, "--since", "2026-01-01"), "--since goes with"),
        (("--query", "x", "--since", "yesterday"), "--since"),
        (("--query", "x", "--rate", "1000"), "--rate"),
        (("--query", "x", "--base-url", "ftp://dailymed"), "no http:// or https://"),
        (("--query", "x", "--contact", "me\r\nHost: x"), "plain letters"),
    ],
)
def test_a_wrong_argument_asks_nothing(
    server: DailyMedServer, tmp_path: Path, options: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(line(server, tmp_path / "out", *options))
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert complaint in said and len(said.splitlines()) == 1
    assert not server.calls and not (tmp_path / "out").exists()


def test_a_place_that_can_not_be_written(
    server: DailyMedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SystemExit) as ended:
        cli.main(line(server, tmp_path / "file" / "out", "--query", "x"))
    assert (ended.value.code, len(capsys.readouterr().err.splitlines())) == (2, 1)
    assert not server.calls


def test_ctrl_c_keeps_what_is_whole(server: DailyMedServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def pressed(call: Call) -> Fault | None:
        if [one.endswith(".xml") for one in server.names].count(True) != 6:
            return None
        os.kill(os.getpid(), signal.SIGINT)
        return Fault(silent=True)

    server.faults = pressed
    assert cli.main(line(server, tmp_path, "--type", "human_rx")) == 130
    assert "resumes the job" in capsys.readouterr().err
    rows = [json.loads(row) for row in (tmp_path / "manifest.jsonl").read_text().splitlines()]
    assert len(rows) >= 4
    assert {row["file"] for row in rows} <= {f"labels/{file.name}" for file in (tmp_path / "labels").iterdir()}
    server.faults = lambda call: None
    assert cli.main(line(server, tmp_path, "--type", "human_rx")) == 0
    assert f"unchanged  {len(rows)}" in capsys.readouterr().out
    assert len([*(tmp_path / "labels").iterdir()]) == len(server.labels)


def test_a_killed_job_leaves_nothing_torn(server: DailyMedServer, tmp_path: Path) -> None:
    server.faults = lambda call: Fault(cut=50_000, stalls=True) if call.name == NAME else None
    command = [sys.executable, "-m", "jobs.cli", *line(server, tmp_path, "--release", "human_rx")]
    job = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.DEVNULL)
    partial = tmp_path / ".partial" / NAME
    while job.poll() is None and not (partial.exists() and partial.stat().st_size > 20_000):
        time.sleep(0.05)
    job.kill()
    assert job.wait() == -signal.SIGKILL
    assert not (tmp_path / "releases").exists() and not (tmp_path / "manifest.jsonl").exists()
    server.faults = lambda call: None
    assert cli.main(line(server, tmp_path, "--release", "human_rx")) == 0
    assert server.calls[-1].headers["Range"]
    assert (tmp_path / "releases" / NAME).read_bytes() == server.files[NAME]


@pytest.mark.slow
def test_a_build_takes_what_was_fetched(server: DailyMedServer, tmp_path: Path) -> None:
    assert cli.main(line(server, tmp_path / "spl", "--release", "human_rx", "--query", "tablets")) == 0
    amounts = ("--twins", "1", "--cpus", "2")
    places = ("--labels", str(tmp_path / "spl"), "--out", str(tmp_path / "run"))
    command = [sys.executable, "-m", "jobs.cli", "build", *places, *amounts]
    built = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=240)
    assert built.returncode == 0, built.stderr
    written = (tmp_path / "run" / "benchmark" / "labels.jsonl").read_text().splitlines()
    set_ids = [json.loads(row)["set_id"] for row in written]
    assert set_ids and len(set(set_ids)) == len(set_ids)
    assert set(set_ids) <= server.labels.keys()
