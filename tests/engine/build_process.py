"""Builds the applications of served models without a cluster: `python -m tests.engine.build_process FILE…`, by the
engine's interpreter; prints two lines for each: `built: ` and what is wrong with it, `replicas: ` and their numbers."""

from __future__ import annotations

import sys
from typing import Any

from fdarx_core.llm import ModelsError
from serving.models import build
from serving.served_model import load_served


def replicas(application: Any) -> list[Any]:
    """The replicas of the ingress, then those of the engine: a number, or the limits of their autoscaling."""
    ingress = application._bound_deployment
    [engine] = ingress.init_kwargs["llm_deployments"].values()
    return [_of(one._deployment_config) for one in (ingress, engine._bound_deployment)]


def _of(config: Any) -> Any:
    scaling = config.autoscaling_config
    if scaling is None:
        return config.num_replicas
    return [scaling.min_replicas, scaling.max_replicas, scaling.target_ongoing_requests]


for file in sys.argv[1:]:
    fault, numbers = "", list[Any]()
    try:
        numbers = replicas(build(load_served(file)))
    except ModelsError as error:
        fault = str(error)
    print(f"built: {fault}")
    print(f"replicas: {numbers}")
