"""A whole fine-tuning: pairs split and encoded, the adapter trained, the test part examined, the report."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ray

from fdarx_core.pipeline.control import beside_driver
from fdarx_core.pipeline.job import Progress
from fdarx_core.pipeline.ray_executor import cluster_has
from fdarx_core.pipeline.tuning.checkpoints import Checkpoints
from fdarx_core.pipeline.tuning.examining import examine
from fdarx_core.pipeline.tuning.results import publish
from fdarx_core.records import Reject
from fdarx_core.storage import RunDirectory, read_records, write_records
from fdarx_core.tuning.encoding import EncodedPair
from fdarx_core.tuning.evaluation import TunedAnswer
from fdarx_core.tuning.pairs import PARTS, TrainingPair
from fdarx_core.tuning.training import TuningSpec

_LOOK_EVERY_S = 0.5
_RETRIES = 2
"""Starts anew, from the last checkpoint, after a worker or its machine died."""


class TrainingProgress:
    """A Ray actor that keeps the latest step: workers show it, the driver reads it."""

    def __init__(self) -> None:
        self._latest = (0, 0, "")

    def show(self, step: int, steps: int, note: str) -> None:
        """Note a step, of how many, and a note on it."""
        self._latest = (step, steps, note)

    def latest(self) -> tuple[int, int, str]:
        """Return the latest step, the number of steps, and the note."""
        return self._latest


class TrainingFailed(Exception):
    """The training ended early; the message says why, in a line."""


@dataclass(slots=True)
class FineTuning:
    """One fine-tuning into a run directory; it may be killed anywhere and run again in a new process.

    `pairs` have their parts, `encoded` are the tokens of those parts that are learnt from. What was trained since the
    last checkpoint is trained again.
    """

    run: RunDirectory
    tuning: TuningSpec
    pairs: Sequence[TrainingPair]
    encoded: Mapping[str, Sequence[EncodedPair]]
    rejects: Sequence[Reject]
    progress: Progress
    timings: dict[str, float] = field(default_factory=dict)

    def run_all(self) -> dict[str, Any]:
        """Run the training, and return the entries for `run.json`. Raises TrainingFailed."""
        write_records(self.run.part("pairs", 0), self.pairs, TrainingPair)
        write_records(self.run.part("rejects", 0), self.rejects, Reject)
        for part, learnt in self.encoded.items():
            write_records(self.run.part(f"encoded/{part}", 0), learnt, EncodedPair)
        with self._timed("train"):
            self._train()
        with self._timed("examine"):
            rows = self._examine()
        self.progress("publish", 0, 1, "")
        publish(self.run, self.tuning, Checkpoints(self.run), rows, self.timings)
        return self.run.info()

    def _train(self) -> None:
        """In a thread of its own: in the main one Ray would take Ctrl-C for itself.

        Raises ValueError for more workers than there are GPUs, or CPUs on a cluster without: they would wait for ever.
        """
        kind = "GPU" if cluster_has("GPU") else "CPU"
        if self.tuning.workers > cluster_has(kind):
            raise ValueError(f"--workers {self.tuning.workers} wants a {kind} each, and there are {cluster_has(kind)}")
        self.progress("train", 0, 0, "loading the model")
        tracker: Any = ray.remote(TrainingProgress)
        shown = tracker.options(num_cpus=0, label_selector=beside_driver()).remote()
        failed: list[BaseException] = []
        thread = threading.Thread(target=self._fit, args=(shown, failed), daemon=True)
        thread.start()
        last = 0
        while thread.is_alive():
            thread.join(_LOOK_EVERY_S)
            step, steps, note = ray.get(shown.latest.remote())
            if step > last:
                last = step
                self.progress("train", step, steps, note)
        if failed:
            raise TrainingFailed(_reason(failed[0])) from failed[0]

    def _fit(self, shown: Any, failed: list[BaseException]) -> None:
        from ray.train.v2.api.config import FailureConfig, LoggingConfig, RunConfig, ScalingConfig

        from fdarx_core.pipeline.tuning.worker import Trainer, train  # they need torch

        logging.getLogger("ray.train").setLevel(logging.ERROR)
        os.environ.setdefault("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")  # nothing here heeds its warning
        arguments = {"run": self.run, "tuning": self.tuning, "progress": shown}
        scaling = ScalingConfig(num_workers=self.tuning.workers, use_gpu=bool(cluster_has("GPU")))
        try:
            with tempfile.TemporaryDirectory() as folder:
                kept = RunConfig(
                    name="tuning",
                    storage_path=folder,
                    failure_config=FailureConfig(max_failures=_RETRIES),
                    logging_config=LoggingConfig(log_level="ERROR"),
                )
                Trainer(train, train_loop_config=arguments, scaling_config=scaling, run_config=kept).fit()
        except BaseException as error:
            failed.append(error)

    def _examine(self) -> list[TunedAnswer]:
        done = self.run.part("answers", 0)
        if not done.exists():
            self.progress("examine", 0, 1, "")
            chosen = [one for one in self.pairs if one.part == PARTS[-1]]
            task: Any = ray.remote(examine)
            asked = task.options(num_gpus=int(bool(cluster_has("GPU"))), max_retries=_RETRIES)
            write_records(done, ray.get(asked.remote(self.run, self.tuning, chosen)), TunedAnswer)
        return list(read_records(done, TunedAnswer))

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.timings[phase] = round(time.perf_counter() - start, 2)


def _reason(error: BaseException) -> str:
    """Return the last line of an error. Ray's errors contain the traceback of a worker, and this line is its cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
