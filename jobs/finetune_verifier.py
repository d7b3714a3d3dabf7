"""Marked pairs in, an NLI cross-encoder out that `fdarx verify` and `fdarx factuality` load, scored on unseen drugs."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import orjson
from cyclopts import Parameter
from pydantic import Field

from fdarx_core.evaluation.verifier_scores import MarkedPair
from fdarx_core.records import content_id
from fdarx_core.storage import Location, RunDirectory, write_records
from fdarx_core.storage.benchmark_reader import open_build
from fdarx_core.tuning.pairs import PARTS
from fdarx_core.tuning.trainer import LossPoint, best_point
from fdarx_core.tuning.verifier_training import (
    VerifierSpec,
    aliases_of,
    label_pairs,
    split_by_substance,
    train_verifier,
)
from jobs.cli import run_as
from jobs.options import PRESENTATION, JobConfig
from jobs.output import print_json
from jobs.progress import ProgressLine, busy
from jobs.session import ending, is_done, run_result, versions
from jobs.verify import read_pairs, score_pairs

_CURVE, _SCORES = "curve.parquet", "scores.json"


class FinetuneVerifierConfig(JobConfig):
    """Options of `fdarx finetune verifier`."""

    pairs: list[str] = Field(default_factory=list)
    """files of marked pairs and folders of reviews, as `fdarx verify --pairs` takes them"""
    labels: str | None = None
    """a finished run of fdarx build, whose Highlights and sections make pairs"""
    model: str = "general"
    """base model: a local directory, a name on the hub, or `general` or `biomedical`; an NLI model keeps its classes,
    any other encoder gets a new head"""
    out: str
    """run directory to write, on a disk; repeat the command to resume a run"""
    rate: float = Field(2e-5, gt=0)
    """highest learning rate"""
    epochs: int = Field(2, ge=1)
    """maximum number of epochs"""
    batch: int = Field(16, ge=1)
    """pairs per step"""
    length: int = Field(384, ge=32)
    """tokens of text and statement; longer texts are cut at their end"""
    evaluate_every: int | None = Field(None, ge=1)
    """steps between evaluations, each with a checkpoint (a quarter of an epoch)"""
    patience: int = Field(4, ge=1)
    """stop after this many consecutive evaluations without a lower validation loss"""
    threshold: float = Field(0.7, gt=0, le=1)
    """probability from which a class decides in the scores"""
    resamples: int = Field(2000, ge=100)
    """number of bootstrap resamples"""
    seed: int = 0
    """random seed of the split, the changed statements, training and the intervals"""

    def training(self) -> VerifierSpec:
        return VerifierSpec(**self.model_dump(include={field.name for field in fields(VerifierSpec)}))


def finetune_verifier(*, config: Annotated[FinetuneVerifierConfig, Parameter(name="*")]) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 130 interrupted."""
    if not (config.pairs or config.labels):
        raise ValueError("there is nothing to train on; give --pairs, --labels or both")
    if Location(config.out).is_remote:
        raise ValueError(f"--out {config.out}: checkpoints need a local disk; copy the folder `model` elsewhere after")
    with busy("reading the pairs", quiet=config.quiet):
        parts, left_out = _read_parts(config)
    read = content_id(
        *(text for held in parts.values() for one in held for text in (one.text, one.statement, one.mark))
    )
    identity = config.model_dump(mode="json", exclude={"out", *PRESENTATION}) | {"pairs": read}
    libraries = {name: version(name) for name in ("torch", "transformers")}
    run = RunDirectory.begin(config.out, job="finetune_verifier", config=identity, versions={**versions(), **libraries})
    if not is_done(run):
        with ending(run):
            _train(run, config, parts, left_out)
    return _tell(run, config)


def _read_parts(config: FinetuneVerifierConfig) -> tuple[dict[str, list[MarkedPair]], Counter[str]]:
    pairs, aliases = read_pairs(config.pairs), {}
    if config.labels:
        build = open_build(config.labels)
        pairs += label_pairs(build, config.seed)
        aliases = aliases_of(build)
    return split_by_substance(pairs, config.seed, aliases)


def _train(
    run: RunDirectory, config: FinetuneVerifierConfig, parts: dict[str, list[MarkedPair]], left_out: Counter[str]
) -> None:
    for part in PARTS:
        write_records(run.part(f"pairs/{part}", 0), parts[part], MarkedPair)
    folder = Path(str(run.root))
    with ProgressLine({"train": "steps"}, quiet=config.quiet) as progress:
        curve, too_long = train_verifier(
            config.training(), parts, folder, lambda step, steps, note: progress("train", step, steps, note)
        )
    write_records(run.file(_CURVE), curve, LossPoint)
    engine = f"cross-encoder:{folder / 'model'}"
    kept, table = score_pairs(parts["test"], engine, config.threshold, config.seed, config.resamples, config.quiet)
    run.file(_SCORES).write_bytes(orjson.dumps(kept, option=orjson.OPT_INDENT_2))
    run.file("scores.txt").write_text(table + "\n")
    best = best_point(curve)
    assert best is not None  # the last step is evaluated
    run.finish(
        {
            "pairs": {part: dict(Counter(one.mark for one in held)) for part, held in parts.items()},
            "left_out": dict(left_out) | {"too_long": too_long},
            "steps": curve[-1].step,
            "best_step": best.step,
            "validation_loss": best.validation_loss,
        }
    )


def _tell(run: RunDirectory, config: FinetuneVerifierConfig) -> int:
    info: dict[str, Any] = run.info()
    if config.as_json:
        print_json(run_result(run, scores=orjson.loads(run.file(_SCORES).read_bytes())))
        return 0
    for part, counts in info["pairs"].items():
        print(f"{part:<11} {', '.join(f'{count:,} {mark}' for mark, count in sorted(counts.items()))}")
    print(f"left out    {', '.join(f'{count:,} {reason}' for reason, count in info['left_out'].items())}")
    print(f"{info['steps']:,} steps; lowest validation loss {info['validation_loss']:.3f} at {info['best_step']:,}\n")
    print(run.file("scores.txt").read_text())
    print(f"verifier  cross-encoder:{run.file('model')}")
    return 0


if __name__ == "__main__":
    run_as("finetune", "verifier")
