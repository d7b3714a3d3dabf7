"""Fine-tuning learns, and does not depend on interruptions and the number of workers.

    python -m benchmarks.finetuning [--pairs FILE]

A small Llama with random weights is tuned by `fdarx finetune` three times: without interruption; killed with SIGKILL
after about a third, then continued by the same command; with two workers of Ray Train. Only the adapter is trained, so
the random head bounds the loss. The default pairs are the official FDA answers of $FDARX_DATA. Exits 1 where the
training or validation loss falls by less than 0.5 nats a token, there are less than 40 steps, or the second or third
run has another number of steps or another curve.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import DATA, REPOSITORY, run
from fdarx_core.storage import RunDirectory, read_records
from fdarx_core.tuning.pairs import read_pairs
from fdarx_core.tuning.trainer import STATE, LossPoint
from tests.tuning.made_pairs import chat_model

MIN_FALL = 0.5
MIN_STEPS = 40
MAX_KILLED, MAX_WORKERS = 1e-4, 1e-3
"""The largest difference between two curves, in nats a token. Two workers add the same numbers in another order."""
SMALL = {"hidden": 128, "vocabulary": 512}
LENGTH, EVERY = 2048, 10
OPTIONS = f"--length {LENGTH} --batch 4 --rate 0.01 --epochs 1 --evaluate-every {EVERY} --patience 99"
ONE = ("--cpus", "1")
"""One thread for each worker, as Ray Train gives it."""
QUICK = "--max-tokens 4 --resamples 200"
"""The test part is answered too, but its figures are not used here."""


def finetune(command: Sequence[str], out: Path, *options: str) -> list[LossPoint]:
    """Run the command to its end and return the loss curve."""
    start = time.monotonic()
    line = [*command, "--out", str(out), *options]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stderr)
    curve = list(read_records(RunDirectory.open(str(out)).file("curve.parquet"), LossPoint))
    print(f"{out.name}: {len(curve)} steps, {time.monotonic() - start:.0f} s", flush=True)
    return curve


def finetune_killed(command: Sequence[str], out: Path, after: int) -> list[LossPoint]:
    """Kill the run and its processes after a checkpoint of this step or a later one, then run it to its end."""
    line = [*command, "--out", str(out)]
    process = subprocess.Popen(line, cwd=REPOSITORY, stderr=subprocess.DEVNULL, start_new_session=True)
    while process.poll() is None and _last_checkpoint(out) < after:
        time.sleep(0.05)
    if process.poll() is not None:
        sys.exit(f"{out.name}: the run ended before it could be killed")
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    print(f"{out.name}: killed, last checkpoint at step {_last_checkpoint(out)}", flush=True)
    return finetune(command, out)


def _last_checkpoint(out: Path) -> int:
    states = (out / "checkpoints").glob(f"checkpoint-*/{STATE}")
    return max((int(one.parent.name.rpartition("-")[2]) for one in states), default=0)


def check_learning(curve: Sequence[LossPoint]) -> bool:
    """Return whether training and validation loss fall enough."""
    losses, validation = [one.loss for one in curve], _validation_losses(curve)
    falls = [values[0] - values[-1] for values in (losses, validation)]
    print(f"training loss every {EVERY} steps: {', '.join(f'{one:.2f}' for one in losses[EVERY - 1 :: EVERY])}")
    print(f"validation loss then: {', '.join(f'{one:.2f}' for one in validation)}")
    print(f"fall of the training loss {falls[0]:.2f}, of the validation loss {falls[1]:.2f} (at least {MIN_FALL})")
    return min(falls) >= MIN_FALL and len(curve) >= MIN_STEPS


def check_equal(name: str, curve: Sequence[LossPoint], other: Sequence[LossPoint], limit: float) -> bool:
    """Return whether two curves are equal up to the limit, with equal numbers of steps."""
    one, two = ([point.loss for point in points] + _validation_losses(points) for points in (curve, other))
    difference = max(abs(first - second) for first, second in zip(one, two, strict=False))
    print(f"{name}: {len(other)} of {len(curve)} steps, curves differ by {difference:.1e} nats (at most {limit:.0e})")
    return len(curve) == len(other) and difference <= limit


def _validation_losses(curve: Sequence[LossPoint]) -> list[float]:
    return [one.validation_loss for one in curve if one.validation_loss is not None]


def main(*, pairs: str = str(DATA / "guidelines" / "faq.jsonl")) -> int:
    """Print curves and differences."""
    read, left_out = read_pairs(pairs)
    texts = [f"{one.question}\n{one.answer}" for one in read]
    print(f"{len(read)} pairs, {len(left_out)} rows left out")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = chat_model(folder / "small", texts, **SMALL)
        options = ["--questions", pairs, "--model", small, *f"{OPTIONS} {QUICK}".split()]
        command = [sys.executable, "-m", "jobs.finetune_answerer", *options]
        curve = finetune(command, folder / "undisturbed", *ONE)
        killed = finetune_killed([*command, *ONE], folder / "killed", len(curve) // 3)
        two_workers = finetune(command, folder / "two workers", "--workers", "2", "--cpus", "2")
        claims = [
            check_learning(curve),
            check_equal("killed and resumed", curve, killed, MAX_KILLED),
            check_equal("two workers", curve, two_workers, MAX_WORKERS),
        ]
    return int(not all(claims))


if __name__ == "__main__":
    run(main)
