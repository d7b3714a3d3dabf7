"""`fdarx finetune verifier` on a tiny model: what it trains verifies, and a killed run goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from fdarx_core.evaluation.verifier_scores import read_engine_scores
from fdarx_core.storage import Location, RunDirectory, read_records
from fdarx_core.tuning.trainer import LossPoint
from fdarx_core.verify import verify
from jobs import cli
from tests.conftest import REPOSITORY
from tests.verify import tiny_nli

pytest.importorskip("torch")
pytest.importorskip("transformers")

pytestmark = [pytest.mark.models, pytest.mark.timeout(600)]

SMALL = "--batch 8 --length 64 --epochs 2 --evaluate-every 5 --patience 40 --rate 0.01 --resamples 100 --quiet"
ORDER = ("contradiction", "entailment", "neutral")
"""Another order than that of a new head."""


def _pairs(file: Path) -> str:
    """Statements that differ from their text in a way that a tiny model can learn."""
    said = {"supported": "is", "contradicted": "is not", "unsupported": "may be"}
    rows = [
        {
            "text": f"Drug {drug} is safe.",
            "statement": f"Drug {drug} {verb} safe.",
            "mark": mark,
            "drug": f"drug {drug}",
        }
        for drug in range(60)
        for mark, verb in said.items()
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(file)


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("verifier")
    model = tiny_nli.cross_encoder("bert", folder / "model", ORDER)
    return ["--pairs", _pairs(folder / "pairs.jsonl"), "--model", model, *SMALL.split()]


@pytest.fixture(scope="module")
def whole(options: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "whole"
    assert cli.main(["finetune", "verifier", *options, "--out", str(out)]) == 0
    return out


def _curve(out: Path) -> list[LossPoint]:
    return list(read_records(Location(str(out / "curve.parquet")), LossPoint))


def test_the_loss_falls_and_the_model_verifies(whole: Path, capsys: pytest.CaptureFixture[str]) -> None:
    curve, info = _curve(whole), RunDirectory.open(str(whole)).info()
    assert info["status"] == "complete" and info["steps"] == len(curve)
    looks = [one.validation_loss for one in curve if one.validation_loss is not None]
    assert curve[-1].loss < curve[0].loss and info["validation_loss"] == min(looks) < looks[0]
    config = json.loads((whole / "model" / "config.json").read_text())
    assert tuple(config["id2label"][str(number)] for number in range(3)) == ORDER
    [judged] = verify([("Drug 1 is safe.", "Drug 1 is safe.")], f"cross-encoder:{whole / 'model'}")
    assert judged.probabilities and sum(judged.probabilities) == pytest.approx(1)
    kept = read_engine_scores(Location(str(whole / "scores.json")))
    [score] = [row for row in kept["figures"] if row["metric"] == "macro_f1"]
    assert score["rows"] == sum(info["pairs"]["test"].values()) > 0
    pairs = str(whole.parent / "again.jsonl")
    assert cli.main(["verify", "--engine", f"cross-encoder:{whole / 'model'}", "--pairs", _pairs(Path(pairs))]) == 0
    assert "macro-F1" in capsys.readouterr().out


def test_a_killed_run_goes_on_to_the_same_curve(options: list[str], whole: Path, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    line = [sys.executable, "-m", "jobs.finetune_verifier", *options, "--out", str(out)]
    process = subprocess.Popen(line, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, start_new_session=True)
    end = time.monotonic() + 240
    while not list(out.glob("checkpoints/checkpoint-*/trainer_state.json")):
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (out / "model").exists()
    for file in out.glob("checkpoints/*/trainer_state.json"):  # a mark that only a training that goes on can have
        state = json.loads(file.read_text())
        state["log_history"][0]["loss"] = 99.0
        file.write_text(json.dumps(state))
    (out / "checkpoints" / "checkpoint-99999").mkdir()  # as a kill in the middle of writing leaves it
    assert cli.main(["finetune", "verifier", *options, "--out", str(out)]) == 0
    curve, expected = _curve(out), _curve(whole)
    assert [one.step for one in curve] == [one.step for one in expected]
    assert curve[0].loss == 99
    assert [one.loss for one in curve[1:]] == pytest.approx([one.loss for one in expected[1:]], abs=1e-3)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--out", "runs/x"], "nothing to train on"),
        (["--pairs", "x.jsonl", "--out", "s3://bucket/x"], "local disk"),
        (["--pairs", "x.jsonl", "--out", "runs/x", "--length", "3"], "--length"),
    ],
)
def test_wrong_arguments_are_told(more: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        cli.main(["finetune", "verifier", *more])
    assert stopped.value.code == 2 and message in capsys.readouterr().err
