"""What the tests of `fdarx finetune` share: a tiny model and its pairs, runs in this process, and runs to break off."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from fdarx_core.storage import Location, RunDirectory, read_records
from fdarx_core.tuning.trainer import STATE, LossPoint
from jobs import cli
from tests.conftest import REPOSITORY
from tests.tuning.made_pairs import chat_model, pairs_file

SMALL = (
    "--length 1024 --batch 2 --rate 0.01 --epochs 2 --evaluate-every 3 --max-tokens 8 --seed 2 --resamples 200 --cpus 2"
)


def options_in(folder: Path) -> list[str]:
    """Those of a small tuning, whose pairs and model are put into the folder."""
    questions = pairs_file(folder / "pairs.jsonl")
    model = chat_model(folder / "chat", questions.read_text().splitlines())
    return ["--questions", str(questions), "--model", model, *SMALL.split()]


def tune(out: object, options: Sequence[str], *more: str) -> int:
    """The job's exit code; in this process, which has the libraries loaded."""
    return cli.main(["finetune", *options, "--out", str(out), *more])


def begun(out: object, options: Sequence[str]) -> subprocess.Popen[str]:
    """The job in a process group of its own, with a checkpoint written and steps left."""
    line = [sys.executable, "-m", "jobs.finetune", *options, "--out", str(out)]
    process = subprocess.Popen(line, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, start_new_session=True)
    end = time.monotonic() + 240
    while not checkpoints(out):
        assert process.poll() is None and time.monotonic() < end, process.communicate(timeout=1)
        time.sleep(0.05)
    return process


def checkpoints(out: object) -> list[int]:
    """The steps of the whole checkpoints of a run."""
    files = (Location(str(out)) / "checkpoints").list(recursive=True)
    return sorted(int(file.parent.name.rpartition("-")[2]) for file in files if file.name == STATE)


def curve_of(out: object) -> list[LossPoint]:
    """Whole: every step once."""
    curve = list(read_records(RunDirectory.open(str(out)).file("curve.parquet"), LossPoint))
    assert [one.step for one in curve] == list(range(1, len(curve) + 1))
    return curve


def losses(curve: Sequence[LossPoint]) -> list[float]:
    return [one.loss for one in curve] + [one.validation_loss for one in curve if one.validation_loss is not None]
