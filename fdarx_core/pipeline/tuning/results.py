"""The results of a fine-tuning: the loss curve, the figures, the report, and the end of run.json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from fdarx_core.records import Difference, Figure, Reject
from fdarx_core.report.tuning_page import tuning_page
from fdarx_core.storage import RunDirectory, read_records, write_records
from fdarx_core.tuning.answerer_training import TuningSpec
from fdarx_core.tuning.evaluation import Change, TunedAnswer, read_changes, tuning_figures
from fdarx_core.tuning.pairs import TrainingPair
from fdarx_core.tuning.trainer import STATE, LossPoint, best_point, loss_curve


def publish(run: RunDirectory, tuning: TuningSpec, rows: Sequence[TunedAnswer], timings: Mapping[str, float]) -> None:
    """Write the curve and the figures as Parquet, the figures as metrics.json too, and report.html; end the run."""
    state = orjson.loads(run.file(STATE).read_bytes())
    curve = loss_curve(state["log_history"])
    changes = tuning_figures(rows, seed=tuning.seed, resamples=tuning.resamples)
    write_records(run.file("curve.parquet"), curve, LossPoint)
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
    summary = _summary(run, tuning, curve, state["max_steps"]) | {"timings": dict(timings)}
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


def _summary(run: RunDirectory, tuning: TuningSpec, curve: Sequence[LossPoint], planned: int) -> dict[str, Any]:
    pairs = list(read_records(run.part("pairs", 0), TrainingPair))
    rejects = Counter(one.reason for one in read_records(run.part("rejects", 0), Reject))
    best = best_point(curve)
    assert best is not None  # the last step is evaluated
    return {
        "pairs": dict(Counter(one.part for one in pairs)),
        "groups": len({one.group for one in pairs}),
        "rejects": dict(rejects),
        "steps": curve[-1].step,
        "steps_planned": planned,
        "best_step": best.step,
        "validation_loss": best.validation_loss,
        tuning.result: str(run.file(tuning.result)),
    }
