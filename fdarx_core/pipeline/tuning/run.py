"""A whole fine-tuning: pairs split and encoded, the adapter trained, the test part examined, the report."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray

from fdarx_core.pipeline.control import start_control
from fdarx_core.pipeline.executor import Executor
from fdarx_core.pipeline.job import Progress, timed
from fdarx_core.pipeline.tuning.results import publish
from fdarx_core.records import Reject
from fdarx_core.storage import RunDirectory, read_records, write_records
from fdarx_core.tuning.evaluation import BASE, TUNED, TunedAnswer, score_answers
from fdarx_core.tuning.pairs import PARTS, TrainingPair
from fdarx_core.tuning.training import (
    ADAPTER_FILES,
    ChatEncoder,
    EncodedPair,
    LoraModel,
    TuningSpec,
    concatenate_pairs,
    generate_answers,
)

_LOOK_EVERY_S = 0.5
_RETRIES = 2
"""Number of restarts, from the last checkpoint, after a worker or its machine failed."""


class TrainingFailed(Exception):
    """The training failed; the message gives the reason in one line."""


def fine_tune(
    run: RunDirectory,
    tuning: TuningSpec,
    pairs: Sequence[TrainingPair],
    encoded: Mapping[str, Sequence[EncodedPair]],
    rejects: Sequence[Reject],
    executor: Executor,
    progress: Progress,
) -> dict[str, Any]:
    """Fine-tune into a run directory, on the Ray instance that this process is connected to.

    It may be killed anywhere and run again in a new process; what was trained since the last checkpoint is trained
    again.

    Args:
        run: The run directory.
        tuning: The specification.
        pairs: The pairs with their parts.
        encoded: The tokens of those parts that are learnt from, by part.
        rejects: What was left out.
        executor: Says which CPUs and GPUs there are, or are asked for.
        progress: Is told of each step.

    Returns:
        What `run.json` then says.

    Raises:
        TrainingFailed: The training ended early.
        ValueError: There are more workers than GPUs, or than CPUs on a cluster without.
    """
    write_records(run.part("pairs", 0), pairs, TrainingPair)
    write_records(run.part("rejects", 0), rejects, Reject)
    for part, learnt in encoded.items():
        write_records(run.part(f"encoded/{part}", 0), learnt, EncodedPair)
    timings: dict[str, float] = {}
    with timed(timings, "train"):
        _train(run, tuning, executor, progress)
    with timed(timings, "examine"):
        answers = run.part("answers", 0)
        if not answers.exists():
            progress("examine", 0, 1, "")
            task: Any = ray.remote(_examine)
            asked = task.options(num_gpus=min(1, executor.gpus), max_retries=_RETRIES)
            chosen = [one for one in pairs if one.part == PARTS[-1]]
            write_records(answers, ray.get(asked.remote(run, tuning, chosen)), TunedAnswer)
    progress("publish", 0, 1, "")
    publish(run, tuning, list(read_records(answers, TunedAnswer)), timings)
    return run.info()


def _train(run: RunDirectory, tuning: TuningSpec, executor: Executor, progress: Progress) -> None:
    """Train in a thread of its own: in the main one Ray would take Ctrl-C for itself."""
    kind, has = ("GPU", executor.gpus) if executor.gpus else ("CPU", executor.cpus)
    if tuning.workers > has:  # they would wait for ever
        raise ValueError(
            f"--workers {tuning.workers} needs a {kind} for each, and there are {has}; lower it, or give "
            f"--{kind.lower()}s {tuning.workers} if the cluster adds machines on demand"
        )
    progress("train", 0, 0, "loading the model")
    _, control = start_control((0, 0, ""))
    failed: list[BaseException] = []
    thread = threading.Thread(target=_fit, args=(run, tuning, kind == "GPU", control, failed), daemon=True)
    thread.start()
    last = 0
    while thread.is_alive():
        thread.join(_LOOK_EVERY_S)
        (step, steps, note), _ = ray.get(control.state.remote())
        if step > last:
            last = step
            progress("train", step, steps, note)
    if failed:
        raise TrainingFailed(_reason(failed[0])) from failed[0]


def _fit(run: RunDirectory, tuning: TuningSpec, use_gpu: bool, control: Any, failed: list[BaseException]) -> None:
    import torch.distributed
    from ray.train.torch import TorchConfig
    from ray.train.v2.api.config import FailureConfig, LoggingConfig, RunConfig, ScalingConfig

    from fdarx_core.pipeline.tuning.worker import Trainer, train  # they need torch

    logging.getLogger("ray.train").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")  # nothing here heeds its warning
    arguments = {"run": run, "tuning": tuning, "control": control}
    scaling = ScalingConfig(num_workers=tuning.workers, use_gpu=use_gpu)
    try:
        with tempfile.TemporaryDirectory() as folder:
            kept = RunConfig(
                name="tuning",
                storage_path=folder,
                failure_config=FailureConfig(max_failures=_RETRIES),
                logging_config=LoggingConfig(log_level="ERROR"),
            )
            # Ray takes nccl wherever workers have GPUs, but a build of torch for CPUs lacks it
            backend = TorchConfig(backend=None if torch.distributed.is_nccl_available() else "gloo")
            Trainer(
                train, train_loop_config=arguments, torch_config=backend, scaling_config=scaling, run_config=kept
            ).fit()
    except BaseException as error:
        failed.append(error)


def _reason(error: BaseException) -> str:
    """Return the last line of an error. Ray's errors contain the traceback of a worker, and this line is its cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _examine(run: RunDirectory, tuning: TuningSpec, pairs: Sequence[TrainingPair]) -> list[TunedAnswer]:
    """Return the measured answers of the base model and of the tuned one; on a GPU where there is one."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ADAPTER_FILES:
            (Path(folder) / name).write_bytes((run.file("adapter") / name).read_bytes())
        tuned = LoraModel(tuning, adapter=folder)
    encoder = ChatEncoder(tuning.model)
    with tuned.without_adapter():
        rows = _answered(tuned, encoder, pairs, BASE, tuning.max_tokens)
    rows += _answered(tuned, encoder, pairs, TUNED, tuning.max_tokens)
    return score_answers(rows, encoder=tuning.encoder, bertscore=tuning.bertscore, layers=tuning.bertscore_layers)


def _answered(
    tuned: LoraModel, encoder: ChatEncoder, pairs: Sequence[TrainingPair], name: str, most: int
) -> list[TunedAnswer]:
    rows = [concatenate_pairs([encoder.encode(one)]) for one in pairs]
    no_grad: Any = tuned.torch.inference_mode()
    with no_grad:
        losses = [float(tuned.loss(row)) / row.answer_tokens for row in rows]
    given = generate_answers(tuned, encoder, [one.question for one in pairs], most)
    return [
        TunedAnswer(one.id, one.group, name, one.question, one.answer, text, loss, 0.0)
        for one, text, loss in zip(pairs, given, losses, strict=True)
    ]
