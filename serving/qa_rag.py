"""The answering service as a Ray Serve application: ingress, retriever, and an optional reranker and indexer.

The ingress takes HTTP requests; the retriever has the indexes, asks the models, and answers each question in one call.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from ray import serve
from ray.serve.deployment import Application
from ray.serve.handle import DeploymentHandle
from ray.serve.schema import LoggingConfig
from starlette.types import ASGIApp

from fdarx_core.documents.isolated import ParsingLimits
from fdarx_core.llm import ModelConfig
from fdarx_core.pipeline.uploading import UploadIndexer
from fdarx_core.retrieval.encoders import bge_reranker
from fdarx_core.specs.serve import ServiceConfig
from fdarx_core.telemetry import flush
from serving.backend import RayServeBackend
from serving.batching import DynamicBatcher
from serving.http.access import ApiKeys
from serving.http.app import make_app
from serving.http.logs import configure_request_log, open_request_log
from serving.metrics import record
from serving.replicas import WATCH_EVERY_S
from serving.retriever import RetrieverDeployment

MAX_PAIRS_PER_CALL = 384
"""Pairs in one call of the reranker: those of 16 requests with 24 candidates of one window. The model
sorts the pairs of a call by length and computes 32 at a time. On questions and passages of real labels, 11 % of the
tokens it then computes are padding, against 58 % in the order of arrival."""
_CHARACTERS_A_WINDOW = 1_500
"""Approximate number of characters by which the windows of a long passage advance."""

_MAX_START_ATTEMPTS = 3
_SPARE_REQUESTS = 64
"""Requests that a deployment accepts beyond the limits of the HTTP service: health checks, and requests that the
service itself rejects with an error that explains why."""


def app(arguments: dict[str, Any]) -> Application:
    """Build the application from the fields of `ServiceConfig`, as given by `serve run` or a Serve config's `args`.

    The deployments are sized for one small machine; `deployments` in a Serve config overrides that. Raises pydantic's
    ValidationError.
    """
    return build(ServiceConfig.model_validate(arguments))


def build(config: ServiceConfig) -> Application:
    """Build the application from its configuration."""
    max_requests = 2 * (config.http.in_flight + config.http.waiting) + _SPARE_REQUESTS  # look-ups have as many places

    def deployment(name: str, kind: type[Any], replicas: int = 1, gpus: float = 0) -> serve.Deployment:
        # a fraction of a CPU each: a replica is bound by one core, and all deployments must fit on two
        return serve.deployment(
            name=name,
            num_replicas=replicas,
            max_ongoing_requests=max_requests,
            max_queued_requests=max_requests,
            ray_actor_options={"num_cpus": 0.1, "num_gpus": gpus},
            max_constructor_retry_count=_MAX_START_ATTEMPTS,
            health_check_period_s=WATCH_EVERY_S,
            logging_config=LoggingConfig(enable_access_log=False),
        )(kind)

    retriever = deployment("Retriever", RetrieverDeployment, config.replicas)
    reranker = deployment("Reranker", RerankerDeployment, gpus=config.reranker_gpus)
    indexer = deployment("Indexer", UploadIndexer)  # in a process of its own, so that no search waits for it
    limits = ParsingLimits(config.http.upload_cpu_s, config.http.upload_memory_mib, config.http.upload_pages)
    shared = config.model_copy(
        update={
            "models": [_share(model, config.replicas) for model in config.models],
            "log_file": config.log_file and str(Path(config.log_file).absolute()),
        }
    )
    return deployment("Ingress", Ingress, config.replicas).bind(
        shared,
        retriever.bind(shared, reranker.bind(config.reranker_model) if config.reranker_model else None),
        indexer.bind(limits, config.cosine_model) if ApiKeys.of(config.http).uploaders else None,
    )


def _share(model: ModelConfig, replicas: int) -> ModelConfig:
    """Divide a model's limits by the number of replicas that ask it."""
    rates = {"requests_per_minute": model.requests_per_minute, "tokens_per_minute": model.tokens_per_minute}
    shares: dict[str, float] = {name: rate / replicas for name, rate in rates.items() if rate is not None}
    return model.model_copy(update={**shares, "max_in_flight": math.ceil(model.max_in_flight / replicas)})


@serve.ingress()
class Ingress:
    """The HTTP service. Each replica builds its own ASGI application, which can't be pickled."""

    def __init__(
        self, config: ServiceConfig, retriever: DeploymentHandle[Any], indexer: DeploymentHandle[Any] | None = None
    ) -> None:
        self._settings, self._backend = config.http, RayServeBackend(config, retriever, indexer)
        configure_request_log(open_request_log(Path(config.log_file)) if config.log_file else sys.stderr)

    async def __serve_build_asgi_app__(self) -> ASGIApp:
        await self._backend.open()
        return make_app(self._backend, self._settings, record)

    def __del__(self) -> None:
        """Send the last spans; Ray Serve calls this before it ends a replica."""
        flush()


RerankRequest: TypeAlias = tuple[str, Sequence[str]]
"""A question and the texts to score for it."""


class RerankerDeployment:
    """A cross-encoder that scores the candidates of several requests in one call."""

    def __init__(self, directory: str) -> None:
        self._rerank = bge_reranker(directory)

        def pairs(request: RerankRequest) -> int:
            """Return about how many pairs the model reads for a request: one for each window of its texts."""
            return sum(1 + len(text) // _CHARACTERS_A_WINDOW for text in request[1])

        self._score = DynamicBatcher(self._score_batch, MAX_PAIRS_PER_CALL, pairs)

    async def score(self, question: str, texts: Sequence[str]) -> list[float]:
        """Return one score per text; higher is more relevant."""
        return await self._score((question, texts)) if texts else []

    def _score_batch(self, requests: Sequence[RerankRequest]) -> list[list[float]]:
        pairs = [(question, text) for question, texts in requests for text in texts]
        record("fdarx_rerank_calls")
        record("fdarx_rerank_requests", len(requests))
        record("fdarx_rerank_pairs", len(pairs))
        scores = iter(self._rerank(pairs))
        return [[next(scores) for _ in texts] for _, texts in requests]
