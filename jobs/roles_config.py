"""Options of the jobs that answer questions from an index: who does what, and with which local models."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field, field_validator

from fdarx_core.llm import Baseline, ModelConfig, ModelsError
from fdarx_core.rag.tools import Role
from jobs.asking_config import unknown_model
from jobs.measuring_config import at_commas
from jobs.options import JobConfig


class RolesConfig(JobConfig):
    """Models by the roles that they play."""

    models: list[str] = Field(
        [Baseline.name], description="`baseline` (built-in rules), and YAML files that list models, see docs/models.md"
    )
    answerer: str = Field(Baseline.name, description="who answers from the passages: a name of --models")
    hypothesis: str | None = Field(
        None, description="who writes hypothetical answers; best a model tuned on the domain (the answerer)"
    )
    rewriter: str | None = Field(
        None, description="who writes HyDE's passage and multiquery's questions (the answerer)"
    )
    scorer: str | None = Field(None, description="the scoring agent of the post-processing (the answerer)")
    cosine_model: str | None = Field(
        None, description="local directory of the index's embedding model (all-MiniLM-L6-v2, if installed)"
    )
    reranker_model: str | None = Field(
        None, description="local directory of a BGE reranker; without it none can be used"
    )

    @field_validator("models", mode="after")
    @classmethod
    def _models_at_commas(cls, given: list[str]) -> list[str]:
        return at_commas(given)

    @property
    def played(self) -> dict[Role, str]:
        """Who plays each role."""
        return {
            "answerer": self.answerer,
            "hypothesis": self.hypothesis or self.answerer,
            "rewriter": self.rewriter or self.answerer,
            "scorer": self.scorer or self.answerer,
        }


def check_roles(roles: Mapping[Role, str], models: Mapping[str, ModelConfig]) -> None:
    """Raises ModelsError for a name that is no model's."""
    for role, name in roles.items():
        if name not in {Baseline.name, *models}:
            raise ModelsError(f"--{role} {name}: {unknown_model(models)}")
