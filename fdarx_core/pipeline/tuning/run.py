"""A whole fine-tuning: pairs stored, the model trained here or on Ray Train, the test part answered, the report."""

from __future__ import annotations

import logging
import os
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fdarx_core.pipeline.executor import Executor
from fdarx_core.pipeline.job import Progress, timed
from fdarx_core.pipeline.tuning.checkpoints import (
    checkpoint_folder,
    checkpoints_of,
    download,
    upload,
    uploading_callback,
)
from fdarx_core.pipeline.tuning.results import publish
from fdarx_core.records import Reject
from fdarx_core.retrieval.models import device
from fdarx_core.storage import RunDirectory, read_records, write_records
from fdarx_core.tuning.answerer_training import ADAPTER_FILES, LEARNT_PARTS, TuningSpec, train_answerer
from fdarx_core.tuning.evaluation import TunedAnswer
from fdarx_core.tuning.pairs import PARTS, TrainingPair
from fdarx_core.tuning.trainer import STATE, Report
from fdarx_core.tuning.tuned_model import answer_test_part

_LOOK_EVERY_S = 0.5
_RETRIES = 2
"""Number of restarts, from the last checkpoint, after a worker or its machine failed."""
_NO_PART_OF_A_MODEL = {"training_args.bin", "README.md"}


class TrainingFailed(Exception):
    """The training failed; the message gives the reason in one line."""


