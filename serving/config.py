"""What the service is told: by a Serve config's `args`, or by `fdarx serve`. Imports nothing of Ray's."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fdarx_core.llm import Baseline, ModelConfig
from fdarx_core.rag.tools import Role
from serving.http.settings import ServiceSettings


class ServiceConfig(BaseModel):
    """What is served, and by whom. Replicas, resources and autoscaling are Serve's own options of each deployment."""

    model_config = ConfigDict(extra="forbid")

    corpora: dict[str, str] = Field(
        min_length=1, description="Indexes by the names under which they are served, on disk or s3://; first: default."
    )
    models: list[ModelConfig] = Field(
        default_factory=list, description="Models on servers, as in docs/models.md. `baseline` is always there."
    )
    answerer: str = Field(Baseline.name, description="Who answers, and plays every role below that is not given.")
    hypothesis: str | None = Field(None, description="Who writes hypothetical answers to search with.")
    rewriter: str | None = Field(None, description="Who writes other wordings of a question.")
    scorer: str | None = Field(None, description="Who scores passages from 1 to 10.")
    cosine_model: str | None = Field(
        None, description="Directory of the embedding model for questions, that of the indexes. None: MiniLM, if there."
    )
    reranker_model: str | None = Field(None, description="Directory of a BGE reranker. None: nobody can ask for one.")
    reranker_gpus: float = Field(
        0,
        ge=0,
        le=1,
        description="Share of a GPU that Ray sets aside for the reranker. 0: it computes on CPU, a few pairs a second. "
        "A share leaves the rest of the card to others, beside whose memory it must fit: BGE large takes about 3 GB.",
    )
    replicas: int = Field(
        1,
        ge=1,
        description="Of ingress, retriever and model each; models' limits are divided among them. What Serve's own "
        "options say goes first, and then limits hold for each replica.",
    )
    poll_s: float = Field(
        3.0, gt=0, description="Seconds between looks for a newer version; each reads one small file a corpus."
    )
    log_file: str | None = Field(None, description="Where requests are logged. None: standard error of the ingress.")
    http: ServiceSettings = Field(default_factory=ServiceSettings, description="Keys, limits, defaults.")

    @model_validator(mode="after")
    def _known_names(self) -> ServiceConfig:
        known = [Baseline.name, *(model.name for model in self.models)]
        for role, name in {"answerer": self.answerer, **self.roles}.items():
            if name not in known:
                raise ValueError(f"{role}: there is no model {name}; known are {', '.join(known)}")
        for name in self.corpora:
            if not name or "/" in name:
                raise ValueError(f"corpora: {name!r} can't name a corpus; leave out '/'")
        return self

    @property
    def roles(self) -> dict[Role, str]:
        return {
            "answerer": self.answerer,
            "hypothesis": self.hypothesis or self.answerer,
            "rewriter": self.rewriter or self.answerer,
            "scorer": self.scorer or self.answerer,
        }
