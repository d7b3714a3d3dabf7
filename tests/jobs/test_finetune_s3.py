"""`fdarx finetune` into a run on a real S3 server, interrupted from the keyboard and gone on with."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from fdarx_core.storage import Location, RunDirectory
from fdarx_core.tuning.answerer_training import ADAPTER_FILES
from jobs import INTERRUPTED
from tests.jobs.tuning_runs import begun, checkpoints, curve_of, losses, options_in, tune

pytest.importorskip("torch")
pytest.importorskip("peft")

pytestmark = [pytest.mark.models, pytest.mark.s3, pytest.mark.nightly, pytest.mark.timeout(600)]


def test_ctrl_c_leaves_a_run_that_the_same_command_ends(
    bucket: Location, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options, out = options_in(tmp_path), bucket / "runs/tuned"
    process = begun(out, options)
    os.killpg(process.pid, signal.SIGINT)
    told = process.communicate(timeout=120)[1]
    run = RunDirectory.open(str(out))
    assert process.returncode == INTERRUPTED
    assert told.splitlines()[-1].startswith("interrupted; the same command resumes")
    assert run.info()["status"] == "interrupted"
    assert tune(out, options) == 0
    assert "resuming" in capsys.readouterr().err
    info, curve = run.info(), curve_of(out)
    assert info["status"] == "complete"
    assert info["steps"] == info["steps_planned"] == len(curve)
    assert losses(curve)[-1] < losses(curve)[0] - 0.5
    assert checkpoints(out)[-1] == len(curve) and len(checkpoints(out)) <= 2
    assert {one.name for one in run.file("adapter").list()} == set(ADAPTER_FILES)
    assert "Loss by step" in run.file("report.html").read_text()
