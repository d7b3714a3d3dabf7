"""The page of a fine-tuning run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fdarx_core.records import content_id
from fdarx_core.report.charts import COLORS, lines
from fdarx_core.report.page_engine import FigurePanel, duration, render_page
from fdarx_core.tuning.evaluation import BASE, MEASURES, TUNED, Change, TunedAnswer
from fdarx_core.tuning.pairs import PARTS
from fdarx_core.tuning.trainer import LossPoint, best_point

TRAINING, VALIDATION = "training", "validation"


def loss_curve(curve: Sequence[LossPoint]) -> FigurePanel:
    """Return training and validation loss by step, with a mark at the lowest validation loss."""
    losses = [(point.step, point.loss) for point in curve]
    evaluated = [(point.step, point.validation_loss) for point in curve if point.validation_loss is not None]
    curves = [(TRAINING, COLORS[0], losses), (VALIDATION, COLORS[1], evaluated)]
    best = best_point(curve)
    return FigurePanel.worded(
        "loss",
        lines(curves, "step", "loss, nats per token", (best.step, f"kept: step {best.step:,}") if best else None),
        ["Step", "Epoch", "Training loss", "Validation loss", "Learning rate"],
        [
            [
                one.step,
                f"{one.epoch:.2f}",
                f"{one.loss:.4f}",
                "" if one.validation_loss is None else f"{one.validation_loss:.4f}",
                f"{one.rate:.2e}",
            ]
            for one in curve
        ],
        legend=[(name, color) for name, color, _ in curves],
    )


BETTER, WORSE, OPEN = "better", "worse", "unclear"
_FEW_GROUPS = 30


def verdict(change: Change) -> str:
    """Return whether the interval of the difference excludes 0, and on which side; a lower loss is better."""
    measure, *_, one = change
    if one.low is None or one.high is None or not one.significant:
        return OPEN
    return BETTER if (one.high < 0) == (measure == "loss") else WORSE


_SAMPLES = 8
_COLUMNS = ("name", "measure", "base", "tuned", "difference", "verdict")


def tuning_page(
    info: Mapping[str, Any], curve: Sequence[LossPoint], changes: Sequence[Change], answers: Sequence[TunedAnswer]
) -> str:
    """Return the page; its sample answers are picked by a hash of seed and id, so not by their quality.

    `info` is run.json.
    """
    options = {**info["config"], "model": info["config"]["model"]["name"]}
    best, tuned = best_point(curve), [one for one in answers if one.model == TUNED]
    parts = [(part, f"{info['pairs'].get(part, 0):,}") for part in PARTS]
    left_out = [(f"left out: {reason}", f"{rows:,}") for reason, rows in info["rejects"].items()]
    answered = {(answer.id, answer.model): answer for answer in answers}
    seed = str(info["config"].get("seed", 0))
    chosen = sorted({one.id for one in answers}, key=lambda name: content_id(seed, name))
    return render_page(
        "tuning.html.j2",
        info=info,
        took=duration(info),
        changes=[dict(zip(_COLUMNS, (MEASURES[one[0]], *one, verdict(one)), strict=True)) for one in changes],
        best_is_last=best is not None and best.step == curve[-1].step and len(curve) > 1,
        groups=min((base.clusters for _, base, *_ in changes), default=0),
        few_groups=_FEW_GROUPS,
        asked=len(tuned),
        blank=sum(not one.answer.strip() for one in tuned),
        figure=loss_curve(curve),
        samples=[{"base": answered[name, BASE], "tuned": answered[name, TUNED]} for name in chosen[:_SAMPLES]],
        options=[(name, value) for name, value in options.items() if value is not None],
        counted=[*parts, ("groups of alike pairs", f"{info['groups']:,}"), *(left_out or [("left out", "none")])],
    )
