"""The Ray Serve application of a `ServedModel`: vLLM with OpenAI's API, by `ray.serve.llm`.

Ray and vLLM are imported where they are used, so that `import serving.models` needs neither.
"""

from __future__ import annotations

import asyncio
import hmac
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from fdarx_core.llm import ModelsError
from fdarx_core.llm.access import check_key, read_variable
from fdarx_core.llm.prompts import validation_message
from serving.adapters import adapter_folder_fault
from serving.served_model import (
    INGRESS_CPUS,
    ServedModel,
    load_served,
    missing_engine,
    missing_key,
    missing_model_files,
)

if TYPE_CHECKING:
    from ray.serve.deployment import Application

MAX_START_ATTEMPTS = 2
"""Failed starts of a model's replicas, in total, after which the model has failed. Serve's default of 20 would load a
large model for hours; the second attempt is for temporary errors, such as a GPU that another process still occupies."""

HEALTH_EVERY_S, HEALTH_WITHIN_S = 10.0, 60.0
"""The timeout is long because an engine that computes many long prompts replies late."""

DRAIN_S = 120.0
"""Seconds in which a replica that is being removed may finish its replies."""

PREFIX_TREE_CHARACTERS = 20_000_000
"""Characters of prompts that the router stores per replica: several times the cache of a replica, and about 20 MB."""

PREFIX_MATCH_RATE = 0.95
"""Common share of two prompts above which they go to the same replica. Two questions on one label share more than 0.96,
closed-book questions 0.75, and grading prompts 0.92. With Ray's default, 0.1, all of them would go to one replica."""

SERVE_DEFAULTS = {
    "RAY_SERVE_USE_GRPC_BY_DEFAULT": "0",
    "RAY_SERVE_RUN_ROUTER_IN_SEPARATE_LOOP": "1",
    "RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "1",
}
"""Ray's own values, with which engines were measured. Nodes of the answering service have others (`SERVE_VARIABLES`),
with which tokenizing in an engine's replica would hold up its health checks."""

IMBALANCE_BATCHES = 1.5
"""Batches by which a replica may be ahead of the least busy one before questions on its labels go elsewhere. With 1.5,
0.12 to 0.13 of the prompt tokens of real labels are computed (ten questions per label, two replicas); with 1, 0.14 to
0.15."""


def app(arguments: Mapping[str, Any]) -> Application:
    """Build the application from the `args` of a Serve config: {"model": ...}, a served model's file or its fields.

    Raises ModelsError.
    """
    if set(arguments) != {"model"}:
        raise ModelsError(f"serving.models:app: takes one argument, model (a file or fields), not {sorted(arguments)}")
    model = arguments["model"]
    if isinstance(model, str):
        return build(load_served(model))
    try:
        return build(ServedModel.model_validate(model))
    except ValidationError as error:
        raise ModelsError(f"serving.models:app: model: {validation_message(error)}") from None


def build(model: ServedModel) -> Application:
    """Build the application, which is to be deployed with the name and the route (`/NAME`) of the model.

    Raises ModelsError where vLLM is not installed, or the model can't be served as configured.
    """
    if model.is_directory and (fault := missing_model_files(model.model)):
        raise ModelsError(f"model {model.name}: model: {fault}")
    if model.adapters and (fault := adapter_folder_fault(model.adapters.path)):
        raise ModelsError(f"model {model.name}: adapters.path: {fault}")
    if fault := missing_key(model) or missing_engine(model):
        raise ModelsError(f"model {model.name}: {fault}")
    from ray.serve.llm import LLMConfig, build_openai_app

    ingress: dict[str, Any] = {"ingress_cls": openai_ingress(keyed=bool(model.key_env))}
    if model.key_env:
        ingress["ingress_extra_kwargs"] = {"key_env": model.key_env}
    # as many replicas as the engine, with the timeout of the clients
    timeout = math.ceil(model.client_config("http://localhost").timeout_s)
    variables = {**_job_variables(), **SERVE_DEFAULTS, "RAY_SERVE_LLM_ROUTER_HTTP_TIMEOUT": str(timeout)}
    actors = {"num_cpus": INGRESS_CPUS, "runtime_env": {"env_vars": variables}}
    deployment = {**_replicas(model), "ray_actor_options": actors}
    arguments = {"ingress_cls_config": ingress, "ingress_deployment_config": deployment}
    try:
        return build_openai_app({"llm_configs": [LLMConfig(**_config(model))], **arguments})
    except ValidationError as error:
        raise ModelsError(f"model {model.name}: {validation_message(error)}") from None
    except ValueError as error:
        raise ModelsError(f"model {model.name}: {' '.join(str(error).split())}") from None