def fine_tune(
    run: RunDirectory,
    tuning: TuningSpec,
    pairs: Sequence[TrainingPair],
    rejects: Sequence[Reject],
    executor: Executor,
    progress: Progress,
) -> dict[str, Any]:
    """Fine-tune into a run directory, in this process or on the Ray instance that it is connected to.

    It may be killed anywhere and run again in a new process; what was trained since the last checkpoint is trained
    again.

    Args:
        run: The run directory.
        tuning: The specification.
        pairs: The pairs with their parts.
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
    timings: dict[str, float] = {}
    with timed(timings, "train"):
        if not run.file(STATE).exists():
            progress("train", 0, 0, "loading the model")
            (_train_here if executor.name == "local" else _train_on_ray)(run, tuning, executor, progress)
    with timed(timings, "examine"):
        answers = run.part("answers", 0)
        if not answers.exists():
            progress("examine", 0, 1, "")
            write_records(answers, _examined(run, tuning, executor), TunedAnswer)
    progress("publish", 0, 1, "")
    publish(run, tuning, list(read_records(answers, TunedAnswer)), timings)
    return run.info()


def train_worker(run: RunDirectory, tuning: TuningSpec, report: Report) -> None:
    """Train in this process, which may be one worker of several; worker 0 writes what was trained to the run.

    The state of the trainer is written last: a run that has it is trained.
    """
    pairs = list(read_records(run.part("pairs", 0), TrainingPair))
    parts = {part: [pair for pair in pairs if pair.part == part] for part in LEARNT_PARTS}
    with checkpoint_folder(run) as checkpoints, tempfile.TemporaryDirectory() as name:
        trainer = train_answerer(
            tuning,
            parts,
            checkpoints,
            report,
            callbacks=uploading_callback(run),
            shared=not checkpoints_of(run).is_remote,
        )
        trainer.save_model(name)  # by all workers, among whom weights may be divided
        if trainer.is_world_process_zero():
            for path in _result_files(Path(name), tuning):
                upload(path, run.file(f"{tuning.result}/{path.name}"))
            trainer.state.save_to_json(f"{name}/{STATE}")
            upload(Path(name) / STATE, run.file(STATE))


def _result_files(folder: Path, tuning: TuningSpec) -> list[Path]:
    """Return the files of what was trained, the configuration last."""
    if tuning.result == "adapter":
        return [folder / name for name in ADAPTER_FILES]
    files = [path for path in folder.iterdir() if path.name not in _NO_PART_OF_A_MODEL]
    return sorted(files, key=lambda path: (path.name == "config.json", path.name))


def _train_here(run: RunDirectory, tuning: TuningSpec, executor: Executor, progress: Progress) -> None:
    try:
        train_worker(run, tuning, lambda step, steps, note: progress("train", step, steps, note))
    except Exception as error:
        raise TrainingFailed(_reason(error)) from error


def _train_on_ray(run: RunDirectory, tuning: TuningSpec, executor: Executor, progress: Progress) -> None:
    """Train in a thread of its own: in the main one Ray would take Ctrl-C for itself."""
    import ray

    from fdarx_core.pipeline.control import start_control

    kind, has = ("GPU", executor.gpus) if executor.gpus else ("CPU", executor.cpus)
    if tuning.workers > has:  # they would wait for ever
        raise ValueError(
            f"--workers {tuning.workers} needs a {kind} for each, and there are {has}; lower it, or give "
            f"--{kind.lower()}s {tuning.workers} if the cluster adds machines on demand"
        )
    if tuning.fsdp and kind == "CPU":
        raise ValueError("--fsdp needs GPUs, and there are none")
    _, control = start_control((0, 0, ""))
    failed: list[BaseException] = []
    thread = threading.Thread(target=_fit, args=(run, tuning, control, kind == "GPU", failed), daemon=True)
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


def _fit(run: RunDirectory, tuning: TuningSpec, control: Any, use_gpu: bool, failed: list[BaseException]) -> None:
    import torch.distributed
    from ray.train.torch import TorchConfig
    from ray.train.v2.api.config import FailureConfig, LoggingConfig, RunConfig, ScalingConfig

    logging.getLogger("ray.train").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")  # nothing here heeds its warning
    os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")  # it logs what dill prints into a buffer
    # Ray takes nccl wherever workers have GPUs, but a build of torch for CPUs lacks it
    backend = TorchConfig(backend=None if torch.distributed.is_nccl_available() else "gloo")
    try:
        with tempfile.TemporaryDirectory() as folder:
            trainer = _torch_trainer()(
                _run_ray_worker,
                train_loop_config={"run": run, "tuning": tuning, "control": control},
                torch_config=backend,
                scaling_config=ScalingConfig(num_workers=tuning.workers, use_gpu=use_gpu),
                run_config=RunConfig(
                    name="tuning",
                    storage_path=folder,
                    failure_config=FailureConfig(max_failures=_RETRIES),
                    logging_config=LoggingConfig(log_level="ERROR"),
                ),
            )
            trainer.fit()
    except BaseException as error:
        failed.append(error)


def _torch_trainer() -> Any:
    """Return Ray's trainer without the actor that removes placement groups.

    That actor sends a request to Ray's dashboard every second, and logs an error each time if there is no dashboard, as
    on a single machine. Ray removes the groups when the job's process ends.
    """
    from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
    from ray.train.v2.torch.torch_trainer import TorchTrainer

    class Trainer(TorchTrainer):
        def _create_default_callbacks(self) -> list[Any]:
            callbacks = super()._create_default_callbacks()
            return [one for one in callbacks if not isinstance(one, PlacementGroupCleanerCallback)]

    return Trainer


def _run_ray_worker(arguments: dict[str, Any]) -> None:
    control = arguments["control"]
    if not device().startswith("cuda"):
        os.environ["ACCELERATE_TORCH_DEVICE"] = device()  # Ray names a GPU here also where torch cannot use it
    train_worker(arguments["run"], arguments["tuning"], lambda *told: control.report.remote(told))


def _reason(error: BaseException) -> str:
    """Return the last line of an error. Ray's errors contain the traceback of a worker, and this line is its cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _examined(run: RunDirectory, tuning: TuningSpec, executor: Executor) -> list[TunedAnswer]:
    if executor.name == "local":
        return _examine(run, tuning)
    import ray

    task: Any = ray.remote(_examine)
    asked = task.options(num_gpus=int(bool(executor.gpus)), max_retries=_RETRIES)
    found: list[TunedAnswer] = ray.get(asked.remote(run, tuning))
    return found


def _examine(run: RunDirectory, tuning: TuningSpec) -> list[TunedAnswer]:
    pairs = [pair for pair in read_records(run.part("pairs", 0), TrainingPair) if pair.part == PARTS[-1]]
    with tempfile.TemporaryDirectory() as folder:
        for file in run.file(tuning.result).list():
            download(file, Path(folder) / file.name)
        return answer_test_part(tuning, folder, pairs)
