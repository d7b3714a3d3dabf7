"""A fine-tuning as one HTML page that opens from disk and loads nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fdarx_core.records import content_id
from fdarx_core.report.environment import duration, environment
from fdarx_core.report.tuning.charts import loss_curve
from fdarx_core.report.tuning.says import notes, sentences, verdict
from fdarx_core.tuning.curve import LossPoint
from fdarx_core.tuning.measures import BASE, MEASURES, TUNED, ExamAnswer, TuningFigure
from fdarx_core.tuning.splits import PARTS

_SAMPLES = 8


@dataclass(frozen=True, slots=True)
class TuningResults:
    """What a fine-tuning gave; `info` is the run's run.json."""

    info: Mapping[str, Any]
    curve: Sequence[LossPoint]
    figures: Sequence[TuningFigure]
    answers: Sequence[ExamAnswer]


@dataclass(frozen=True, slots=True)
class _Row:
    """A measure of the test part as it is shown."""

    measure: str
    numbers: Sequence[str]
    verdict: str
    pairs: int
    groups: int


def tuning_page(results: TuningResults) -> str:
    """The page; its sample answers are picked by a hash of seed and id, so not by how well they went."""
    return (
        environment()
        .get_template("tuning.html.j2")
        .render(
            info=results.info,
            took=duration(results.info),
            sentences=sentences(results.figures),
            notes=list(notes(results.curve, results.figures, results.answers)),
            figure=loss_curve(results.curve),
            rows=[_row(one) for one in results.figures],
            samples=_samples(results),
            options=_options(results.info["config"]),
            counted=_counted(results.info),
        )
    )


def _row(one: TuningFigure) -> _Row:
    bounds = "–" if one.low is None else f"{one.low:+.3f} to {one.high:+.3f}"
    numbers = (f"{one.base:.3f}", f"{one.tuned:.3f}", f"{one.difference:+.3f}", bounds)
    return _Row(MEASURES[one.measure], numbers, verdict(one), one.pairs, one.groups)


def _options(config: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Those that were set, the model by its name."""
    told = {**config, "model": config["model"]["name"]}
    return [(name, value) for name, value in told.items() if value is not None]


def _counted(info: Mapping[str, Any]) -> list[tuple[str, str]]:
    parts = [(part, f"{info['pairs'].get(part, 0):,}") for part in PARTS]
    left_out = [(f"left out: {reason}", f"{rows:,}") for reason, rows in info["rejects"].items()]
    return [*parts, ("groups of alike pairs", f"{info['groups']:,}"), *(left_out or [("left out", "none")])]


def _samples(results: TuningResults) -> list[dict[str, ExamAnswer]]:
    seed = str(results.info["config"].get("seed", 0))
    by_id: dict[str, dict[str, ExamAnswer]] = {}
    for one in results.answers:
        by_id.setdefault(one.id, {})[one.model] = one
    chosen = sorted(by_id, key=lambda name: content_id(seed, name))[:_SAMPLES]
    return [{"base": by_id[name][BASE], "tuned": by_id[name][TUNED]} for name in chosen]
