"""Configuration of the answering service: corpora, models, limits and defaults. Imports no Ray."""

from __future__ import annotations

from pydantic import ConfigDict, Field, model_validator

from fdarx_core.llm import Baseline, ModelConfig
from serving.settings import ModelRoles, ServiceSettings

SERVE_VARIABLES = {
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "1",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "0",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0",
    "RAY_SERVE_REQUEST_PATH_LOG_BUFFER_SIZE": "1000",
    "RAY_SERVE_REPLICA_GRPC_MAX_MESSAGE_LENGTH": str(64 * 2**20),
    "RAY_SERVE_HTTP_PROXY_CALLBACK_IMPORT_PATH": "serving.proxy:middlewares",
}
"""Environment variables of Ray Serve's processes, read when they start; on a cluster they belong to the nodes.

Replicas call each other by gRPC instead of through Ray's object store, and router, replica and application share one
thread, which no code of this service blocks. Messages may hold 100 candidates of 10,000 characters for several
searches. The middleware of the proxies replies 503 where replicas of the ingress die.

Measured on 2 cores (ingress → retriever → model that takes 300 ms), the added latency is 11 ms instead of 29 with 16
clients, and 28 ms instead of 297 with 64 clients.
"""


class ServiceConfig(ModelRoles):
    """The configuration of the service.

    Replicas, resources and autoscaling are options of each deployment in Ray Serve.
    """

    model_config = ConfigDict(extra="forbid")

    corpora: dict[str, str] = Field(min_length=1)
    """Indexes by corpus name, on disk or s3://. The first is the default corpus."""
    models: list[ModelConfig] = Field(default_factory=list)
    """Models on servers, as in docs/models.md. `baseline` is always available."""
    reranker_gpus: float = Field(0, ge=0, le=1)
    """Share of a GPU that Ray reserves for the reranker. 0: it runs on CPU, at a few pairs per second. A share leaves
    the rest of the GPU to other processes, beside whose memory the reranker must fit: BGE large takes about 3 GB."""
    replicas: int = Field(1, ge=1)
    """Replicas of ingress, retriever and model each; the limits of the models are divided among them. Options of the
    deployments in a Serve config take precedence, and limits then hold for each replica."""
    poll_s: float = Field(3.0, gt=0)
    """Seconds between checks for a newer index; each reads one small file per corpus."""
    log_file: str | None = None
    """Request log. None: standard error of the ingress."""
    http: ServiceSettings = Field(default_factory=ServiceSettings)
    """Keys, limits and defaults."""

    @model_validator(mode="after")
    def _check_names(self) -> ServiceConfig:
        known = [Baseline.name, *(model.name for model in self.models)]
        for role, name in self.roles.items():
            if name not in known:
                raise ValueError(f"{role}: there is no model {name}; known are {', '.join(known)}")
        for name in self.corpora:
            if not name or "/" in name:
                raise ValueError(f"corpora: {name!r} can't name a corpus; leave out '/'")
        return self
