"""A fine-tuning as one HTML page that opens from disk and loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fdarx_core.records import content_id
from fdarx_core.report.environment import duration, environment
from fdarx_core.report.exhibit import Cell
from fdarx_core.report.tuning.charts import loss_curve
from fdarx_core.tuning.curve import LossPoint
from fdarx_core.tuning.measures import BASE, MEASURES, TUNED, ExamAnswer, TuningFigure

_SAMPLES = 8
_HEADER = ("Measure", "Base model", "Tuned", "Difference", "95 %", "Pairs", "Groups")


@dataclass(frozen=True, slots=True)
class TuningResults:
    """What a fine-tuning gave; `info` is the run's run.json."""

    info: Mapping[str, Any]
    curve: Sequence[LossPoint]
    figures: Sequence[TuningFigure]
    answers: Sequence[ExamAnswer]


def tuning_page(results: TuningResults) -> str:
    """The page; its sample answers are picked by a hash of seed and id, so not by how well they went."""
    return (
        environment()
        .get_template("tuning.html.j2")
        .render(
            info=results.info,
            took=duration(results.info),
            figure=loss_curve(results.curve),
            header=_HEADER,
            rows=[_row(one) for one in results.figures],
            samples=_samples(results),
        )
    )


def _row(one: TuningFigure) -> list[Cell]:
    bounds = "–" if one.low is None else f"{one.low:+.3f} to {one.high:+.3f}"
    values = (f"{one.base:.3f}", f"{one.tuned:.3f}", f"{one.difference:+.3f}")
    return [MEASURES[one.measure], *values, bounds, one.pairs, one.groups]


def _samples(results: TuningResults) -> list[dict[str, ExamAnswer]]:
    seed = str(results.info["config"].get("seed", 0))
    by_id: dict[str, dict[str, ExamAnswer]] = {}
    for one in results.answers:
        by_id.setdefault(one.id, {})[one.model] = one
    chosen = sorted(by_id, key=lambda name: content_id(seed, name))[:_SAMPLES]
    return [{"base": by_id[name][BASE], "tuned": by_id[name][TUNED]} for name in chosen]
