"""The fine-tuning of an answerer: pairs stored, trained here or on Ray Train, the test part answered, the report."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from fdarx_core.pipeline.executor import Executor
from fdarx_core.pipeline.job import Progress, timed
from fdarx_core.records import Reject, content_id
from fdarx_core.report.tuning_page import tuning_page
from fdarx_core.retrieval.models import device
from fdarx_core.storage import Location, RunDirectory, read_records, write_records
from fdarx_core.tuning.answerer_training import ADAPTER_FILES, LEARNT_PARTS, TuningSpec, train_answerer
from fdarx_core.tuning.evaluation import TunedAnswer, answer_test_part, stored_changes, tuning_figures, write_changes
from fdarx_core.tuning.pairs import PARTS, TrainingPair
from fdarx_core.tuning.trainer import STATE, LossPoint, Report, best_point, load_library, loss_curve

_LOOK_EVERY_S = 0.5
_RETRIES = 2
"""Number of restarts, from the last checkpoint, after a worker or its machine failed."""
_NO_PART_OF_A_MODEL = {"training_args.bin", "README.md"}


class TrainingFailed(Exception):
    """The training failed; the message gives the reason in one line."""


def fine_tune(
    run: RunDirectory,
    spec: TuningSpec,
    pairs: Sequence[TrainingPair],
    rejects: Sequence[Reject],
    executor: Executor,
    progress: Progress,
) -> None:
    """Fine-tune into a run directory, in this process or on the Ray instance that it is connected to.

    It may be killed anywhere and run again in a new process; what was trained since the last checkpoint is trained
    again. The specification has the directories of all models that measure answers.

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
            if executor.name == "local":
                try:
                    train_worker(run, spec, lambda step, steps, note: progress("train", step, steps, note))
                except Exception as error:
                    raise TrainingFailed(_reason(error)) from error
            else:
                _train_on_ray(run, spec, executor, progress)
    with timed(timings, "examine"):
        answers = run.part("answers", 0)
        if not answers.exists():
            progress("examine", 0, 1, "")
            if executor.name == "local":
                examined = _examine(run, spec)
            else:
                import ray

                task: Any = ray.remote(_examine).options(num_gpus=int(bool(executor.gpus)), max_retries=_RETRIES)
                examined = ray.get(task.remote(run, spec))
            write_records(answers, examined, TunedAnswer)
    progress("publish", 0, 1, "")
    _publish(run, spec, list(read_records(answers, TunedAnswer)), timings)


def train_worker(run: RunDirectory, spec: TuningSpec, report: Report) -> None:
    """Train in this process, which may be one worker of several; worker 0 writes what was trained to the run.

    The state of the trainer is written last: a run that has it is trained.
    """
    pairs = list(read_records(run.part("pairs", 0), TrainingPair))
    parts = {part: [pair for pair in pairs if pair.part == part] for part in LEARNT_PARTS}
    with _checkpoint_folder(run) as checkpoints, tempfile.TemporaryDirectory() as name:
        trainer = train_answerer(
            spec,
            parts,
            checkpoints,
            report,
            callbacks=_uploading_callback(run),
            shared=not run.file("checkpoints").is_remote,
        )
        trainer.save_model(name)  # by all workers, among whom weights may be divided
        if trainer.is_world_process_zero():
            files = [Path(name) / file for file in ADAPTER_FILES]
            if spec.result == "model":
                found = (path for path in Path(name).iterdir() if path.name not in _NO_PART_OF_A_MODEL)
                files = sorted(found, key=lambda path: (path.name == "config.json", path.name))
            for path in files:  # the configuration last: readers look for it first
                _upload(path, run.file(f"{spec.result}/{path.name}"))
            trainer.state.save_to_json(f"{name}/{STATE}")
            _upload(Path(name) / STATE, run.file(STATE))


