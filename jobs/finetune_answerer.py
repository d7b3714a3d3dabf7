"""Question-answer pairs in, a LoRA adapter out that answers in their manner, examined on pairs that were kept back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import Field

from fdarx_core.pipeline.tuning.results import stored_changes
from fdarx_core.pipeline.tuning.run import TrainingFailed, fine_tune
from fdarx_core.rag.tasks import HYPOTHETICAL_ANSWER
from fdarx_core.records import Reject, content_id
from fdarx_core.retrieval.encoders import fingerprint
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing, check_installed
from fdarx_core.storage import RunDirectory
from fdarx_core.tuning.evaluation import MEASURES
from fdarx_core.tuning.pairs import PARTS, TrainingPair, read_pairs, split_pairs
from fdarx_core.tuning.training import ChatEncoder, EncodedPair, TuningSpec, encode_parts
from jobs import STOPPED
from jobs.cli import run_as
from jobs.options import PRESENTATION, BertscoreConfig, GpuConfig, TrackingConfig
from jobs.output import print_json
from jobs.progress import busy
from jobs.session import is_done, run_result, session, versions
from jobs.track import tracked

_HOW = {"out", "cpus", "gpus", "workers", "model", "questions", "track"}
_LIBRARIES = ("torch", "transformers", "peft")
"""Required libraries. They are not imported here, because that takes seconds before an error can be shown."""
_WEIGHTS = ("*.safetensors", "*.bin")


class FinetuneConfig(BertscoreConfig, TrackingConfig, GpuConfig):
    """Options of `fdarx finetune`."""

    questions: str
    """training pairs: a finished run of fdarx build, or a jsonl, json, csv or parquet file with a question and an
    answer in each row, on disk or s3://"""
    model: str
    """local directory of the base model, which needs a chat template, at the same path on every machine"""
    out: str
    """run directory to write, on disk or s3://; repeat the command to resume a run"""
    rank: int = Field(16, ge=1)
    """LoRA rank; a higher rank can learn more, and takes more memory in serving"""
    alpha: int = Field(32, ge=1)
    """LoRA alpha: the adapter's weights are scaled by alpha/rank"""
    rate: float = Field(2e-4, gt=0)
    """highest learning rate"""
    epochs: int = Field(3, ge=1)
    """maximum number of epochs"""
    batch: int = Field(4, ge=1)
    """packed sequences per step, over all workers"""
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
        for library in _LIBRARIES:
            if find_spec(library) is None:
                raise ModelMissing(f"fine-tuning needs {library}: pip install 'fdarx[models]'")
        _check_model(Path(self.model))
        self.check_bertscore()
        known = {field.name for field in fields(TuningSpec)} - {"model"}
        return TuningSpec(
            model=str(Path(self.model).absolute()),
            encoder=self._encoder(),
            bertscore=self.bertscore_model,
            **self.model_dump(include=known),
        )

    def identity(self, pairs: Sequence[TrainingPair], tuning: TuningSpec) -> dict[str, Any]:
        """Return the options that can change the results of a run; they identify it."""
        return {
            **self.model_dump(mode="json", exclude=_HOW | PRESENTATION),
            "model": {"name": Path(tuning.model).name, "fingerprint": fingerprint(tuning.model)},
            "cosine_model": Path(tuning.encoder).name if tuning.encoder else None,
            "prompt": f"{HYPOTHETICAL_ANSWER.name} {HYPOTHETICAL_ANSWER.version}",
            "pairs": content_id(*(part for one in pairs for part in (one.id, one.question, one.answer))),
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
        pairs, encoded, rejects = _prepared(config, tuning)
    run = RunDirectory.begin(
        config.out,
        job="finetune_answerer",
        config=config.identity(pairs, tuning),
        versions={**versions(), **_libraries()},
    )
    if is_done(run):
        return tracked(run, config.track, _tell(run, config))
    counts = ", ".join(f"{sum(one.part == part for one in pairs):,} for {part}" for part in PARTS)
    print(f"{len(pairs):,} pairs: {counts}; {len(rejects):,} left out", file=sys.stderr)
    models = (tuning.model, tuning.encoder, tuning.bertscore)
    try:
        with session(config, _PHASES, read=models, executor="ray", run=run) as (progress, executor):
            fine_tune(run, tuning, pairs, encoded, rejects, executor, progress)
    except TrainingFailed as error:
        print(
            f"error: training failed: {error}; the same command resumes the job from the last checkpoint",
            file=sys.stderr,
        )
        return STOPPED
    return tracked(run, config.track, _tell(run, config))


def _prepared(
    config: FinetuneConfig, tuning: TuningSpec
) -> tuple[list[TrainingPair], dict[str, list[EncodedPair]], list[Reject]]:
    """Return the pairs with their parts, the tokens of the parts for training, and the rejects."""
    read, rejects = read_pairs(config.questions)
    pairs = split_pairs(read, config.seed)
    encoded, too_long = encode_parts(pairs, ChatEncoder(tuning.model), tuning.length)
    left_out = {one.id for one in too_long}
    return [one for one in pairs if one.id not in left_out], encoded, [*rejects, *too_long]


def _libraries() -> dict[str, str]:
    return {name: version(name) for name in ("torch", "transformers", "peft")}


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
    print(f"\nadapter  {run.file('adapter')}\nreport   {run.file('report.html')}")
    return 0


if __name__ == "__main__":
    run_as("finetune")
