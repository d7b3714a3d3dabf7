"""The specification of a fine-tuning."""

from __future__ import annotations

from dataclasses import dataclass

from fdarx_core.tuning.training import TrainingConfig


@dataclass(frozen=True, slots=True)
class TuningSpec:
    """The base model, how it is trained, and how the test part is measured.

    `model` is the directory of the base model, at the same place on every machine. `encoder` and `bertscore` are
    directories of models that measure answers; `max_tokens` bounds an answer to a test question.
    """

    model: str
    recipe: TrainingConfig
    workers: int = 1
    max_tokens: int = 400
    encoder: str | None = None
    bertscore: str | None = None
    bertscore_layers: int | None = None
    resamples: int = 2000
