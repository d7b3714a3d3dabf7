"""Question-answer pairs in, a tuned language model out: an adapter or all weights, examined on pairs kept back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from pydantic import Field

from fdarx_core.pipeline.tuning.results import stored_changes
from fdarx_core.pipeline.tuning.run import TrainingFailed, fine_tune
from fdarx_core.rag.tasks import ANSWER_WITH_CITATIONS, HYPOTHETICAL_ANSWER
from fdarx_core.records import Reject, content_id
from fdarx_core.retrieval.encoders import fingerprint
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed
from fdarx_core.storage import RunDirectory
from fdarx_core.tuning.answerer_training import (
    Attention,
    Method,
    Objective,
    TuningSpec,
    load_tokenizer,
    without_long_pairs,
)
from fdarx_core.tuning.cited_pairs import read_cited_pairs
from fdarx_core.tuning.evaluation import MEASURES
from fdarx_core.tuning.pairs import PARTS, TrainingPair, read_pairs, split_pairs
from fdarx_core.tuning.preferences import read_preferences
from fdarx_core.tuning.trainer import TRACKERS, load_library
from jobs import STOPPED
from jobs.cli import run_as
from jobs.options import PRESENTATION, BertscoreConfig, GpuConfig, Names, RunningConfig, TrackingConfig, one_of
from jobs.output import print_json
from jobs.progress import busy
from jobs.session import is_done, run_result, session, versions
from jobs.track import tracked

_HOW = {"out", "cpus", "gpus", "executor", "workers", "fsdp", "attention", "report_to", "model", "questions", "track"}
_LIBRARIES = ("torch", "transformers", "trl", "peft")
"""Required libraries. They are not imported here, because that takes seconds before an error can be shown."""
_WEIGHTS = ("*.safetensors", "*.bin")


class FinetuneConfig(BertscoreConfig, TrackingConfig, GpuConfig, RunningConfig):
    """Options of `fdarx finetune`."""

    questions: str
    """training pairs: a finished run of fdarx build, or a jsonl, json, csv or parquet file with a question and an
    answer in each row, on disk or s3://; for --objective dpo, a finished run of fdarx evaluate"""
    model: str
    """local directory of the base model, which needs a chat template, at the same path on every machine"""
    out: str
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    objective: Objective = "sft"
    """`sft` learns the answers of the pairs; `dpo` learns to prefer answers that a judge graded correct over incorrect
    ones to the same question, which needs about twice the time a step"""
    context: Literal["none", "passages"] = "none"
    """`none` asks without passages, as for hypothetical answers; `passages` shows the gold passages of a build among
    others, as the service does, and teaches to cite and to refuse, with sequences about ten times as long"""
    distractors: int = Field(5, ge=0)
    """with --context passages: passages shown that do not answer the question; more are harder, and longer"""
    method: Method = "lora"
    """`lora` trains an adapter; `qlora` too, on a base model of 4 bits, in about a third of the memory and more slowly;
    `full` trains all weights, which can learn most, and needs about 16 bytes of memory a weight"""
    target_modules: Names = Field(default_factory=list)
    """layers that get an adapter, such as q_proj,v_proj (all linear layers but the head); fewer take less memory and
    learn less"""
    fsdp: bool = False
    """divide the weights among the GPUs of --workers, for models that do not fit on one GPU; slower than copies"""
    attention: Attention = "sdpa"
    """implementation of attention: `flash_attention_2` is fastest for packed sequences, and needs the package
    flash-attn and a GPU; `sdpa` needs nothing; `eager` is slow, for models without another"""
    beta: float = Field(0.1, gt=0)
    """with --objective dpo: a higher beta keeps the model nearer to the base model"""
    rank: int = Field(16, ge=1)
    """LoRA rank; a higher rank can learn more, and takes more memory in serving"""
    alpha: int = Field(32, ge=1)
    """LoRA alpha: the adapter's weights are scaled by alpha/rank"""
    rate: float = Field(2e-4, gt=0)
    """highest learning rate; a tenth of the default suits --method full, a fortieth --objective dpo"""
    epochs: int = Field(3, ge=1)
    """maximum number of epochs"""
    batch: int = Field(4, ge=1)
    """packed sequences per step, or pairs of answers with --objective dpo; a multiple of --workers, which divide it"""
    length: int = Field(2048, ge=16)
    """tokens of a packed sequence; longer pairs are rejected"""
    evaluate_every: int | None = Field(None, ge=1)
    """steps between evaluations of the validation loss, each with a checkpoint (a quarter of an epoch)"""
    patience: int = Field(4, ge=1)
    """stop after this many consecutive evaluations without a lower validation loss"""
    max_tokens: int = Field(400, ge=1)
    """maximum number of tokens of an answer to a question of the test part"""
    workers: int = Field(1, ge=1)
    """number of training processes, each with a GPU if there are GPUs or --gpus asks for some"""
    report_to: Annotated[Names, one_of(TRACKERS, "tracker")] = Field(default_factory=list)
    """experiment trackers to which transformers reports the training: mlflow, wandb (none)"""
    cosine_model: str | None = None
    """local directory of an embedding model for similarity (all-MiniLM-L6-v2, if installed)"""
    resamples: int = Field(2000, ge=100)
    """number of bootstrap resamples; more give more stable intervals"""
    seed: int = 0
    """random seed of the split, the order of training and the intervals"""

    def tuning(self) -> TuningSpec:
        """Return the specification.

        Raises ModelMissing for a missing library or directory, ValueError for an invalid one.
        """
        for library in (*_LIBRARIES, *(["bitsandbytes"] if self.method == "qlora" else [])):
            if find_spec(library) is None:
                raise ModelMissing(f"fine-tuning needs {library}: pip install 'fdarx[models]'")
        if self.attention == "flash_attention_2" and find_spec("flash_attn") is None:
            raise ModelMissing("--attention flash_attention_2 needs flash-attn and a GPU: pip install flash-attn")
        _check_model(Path(self.model))
        self._check_options()
        self.check_bertscore()
        known = {field.name for field in fields(TuningSpec)} - {"model", "target_modules", "report_to"}
        return TuningSpec(
            model=str(Path(self.model).absolute()),
            target_modules=tuple(self.target_modules),
            report_to=tuple(self.report_to),
            encoder=self._encoder(),
            bertscore=self.bertscore_model,
            **self.model_dump(include=known),
        )

    def _check_options(self) -> None:
        """Raise ValueError for options that do not go together."""
        if self.batch % self.workers:
            raise ValueError(f"--batch {self.batch} can't be divided among --workers {self.workers}; give a multiple")
        if self.fsdp and self.workers == 1:
            raise ValueError("--fsdp divides the weights among several workers; give --workers 2 or more")
        if self.objective == "dpo" and self.context != "none":
            raise ValueError("--objective dpo asks without passages; leave out --context")
        if self.target_modules and self.method == "full":
            raise ValueError("--target-modules is for adapters, and --method full trains all weights")
        if self.executor == "local" and self.workers > 1:
            raise ValueError("--executor local is one process; leave it out for several --workers")

    def read_pairs(self) -> tuple[list[TrainingPair], list[Reject]]:
        """Return the pairs, without parts, and the rows that give none."""
        if self.objective == "dpo":
            return read_preferences(self.questions)
        if self.context == "passages":
            return read_cited_pairs(self.questions, self.distractors, self.seed), []
        return read_pairs(self.questions)

    def identity(self, pairs: Sequence[TrainingPair], tuning: TuningSpec) -> dict[str, Any]:
        """Return the options that can change the results of a run; they identify it."""
        task = HYPOTHETICAL_ANSWER if self.context == "none" else ANSWER_WITH_CITATIONS
        return {
            **self.model_dump(mode="json", exclude=_HOW | PRESENTATION),
            "model": {"name": Path(tuning.model).name, "fingerprint": fingerprint(tuning.model)},
            "cosine_model": Path(tuning.encoder).name if tuning.encoder else None,
            "prompt": f"{task.name} {task.version}",
            "pairs": content_id(*(part for one in pairs for part in (one.id, *_turns(one)))),
        }

    def _encoder(self) -> str | None:
        """Return the encoder for answers and references: the given directory, else MiniLM if it is installed."""
        directories = ModelDirectories(cosine=self.cosine_model)
        if self.cosine_model is not None:
            return directories.of("cosine")
        try:
            check_installed("cosine")
            return directories.of("cosine")
        except ModelMissing:
            return None