def _config(model: ServedModel) -> dict[str, Any]:
    """Return the fields of Ray's LLMConfig."""
    bundle = {"CPU": model.cpus} if model.device == "cpu" else {"GPU": 1, "CPU": model.cpus / model.tensor_parallel}
    start = str(math.ceil(model.start_within_s))
    timeouts = {"RAYLLM_ENGINE_START_TIMEOUT_S": start, "VLLM_ENGINE_READY_TIMEOUT_S": start}
    fields: dict[str, Any] = {
        "model_loading_config": {"model_id": model.served_id, "model_source": model.model},
        "accelerator_type": model.accelerator,
        "accelerator_config": {"kind": model.device},
        # on several machines, tensor parallelism would wait for the network at every layer
        "placement_group_config": {"bundle_per_worker": bundle, "strategy": "STRICT_PACK"},
        "engine_kwargs": engine_arguments(model),
        "deployment_config": _deployment(model),
        "runtime_env": {"env_vars": {**_job_variables(), **SERVE_DEFAULTS, **timeouts, **model.variables}},
    }
    if adapters := model.adapters:
        from serving.adapter_server import AdapterFolder, AdapterServer

        folder = AdapterFolder(folder=adapters.path, rank=adapters.rank, max_num_adapters_per_replica=adapters.most)
        fields |= {"lora_config": folder, "server_cls": AdapterServer}
    return fields


def engine_arguments(model: ServedModel) -> dict[str, Any]:
    """Return the arguments of vLLM, by its names."""
    arguments: dict[str, Any] = {
        "tensor_parallel_size": model.tensor_parallel,
        "max_model_len": model.context_length,
        "max_num_seqs": model.concurrent,
        "gpu_memory_utilization": model.gpu_memory,
        "enable_prefix_caching": model.prefix_caching,
        "enable_prompt_tokens_details": True,
        "trust_remote_code": False,
    }
    if model.cache_gib is not None:
        arguments["kv_cache_memory_bytes"] = int(model.cache_gib * 2**30)
    if model.device == "cpu":
        # With chunked prefill and a sampling seed, the engine stops: vLLM resets the random generator between the
        # chunks, which PyTorch's generators for CPUs do not support.
        arguments |= {"enable_chunked_prefill": False, "max_num_batched_tokens": model.context_length}
    if model.adapters:
        arguments |= {"enable_lora": True, "max_loras": model.adapters.most, "max_lora_rank": model.adapters.rank}
    return arguments | model.engine


def _deployment(model: ServedModel) -> dict[str, Any]:
    options: dict[str, Any] = {
        "name": model.name,
        "max_constructor_retry_count": MAX_START_ATTEMPTS,
        "health_check_period_s": HEALTH_EVERY_S,
        "health_check_timeout_s": HEALTH_WITHIN_S,
        "graceful_shutdown_timeout_s": DRAIN_S,
        "ray_actor_options": {"num_cpus": 0},  # the placement group's first bundle has the CPUs
    }
    options |= _replicas(model)
    if model.prefix_affinity and model.max_replicas > 1:
        options["request_router_config"] = _prefix_router(model)
    return options


def _replicas(model: ServedModel) -> dict[str, Any]:
    """Return the number of replicas, of the engine and of its ingress alike: each request to one is a request to both,
    so that the ingress scales with the engine."""
    if isinstance(model.replicas, int):
        return {"num_replicas": model.replicas}
    autoscaling = {
        "min_replicas": model.replicas.min,
        "max_replicas": model.replicas.max,
        "target_ongoing_requests": model.replicas.ongoing,
    }
    return {"autoscaling_config": autoscaling}


