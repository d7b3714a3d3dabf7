"""Questions of a build in, an encoder out that finds more of their passages, scored on drugs that were kept back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import Field

from fdarx_core.records import Difference, Figure, RetrievalScore
from fdarx_core.retrieval.encoders import SentenceEncoder, fingerprint
from fdarx_core.retrieval.models import ModelDirectories, ModelMissing
from fdarx_core.storage import Location, RunDirectory, read_records, write_records
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.storage.run_directory import LabelRows, read_labels
from fdarx_core.tuning.evaluation import BASE, TUNED, read_changes
from fdarx_core.tuning.retriever_training import (
    RETRIEVAL_MEASURES,
    RetrievalExample,
    RetrieverSpec,
    answerable,
    retrieval_changes,
    retrieval_examples,
    score_encoder,
    split_labels,
    train_retriever,
)
from fdarx_core.tuning.trainer import TRACKERS, LossPoint, best_point
from jobs.cli import run_as
from jobs.options import PRESENTATION, JobConfig, Names, one_of
from jobs.output import print_json
from jobs.progress import ProgressLine, busy
from jobs.session import ending, is_done, versions

_CURVE = "curve.parquet"


class FinetuneRetrieverConfig(JobConfig):
    """Options of `fdarx finetune retriever`."""

    labels: str
    """a finished run of fdarx build, whose questions and gold passages are learnt from"""
    model: str | None = None
    """base model: a local directory that sentence-transformers loads (all-MiniLM-L6-v2, if installed)"""
    out: str
    """run directory to write, on a disk; repeat the command to resume a run"""
    rate: float = Field(2e-5, gt=0)
    """highest learning rate"""
    epochs: int = Field(3, ge=1)
    """maximum number of epochs"""
    batch: int = Field(32, ge=2)
    """questions per step; the passages of the others are negatives, so a larger batch is harder, and takes more
    memory"""
    length: int = Field(256, ge=16)
    """tokens of a passage in training; longer passages are cut at their end"""
    negatives: int = Field(1, ge=0)
    """hard negatives of each question; more are harder, and take longer"""
    evaluate_every: int | None = Field(None, ge=1)
    """steps between evaluations, each with a checkpoint (a quarter of an epoch)"""
    patience: int = Field(4, ge=1)
    """stop after this many consecutive evaluations without a lower validation loss"""
    report_to: Annotated[Names, one_of(TRACKERS, "tracker")] = Field(default_factory=list)
    """experiment trackers to which transformers reports the training: mlflow, wandb (none)"""
    resamples: int = Field(2000, ge=100)
    """number of bootstrap resamples"""
    seed: int = 0
    """random seed of the split, training and the intervals"""

    def training(self) -> RetrieverSpec:
        """Return the specification. Raises ModelMissing where there is no model."""
        known = {field.name for field in fields(RetrieverSpec)} - {"model", "report_to"}
        if self.model is not None and not (Path(self.model) / "config.json").is_file():
            raise ModelMissing(f"--model: {self.model} is not a model directory, it has no config.json")
        directory = ModelDirectories(cosine=self.model).of("cosine")
        return RetrieverSpec(directory, report_to=tuple(self.report_to), **self.model_dump(include=known))


def finetune_retriever(*, config: Annotated[FinetuneRetrieverConfig, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 130 interrupted."""
    if Location(config.out).is_remote:
        raise ValueError(f"--out {config.out}: checkpoints need a local disk; copy the folder `model` elsewhere after")
    spec = config.training()
    build = open_build(config.labels)
    identity = config.model_dump(mode="json", exclude={"out", "report_to", "labels", *PRESENTATION}) | {
        "model": {"name": Path(spec.model).name, "fingerprint": fingerprint(spec.model)},
        "build": {"started": build.info()["started"], "config": build.info()["config"]},
    }
    libraries = {name: version(name) for name in ("torch", "transformers", "sentence-transformers")}
    run = RunDirectory.begin(
        config.out, job="finetune_retriever", config=identity, versions={**versions(), **libraries}
    )
    if not is_done(run):
        with ending(run):
            _train(run, config, spec, build)
    return _tell(run, config)


def _train(run: RunDirectory, config: FinetuneRetrieverConfig, spec: RetrieverSpec, build: RunDirectory) -> None:
    with busy("reading the questions and searching for hard negatives", quiet=config.quiet):
        parts, left_out = split_labels(read_labels(build), spec.seed)
        learnt: dict[str, list[RetrievalExample]] = {}
        for part in ("train", "validation"):
            learnt[part], lacking = retrieval_examples(parts[part], spec.negatives)
            left_out["no_negative"] += lacking
            write_records(run.part(f"examples/{part}", 0), learnt[part], RetrievalExample)
    folder = Path(str(run.root))
    with ProgressLine({"train": "steps", "score": "labels scored"}, quiet=config.quiet) as progress:
        curve = train_retriever(
            spec, learnt["train"], learnt["validation"], folder, lambda *told: progress("train", *told)
        )
        scores = _scores(parts["test"], {BASE: spec.model, TUNED: str(folder / "model")}, progress)
    write_records(run.file(_CURVE), curve, LossPoint)
    write_records(run.part("scores", 0), scores, RetrievalScore)
    changes = retrieval_changes(scores, seed=spec.seed, resamples=config.resamples)
    write_records(run.file("figures.parquet"), [one for _, *means, _ in changes for one in means], Figure)
    write_records(run.file("differences.parquet"), [difference for *_, difference in changes], Difference)
    best = best_point(curve)
    assert best is not None  # the last step is evaluated
    run.finish(
        {
            "labels": {part: len(held) for part, held in parts.items()},
            "questions": {part: sum(len(answerable(rows)) for rows in held) for part, held in parts.items()},
            "left_out": dict(Counter(left_out)),
            "steps": curve[-1].step,
            "best_step": best.step,
            "validation_loss": best.validation_loss,
            "encoder": str(folder / "model"),
        }
    )


def _scores(labels: Sequence[LabelRows], models: dict[str, str], progress: ProgressLine) -> list[RetrievalScore]:
    found: list[RetrievalScore] = []
    for at, (name, directory) in enumerate(models.items()):
        encoder = SentenceEncoder(directory, fast=True)
        for number, rows in enumerate(labels, 1):
            found += score_encoder(encoder, name, [rows])
            progress("score", at * len(labels) + number, 2 * len(labels))
    return found


def _tell(run: RunDirectory, config: FinetuneRetrieverConfig) -> int:
    info: dict[str, Any] = run.info()
    figures = read_records(run.file("figures.parquet"), Figure)
    changes = read_changes(figures, read_records(run.file("differences.parquet"), Difference))
    if config.as_json:
        print_json(info | {"figures": changes})
        return 0
    for part, count in info["questions"].items():
        print(f"{part:<11} {count:,} questions to {info['labels'][part]:,} labels")
    print(f"left out    {', '.join(f'{count:,} {reason}' for reason, count in info['left_out'].items()) or 'none'}")
    print(f"{info['steps']:,} steps; lowest validation loss {info['validation_loss']:.3f} at {info['best_step']:,}\n")
    for measure, base, tuned, one in changes:
        interval = "" if one.low is None else f" [{one.low:+.3f}, {one.high:+.3f}]"
        means = f"base {base.value:.3f}  tuned {tuned.value:.3f}"
        print(f"{RETRIEVAL_MEASURES[measure]:<10} {means}  difference {one.value:+.3f}{interval}")
    print(f"\nencoder  {info['encoder']}")
    return 0


if __name__ == "__main__":
    run_as("finetune", "retriever")
