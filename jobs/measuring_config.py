"""Options of the jobs that compare answers with references."""

from __future__ import annotations

from pydantic import Field

from fdarx_core.evaluation.metrics.semantic import check_model
from fdarx_core.retrieval.models import ModelMissing
from jobs.asking_config import AskingConfig
from jobs.options import JobConfig


class BertscoreConfig(JobConfig):
    """BERTScore's model."""

    bertscore_model: str | None = Field(
        None, description="local directory of a model for BERTScore, as roberta-large; without it there is none"
    )
    bertscore_layers: int | None = Field(
        None, ge=1, description="layers of that model to use (what bert-score's authors chose for a model of its name)"
    )

    def check_bertscore(self) -> None:
        """Raises ModelMissing where the model that was given can't be used."""
        if self.bertscore_model is None:
            return
        try:
            check_model(self.bertscore_model, self.bertscore_layers)
        except (ImportError, ValueError) as error:
            raise ModelMissing(f"--bertscore-model: {error}") from error


class MeasuringConfig(BertscoreConfig, AskingConfig):
    """BERTScore's model, and the intervals."""

    seed: int = Field(0, description="fixes the sample and the intervals")
    resamples: int = Field(2000, ge=100, description="bootstrap resamples; more make steadier intervals")


def at_commas(given: list[str]) -> list[str]:
    """What a list's entries hold between commas, each once."""
    parts = [part.strip() for one in given for part in one.split(",")]
    return list(dict.fromkeys(part for part in parts if part))
