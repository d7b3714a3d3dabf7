"""The results of a fine-tuning: the loss curve, the figures, the report, and the end of run.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from fdarx_core.pipeline.tuning.checkpoints import latest_checkpoint
from fdarx_core.records import Difference, Figure, Reject
from fdarx_core.report.tuning_page import tuning_page
from fdarx_core.storage import RunDirectory, StorageError, read_records, write_records
from fdarx_core.tuning.evaluation import Change, TunedAnswer, read_changes, tuning_figures
from fdarx_core.tuning.pairs import TrainingPair
from fdarx_core.tuning.training import EncodedPair, LossPoint, TrainingSchedule, TuningSpec, best_point, pack_pairs


def publish(run: RunDirectory, tuning: TuningSpec, rows: Sequence[TunedAnswer], timings: Mapping[str, float]) -> None:
    """Write the curve and the figures as Parquet, the figures as metrics.json too, and report.html; then end the run.

    Raises StorageError if nothing was trained.
    """
    state = latest_checkpoint(run)
    best = best_point(state.curve) if state else None
    if state is None or best is None:
        raise StorageError(f"{run.root}/checkpoints holds nothing; delete the run and train again")
    changes = tuning_figures(rows, seed=tuning.seed, resamples=tuning.resamples)
    write_records(run.file("curve.parquet"), state.curve, LossPoint)
    write_records(run.file("figures.parquet"), [one for _, *means, _ in changes for one in means], Figure)
    write_records(run.file("differences.parquet"), [difference for *_, difference in changes], Difference)
    metrics = [
        {
            "measure": measure, "base": base.value, "tuned": tuned.value, "difference": difference.value,
            "low": difference.low, "high": difference.high, "pairs": base.rows, "groups": base.clusters,
        }
        for measure, base, tuned, difference in changes
    ]  # fmt: skip
    run.file("metrics.json").write_bytes(orjson.dumps(metrics, option=orjson.OPT_INDENT_2))
    summary = _summary(run, tuning, state.curve, best) | {"timings": dict(timings)}
    run.file("report.html").write_text(_page(run, {**run.info(), **summary}))
    run.finish(summary)


def build_tuning_report(run: RunDirectory) -> str:
    """Return the page of a published run, built from its figures."""
    return _page(run, run.info())


def _page(run: RunDirectory, info: Mapping[str, Any]) -> str:
    curve = list(read_records(run.file("curve.parquet"), LossPoint))
    return tuning_page(info, curve, stored_changes(run), list(read_records(run.part("answers", 0), TunedAnswer)))


def stored_changes(run: RunDirectory) -> list[Change]:
    """Return the changes of a published run."""
    figures = read_records(run.file("figures.parquet"), Figure)
    return read_changes(figures, read_records(run.file("differences.parquet"), Difference))


def _summary(run: RunDirectory, tuning: TuningSpec, curve: Sequence[LossPoint], best: LossPoint) -> dict[str, Any]:
    pairs = list(read_records(run.part("pairs", 0), TrainingPair))
    rejects = Counter(one.reason for one in read_records(run.part("rejects", 0), Reject))
    encoded = list(read_records(run.part("encoded/train", 0), EncodedPair))
    schedule = TrainingSchedule(tuning, len(pack_pairs(encoded, tuning.length)))
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
