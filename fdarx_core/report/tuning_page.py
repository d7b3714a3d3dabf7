"""The page of a fine-tuning run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from fdarx_core.records import content_id
from fdarx_core.report.charts import COLOURS, styled
from fdarx_core.report.page_engine import FigurePanel, duration, environment
from fdarx_core.tuning.evaluation import BASE, MEASURES, TUNED, ScoredAnswer, TuningFigure
from fdarx_core.tuning.pairs import PARTS
from fdarx_core.tuning.training import LossPoint, best_point

TRAINING, VALIDATION = "training", "validation"


def loss_curve(curve: Sequence[LossPoint]) -> FigurePanel:
    """Training and validation loss by step, the lowest validation loss marked."""
    looks = [one for one in curve if one.validation_loss is not None]
    figure = go.Figure()
    _line(figure, TRAINING, COLOURS[0], [(one.step, one.loss) for one in curve])
    _line(figure, VALIDATION, COLOURS[1], [(one.step, one.validation_loss) for one in looks])
    if best := best_point(curve):
        late = best.step > len(curve) / 2
        figure.add_vline(
            x=best.step,
            line={"width": 1, "dash": "dot", "color": "#888"},
            annotation={"text": f"kept: step {best.step:,}", "xanchor": "right" if late else "left", "yanchor": "top"},
        )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(title={"text": "step"}, tickformat=",", tickangle=0)
    figure.update_yaxes(title={"text": "loss, nats a token"})
    return FigurePanel(
        "loss",
        "Loss by step",
        "Mean cross-entropy of the answers' tokens: of each step's pairs before the step is taken, and of the whole "
        "validation part. The dotted line marks the step whose adapter was kept.",
        styled(figure, 360, {"l": 8, "r": 16, "t": 12, "b": 44}),
        ["Step", "Epoch", "Training loss", "Validation loss", "Learning rate"],
        [
            [one.step, f"{one.epoch:.2f}", f"{one.loss:.4f}", _told(one.validation_loss), f"{one.rate:.2e}"]
            for one in curve
        ],
        legend=[(TRAINING, COLOURS[0]), (VALIDATION, COLOURS[1])],
    )


def _line(figure: go.Figure, name: str, colour: str, points: Sequence[tuple[int, float | None]]) -> None:
    figure.add_scatter(
        x=[step for step, _ in points],
        y=[loss for _, loss in points],
        name=name,
        mode="lines+markers" if len(points) < 100 else "lines",
        line={"color": colour, "width": 2},
        marker={"size": 5},
        hovertemplate="step %{x:,}<br>%{y:.4f}<extra>%{fullData.name}</extra>",
    )


def _told(loss: float | None) -> str:
    return "" if loss is None else f"{loss:.4f}"


BETTER, WORSE, OPEN = "better", "worse", "can't be told"
_FEW_GROUPS = 30


def verdict(one: TuningFigure) -> str:
    """Whether the interval of the difference lies on one side of none at all; of the loss, less is better."""
    if one.low is None or one.high is None or one.low <= 0 <= one.high:
        return OPEN
    return BETTER if (one.high < 0) == (one.measure == "loss") else WORSE


def sentences(figures: Sequence[TuningFigure]) -> list[tuple[str, str]]:
    """The figures under what they tell; the loss is that of the references, the others are of the models' answers."""
    by_verdict = {
        kind: [MEASURES[one.measure] for one in figures if one.measure != "loss" and verdict(one) == kind]
        for kind in (BETTER, WORSE, OPEN)
    }
    nearer = {
        BETTER: "nearer to the references by",
        WORSE: "further from them by",
        OPEN: "no clear difference by",
    }
    told = [f"{nearer[kind]} {', '.join(names)}" for kind, names in by_verdict.items() if names]
    loss = [("References", f"Their loss: {_change(one)}") for one in figures if one.measure == "loss"]
    return [*loss, ("Answers", f"The tuned model's: {'; '.join(told)}.")] if told else loss


def notes(
    curve: Sequence[LossPoint], figures: Sequence[TuningFigure], answers: Sequence[ScoredAnswer]
) -> Iterator[str]:
    """What to keep in mind with this run's figures."""
    best = best_point(curve)
    if best and curve and best.step == curve[-1].step and len(curve) > 1:
        yield "The validation loss was lowest at the last step: more --epochs may lower it further."
    groups = min((one.groups for one in figures), default=0)
    if groups < _FEW_GROUPS:
        yield f"The test part holds {groups} groups of pairs: intervals from so few are rough, and often too narrow."
    blank = sum(one.model == TUNED and not one.answer.strip() for one in answers)
    if blank:
        asked = sum(one.model == TUNED for one in answers)
        yield f"The tuned model gave no text to {blank:,} of {asked:,} questions."
    of_answers = [verdict(one) for one in figures if one.measure != "loss"]
    if of_answers and BETTER not in of_answers:
        yield "By no measure did the tuned model's own answers come clearly nearer to the references."


def _change(one: TuningFigure) -> str:
    interval = "" if one.low is None else f" (95 % {one.low:+.3f} to {one.high:+.3f})"
    return (
        f"{one.base:.3f} nats a token before, {one.tuned:.3f} after, {one.difference:+.3f}{interval}: {verdict(one)}."
    )


_SAMPLES = 8


@dataclass(frozen=True, slots=True)
class TuningResults:
    """What a fine-tuning gave; `info` is the run's run.json."""

    info: Mapping[str, Any]
    curve: Sequence[LossPoint]
    figures: Sequence[TuningFigure]
    answers: Sequence[ScoredAnswer]


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


def _samples(results: TuningResults) -> list[dict[str, ScoredAnswer]]:
    seed = str(results.info["config"].get("seed", 0))
    by_id: dict[str, dict[str, ScoredAnswer]] = {}
    for one in results.answers:
        by_id.setdefault(one.id, {})[one.model] = one
    chosen = sorted(by_id, key=lambda name: content_id(seed, name))[:_SAMPLES]
    return [{"base": by_id[name][BASE], "tuned": by_id[name][TUNED]} for name in chosen]