# Checkpoints are in the run: written there on a disk, copied there and back on S3. The file `trainer_state.json` of a
# checkpoint is copied last and deleted first, so that a checkpoint that has it is whole. They outlive the cluster.


@contextmanager
def _checkpoint_folder(run: RunDirectory) -> Iterator[Path]:
    """Return the folder of checkpoints for a trainer on this machine, the same for all its workers.

    For a run on S3 it is a temporary folder, with a copy of the whole checkpoints of the run.
    """
    place = run.file("checkpoints")
    if not place.is_remote:
        yield Path(str(place))
        return
    folder = Path(tempfile.gettempdir()) / f"fdarx-checkpoints-{content_id(str(run.root))}"
    if _is_first_worker():
        shutil.rmtree(folder, ignore_errors=True)  # what a worker that was killed left
        folder.mkdir()
        stored = place.list(recursive=True)
        whole = {file.parent.name for file in stored if file.name == STATE}
        for file in stored:
            if file.parent.name in whole:
                _download(file, folder / file.parent.name / file.name)
    _wait_for_all()
    try:
        yield folder
    finally:
        if _is_first_worker():
            shutil.rmtree(folder, ignore_errors=True)


def _is_first_worker() -> bool:
    """Return whether this process is the first worker of the training on its machine."""
    return int(os.environ.get("LOCAL_RANK", "0")) == 0


def _wait_for_all() -> None:
    distributed = load_library("torch").distributed
    if distributed.is_available() and distributed.is_initialized():
        distributed.barrier()


def _download(file: Location, path: Path) -> None:
    """Copy a file of a run to a local path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with file.open_input() as source, path.open("wb") as target:
        shutil.copyfileobj(source, target)


def _upload(path: Path, file: Location) -> None:
    """Copy a local file to a run, where it appears as a whole."""
    with path.open("rb") as source, file.open_output() as target:
        shutil.copyfileobj(source, target)


def _uploading_callback(run: RunDirectory) -> list[Any]:
    """Return the callback of transformers that copies each new checkpoint to a run on S3; none for a run on a disk."""
    place = run.file("checkpoints")
    if not place.is_remote:
        return []

    class Uploading(load_library("transformers").TrainerCallback):  # type: ignore[misc]
        """Copies what the machine of worker 0 wrote, once all its workers have written."""

        def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            _wait_for_all()
            if state.is_world_process_zero:
                folder = Path(args.output_dir)
                name = f"checkpoint-{state.global_step}"
                for path in sorted((folder / name).iterdir(), key=lambda path: (path.name == STATE, path.name)):
                    _upload(path, place / name / path.name)
                # what the trainer has deleted on this machine, the state of each checkpoint first
                gone = [file for file in place.list(recursive=True) if not (folder / file.parent.name).exists()]
                for file in sorted(gone, key=lambda file: file.name != STATE):
                    file.delete()

    return [Uploading()]


def _train_on_ray(run: RunDirectory, spec: TuningSpec, executor: Executor, progress: Progress) -> None:
    """Train in a thread of its own: in the main one Ray would take Ctrl-C for itself."""
    import ray

    from fdarx_core.pipeline.control import start_control

    kind, has = ("GPU", executor.gpus) if executor.gpus else ("CPU", executor.cpus)
    if spec.workers > has:  # they would wait for ever
        raise ValueError(
            f"--workers {spec.workers} needs a {kind} for each, and there are {has}; lower it, or give "
            f"--{kind.lower()}s {spec.workers} if the cluster adds machines on demand"
        )
    if spec.fsdp and kind == "CPU":
        raise ValueError("--fsdp needs GPUs, and there are none")
    _, control = start_control((0, 0, ""))
    failed: list[BaseException] = []
    thread = threading.Thread(target=_fit, args=(run, spec, control, kind == "GPU", failed), daemon=True)
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


def _fit(run: RunDirectory, spec: TuningSpec, control: Any, use_gpu: bool, failed: list[BaseException]) -> None:
    import torch.distributed
    from ray.train.torch import TorchConfig
    from ray.train.v2.api.config import FailureConfig, LoggingConfig, RunConfig, ScalingConfig

    logging.getLogger("ray.train").setLevel(logging.ERROR)
    os.environ.setdefault("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")  # nothing here heeds its warning
    os.environ.setdefault("RAY_TRAIN_ENABLE_PRINT_PATCH", "0")  # it logs what dill prints into a buffer
    # Ray takes nccl wherever workers have GPUs, but a build of torch for CPUs lacks it
    backend = TorchConfig(backend=None if torch.distributed.is_nccl_available() else "gloo")

    def work() -> None:
        if not device().startswith("cuda"):
            os.environ["ACCELERATE_TORCH_DEVICE"] = device()  # Ray names a GPU here also where torch cannot use it
        train_worker(run, spec, lambda *step: control.report.remote(step))

    try:
        with tempfile.TemporaryDirectory() as folder:
            trainer = _torch_trainer()(
                work,
                torch_config=backend,
                scaling_config=ScalingConfig(num_workers=spec.workers, use_gpu=use_gpu),
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
            return [callback for callback in callbacks if not isinstance(callback, PlacementGroupCleanerCallback)]

    return Trainer


def _reason(error: BaseException) -> str:
    """Return the last line of an error. Ray's errors contain the traceback of a worker, and this line is its cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _examine(run: RunDirectory, spec: TuningSpec) -> list[TunedAnswer]:
    pairs = [pair for pair in read_records(run.part("pairs", 0), TrainingPair) if pair.part == PARTS[-1]]
    with tempfile.TemporaryDirectory() as folder:
        for file in run.file(spec.result).list():
            _download(file, Path(folder) / file.name)
        return answer_test_part(spec, folder, pairs)


