"""What a fine-tuning came to, in words, and what its figures can't tell."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fdarx_core.tuning.curve import LossPoint, lowest
from fdarx_core.tuning.measures import MEASURES, TUNED, ExamAnswer, TuningFigure

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


def notes(curve: Sequence[LossPoint], figures: Sequence[TuningFigure], answers: Sequence[ExamAnswer]) -> Iterator[str]:
    """What to keep in mind with this run's figures."""
    best = lowest(curve)
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
