"""What jobs say and return when a run stands already, and when they end otherwise than well."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fdarx_core.llm import AskingStopped, ModelsError
from fdarx_core.pipeline.build import EmptySelection
from fdarx_core.storage import RunDirectory, StorageError
from jobs import INTERRUPTED, STOPPED, exit_code
from jobs.session import end_code, is_done


class FromWorker(StorageError):
    """As Ray wraps what a worker raised."""

    cause = StorageError("cannot read\ns3://b/a")


def ends(error: BaseException) -> int:
    def job() -> int:
        raise error

    return exit_code(job)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ModelsError("no such\nmodel"), "error: no such model\n"),
        (FromWorker("a traceback"), "error: cannot read s3://b/a\n"),
        (EmptySelection("no label"), "error: no label\n"),
    ],
)
def test_what_is_wrong_is_one_line(error: Exception, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        ends(error)
    assert (ended.value.code, capsys.readouterr().err) == (2, line)


def test_what_may_be_gone_on_with_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert ends(AskingStopped("3 requests were sent")) == STOPPED
    assert ends(KeyboardInterrupt()) == INTERRUPTED
    assert end_code({"status": "incomplete", "ended": "1 parts have requests that failed for now"}) == STOPPED
    assert end_code({"status": "complete", "ended": ""}) == 0
    said = capsys.readouterr().err
    assert "stopped: 3 requests" in said and said.count("resumes the job") == 2


def test_ctrl_c_while_modules_are_imported_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert capsys.readouterr().err == "\ninterrupted\n"


def test_a_fault_of_the_program_is_not_hidden() -> None:
    with pytest.raises(ValueError, match="no year"):
        ends(ValueError("no year"))


def test_how_a_run_stands_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def begun() -> RunDirectory:
        return RunDirectory.begin(str(tmp_path / "run"), job="evaluate", config={}, versions={})

    def told(run: RunDirectory, code_version: str | None = None) -> tuple[bool, str]:
        return is_done(run, code_version), capsys.readouterr().err

    first = begun()
    assert told(first, "1") == (False, "")
    first.stop("interrupted")
    first.release()
    resumed = begun()
    assert told(resumed, "1") == (False, f"resuming {first.root}\n")
    resumed.finish({"code_version": "1"})
    for code_version, done, word in (("1", True, "complete already"), (None, True, "complete"), ("2", False, "anew")):
        whole = begun()
        found, said = told(whole, code_version)
        whole.release()
        assert found == done and word in said, said
