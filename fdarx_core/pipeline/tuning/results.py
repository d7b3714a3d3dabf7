"""What a fine-tuning leaves: the curve, the figures, the report, and what `run.json` says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from fdarx_core.pipeline.tuning.checkpoints import Checkpoints
from fdarx_core.pipeline.tuning.what import Tuning
from fdarx_core.records import Reject
from fdarx_core.report.tuning import TuningResults, tuning_page
from fdarx_core.storage import RunDirectory, StorageError, read_records, write_records
from fdarx_core.tuning.curve import LossPoint, lowest
from fdarx_core.tuning.encoding import Encoded
from fdarx_core.tuning.measures import ExamAnswer, TuningFigure, figures
from fdarx_core.tuning.packing import packed
from fdarx_core.tuning.pairs import Pair
from fdarx_core.tuning.recipe import Schedule


def publish(
    run: RunDirectory,
    tuning: Tuning,
    checkpoints: Checkpoints,
    rows: Sequence[ExamAnswer],
    timings: Mapping[str, float],
) -> None:
    """Write the curve and the figures as Parquet, the figures as JSON too, and `report.html`; then end the run.

    Raises StorageError where nothing was trained.
    """
    state = checkpoints.latest()
    best = lowest(state.curve) if state else None
    if state is None or best is None:
        raise StorageError(f"{run.root}/checkpoints holds nothing; delete the run and train again")
    found = figures(rows, seed=tuning.recipe.seed, resamples=tuning.resamples)
    write_records(run.file("curve.parquet"), state.curve, LossPoint)
    write_records(run.file("figures.parquet"), found, TuningFigure)
    run.file("metrics.json").write_bytes(orjson.dumps([asdict(one) for one in found], option=orjson.OPT_INDENT_2))
    summary = _summary(run, tuning, state.curve, best) | {"timings": dict(timings)}
    run.file("report.html").write_text(_page(run, {**run.info(), **summary}))
    run.finish(summary)


def build_tuning_report(run: RunDirectory) -> str:
    """The page of a run that is published, made anew from its figures."""
    return _page(run, run.info())


def _page(run: RunDirectory, info: Mapping[str, Any]) -> str:
    curve = list(read_records(run.file("curve.parquet"), LossPoint))
    found = list(read_records(run.file("figures.parquet"), TuningFigure))
    return tuning_page(TuningResults(info, curve, found, list(read_records(run.part("answers", 0), ExamAnswer))))


def _summary(run: RunDirectory, tuning: Tuning, curve: Sequence[LossPoint], best: LossPoint) -> dict[str, Any]:
    pairs = list(read_records(run.part("pairs", 0), Pair))
    rejects = Counter(one.reason for one in read_records(run.part("rejects", 0), Reject))
    encoded = list(read_records(run.part("encoded/train", 0), Encoded))
    schedule = Schedule(tuning.recipe, len(packed(encoded, tuning.recipe.length)))
    return {
        "pairs": dict(Counter(one.part for one in pairs)),
        "groups": len({one.group for one in pairs}),
        "rejects": dict(rejects),
        "steps": curve[-1].step,
        "steps_planned": schedule.steps,
        "best_step": best.step,
        "validation_loss": best.validation_loss,
        "adapter": str(run.file("adapter")),
    }
