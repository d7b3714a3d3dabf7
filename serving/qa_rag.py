"""The Ray Serve application: ingress, retriever, model, and a reranker where there is one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from ray import serve
from ray.serve.deployment import Application
from ray.serve.schema import LoggingConfig

from fdarx_core.llm import ModelConfig
from fdarx_core.rag.contexts import budget_of
from serving.config import ServiceConfig
from serving.ingress import Ingress
from serving.model import Model
from serving.reranker import Reranker
from serving.retriever import Retriever

_QUIET = LoggingConfig(enable_access_log=False)
_STARTS = 3
"""Times that a replica which fails to start is started; the last error is told."""

_SPARE = 64
"""Requests beyond those let in and those waiting, for health checks and to be refused in our own words."""


def app(arguments: dict[str, Any]) -> Application:
    """The application from the fields of `ServiceConfig`, as `serve run` and a Serve config's `args` give them.

    Raises pydantic's ValidationError. Sized for a laptop; a Serve config's `deployments` say otherwise.
    """
    return build(ServiceConfig.model_validate(arguments))


def build(config: ServiceConfig) -> Application:
    """As `app`."""
    places = dict(config.corpora)
    busy = config.http.in_flight + config.http.waiting + _SPARE
    # fields left out stay so: the replicas choose other defaults for tries than a batch has
    models = [_shared(model, config.replicas).model_dump(mode="json", exclude_unset=True) for model in config.models]
    scorer = _deployment(Reranker, busy, gpus=config.reranker_gpus)
    reranker = [scorer.bind(config.reranker_model)] if config.reranker_model else []
    return _deployment(Ingress, busy, config.replicas).bind(
        config.http.model_dump(mode="json"),
        config.answerer,
        budget_of(next((model for model in config.models if model.name == config.answerer), None)),
        config.log_file and str(Path(config.log_file).absolute()),
        _deployment(Retriever, busy, config.replicas).bind(places, config.cosine_model, config.poll_s),
        _deployment(Model, busy, config.replicas).bind(models, config.roles),
        *reranker,
    )


def _shared(model: ModelConfig, replicas: int) -> ModelConfig:
    """Each replica keeps to its share of a model's limits."""
    rates = {"requests_per_minute": model.requests_per_minute, "tokens_per_minute": model.tokens_per_minute}
    shares: dict[str, float] = {name: rate / replicas for name, rate in rates.items() if rate is not None}
    return model.model_copy(update={**shares, "max_in_flight": math.ceil(model.max_in_flight / replicas)})


def _deployment(kind: type[Any], busy: int, replicas: int = 1, gpus: float = 0) -> serve.Deployment:
    """A fraction of a CPU each: what bounds a replica is its one core's time, and all must fit on two cores."""
    return serve.deployment(
        name=kind.__name__,
        num_replicas=replicas,
        max_ongoing_requests=busy,
        max_queued_requests=busy,
        ray_actor_options={"num_cpus": 0.1, "num_gpus": gpus},
        max_constructor_retry_count=_STARTS,
        logging_config=_QUIET,
    )(kind)