def _prefix_router(model: ServedModel) -> Any:
    """Return a router that sends similar prompts to one replica, unless it is too far ahead, and spreads the others."""
    from ray.serve.config import RequestRouterConfig
    from ray.serve.llm.request_router import PrefixCacheAffinityRouter

    router: Any = PrefixCacheAffinityRouter  # Ray declares another type for the field
    return RequestRouterConfig(
        request_router_class=router,
        request_router_kwargs={
            "match_rate_threshold": PREFIX_MATCH_RATE,
            "imbalanced_threshold": model.concurrent * IMBALANCE_BATCHES,
            "do_eviction": True,
            "eviction_threshold_chars": PREFIX_TREE_CHARACTERS,
            "eviction_target_chars": PREFIX_TREE_CHARACTERS * 9 // 10,
        },
    )


def _job_variables() -> dict[str, str]:
    """Return the job's environment variables, such as PYTHONPATH, which a deployment's own would replace."""
    import ray

    return dict(ray.get_runtime_context().runtime_env.get("env_vars", {}))


# Ray's ingress of a model accepts all requests, and lists the model while its engine still loads the weights. The
# classes below add an API key, and an answer of /v1/models that tells whether an engine runs.

_MESSAGE = "This model requires its API key, as Authorization: Bearer KEY."
_ERROR = {"type": "invalid_request_error", "message": _MESSAGE, "param": None, "code": "invalid_api_key"}


class KeyMiddleware:
    """Replies 401 to requests without the key, on all paths, in OpenAI's format."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app, self._expected = app, f"Bearer {key}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        header = Headers(scope=scope).get("authorization", "").encode("latin-1") if scope["type"] != "lifespan" else b""
        if scope["type"] != "lifespan" and not hmac.compare_digest(header, self._expected):
            reply = JSONResponse({"error": _ERROR}, 401, {"WWW-Authenticate": "Bearer"})
            await reply(scope, receive, send)
            return
        await self._app(scope, receive, send)


class KeyedIngress:
    """A base of a Serve ingress that requires a key, which its replicas read from their own environment."""

    app: Starlette
    """The application, which Serve sets before it asks for the one to serve."""

    def __init__(self, *arguments: Any, key_env: str, **options: Any) -> None:
        """`key_env` names the variable; the rest goes to the next base. Raises ValueError where it is not set here."""
        key = read_variable(key_env, "key_env", "the key of the model")
        self._key = check_key(key, f"environment variable {key_env}")
        super().__init__(*arguments, **options)

    async def __serve_build_asgi_app__(self) -> ASGIApp:
        self.app.add_middleware(KeyMiddleware, key=self._key)
        return self.app


class ReadyIngress:
    """A base of Ray's ingress whose /v1/models replies 503 until all other deployments of its application run."""

    async def models(self) -> Any:
        """Return the list of models of the next base, or a reply of status 503 in OpenAI's format."""
        from ray import serve

        status = await asyncio.to_thread(serve.status)
        deployments = status.applications[serve.get_replica_context().app_name].deployments
        if starting := [name for name, own in deployments.items() if "RUNNING" not in own.replica_states]:
            message = f"The model is not ready: {', '.join(starting)} has no running replica yet. Try again later."
            error = {"type": "service_unavailable", "message": message, "param": None, "code": "model_not_ready"}
            return JSONResponse({"error": error}, 503, {"Retry-After": "5"})
        return await super().models()  # type: ignore[misc]  # the next base is Ray's ingress


def openai_ingress(*, keyed: bool) -> type[Any]:
    """Return Ray's ingress of a model, with a key or without one. Imports Ray's LLM modules, and so vLLM."""
    from ray.serve.llm.ingress import OpenAiIngress

    bases = (KeyedIngress, ReadyIngress, OpenAiIngress) if keyed else (ReadyIngress, OpenAiIngress)
    return type("ModelIngress", bases, {})
