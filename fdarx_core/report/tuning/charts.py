"""The loss over the steps of a training."""

from __future__ import annotations

from collections.abc import Sequence

import plotly.graph_objects as go

from fdarx_core.report.evaluation.charts import COLOURS
from fdarx_core.report.exhibit import Exhibit
from fdarx_core.report.figures import styled
from fdarx_core.tuning.curve import LossPoint, lowest

TRAINING, VALIDATION = "training", "validation"


def loss_curve(curve: Sequence[LossPoint]) -> Exhibit:
    """Training and validation loss by step, the lowest validation loss marked."""
    looks = [one for one in curve if one.validation_loss is not None]
    figure = go.Figure()
    _line(figure, TRAINING, COLOURS[0], [(one.step, one.loss) for one in curve])
    _line(figure, VALIDATION, COLOURS[1], [(one.step, one.validation_loss) for one in looks])
    if best := lowest(curve):
        late = best.step > len(curve) / 2
        figure.add_vline(
            x=best.step,
            line={"width": 1, "dash": "dot", "color": "#888"},
            annotation={"text": f"kept: step {best.step:,}", "xanchor": "right" if late else "left", "yanchor": "top"},
        )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(title={"text": "step"}, tickformat=",", tickangle=0)
    figure.update_yaxes(title={"text": "loss, nats a token"})
    return Exhibit(
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