def _publish(run: RunDirectory, spec: TuningSpec, rows: Sequence[TunedAnswer], timings: Mapping[str, float]) -> None:
    """Write the curve and the figures as Parquet, the figures as metrics.json too, and report.html; end the run."""
    state = orjson.loads(run.file(STATE).read_bytes())
    curve = loss_curve(state["log_history"])
    changes = tuning_figures(rows, seed=spec.seed, resamples=spec.resamples)
    write_records(run.file("curve.parquet"), curve, LossPoint)
    write_changes(run, changes)
    metrics = [
        {
            "measure": measure, "base": base.value, "tuned": tuned.value, "difference": difference.value,
            "low": difference.low, "high": difference.high, "pairs": base.rows, "groups": base.clusters,
        }
        for measure, base, tuned, difference in changes
    ]  # fmt: skip
    run.file("metrics.json").write_bytes(orjson.dumps(metrics, option=orjson.OPT_INDENT_2))
    pairs = list(read_records(run.part("pairs", 0), TrainingPair))
    best = best_point(curve)
    assert best is not None  # the last step is evaluated
    summary = {
        "pairs": dict(Counter(pair.part for pair in pairs)),
        "groups": len({pair.group for pair in pairs}),
        "rejects": dict(Counter(reject.reason for reject in read_records(run.part("rejects", 0), Reject))),
        "steps": curve[-1].step,
        "best_step": best.step,
        "validation_loss": best.validation_loss,
        "steps_planned": state["max_steps"],
        spec.result: str(run.file(spec.result)),
        "timings": dict(timings),
    }
    run.file("report.html").write_text(build_tuning_report(run, summary))
    run.finish(summary)


def build_tuning_report(run: RunDirectory, summary: Mapping[str, Any] | None = None) -> str:
    """Return the page of a run, built from its figures; `summary` has what run.json does not hold yet."""
    curve = list(read_records(run.file("curve.parquet"), LossPoint))
    answers = list(read_records(run.part("answers", 0), TunedAnswer))
    return tuning_page({**run.info(), **(summary or {})}, curve, stored_changes(run), answers)
