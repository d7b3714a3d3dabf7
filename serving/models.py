"""A model's Ray Serve application: vLLM behind OpenAI's API, by `ray.serve.llm`, out of a `ServedModel`.

Ray and vLLM are imported where they are used: `import serving.models` needs neither.
"""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from fdarx_core.llm import ModelsError
from fdarx_core.llm.prompts import validation_message
from serving.adapters import adapter_folder_fault
from serving.served_model import FRONT_CPUS, Adapters, Autoscaling, ServedModel, load_served, missing_model_files

if TYPE_CHECKING:
    from ray.serve.deployment import Application

MAX_START_ATTEMPTS = 2
"""Failed starts of a model's replicas, all together, after which it counts as failed. Serve's own 20 would load a large
model for hours; the second try is for what passes, as a card that another process is just leaving."""

HEALTH_EVERY_S, HEALTH_WITHIN_S = 10.0, 60.0
"""An engine that reads many long prompts answers late; one that is dead never does."""

DRAIN_S = 120.0
"""A replica that is to go ends the replies it is at."""

PREFIX_TREE_CHARACTERS = 20_000_000
"""Of prompts that the router remembers a replica: several times what a replica's cache holds, and some 20 MB."""

PREFIX_MATCH_RATE = 0.95
"""Share of a prompt that another must begin with, to follow it: two questions on one label share more than 0.96 of it,
closed-book questions 0.75, grading prompts 0.92. At Ray's 0.1 all of those would stay where the first of them went."""

IMBALANCE_BATCHES = 1.5
"""Batches that a replica may be ahead of the idlest before even a label's questions leave it. Of the prompt tokens of
real labels, ten questions each on two replicas, 0.12 to 0.13 are then computed; at one batch 0.14 to 0.15."""


def app(arguments: Mapping[str, Any]) -> Application:
    """The application of `{"model": ...}`, a served model's file or its fields: what a Serve config's `args` hold.

    Raises ModelsError.
    """
    if set(arguments) != {"model"}:
        raise ModelsError(f"serving.models:app: takes one argument, model (a file or fields), not {sorted(arguments)}")
    given = arguments["model"]
    if isinstance(given, str):
        return build(load_served(given))
    try:
        return build(ServedModel.model_validate(given))
    except ValidationError as error:
        raise ModelsError(f"serving.models:app: model: {validation_message(error)}") from None


def build(model: ServedModel) -> Application:
    """The application; it belongs under the name and route of the model (`/NAME`), beside those of other models.

    Raises ModelsError where vLLM is not installed, or what can be known without a cluster speaks against the model.
    """
    if model.is_directory and (fault := missing_model_files(model.model)):
        raise ModelsError(f"model {model.name}: model: {fault}")
    if model.adapters and (fault := adapter_folder_fault(model.adapters.path)):
        raise ModelsError(f"model {model.name}: adapters.path: {fault}")
    if importlib.util.find_spec("vllm") is None:
        raise ModelsError(f"model {model.name}: vLLM is not installed here; install it: pip install 'fdarx[gpu]'")
    from ray.serve.llm import LLMConfig, build_openai_app

    try:
        return build_openai_app(
            {"llm_configs": [LLMConfig(**_config(model))], "ingress_deployment_config": _ingress(model)}
        )
    except ValidationError as error:
        raise ModelsError(f"model {model.name}: {validation_message(error)}") from None
    except ValueError as error:
        raise ModelsError(f"model {model.name}: {' '.join(str(error).split())}") from None


def _config(model: ServedModel) -> dict[str, Any]:
    """Fields of Ray's LLMConfig."""
    card = {"CPU": model.cpus} if model.device == "cpu" else {"GPU": 1, "CPU": model.cpus / model.tensor_parallel}
    fields = {
        "model_loading_config": {"model_id": model.served_id, "model_source": model.model},
        "accelerator_type": model.accelerator,
        "accelerator_config": {"kind": model.device},
        # between machines, tensor parallelism would wait for the network at every layer
        "placement_group_config": {"bundle_per_worker": card, "strategy": "STRICT_PACK"},
        "engine_kwargs": engine_arguments(model),
        "deployment_config": _deployment(model),
        "runtime_env": {"env_vars": {**_inherited(), **_variables(model)}},
    }
    if model.adapters:
        fields |= _adapters(model.adapters)
    return fields


def _adapters(adapters: Adapters) -> dict[str, Any]:
    from serving.adapter_server import AdapterFolder, AdapterServer

    held = AdapterFolder(folder=adapters.path, rank=adapters.rank, max_num_adapters_per_replica=adapters.most)
    return {"lora_config": held, "server_cls": AdapterServer}


def engine_arguments(model: ServedModel) -> dict[str, Any]:
    """vLLM's arguments, by its names."""
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
        # a prompt that is read in pieces ends the engine, if it is to be answered at random from a seed: vLLM takes
        # back what it drew between the pieces, which PyTorch's generators for CPUs can't
        arguments |= {"enable_chunked_prefill": False, "max_num_batched_tokens": model.context_length}
    if model.adapters:
        arguments |= {
            "enable_lora": True,
            "max_loras": model.adapters.most,
            "max_lora_rank": model.adapters.rank,
        }
    return arguments | model.engine


def _deployment(model: ServedModel) -> dict[str, Any]:
    options: dict[str, Any] = {
        "name": model.name,
        "max_constructor_retry_count": MAX_START_ATTEMPTS,
        "health_check_period_s": HEALTH_EVERY_S,
        "health_check_timeout_s": HEALTH_WITHIN_S,
        "graceful_shutdown_timeout_s": DRAIN_S,
        "ray_actor_options": {"num_cpus": 0},  # the bundle of its first card has them
        **_replicas(model),
    }
    if model.prefix_affinity and model.largest > 1:
        options["request_router_config"] = _prefix_router(model)
    return options


def _replicas(model: ServedModel) -> dict[str, Any]:
    if not isinstance(model.replicas, Autoscaling):
        return {"num_replicas": model.replicas}
    scaling = model.replicas
    return {
        "autoscaling_config": {
            "min_replicas": scaling.min,
            "max_replicas": scaling.max,
            "target_ongoing_requests": scaling.ongoing,
        }
    }


def _prefix_router(model: ServedModel) -> Any:
    """Where two prompts are alike enough they go to one replica, unless it is that far ahead; others are spread."""
    from ray.serve.config import RequestRouterConfig
    from ray.serve.llm.request_router import PrefixCacheAffinityRouter

    router: Any = PrefixCacheAffinityRouter  # Ray declares the field for what it makes of the class
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


def _variables(model: ServedModel) -> dict[str, str]:
    start = str(math.ceil(model.start_within_s))
    return {"RAYLLM_ENGINE_START_TIMEOUT_S": start, "VLLM_ENGINE_READY_TIMEOUT_S": start, **model.variables}


def _inherited() -> dict[str, str]:
    """Those of the job: a deployment's own would replace them all, and with them where Python finds this project."""
    import ray

    return dict(ray.get_runtime_context().runtime_env.get("env_vars", {}))


def _ingress(model: ServedModel) -> dict[str, Any]:
    """One a replica; it waits as long as who asks does."""
    waits = math.ceil(model.asked_at("http://localhost").timeout_s)
    variables = {**_inherited(), "RAY_SERVE_LLM_ROUTER_HTTP_TIMEOUT": str(waits)}
    return {
        "num_replicas": model.smallest,
        "ray_actor_options": {"num_cpus": FRONT_CPUS, "runtime_env": {"env_vars": variables}},
    }
