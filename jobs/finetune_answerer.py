"""Question-answer pairs in, a LoRA adapter out that answers in their manner, examined on pairs that were kept back."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fdarx_core.pipeline.tuning.run import FineTuning, TrainingFailed
from fdarx_core.retrieval.models import ModelMissing
from fdarx_core.storage import RunDirectory, StorageError, read_records
from fdarx_core.tuning.measures import MEASURES, TuningFigure
from fdarx_core.tuning.pairs import read_pairs
from fdarx_core.tuning.splits import PARTS, split
from jobs.exits import INTERRUPTED, STOPPED
from jobs.finetune_config import FinetuneConfig
from jobs.options import read_options, stop
from jobs.progress import ProgressLine
from jobs.ray_session import ray_session
from jobs.stoppable import ending
from jobs.versions import versions

_PHASES = {"train": "steps", "examine": "answering the test part", "publish": "computing figures and intervals"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 training failed, 130 interrupted."""
    config = read_options(FinetuneConfig, arguments, prog="fdarx finetune", description=__doc__ or "")
    try:
        return _tune(config)
    except (StorageError, ModelMissing, ValueError) as error:
        stop(str(getattr(error, "cause", error)))  # Ray wraps what a worker raised
    except TrainingFailed as error:
        print(f"\nerror: training failed: {error}; the same command goes on from the last checkpoint", file=sys.stderr)
        return STOPPED
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        return INTERRUPTED


def _tune(config: FinetuneConfig) -> int:
    tuning = config.tuning()
    read, rejects = read_pairs(config.questions)
    pairs = split(read, config.seed)
    run = RunDirectory.begin(
        config.out, job="finetune_answerer", config=config.identity(pairs, tuning), versions=versions()
    )
    if run.complete:
        print(f"{run.root} is complete already, nothing to do", file=sys.stderr)
        return _tell(run)
    if run.resumed:
        print(f"resuming {run.root}", file=sys.stderr)
    counts = ", ".join(f"{sum(one.part == part for one in pairs):,} for {part}" for part in PARTS)
    print(f"{len(pairs):,} pairs: {counts}; {len(rejects):,} rows left out", file=sys.stderr)
    models = (tuning.model, tuning.encoder, tuning.bertscore)
    with (
        ending(run),
        ray_session(config.cpus, written=[run.root], read=models),
        ProgressLine(_PHASES, asking="") as progress,
    ):
        FineTuning(run, tuning, pairs, rejects, progress).run_all()
    return _tell(run)


def _tell(run: RunDirectory) -> int:
    info = run.info()
    print(f"\n{info['steps']:,} steps; lowest validation loss {info['validation_loss']:.3f} at {info['best_step']:,}")
    for one in read_records(run.file("figures.parquet"), TuningFigure):
        interval = "" if one.low is None else f" [{one.low:+.3f}, {one.high:+.3f}]"
        difference = f"{one.difference:+.3f}{interval}"
        print(f"{MEASURES[one.measure]:<22} base {one.base:.3f}  tuned {one.tuned:.3f}  difference {difference}")
    print(f"\nadapter  {run.file('adapter')}\nreport   {run.file('report.html')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