def _turns(pair: TrainingPair) -> list[str]:
    return [*(turn.content for turn in pair.messages), pair.answer, pair.rejected]


def _check_model(directory: Path) -> None:
    if not (directory / "config.json").is_file():
        raise ModelMissing(f"--model: {directory} is not a model directory, it has no config.json")
    if not any(file for kind in _WEIGHTS for file in directory.glob(kind)):
        raise ModelMissing(f"--model: {directory} holds no weights ({' or '.join(_WEIGHTS)})")


_PHASES = {"train": "steps", "examine": "answering the test part"}


def finetune(*, config: Annotated[FinetuneConfig, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 training failed, 130 interrupted."""
    tuning = config.tuning()
    with busy("reading the pairs", quiet=config.quiet):
        pairs, rejects = _prepared(config, tuning)
    run = RunDirectory.begin(
        config.out,
        job="finetune_answerer",
        config=config.identity(pairs, tuning),
        versions={**versions(), **{name: version(name) for name in _LIBRARIES}},
    )
    if is_done(run):
        return tracked(run, config.track, _tell(run, config))
    counts = ", ".join(f"{sum(one.part == part for one in pairs):,} for {part}" for part in PARTS)
    print(f"{len(pairs):,} pairs: {counts}; {len(rejects):,} left out", file=sys.stderr)
    models = (tuning.model, tuning.encoder, tuning.bertscore)
    size = 0 if tuning.workers == 1 and load_library("torch").cuda.device_count() <= 1 else None
    try:
        with session(config, _PHASES, read=models, executor=config.executor, size=size, run=run) as (
            progress,
            executor,
        ):
            if executor.name == "local" and config.cpus:
                load_library("torch").set_num_threads(config.cpus)
            fine_tune(run, tuning, pairs, rejects, executor, progress)
    except TrainingFailed as error:
        print(
            f"error: training failed: {error}; the same command resumes the job from the last checkpoint",
            file=sys.stderr,
        )
        return STOPPED
    return tracked(run, config.track, _tell(run, config))


def _prepared(config: FinetuneConfig, tuning: TuningSpec) -> tuple[list[TrainingPair], list[Reject]]:
    """Return the pairs with their parts, and the rejects."""
    read, rejects = config.read_pairs()
    pairs, too_long = without_long_pairs(split_pairs(read, config.seed), load_tokenizer(tuning.model), tuning.length)
    return pairs, [*rejects, *too_long]


def _tell(run: RunDirectory, config: FinetuneConfig) -> int:
    if config.as_json:
        print_json(run_result(run))
        return 0
    info = run.info()
    print(f"\n{info['steps']:,} steps; lowest validation loss {info['validation_loss']:.3f} at {info['best_step']:,}")
    for measure, base, tuned, one in stored_changes(run):
        interval = "" if one.low is None else f" [{one.low:+.3f}, {one.high:+.3f}]"
        difference = f"{one.value:+.3f}{interval}"
        print(f"{MEASURES[measure]:<22} base {base.value:.3f}  tuned {tuned.value:.3f}  difference {difference}")
    result = "model" if config.method == "full" else "adapter"
    print(f"\n{result:<8} {run.file(result)}\nreport   {run.file('report.html')}")
    return 0


if __name__ == "__main__":
    run_as("finetune")
