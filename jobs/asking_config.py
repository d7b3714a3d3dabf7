"""Options of all jobs that ask models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import Field

from fdarx_core.llm import Baseline, ModelConfig, ModelsError, load_models
from jobs.options import JobConfig


class AskingConfig(JobConfig):
    """How much may be asked, and what need not be."""

    reuse: list[str] = Field(
        default_factory=list,
        description="other runs whose answers are taken where exactly the same was asked; saves what they cost",
    )
    max_requests: int | None = Field(
        None, ge=1, description="stop cleanly after this many requests to models; the same command goes on (no limit)"
    )
    max_cost: float | None = Field(
        None, gt=0, description="stop cleanly at this cost in USD, by the prices in --models (no limit)"
    )
    plan: bool = Field(False, description="ask nothing: print requests, tokens and cost a task and model, then end")
    cpus: int | None = Field(None, ge=1, description="CPUs of this machine to use; on a cluster Ray decides (all)")

    def check_prices(self, used: Mapping[str, ModelConfig]) -> None:
        """Raises ModelsError where a limit of cost is set and a model that is asked has no prices."""
        unpriced = [name for name, model in used.items() if model.prices is None]
        if self.max_cost is not None and unpriced:
            raise ModelsError(f"--max-cost needs prices of every model asked; {', '.join(unpriced)} has none")


def load_all(files: Sequence[str]) -> dict[str, ModelConfig]:
    """The models of several files, by name; `baseline` among them names the built-in rules, and no file.

    Raises ModelsError for a file that can't be used, or a name that two of them give.
    """
    models: dict[str, ModelConfig] = {}
    for file in files:
        if file == Baseline.name:
            continue
        for name, model in load_models(file).items():
            if name in models:
                raise ModelsError(f"{file}: model {name}: another file has a model of that name; give it another")
            models[name] = model
    return models


def unknown_model(models: Mapping[str, ModelConfig]) -> str:
    """What is said of a name that none of them has."""
    return f"there is no such model; known are {', '.join((Baseline.name, *models))}, see --models"
