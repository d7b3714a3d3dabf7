"""The training loop of one worker. The worker of rank 0 also writes the checkpoints and the adapter."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import ray.train
import ray.train.torch
import torch
from ray.train.v2._internal.callbacks.placement_group_callback import PlacementGroupCleanerCallback
from ray.train.v2.torch.torch_trainer import TorchTrainer

from fdarx_core.pipeline.tuning.checkpoints import TrainingState, latest_checkpoint, write_checkpoint
from fdarx_core.storage import RunDirectory, read_records
from fdarx_core.tuning.training import (
    EncodedPair,
    LoraModel,
    LossPoint,
    PackedSequence,
    TrainingSchedule,
    TuningSpec,
    best_point,
    check_finite,
    pack_pairs,
    should_stop,
)

CLIPPED_AT = 1.0
"""Maximum norm of the gradient of a step; a longer gradient is clipped to this norm."""


class Trainer(TorchTrainer):
    """Ray's trainer without the actor that removes placement groups.

    That actor sends a request to Ray's dashboard every second, and logs an error each time if there is no dashboard, as
    on a single machine. Ray removes the groups when the job's process ends.
    """

    def _create_default_callbacks(self) -> list[Any]:
        callbacks = super()._create_default_callbacks()
        return [one for one in callbacks if not isinstance(one, PlacementGroupCleanerCallback)]


def train(arguments: dict[str, Any]) -> None:
    """Run the loop of one worker of `ray.train`; the arguments are the run, the TuningSpec and the progress actor."""
    Worker(**arguments).train()


class Worker:
    """One worker of data-parallel training; all workers have the same weights.

    The sequences of a step are divided among the workers. Each worker sums the gradients of its sequences, and an
    all-reduce sums them over the workers. The loss is divided by the number of answer tokens of the whole step, which
    every worker knows, so the number of workers changes only the order of the additions.
    `control` is the actor that is told of each step.
    """

    def __init__(self, run: RunDirectory, tuning: TuningSpec, control: Any) -> None:
        context = ray.train.get_context()
        self._rank, self._workers = context.get_world_rank(), context.get_world_size()
        self._run, self._control, self._tuning = run, control, tuning
        # Ray names the GPU that the worker holds, also where torch can't compute on it
        device = ray.train.torch.get_device() if torch.cuda.is_available() else torch.device("cpu")
        self._tuned = LoraModel(tuning, gradient_checkpointing=device.type == "cuda", device_name=str(device))
        self._torch = self._tuned.torch
        self._sequences = self._read("train")
        self._validation = self._read("validation")
        self._schedule = TrainingSchedule(tuning, len(self._sequences))
        self._optimizer = self._torch.optim.AdamW(self._tuned.parameters, lr=tuning.rate, weight_decay=0.0)
        self._state = self._restored_state()

    def train(self) -> None:
        """Run the remaining steps, then write the adapter with the lowest validation loss."""
        state = self._state
        while state.step < self._schedule.steps and not should_stop(state.curve, self._tuning.patience):
            self._step(state.step + 1)
        if self._rank == 0:
            self._tuned.restore(state.best)
            self._write_adapter()

    def _step(self, step: int) -> None:
        members = [self._sequences[at] for at in self._schedule.members(step)]
        tokens = sum(row.answer_tokens for row in members)
        rate = self._schedule.rate(step)
        loss = check_finite(step, self._optimizer_step(members, tokens, rate))
        self._state.step = step
        point = LossPoint(step, step / self._schedule.steps_an_epoch, loss, rate, tokens)
        self._state.curve.append(point)
        if self._schedule.evaluates_after(step):
            self._evaluate(point)
        if self._rank == 0:
            self._control.report.remote((step, self._schedule.steps, _note(point)))

    def _optimizer_step(self, members: Sequence[PackedSequence], tokens: int, rate: float) -> float:
        """Make one step of the optimizer, and return the mean loss per token before it."""
        total = self._torch.zeros((), device=self._tuned.device)
        self._optimizer.zero_grad(set_to_none=False)
        for row in self._own_share(members):
            loss = self._tuned.loss(row) / tokens
            loss.backward()
            total += loss.detach()
        self._all_reduce(self._gradients())
        self._torch.nn.utils.clip_grad_norm_(self._tuned.parameters, CLIPPED_AT)
        for group in self._optimizer.param_groups:
            group["lr"] = rate
        self._optimizer.step()
        self._all_reduce([total])
        return float(total)

    def _evaluate(self, point: LossPoint) -> None:
        """Compute the validation loss, and write a checkpoint."""
        total = self._torch.zeros((), device=self._tuned.device)
        with self._torch.inference_mode():
            for row in self._own_share(self._validation):
                total += self._tuned.loss(row)
        self._all_reduce([total])
        tokens = sum(row.answer_tokens for row in self._validation)
        point.validation_loss = check_finite(point.step, float(total) / tokens)
        state = self._state
        if best_point(state.curve) is point:
            state.best = self._tuned.weights()
        if self._rank == 0:
            state.weights, state.optimizer = self._tuned.weights(), self._optimizer.state_dict()
            write_checkpoint(self._run, state)

    def _own_share(self, members: Sequence[PackedSequence]) -> Iterator[PackedSequence]:
        yield from members[self._rank :: self._workers]

    def _gradients(self) -> list[Any]:
        for one in self._tuned.parameters:
            if one.grad is None:  # this worker has no sequence of the step
                one.grad = self._torch.zeros_like(one)
        return [one.grad for one in self._tuned.parameters]

    def _all_reduce(self, tensors: Sequence[Any]) -> None:
        """Sum tensors over all workers in place, with one all-reduce."""
        if self._workers == 1:
            return
        flat = self._torch.cat([one.flatten() for one in tensors])
        self._torch.distributed.all_reduce(flat)
        for one, part in zip(tensors, flat.split([one.numel() for one in tensors]), strict=True):
            one.copy_(part.view_as(one))

    def _restored_state(self) -> TrainingState:
        """Return the latest checkpoint, with weights and optimizer restored; a new state if there is none."""
        state = latest_checkpoint(self._run)
        if state is None:
            return TrainingState()
        self._tuned.restore(state.weights)
        self._optimizer.load_state_dict(state.optimizer)
        return state

    def _read(self, part: str) -> list[PackedSequence]:
        rows = read_records(self._run.part(f"encoded/{part}", 0), EncodedPair)
        return pack_pairs(list(rows), self._tuning.length)

    def _write_adapter(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for file in self._tuned.save_adapter(folder):
                (self._run.file("adapter") / file.name).write_bytes(file.read_bytes())


def _note(point: LossPoint) -> str:
    seen = "" if point.validation_loss is None else f", validation loss {point.validation_loss:.3f}"
    return f"loss {point.loss:.3f}{seen}"
