"""Question-answer pairs in, a LoRA adapter out that answers in their manner, examined on pairs that were kept back."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version

from fdarx_core.pipeline.tuning.run import FineTuning, TrainingFailed
from fdarx_core.pipeline.tuning.what import Tuning
from fdarx_core.records import Reject
from fdarx_core.storage import RunDirectory, read_records
from fdarx_core.tuning.encoding import ChatEncoder, Encoded, encode_parts
from fdarx_core.tuning.measures import MEASURES, TuningFigure
from fdarx_core.tuning.pairs import Pair, read_pairs
from fdarx_core.tuning.splits import PARTS, split
from jobs.exits import STOPPED
from jobs.finetune_config import FinetuneConfig
from jobs.frame import exit_code, is_done, session
from jobs.options import read_options
from jobs.versions import versions

_PHASES = {"train": "steps", "examine": "answering the test part", "publish": "computing figures and intervals"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; returns its exit code: 0 done, 2 wrong argument, 3 training failed, 130 interrupted."""
    config = read_options(FinetuneConfig, arguments, prog="fdarx finetune", description=__doc__ or "")
    return exit_code(lambda: _tune(config), ValueError)


def _tune(config: FinetuneConfig) -> int:
    tuning = config.tuning()
    pairs, encoded, rejects = _prepared(config, tuning)
    run = RunDirectory.begin(
        config.out,
        job="finetune_answerer",
        config=config.identity(pairs, tuning),
        versions={**versions(), **_libraries()},
    )
    if is_done(run):
        return _tell(run)
    counts = ", ".join(f"{sum(one.part == part for one in pairs):,} for {part}" for part in PARTS)
    print(f"{len(pairs):,} pairs: {counts}; {len(rejects):,} left out", file=sys.stderr)
    models = (tuning.model, tuning.encoder, tuning.bertscore)
    try:
        with session(run, _PHASES, asking="", read=models, cpus=config.cpus) as progress:
            FineTuning(run, tuning, pairs, encoded, rejects, progress).run_all()
    except TrainingFailed as error:
        print(f"error: training failed: {error}; the same command goes on from the last checkpoint", file=sys.stderr)
        return STOPPED
    return _tell(run)


def _prepared(config: FinetuneConfig, tuning: Tuning) -> tuple[list[Pair], dict[str, list[Encoded]], list[Reject]]:
    """Pairs with their parts, the tokens of those parts that are learnt from, and what was left out."""
    read, rejects = read_pairs(config.questions)
    pairs = split(read, config.seed)
    encoded, too_long = encode_parts(pairs, ChatEncoder(tuning.model), tuning.recipe.length)
    left_out = {one.id for one in too_long}
    return [one for one in pairs if one.id not in left_out], encoded, [*rejects, *too_long]


def _libraries() -> dict[str, str]:
    return {name: version(name) for name in ("torch", "transformers", "peft")}


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
