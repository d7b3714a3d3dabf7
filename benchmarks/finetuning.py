"""Whether a model learns from question-answer pairs, and that neither a kill nor a second worker changes how.

    python -m benchmarks.finetuning [--pairs FILE]

A small Llama of random weights, with a tokenizer made of the pairs, is tuned by `fdarx finetune`: undisturbed; killed
with SIGKILL at about a third, and then by the same command again; by two workers. Only the adapter learns, so that the
loss is bound by the random head. Then one core trains on packed sequences and, by turns, on the same pairs in batches
that are padded to their longest, as a plain loop does. Without a file, the official FDA answers of $FDARX_DATA. Exits 1
where the training or the validation loss falls by less than 0.5 nats a token, or takes less than 40 steps, or the
killed run or the two workers end at another step or on another curve, or packed training is the slower.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from fdarx_core.storage import RunDirectory, read_records
from fdarx_core.tuning.encoding import (
    IGNORE_INDEX,
    ChatEncoder,
    EncodedPair,
    concatenate_pairs,
    encode_pairs,
    pack_pairs,
)
from fdarx_core.tuning.pairs import TrainingPair, read_pairs
from fdarx_core.tuning.training import LoraModel, LossPoint, TrainingConfig
from tests.conftest import REPOSITORY
from tests.tuning.made_pairs import chat_model

PAIRS, BATCH, ROUNDS = 20, 4, 3


class Speeds(NamedTuple):
    """Tokens of pairs, padding not among them, that a core trains on in a second, in sequences and in padded batches;
    and the share of padding in the latter, of room left in the former."""

    packed: float
    padded: float
    padding: float
    room: float

    @property
    def ratio(self) -> float:
        return self.packed / self.padded


def speeds(model: str, pairs: Sequence[TrainingPair], length: int) -> Speeds:
    """Both ways by turns over the same pairs, with the same adapter and optimizer."""
    rows = encode_pairs(random.Random(3).sample([*pairs], PAIRS), ChatEncoder(model), length)[0]
    training = Training(model)
    ways = (lambda: training.packed(rows, length), lambda: training.padded(rows))
    times = [[_seconds(way) for way in ways] for _ in range(ROUNDS)]
    tokens = sum(len(row.tokens) for row in rows)
    ours, theirs = (tokens / median(column) for column in zip(*times, strict=True))
    filled = sum(max(len(row.tokens) for row in batch) * len(batch) for batch in _batches(rows))
    return Speeds(ours, theirs, 1 - tokens / filled, 1 - tokens / (length * len(pack_pairs(rows, length))))


class Training:
    """An adapter on a model, and steps on it."""

    def __init__(self, model: str) -> None:
        self._tuned = LoraModel(model, TrainingConfig(), device_name="cpu")
        self._torch = self._tuned.torch
        self._torch.set_num_threads(1)
        self._optimizer = self._torch.optim.AdamW(self._tuned.parameters, lr=1e-4)

    def packed(self, rows: Sequence[EncodedPair], length: int) -> None:
        """As `fdarx finetune` does, a step a sequence."""
        for sequence in pack_pairs(rows, length):
            self._step(self._tuned.loss(sequence) / sequence.answer_tokens)

    def padded(self, rows: Sequence[EncodedPair]) -> None:
        """A step a batch, in the order of the rows; the model itself makes the loss of the labels."""
        self._tuned.model.train()
        for batch in _batches(rows):
            width = max(len(row.tokens) for row in batch)
            tokens = [row.tokens + [0] * (width - len(row.tokens)) for row in batch]
            mask = [[1] * len(row.tokens) + [0] * (width - len(row.tokens)) for row in batch]
            labels = [concatenate_pairs([row]).labels + [IGNORE_INDEX] * (width - len(row.tokens)) for row in batch]
            told = {"input_ids": tokens, "attention_mask": mask, "labels": labels}
            made = self._tuned.model(**{name: self._torch.tensor(rows) for name, rows in told.items()})
            self._step(made.loss)

    def _step(self, loss: Any) -> None:
        loss.backward()
        self._torch.nn.utils.clip_grad_norm_(self._tuned.parameters, 1.0)
        self._optimizer.step()
        self._optimizer.zero_grad()


def _batches(rows: Sequence[EncodedPair]) -> Iterator[Sequence[EncodedPair]]:
    for start in range(0, len(rows), BATCH):
        yield rows[start : start + BATCH]


def _seconds(way: Callable[[], None]) -> float:
    start = time.process_time()
    way()
    return time.process_time() - start


LEAST_FALL = 0.5
LEAST_STEPS = 40
MOST_KILLED, MOST_WORKERS = 1e-4, 1e-3
"""Nats a token that two curves may lie apart. Two workers add the same numbers in another order."""
SMALL = {"hidden": 128, "vocabulary": 512}
WIDE = {"hidden": 768, "vocabulary": 2048}
"""For speed: of a small model's time, attention takes a larger share than of any that is used, and the head a smaller
one."""
LENGTH, WIDE_LENGTH, EVERY = 2048, 1024, 10
OPTIONS = f"--length {LENGTH} --batch 4 --rate 0.01 --epochs 1 --evaluate-every {EVERY} --patience 99 --cpus 2"
QUICK = "--max-tokens 4 --resamples 200"
"""The test part is answered too, but not what is looked at here."""


class Runs:
    """`fdarx finetune` on the same pairs and model, again and again."""

    def __init__(self, folder: Path, pairs: str, model: str) -> None:
        self._folder = folder
        self._told = ["--questions", pairs, "--model", model, *f"{OPTIONS} {QUICK}".split()]

    def undisturbed(self, name: str, *more: str) -> list[LossPoint]:
        """Its curve."""
        start = time.monotonic()
        done = subprocess.run(self._line(name, *more), cwd=REPOSITORY, capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        curve = self._curve(name)
        print(f"{name}: {len(curve)} steps, {time.monotonic() - start:.0f} s", flush=True)
        return curve

    def killed(self, name: str, after: int) -> list[LossPoint]:
        """As if undisturbed, but killed with all that it started once it wrote a checkpoint of that step or a later."""
        process = subprocess.Popen(self._line(name), cwd=REPOSITORY, stderr=subprocess.DEVNULL, start_new_session=True)
        while process.poll() is None and self._written(name) < after:
            time.sleep(0.05)
        if process.poll() is not None:
            sys.exit(f"{name}: the run ended before it could be killed")
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        print(f"{name}: killed, last checkpoint at step {self._written(name)}", flush=True)
        return self.undisturbed(name)

    def _line(self, name: str, *more: str) -> list[str]:
        return [sys.executable, "-m", "jobs.finetune_answerer", *self._told, "--out", str(self._folder / name), *more]

    def _curve(self, name: str) -> list[LossPoint]:
        return list(read_records(RunDirectory.open(str(self._folder / name)).file("curve.parquet"), LossPoint))

    def _written(self, name: str) -> int:
        files = (self._folder / name / "checkpoints").glob("step-*.pt")
        return max((int(one.stem.removeprefix("step-")) for one in files), default=0)


def learns(curve: Sequence[LossPoint]) -> bool:
    """Whether both losses fall as they should."""
    looks = _looks(curve)
    falls = [values[0] - values[-1] for values in ([one.loss for one in curve], looks)]
    print(f"training loss every {EVERY} steps: {_listed([one.loss for one in curve[EVERY - 1 :: EVERY]])}")
    print(f"validation loss then: {_listed(looks)}")
    print(f"fall of the training loss {falls[0]:.2f}, of the validation loss {falls[1]:.2f} (at least {LEAST_FALL})")
    return min(falls) >= LEAST_FALL and len(curve) >= LEAST_STEPS


def same(what: str, curve: Sequence[LossPoint], other: Sequence[LossPoint], most: float) -> bool:
    """Whether a curve is the other, over all steps."""
    apart = max(abs(one - two) for one, two in zip(_losses(curve), _losses(other), strict=False))
    print(f"{what}: {len(other)} of {len(curve)} steps, curves at most {apart:.1e} nats apart (at most {most:.0e})")
    return len(curve) == len(other) and apart <= most


def _losses(curve: Sequence[LossPoint]) -> list[float]:
    return [one.loss for one in curve] + _looks(curve)


def _looks(curve: Sequence[LossPoint]) -> list[float]:
    return [one.validation_loss for one in curve if one.validation_loss is not None]


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{one:.2f}" for one in values)


def packs(model: str, pairs: Sequence[TrainingPair]) -> bool:
    """Whether packed training is the faster."""
    told = speeds(model, pairs, WIDE_LENGTH)
    print(f"padding {told.padding:.0%} of padded batches, room left in packed sequences {told.room:.0%}")
    print(f"tokens a second of one core: packed {told.packed:,.0f}, padded {told.padded:,.0f}: {told.ratio:.2f} times")
    return told.ratio > 1


def _pairs_file() -> str:
    data = Path(os.environ.get("FDARX_DATA", REPOSITORY.parent / "shared" / "data"))
    return str(data / "guidelines" / "faq.jsonl")


def main() -> int:
    """Print curves, distances and the ratio; exit 1 where a claim fails."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", default=_pairs_file(), help="as `fdarx finetune --questions` takes them")
    place: str = parser.parse_args().pairs
    pairs, left_out = read_pairs(place)
    texts = [f"{one.question}\n{one.answer}" for one in pairs]
    print(f"{len(pairs)} pairs, {len(left_out)} rows left out")
    with tempfile.TemporaryDirectory() as folder:
        small = chat_model(Path(folder) / "small", texts, **SMALL)
        wide = chat_model(Path(folder) / "wide", texts, **WIDE)
        runs = Runs(Path(folder), place, small)
        curve = runs.undisturbed("undisturbed")
        claims = [
            learns(curve),
            same("killed and resumed", curve, runs.killed("killed", len(curve) // 3), MOST_KILLED),
            same("two workers", curve, runs.undisturbed("two workers", "--workers", "2"), MOST_WORKERS),
            packs(wide, pairs),
        ]
    return int(not all(claims))


if __name__ == "__main__":
    sys.exit(main())
